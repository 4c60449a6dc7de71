"""A training step with our vocabulary head and optimizer, beside plain PyTorch over all scores."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from torch import Tensor, nn

from encoders.backbone.device import autocast, cpu_has_bf16, process_settings
from encoders.backbone.pretrained import load_tokenizer
from encoders.backbone.towers import LanguageModel
from encoders.checkpoints.tokenizer import Vocabulary
from encoders.head.tiled_scores import Pooling
from encoders.models.splade import Splade, SpladeSettings
from encoders.training import Stage
from encoders.training.learner import make_optimizer
from tests.benchmarks import harness
from tests.benchmarks.passages import passages
from tests.benchmarks.shapes import SMALL, TINY

SEED = 0
RATE = 2e-5
ALL_ACTIVE = 20.0  # added to the output bias, so that all terms are active, as in a run that starts with bias 0
TOLERANCE = 1e-4  # relative, for loss and gradient norm: sums over 4,096 tokens have different orders

NAIVE, OURS = "plain PyTorch", "learned_sparse"
Contender = Literal["plain PyTorch", "learned_sparse"]
CASES: dict[str, tuple[Pooling, float]] = {
    "max pooling": ("max", 0.0),
    "sum pooling": ("sum", 0.0),
    "max pooling, all terms active": ("max", ALL_ACTIVE),
}


def run(toy: bool) -> dict[str, Any]:
    """All cases with both contenders: time in turn in this process, memory in separate processes."""
    shape, texts, tokens, rounds = (TINY, 4, 16, 1) if toy else (SMALL, 32, 128, 5)
    cases = list(CASES)[:1] if toy else list(CASES)
    with tempfile.TemporaryDirectory() as temporary:
        folder = shape.save(Path(temporary) / "model", passages(16, SEED))
        rows = [row for name in cases for row in _rows(name, folder, texts, tokens, rounds)]
        bf16 = _bf16(folder, texts, tokens, rounds)
    return {
        "sizes": {"shape": shape.name, "texts": texts, "tokens": tokens, "rounds": rounds, "seed": SEED},
        "rows": rows,
        "ratios": {case: _ratios([row for row in rows if row["case"] == case]) for case in cases},
        "bf16": bf16,
    }


def _rows(case: str, folder: Path, texts: int, tokens: int, rounds: int) -> list[dict[str, Any]]:
    sizes: dict[str, Any] = {"folder": str(folder), "case": case, "texts": texts, "tokens": tokens}
    results = {who: harness.child("tests.benchmarks.training:three_steps", who=who, **sizes) for who in (NAIVE, OURS)}
    for measure in ("loss", "gradient_norm"):
        values = [result[measure] for result in results.values()]
        if not math.isclose(*values, rel_tol=TOLERANCE):
            raise RuntimeError(f"{case}: {measure} differs: {values}")
    steps = {who: step(who=who, **sizes) for who in (NAIVE, OURS)}
    seconds = harness.interleave(steps, rounds)
    return [{"case": case, "who": who, "seconds": seconds[who], **results[who]} for who in results]


def _bf16(folder: Path, texts: int, tokens: int, rounds: int) -> dict[str, Any]:
    """Our step with max pooling in bf16 beside the same step in fp32, or why it is not measured."""
    if not cpu_has_bf16():
        return {"missing": "no bf16 instructions"}
    steps = {
        name: step(
            who=OURS, folder=str(folder), case=next(iter(CASES)), texts=texts, tokens=tokens, bf16=name == "bf16"
        )
        for name in ("fp32", "bf16")
    }
    seconds = harness.interleave(steps, rounds)
    return {"seconds": seconds, "time": 1 / harness.median_ratio(seconds["fp32"], seconds["bf16"])}


def _ratios(rows: list[dict[str, Any]]) -> dict[str, float]:
    naive, ours = rows
    return {
        "time": 1 / harness.median_ratio(naive["seconds"], ours["seconds"]),
        "memory": ours["peak_mb"] / naive["peak_mb"],
    }


def three_steps(who: Contender, folder: str, case: str, texts: int, tokens: int) -> dict[str, Any]:
    """Run three steps in this process; return the results of the first."""
    run_step = step(who=who, folder=folder, case=case, texts=texts, tokens=tokens)
    first, *_ = (run_step() for _ in range(3))
    return first


def step(
    who: str, folder: str, case: str, texts: int, tokens: int, *, bf16: bool = False
) -> Callable[[], dict[str, Any]]:
    """A training step (forward, loss, backward, gradient norm, AdamW) that returns loss, norm and terms per text.

    ``bf16``: the forward pass is that of ``precision: bf16`` in a recipe.
    """
    pooling, shift = CASES[case]
    ids = token_ids(Path(folder), texts, tokens)
    forward, module, optimizer = (_naive if who == NAIVE else _ours)(Path(folder), pooling, shift)

    def run_step() -> dict[str, Any]:
        optimizer.zero_grad(set_to_none=True)
        precision, device = "bf16" if bf16 else "fp32", torch.device("cpu")
        with process_settings(precision, device), autocast(precision, device):
            weights = forward(ids, torch.ones_like(ids))
        loss = contrastive(weights.float())
        loss.backward()
        norm = nn.utils.clip_grad_norm_(module.parameters(), float("inf"))
        optimizer.step()
        active = torch.count_nonzero(weights.detach()) / len(weights)
        return {"loss": float(loss.detach()), "gradient_norm": float(norm), "terms": round(float(active), 1)}

    return run_step


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
    _prepared(tower, tower.decoder_bias, shift)
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
