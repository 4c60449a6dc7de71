"""The vocabulary head alone: terms screened in int8 against the plain product, with the same weights from both."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from encoders.backbone.device import DTYPES
from encoders.backbone.towers import LanguageModel, load_tokenizer
from encoders.head.vocabulary_head import Screen, pool
from tests.benchmarks.engines import BATCH
from tests.benchmarks.run import interleave
from tests.benchmarks.shapes import MAX_LENGTH, PRECISIONS, PUBLISHED, SMALL, Shape, passages


def run(toy: bool) -> dict[str, Any]:
    """splade-tiny, and the untrained model of 6 layers with as many terms as a trained one."""
    texts = passages(8 if toy else 512)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for shape in [PUBLISHED] if toy else [SMALL, PUBLISHED]:
            model = shape.save(Path(folder) / shape.name)
            for dtype in PRECISIONS:
                rows += _heads(model, texts, shape, dtype)
    return {"sizes": {"texts": len(texts)}, "rows": rows}


@torch.inference_mode()
def _heads(model: Path, texts: Sequence[str], shape: Shape, dtype: str) -> list[dict[str, Any]]:
    """Seconds of each head for all ``texts`` in batches of similar length, which must give the same weights."""
    tower, tokenizer = LanguageModel.load(model).to(DTYPES[dtype]).eval(), load_tokenizer(model)
    weight, bias, batches = tower.decoder.weight, tower.decoder.bias, []
    ordered = sorted(texts, key=lambda text: len(tokenizer(text)["input_ids"]))  # as the encoder orders them
    for start in range(0, len(ordered), BATCH):
        encoded = tokenizer(
            ordered[start : start + BATCH], truncation=True, max_length=MAX_LENGTH, padding=True,
            pad_to_multiple_of=8, return_tensors="pt",
        )  # fmt: skip
        mask = encoded["attention_mask"]
        batches.append((tower(encoded["input_ids"], mask), mask))

    def pooled(screen: Screen | None) -> list[Tensor]:
        return [
            pool(states, mask, weight, bias, pooling="max", saturation="log", screen=screen) for states, mask in batches
        ]  # fmt: skip

    screen = Screen()
    screen.used = True
    plain, screened = pooled(None), pooled(screen)
    if not all(map(torch.equal, plain, screened)):
        raise RuntimeError(f"{shape.name}, {dtype}: the screened head gives other weights than the plain one")
    seconds = interleave({"plain": partial(pooled, None), "screened": partial(pooled, screen)}, 5)
    return [
        {
            "model": shape.name, "dtype": dtype, "head": head, "seconds": elapsed,
            "ms": round(1000 * statistics.median(elapsed) / len(texts), 3),
        }
        for head, elapsed in seconds.items()
    ]  # fmt: skip
