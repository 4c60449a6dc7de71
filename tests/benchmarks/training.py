"""A training step of max pooling with our vocabulary head and optimizer, beside plain PyTorch over all scores."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from encoders.backbone.device import process_settings
from encoders.backbone.towers import LanguageModel, load_tokenizer
from encoders.checkpoints.tokenizer import Vocabulary
from encoders.models.splade import Splade, SpladeSettings
from encoders.training.learner import make_optimizer
from encoders.training.recipe import Stage
from tests.benchmarks.run import child
from tests.benchmarks.shapes import PRECISIONS, PUBLISHED, SEED, SMALL, passages

RATE = 2e-5
TOLERANCE = 1e-4  # relative, for loss and gradient norm: sums over 4,096 tokens have different orders
NAIVE, OURS = "plain PyTorch", "learned_sparse"


def run(toy: bool) -> dict[str, Any]:
    """Both contenders in each precision, each in its own process; plain PyTorch before and after ours."""
    shape, texts, tokens, rounds = (PUBLISHED, 4, 16, 1) if toy else (SMALL, 32, 128, 5)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = shape.save(Path(temporary) / "model")
        for precision in PRECISIONS:
            sizes = {"folder": folder, "precision": precision, "texts": texts, "tokens": tokens, "rounds": rounds}
            naive, ours, again = (child(steps, who=who, **sizes) for who in (NAIVE, OURS, NAIVE))
            naive["seconds"] += again["seconds"]
            for measure in ("loss", "gradient_norm") if precision == "fp32" else ():
                if not math.isclose(naive[measure], ours[measure], rel_tol=TOLERANCE):
                    raise RuntimeError(f"{measure} differs: {naive[measure]} and {ours[measure]}")
            case = "max pooling" if precision == "fp32" else f"max pooling, {precision}"
            rows += [{"case": case, "who": who, **result} for who, result in ((NAIVE, naive), (OURS, ours))]
    sizes = {"shape": shape.name, "texts": texts, "tokens": tokens, "rounds": rounds, "seed": SEED}
    return {"sizes": sizes, "rows": rows}


def steps(who: str, folder: Path, precision: str, texts: int, tokens: int, rounds: int) -> dict[str, Any]:
    """Steps (forward, loss, backward, gradient norm, AdamW): seconds of all but the first, and the first one's loss."""
    tokenizer, device = load_tokenizer(folder), torch.device("cpu")
    joined = [" ".join(passages(8, SEED + number)) for number in range(texts)]  # longer than ``tokens``: no padding
    ids = tokenizer(joined, truncation=True, max_length=tokens, return_tensors="pt")["input_ids"]
    forward, module, optimizer = (_naive if who == NAIVE else _ours)(folder)
    for part in module.train().modules():
        if isinstance(part, nn.Dropout):  # without dropout, both contenders have the same gradients
            part.p = 0.0
    results, seconds = [], []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        autocast = torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")
        with process_settings(precision, device), autocast:
            weights = forward(ids, torch.ones_like(ids))
        queries, documents = weights.float().chunk(2)
        loss = nn.functional.cross_entropy(queries @ documents.T, torch.arange(len(queries)))
        loss.backward()
        norm = nn.utils.clip_grad_norm_(module.parameters(), float("inf"))
        optimizer.step()
        seconds.append(time.perf_counter() - start)
        results.append({"loss": float(loss.detach()), "gradient_norm": float(norm)})
    return {**results[0], "seconds": seconds[1:]}


Contender = tuple[Callable[[Tensor, Tensor], Tensor], nn.Module, torch.optim.Optimizer]


def _naive(folder: Path) -> Contender:
    """All scores ``(texts, tokens, vocabulary)``, and autograd through every operation."""
    model: Any = transformers.AutoModelForMaskedLM.from_pretrained(folder)

    def weights(ids: Tensor, mask: Tensor) -> Tensor:
        logits = model(input_ids=ids, attention_mask=mask).logits
        return (torch.log1p(torch.relu(logits)) * mask[:, :, None]).amax(1)

    return weights, model, torch.optim.AdamW(model.parameters(), lr=RATE)


def _ours(folder: Path) -> Contender:
    tower = LanguageModel.load(folder)
    vocabulary = Vocabulary.from_tokenizer(load_tokenizer(folder), tower.vocabulary_size)
    splade = Splade(SpladeSettings(pooling="max"), tower, vocabulary)
    stage = Stage(name="benchmark", steps=1, batch_size=16, learning_rate=RATE, optimizer="adamw", weight_decay=0.01)
    return splade, splade, make_optimizer(stage, list(splade.parameters()), {})
