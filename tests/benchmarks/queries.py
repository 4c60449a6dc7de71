"""Time from a query's text to its impacts, beside Pyserini and sentence-transformers."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from learned_sparse.core.quantize import Quantizer
from learned_sparse.lucene.jvm import start_jvm
from learned_sparse.search.query_encoder import QueryEncoder
from tests.benchmarks import harness
from tests.benchmarks.agreement import agreement, require_same, spread
from tests.benchmarks.encoding import OURS, unfit
from tests.benchmarks.engines import SCALE
from tests.benchmarks.shapes import PUBLISHED, SEED, SMALL, TINY, Shape

WORDS = 6
"""Words per query, as in web queries: the first words of a passage."""
Encode = Callable[[str], Mapping[str, float]]


def run(toy: bool) -> dict[str, Any]:
    """One query at a time, all contenders in turn."""
    shapes = [(TINY, 5)] if toy else [(SMALL, 200), (PUBLISHED, 200)]
    measured = {shape.name: measure(shape, number) for shape, number in shapes}
    parts = {key: {name: result[key] for name, result in measured.items()} for key in ("sizes", "ratios", "missing")}
    return {**parts, "rows": [{"model": name, **row} for name, result in measured.items() for row in result["rows"]]}


def measure(shape: Shape, number: int) -> dict[str, Any]:
    """Encode ``number`` queries with a model of ``shape``."""
    queries = [" ".join(text.split()[:WORDS]) for text in shape.passages(number)]
    with tempfile.TemporaryDirectory() as temporary:
        model = shape.save(Path(temporary), queries[:16])
        encoders, missing = _encoders(model)
    vectors_by_name = {name: {query: dict(encode(query)) for query in queries} for name, encode in encoders.items()}
    seconds = harness.interleave({name: _one_by_one(encode, queries) for name, encode in encoders.items()}, number, 0)
    reference = _integers(vectors_by_name[OURS + "fp32"])
    matches = {name: agreement(reference, _integers(vectors)) for name, vectors in vectors_by_name.items()}
    for name in matches:
        if not name.startswith(OURS):
            require_same(name, matches[name])
    mine = [name for name in encoders if name.startswith(OURS)]
    return {
        "sizes": {
            "seed": SEED,
            "queries": number,
            "words": WORDS,
            "terms": round(statistics.fmean(map(len, reference.values())), 1),
            "neighbours_cosine": spread(reference),
        },
        "rows": [_row(name, seconds[name], matches[name]) for name in encoders],
        "ratios": {
            f"{ours}/{peer}": round(harness.median_ratio(seconds[peer], seconds[ours]), 3)
            for ours in mine
            for peer in encoders
            if peer not in mine
        },
        "missing": missing,
    }


def _encoders(model: Path) -> tuple[dict[str, Encode], dict[str, str]]:
    """Functions from a text to ``{term: impact}`` by contender, and reasons for missing contenders."""
    encoders = {"pyserini": _pyserini(model)}
    missing = {}
    if harness.installed("sentence-transformers"):
        encoders["sentence-transformers"] = _sentence_transformers(model)
    else:
        missing["sentence-transformers"] = "not installed"
    for dtype in ("fp32", "bf16"):
        if reason := unfit(dtype):
            missing[OURS + dtype] = reason
        else:
            encoders[OURS + dtype] = _ours(model, dtype)
    return encoders, missing


def _pyserini(model: Path) -> Encode:
    start_jvm()
    from pyserini.encode import SpladeQueryEncoder

    encode: Encode = SpladeQueryEncoder(str(model)).encode
    return encode


def _sentence_transformers(model: Path) -> Encode:
    from sentence_transformers import SparseEncoder

    encoder = SparseEncoder(str(model), device="cpu")

    def encode(text: str) -> dict[str, float]:
        pairs: Any = encoder.decode(encoder.encode_query(text, show_progress_bar=False))
        return {term: round(weight * SCALE) for term, weight in pairs}

    return encode


def _ours(model: Path, dtype: str) -> Encode:
    encoder = QueryEncoder(model, Quantizer(SCALE), device="cpu", dtype=dtype)
    return encoder.encode


def _one_by_one(encode: Encode, queries: Sequence[str]) -> Callable[[], object]:
    """Function that encodes the next of ``queries`` at each call."""
    remaining = iter(queries)
    return lambda: encode(next(remaining))


def _integers(vectors: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, int]]:
    return {query: {term: int(value) for term, value in vector.items() if value} for query, vector in vectors.items()}


def _row(name: str, seconds: Sequence[float], match: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "contender": name,
        "seconds": [round(elapsed, 6) for elapsed in seconds],
        "median_ms": round(1000 * statistics.median(seconds), 3),
        "p99_ms": round(1000 * float(np.percentile(seconds, 99)), 3),
        "agreement": dict(match),
    }
