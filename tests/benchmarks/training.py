"""A training step with our vocabulary head and optimizer, beside plain PyTorch over all scores."""

from __future__ import annotations

import math
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from encoders.backbone.device import autocast, process_settings
from encoders.backbone.towers import LanguageModel, load_tokenizer
from encoders.checkpoints.tokenizer import Vocabulary
from encoders.head.vocabulary_head import Pooling
from encoders.models.splade import Splade, SpladeSettings
from encoders.training.learner import make_optimizer
from encoders.training.recipe import Stage
from tests.benchmarks.encoding import unfit
from tests.benchmarks.run import child, median_ratio
from tests.benchmarks.shapes import SMALL, TINY, passages

SEED = 0
RATE = 2e-5
ALL_ACTIVE = 20.0  # added to the output bias, so that all terms are active, as in a run that starts with bias 0
TOLERANCE = 1e-4  # relative, for loss and gradient norm: sums over 4,096 tokens have different orders

NAIVE, OURS = "plain PyTorch", "learned_sparse"
CASES: dict[str, tuple[Pooling, float, str]] = {
    "max pooling": ("max", 0.0, "fp32"),
    "sum pooling": ("sum", 0.0, "fp32"),
    "max pooling, all terms active": ("max", ALL_ACTIVE, "fp32"),
    "max pooling, bf16": ("max", 0.0, "bf16"),
}


def run(toy: bool) -> dict[str, Any]:
    """All cases with both contenders, each in its own process; plain PyTorch before and after ours."""
    shape, texts, tokens, rounds = (TINY, 4, 16, 1) if toy else (SMALL, 32, 128, 5)
    cases = [name for name in CASES if unfit(CASES[name][2]) is None][: 1 if toy else None]
    rows, ratios = [], {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = shape.save(Path(temporary) / "model", passages(16, SEED))
        for case in cases:
            sizes = {"folder": str(folder), "case": case, "texts": texts, "tokens": tokens, "rounds": rounds}
            naive, ours, *again = (
                child("tests.benchmarks.training:steps", who=who, **sizes)
                for who in (NAIVE, OURS, *([] if toy else [NAIVE]))
            )
            naive["seconds"] += [second for result in again for second in result["seconds"]]
            for measure in ("loss", "gradient_norm") if CASES[case][2] == "fp32" else ():
                if not math.isclose(naive[measure], ours[measure], rel_tol=TOLERANCE):
                    raise RuntimeError(f"{case}: {measure} differs: {naive[measure]} and {ours[measure]}")
            rows += [{"case": case, "who": who, **result} for who, result in ((NAIVE, naive), (OURS, ours))]
            ratios[case] = {
                "time": 1 / median_ratio(naive["seconds"], ours["seconds"]),
                "memory": ours["peak_mb"] / naive["peak_mb"],
            }
    sizes = {"shape": shape.name, "texts": texts, "tokens": tokens, "rounds": rounds, "seed": SEED}
    return {"sizes": sizes, "rows": rows, "ratios": ratios}


def steps(who: str, folder: str, case: str, texts: int, tokens: int, rounds: int) -> dict[str, Any]:
    """Steps (forward, loss, backward, gradient norm, AdamW): seconds of all but the first, and the first one's loss."""
    pooling, shift, precision = CASES[case]
    ids, device = token_ids(Path(folder), texts, tokens), torch.device("cpu")
    forward, module, optimizer = (_naive if who == NAIVE else _ours)(Path(folder), pooling, shift)
    results, seconds = [], []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with process_settings(precision, device), autocast(precision, device):
            weights = forward(ids, torch.ones_like(ids))
        loss = contrastive(weights.float())
        loss.backward()
        norm = nn.utils.clip_grad_norm_(module.parameters(), float("inf"))
        optimizer.step()
        seconds.append(time.perf_counter() - start)
        active = torch.count_nonzero(weights.detach()) / len(weights)
        results.append({"loss": float(loss.detach()), "gradient_norm": float(norm), "terms": round(float(active), 1)})
    return {**results[0], "seconds": seconds[1:]}


def contrastive(weights: Tensor) -> Tensor:
    """In-batch loss: the first half are queries, the second half their documents."""
    queries, documents = weights.chunk(2)
    return nn.functional.cross_entropy(queries @ documents.T, torch.arange(len(queries)))


def token_ids(folder: Path, texts: int, tokens: int) -> Tensor:
    """``(texts, tokens)``: each starts with [CLS], ends with [SEP], and has no padding."""
    tokenizer = load_tokenizer(folder)
    words = [token for text in passages(4 * texts, SEED + 1) for token in tokenizer(text)["input_ids"][1:-1]]
    inner = torch.tensor(words[: texts * (tokens - 2)]).view(texts, tokens - 2)
    edges = [torch.full((texts, 1), token) for token in (tokenizer.cls_token_id, tokenizer.sep_token_id)]
    return torch.cat([edges[0], inner, edges[1]], dim=1)


def _naive(folder: Path, pooling: Pooling, shift: float) -> tuple[Any, nn.Module, torch.optim.Optimizer]:
    """All scores ``(texts, tokens, vocabulary)``, and autograd through every operation."""
    model: Any = transformers.AutoModelForMaskedLM.from_pretrained(folder)
    module = _prepared(model, model.get_output_embeddings().bias, shift)
    return partial(_all_scores, model, pooling), module, torch.optim.AdamW(module.parameters(), lr=RATE)


def _all_scores(model: Any, pooling: Pooling, ids: Tensor, mask: Tensor) -> Tensor:
    logits = model(input_ids=ids, attention_mask=mask).logits
    weights = torch.log1p(torch.relu(logits)) * mask[:, :, None]
    return weights.amax(1) if pooling == "max" else weights.sum(1)


def _ours(folder: Path, pooling: Pooling, shift: float) -> tuple[Any, nn.Module, torch.optim.Optimizer]:
    tower = LanguageModel.load(folder)
    _prepared(tower, tower.decoder.bias, shift)
    vocabulary = Vocabulary.from_tokenizer(load_tokenizer(folder), tower.vocabulary_size)
    splade = Splade(SpladeSettings(pooling=pooling), tower, vocabulary)
    stage = Stage(name="benchmark", steps=1, batch_size=16, learning_rate=RATE, optimizer="adamw", weight_decay=0.01)
    parameters = list(splade.parameters())
    optimizer = make_optimizer(stage, parameters, {})
    return splade, splade, optimizer


def _prepared(module: nn.Module, bias: Tensor, shift: float) -> nn.Module:
    """Training mode without dropout, so that both contenders have the same gradients."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    with torch.no_grad():
        bias += shift
    return module.train()
