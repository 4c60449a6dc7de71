"""Time from a query's text to its impacts, beside Pyserini and sentence-transformers."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from learned_sparse.core.quantize import Quantizer
from learned_sparse.lucene.jvm import start_jvm
from learned_sparse.search.query_encoder import QueryEncoder
from tests.benchmarks import harness
from tests.benchmarks.agreement import agreement, require_same
from tests.benchmarks.encoding import OURS, unfit
from tests.benchmarks.engines import SCALE
from tests.benchmarks.shapes import PUBLISHED, SEED, SMALL, TINY

WORDS = 6
"""Words per query, as in web queries: the first words of a passage."""
DTYPES = ("fp32", "bf16")
Encode = Callable[[str], Mapping[str, float]]


def run(toy: bool) -> dict[str, Any]:
    """One query at a time, all contenders in turn."""
    number = 5 if toy else 200
    rows: list[dict[str, Any]] = []
    ratios: dict[str, dict[str, float]] = {}
    for shape in (TINY,) if toy else (SMALL, PUBLISHED):
        queries = [" ".join(text.split()[:WORDS]) for text in shape.passages(number)]
        with tempfile.TemporaryDirectory() as temporary:
            encoders = _encoders(shape.save(Path(temporary), queries[:16]))
        vectors = {
            name: {text: {term: int(value) for term, value in encode(text).items() if value} for text in queries}
            for name, encode in encoders.items()
        }
        seconds = harness.interleave({name: _next(encode, queries) for name, encode in encoders.items()}, number, 0)
        for name, values in seconds.items():
            match = agreement(vectors[f"{OURS}fp32"], vectors[name])
            if not name.startswith(OURS):
                require_same(name, match)
            rows.append({
                "model": shape.name, "contender": name, "seconds": [round(elapsed, 6) for elapsed in values],
                "median_ms": round(1000 * statistics.median(values), 3),
                "p99_ms": round(1000 * float(np.percentile(values, 99)), 3), "agreement": match,
            })  # fmt: skip
        ratios[shape.name] = {
            f"{ours}/{peer}": round(harness.median_ratio(seconds[peer], seconds[ours]), 3)
            for ours in encoders if ours.startswith(OURS) for peer in encoders if not peer.startswith(OURS)
        }  # fmt: skip
    missing = {OURS + dtype: reason for dtype in DTYPES if (reason := unfit(dtype))}
    return {
        "sizes": {"seed": SEED, "queries": number, "words": WORDS},
        "rows": rows,
        "ratios": ratios,
        "missing": missing,
    }


def _encoders(model: Path) -> dict[str, Encode]:
    """Functions from a text to ``{term: impact}`` by contender."""
    start_jvm()
    from pyserini.encode import SpladeQueryEncoder
    from sentence_transformers import SparseEncoder

    encoder = SparseEncoder(str(model), device="cpu")

    def peer(text: str) -> dict[str, float]:
        pairs: Any = encoder.decode(encoder.encode_query(text, show_progress_bar=False))
        return {term: round(weight * SCALE) for term, weight in pairs}

    encoders: dict[str, Encode] = {"pyserini": SpladeQueryEncoder(str(model)).encode, "sentence-transformers": peer}
    for dtype in DTYPES:
        if not unfit(dtype):
            encoders[OURS + dtype] = QueryEncoder(model, Quantizer(SCALE), device="cpu", dtype=dtype).encode
    return encoders


def _next(encode: Encode, queries: list[str]) -> Callable[[], object]:
    """Function that encodes the next of ``queries`` at each call."""
    remaining = iter(queries)
    return lambda: encode(next(remaining))
