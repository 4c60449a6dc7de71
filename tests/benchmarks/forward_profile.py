"""Profile of encoding: seconds of each part of the pipeline."""

from __future__ import annotations

import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from encoders.encoding import load_encoder
from learned_sparse.core.quantize import Quantizer
from learned_sparse.jsonvector import write_part

_NAMED = {
    "attention": r"bmm|softmax|scaled_dot_product|flash_attention",
    "layer norm": r"layer_norm",
    "GELU": r"gelu|erf|tanh",
    "pooling": r"amax|aten::max|maximum|segment_reduce|scatter|relu|log1p|where",
    "extraction": r"nonzero|bincount|aten::index$",
}
"""Part of a torch operator: the first regular expression that matches."""
_PRODUCTS = r"aten::(mm|addmm|addmm_|linear|_addmm_activation|_weight_int4pack_mm|mkldnn_linear)|mkldnn::|onednn::"


def profiled(model: Path, texts: Sequence[str], dtype: str, scale: float, repeats: int = 3) -> dict[str, float]:
    """Seconds of each part of one pass over ``texts``.

    Tokenising, quantising and writing are timed alone, one after the other; a run overlaps them with the model's work.
    The forward pass is its time without a profiler, divided as torch's profiler divides it.
    """
    encoder: Any = load_encoder(str(model), "document", device="cpu", dtype=dtype)
    ids = [f"d{number}" for number in range(len(texts))]
    quantizer = Quantizer(scale)
    prepared = encoder.prepare(texts)
    weights = encoder.encode_prepared(prepared)
    impacts, _ = quantizer.quantize(weights)
    parts = _forward(encoder, prepared)
    forward = _median(lambda: encoder.encode_prepared(prepared), repeats)
    divisor = max(forward, sum(parts.values()))
    seconds = {name: elapsed * forward / divisor for name, elapsed in parts.items()}
    seconds["between operators"] = max(forward - sum(seconds.values()), 0.0)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "part.jsonl"
        seconds["tokenising"] = _median(lambda: encoder.prepare(texts), repeats)
        seconds["quantising"] = _median(lambda: quantizer.quantize(weights), repeats)
        seconds["writing"] = _median(lambda: write_part(file, ids, texts, impacts), repeats)
    return {name: round(elapsed, 5) for name, elapsed in seconds.items()}


def shares(seconds: Mapping[str, float]) -> dict[str, float]:
    """Share of each part in the total, largest first."""
    total = sum(seconds.values())
    ordered = sorted(seconds.items(), key=lambda item: -item[1])
    return {name: round(elapsed / total, 4) for name, elapsed in ordered}


def _forward(encoder: Any, prepared: Any) -> Counter[str]:
    config = encoder.weigher.tower.model.config
    inner = {config.hidden_size, 3 * config.hidden_size, config.intermediate_size}
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
        encoder.encode_prepared(prepared)
    seconds: Counter[str] = Counter()
    for event in profile.key_averages(group_by_input_shape=True):
        seconds[part_of(event.key, event.input_shapes, inner)] += event.self_cpu_time_total / 1e6
    return seconds


def part_of(operator: str, shapes: Sequence[Sequence[int]], inner: set[int]) -> str:
    """Part of an operator; a matrix product belongs to the head unless its sizes are in ``inner``.

    >>> part_of("aten::mm", [[2048, 384], [384, 2048]], {384, 1536}), part_of("aten::mm", [[9, 384], [384, 384]], {384})
    ('head, matrix product', 'encoder, matrix products')
    """
    if re.fullmatch(_PRODUCTS, operator):
        matrices = [shape for shape in shapes if len(shape) == 2]
        within = any(inner.issuperset(shape) for shape in matrices[1:])  # the weight is never the first matrix
        return "encoder, matrix products" if within else "head, matrix product"
    for part, pattern in _NAMED.items():
        if re.search(pattern, operator):
            return part
    return "copies, sums and other operators"


def _median(work: Callable[[], object], repeats: int) -> float:
    elapsed = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        elapsed.append(time.perf_counter() - start)
    return statistics.median(elapsed)
