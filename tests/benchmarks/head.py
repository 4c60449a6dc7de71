"""The vocabulary head alone: terms screened in int8 against the plain product, with the same weights from both."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from encoders.backbone.device import DTYPES
from encoders.backbone.towers import LanguageModel, load_tokenizer
from encoders.head.vocabulary_head import Screen, TiledScores, pool
from tests.benchmarks.encoding import unfit
from tests.benchmarks.engines import BATCH
from tests.benchmarks.run import child, interleave, median_ratio
from tests.benchmarks.shapes import PUBLISHED, SMALL, Shape, passages


def run(toy: bool) -> dict[str, Any]:
    """splade-tiny, and the untrained model of 6 layers with as many terms as a trained one."""
    shapes = [PUBLISHED] if toy else [SMALL, PUBLISHED]
    measured = {shape.name: child("tests.benchmarks.head:measure", name=shape.name, toy=toy) for shape in shapes}
    rows = [row for result in measured.values() for row in result["rows"]]
    ratios = {name: result["ratios"] for name, result in measured.items()}
    return {"sizes": {name: result["sizes"] for name, result in measured.items()}, "rows": rows, "ratios": ratios}


def measure(name: str, toy: bool) -> dict[str, Any]:
    """Milliseconds a passage of both heads in both dtypes, which must give the same weights."""
    shape = next(shape for shape in (SMALL, PUBLISHED) if shape.name == name)
    number = 8 if toy else 512
    texts = passages(number, files=40 if toy else None)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = shape.save(folder / "model", texts[:16])
        for dtype in (dtype for dtype in ("fp32", "bf16") if unfit(dtype) is None):
            seconds, terms, candidates = _heads(model, texts, shape, dtype)
            rows += [
                {"model": shape.name, "dtype": dtype, "head": head, "seconds": elapsed,
                 "ms": round(1000 * statistics.median(elapsed) / number, 3)}
                for head, elapsed in seconds.items()
            ]  # fmt: skip
    times = {(row["dtype"], row["head"]): row["seconds"] for row in rows}
    ratios = {dtype: round(median_ratio(times[dtype, "plain"], times[dtype, "screened"]), 3)
              for dtype, head in times if head == "plain"}  # fmt: skip
    return {"sizes": {"texts": number, "terms": terms, "candidates": candidates}, "rows": rows, "ratios": ratios}


def _heads(model: Path, texts: Sequence[str], shape: Shape, dtype: str) -> tuple[dict[str, list[float]], float, float]:
    """Seconds of each head for all ``texts`` in batches of similar length; mean terms and candidates of a text."""
    tower, tokenizer = LanguageModel.load(model).to(DTYPES[dtype]).eval(), load_tokenizer(model)
    lengths = [len(ids) for ids in tokenizer(list(texts), truncation=True, max_length=shape.max_length)["input_ids"]]
    ordered = [text for _, text in sorted(zip(lengths, texts, strict=True))]  # as the encoder orders them
    batches = []
    with torch.inference_mode():
        for start in range(0, len(ordered), BATCH):
            encoded = tokenizer(
                ordered[start : start + BATCH], truncation=True, max_length=shape.max_length, padding=True,
                pad_to_multiple_of=8, return_tensors="pt",
            )  # fmt: skip
            mask = encoded["attention_mask"]
            batches.append((tower(encoded["input_ids"], mask), mask))
        screen = Screen()

        def pooled(screen: Screen | None) -> list[torch.Tensor]:
            weight, bias = tower.decoder_parameters()
            return [
                pool(states, mask, weight, bias, pooling="max", saturation="log", screen=screen)
                for states, mask in batches
            ]

        screen.used = True
        plain, screened = pooled(None), pooled(screen)
        if not all(torch.equal(*pair) for pair in zip(plain, screened, strict=True)):
            raise RuntimeError(f"{shape.name}, {dtype}: the screened head gives other weights than the plain one")
        terms = sum(int((weights > 0).sum()) for weights in plain) / len(texts)
        candidates = 0.0
        for states, mask in batches:
            scores = TiledScores(states, mask, *tower.decoder_parameters())
            candidates += int(screen.candidates(scores)[0].sum()) / len(texts)
        seconds = interleave({"plain": partial(pooled, None), "screened": partial(pooled, screen)}, 5)
    return seconds, round(terms, 1), round(candidates, 1)
