"""Mining hard negatives: exact search of training queries in blocks of encoded documents, time and memory by size.

Vectors are synthetic, so that the search is measured and not the network: see ``encoding`` for that.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from encoders.training.data.negatives import best_documents
from encoders.training.data.texts import TextStore
from learned_sparse.core.encoder import Side
from learned_sparse.core.records import Document, Query
from tests.benchmarks import harness
from tests.benchmarks.memory import resident_mb

VOCABULARY, DOCUMENT_TERMS, QUERY_TERMS, DEPTH = 30_522, 120, 24, 100
MSMARCO = 8_841_823
"""Passages of the projection."""


def run(toy: bool) -> dict[str, Any]:
    """One process for each number of documents."""
    sizes, queries = ((300, 600), 20) if toy else ((10_000, 100_000, 1_000_000), 10_000)
    rows = [harness.child("tests.benchmarks.mining:mine", documents=size, queries=queries) for size in sizes]
    per_document = rows[-1]["seconds"] / rows[-1]["documents"]
    projected = {"documents": MSMARCO, "hours": round(per_document * MSMARCO / 3600, 2)}
    shape = {"vocabulary": VOCABULARY, "document_terms": DOCUMENT_TERMS, "query_terms": QUERY_TERMS, "depth": DEPTH}
    growth = rows[-1]["extra_mb"] / max(rows[0]["extra_mb"], 1.0)
    ratios = {f"extra memory, {sizes[-1]:,} / {sizes[0]:,} documents": round(growth, 2)}
    sizes_of = {**shape, "queries": queries}
    return {"sizes": sizes_of, "rows": rows, "projected": projected, "ratios": ratios, "missing": {}}


def mine(documents: int, queries: int) -> dict[str, Any]:
    """Seconds and megabytes of one search; half of the memory before is that of the ids and texts."""
    pool = TextStore(Document(str(number), str(number)) for number in range(documents))
    asked = [Query(f"q{number}", str(number)) for number in range(queries)]
    best_documents(vectors, asked[:10], TextStore(list(pool)[:100]), DEPTH)  # first use of libraries
    loaded = resident_mb()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    started = time.perf_counter()
    run = best_documents(vectors, asked, pool, DEPTH)
    seconds = time.perf_counter() - started
    extra = harness.peak_mb() - loaded
    return {
        "documents": documents, "queries": queries, "hits": sum(map(len, run.values())), "seconds": round(seconds, 1),
        "loaded_mb": round(loaded, 1), "extra_mb": round(extra, 1),
    }  # fmt: skip


def vectors(side: Side, texts: Sequence[str]) -> Any:
    """Weights of ``texts``, which are numbers: the same for the same number; frequent terms have small ids."""
    terms = DOCUMENT_TERMS if side == "document" else QUERY_TERMS
    generator = np.random.default_rng([int(texts[0]), len(texts), side == "query"])
    columns = (VOCABULARY * generator.random((len(texts), terms)) ** 2).astype(np.int32)
    weights = generator.random(columns.shape, np.float32) * 3
    starts = np.arange(len(texts) + 1) * terms
    matrix = csr_array((weights.ravel(), columns.ravel(), starts), shape=(len(texts), VOCABULARY))
    matrix.sum_duplicates()
    return matrix


def markdown(result: Mapping[str, Any]) -> str:
    """A table of seconds and megabytes."""
    sizes = result["sizes"]
    terms = f"{sizes['queries']:,} queries of {sizes['query_terms']} terms, documents of {sizes['document_terms']}"
    lines = [
        f"{terms}, the best {sizes['depth']} of each query; one process, vectors drawn and not encoded.",
        "*Extra*: memory beyond ids and texts.",
        "",
        "| documents | seconds | extra, MB |",
        "|---:|---:|---:|",
    ]
    lines += [f"| {row['documents']:,} | {row['seconds']:.1f} | {row['extra_mb']:.0f} |" for row in result["rows"]]
    projected = result["projected"]
    lines += ["", f"MS MARCO's {projected['documents']:,} passages at this rate: {projected['hours']} hours a process."]
    return "\n".join(lines)
