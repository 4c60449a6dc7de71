"""Milliseconds a query of an impact index: this toolkit's searcher beside Pyserini's, on the same index."""

from __future__ import annotations

import itertools
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from learned_sparse.index.build import build_index, plain_files
from learned_sparse.lucene.searchers import ImpactSearcher
from tests.benchmarks.run import interleave, median_ratio
from tests.learned_sparse.lucene.stock_searcher import impact_searcher

SEED = 0
VOCABULARY = 30_000
CHUNK_SIZE = 1_000
STOCK, OURS = "pyserini batch_search, 2 threads", "learned_sparse, 2 threads"
Vector = dict[str, int]


def run(toy: bool) -> dict[str, Any]:
    """All contenders on one index, for short and long queries, few and many hits."""
    documents, terms, queries, rounds = (500, 30, 5, 1) if toy else (50_000, 120, 50, 5)
    rows: list[dict[str, Any]] = []
    ratios: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_vectors(Path(temporary) / "vectors", vectors(documents, terms, SEED))
        build_index(plain_files([folder]), folder.with_name("index"))
        for length, hits in itertools.product((5, 20, 50), (10, 1_000)):
            batch = {f"q{number}": vector for number, vector in enumerate(vectors(queries, length, SEED + length))}
            seconds, equal = _measure(folder.with_name("index"), batch, hits, rounds)
            rows += [
                {
                    "contender": name, "terms": length, "hits": hits, "equal_hits": equal,
                    "seconds": [round(value, 4) for value in elapsed],
                    "ms_per_query": round(1_000 * statistics.median(elapsed) / queries, 3),
                }
                for name, elapsed in seconds.items()
            ]  # fmt: skip
            name = f"{length} terms, {hits} hits: {STOCK} / {OURS}"
            ratios[name] = round(median_ratio(seconds[STOCK], seconds[OURS]), 2)
    sizes = {"documents": documents, "terms_per_document": terms, "queries": queries, "rounds": rounds, "seed": SEED}
    return {"sizes": {**sizes, "vocabulary": VOCABULARY}, "rows": rows, "ratios": ratios}


def vectors(number: int, terms: int, seed: int, largest: int | None = None) -> Iterator[Vector]:
    """Vectors of at most ``terms`` Zipf-distributed terms with impacts from 1 to ``largest`` or, most small, to 255."""
    rng = np.random.default_rng(seed)
    probabilities = 1 / np.arange(10, VOCABULARY + 10)
    probabilities /= probabilities.sum()
    for start in range(0, number, CHUNK_SIZE):
        size = min(CHUNK_SIZE, number - start), terms
        chosen = rng.choice(VOCABULARY, size=size, p=probabilities)
        drawn = rng.beta(1, 3, size=size) * largest if largest else rng.lognormal(2.5, 0.8, size=size)
        impacts = np.clip(drawn, 1, largest or 255).astype(int)
        for row, values in zip(chosen.tolist(), impacts.tolist(), strict=True):
            yield {f"t{term}": impact for term, impact in zip(row, values, strict=True)}


def write_vectors(folder: Path, vectors: Iterable[Vector], files: int = 1) -> Path:
    """Write files in the format of Anserini's JsonVectorCollection."""
    folder.mkdir()
    lines = [
        orjson.dumps({"id": f"d{number:07d}", "contents": "", "vector": vector}) + b"\n"
        for number, vector in enumerate(vectors)
    ]
    for file in range(files):
        (folder / f"part-{file}.jsonl").write_bytes(b"".join(lines[file::files]))
    return folder


def _measure(index: Path, queries: Mapping[str, Vector], hits: int, rounds: int) -> tuple[dict[str, list[float]], bool]:
    """Seconds for all queries, and whether the hits are equal. Pyserini's hits stay in Java, ours are in Python.

    Scores of ties may differ by the steps of 0.000001 between Pyserini's.
    """
    names = list(queries)
    stock = impact_searcher(index, queries)
    with ImpactSearcher(index) as ours:
        contenders: dict[str, Callable[[], object]] = {
            "pyserini search, one by one": lambda: [stock.search(name, hits) for name in names],
            STOCK: lambda: stock.batch_search(names, names, hits, 2),
            "learned_sparse, 1 thread": lambda: ours.search_batch(queries, hits),
            OURS: lambda: ours.search_batch(queries, hits, 2),
        }
        seconds = interleave(contenders, rounds, warm=2)
        expected, results = stock.batch_search(names, names, hits, 2), ours.search_batch(queries, hits, 2)
        equal = all(
            [document for document, _ in found] == [hit.docid for hit in expected[name]]
            and np.allclose([score for _, score in found], [hit.score for hit in expected[name]], 0, 2e-6 * hits)
            for name, found in results.items()
        )
    stock.close()
    return seconds, equal
