"""Encoded folders with given vectors, and a query encoder that counts words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from learned_sparse.collections.topics import Query
from learned_sparse.core.encoder import Encoder
from learned_sparse.core.files import sha256, write_json
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import SparseBatch
from learned_sparse.jsonvector.manifest import MANIFEST, Counts, Manifest, Part
from learned_sparse.jsonvector.queries import write_queries
from learned_sparse.jsonvector.writer import LuceneTerms, open_part, write_documents

Vectors = Mapping[str, Mapping[str, int]]


def description(**changes: Any) -> dict[str, Any]:
    """``description`` of ``WordCounts``."""
    return {"architecture": "words", "max_length": 64, "dtype": "fp32", "top_k": None, "scoring": "impact", **changes}


class WordCounts(Encoder):
    """A query encoder whose weights are word counts."""

    quantizer = None

    def __init__(self, **changes: Any) -> None:
        self.description = description(**changes)
        self.terms: Sequence[str] = []

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        rows = [{word: float(text.split().count(word)) for word in dict.fromkeys(text.split())} for text in texts]
        return SparseBatch.from_dicts(rows)


def write_part(path: Path, ids: Sequence[str], texts: Sequence[str], batch: SparseBatch) -> str:
    """Write the impacts ``batch`` as one file; returns its SHA-256."""
    with open_part(path) as part:
        write_documents(part, ids, texts, batch, LuceneTerms(batch.terms))
    return sha256(path)


def write_folder(folder: Path, vectors: Vectors, *, parts: int = 2, **changes: Any) -> Path:
    """Write ``vectors`` in ``parts`` files with a manifest, as ``learned_sparse.encode`` does."""
    names = list(vectors)
    size = max(1, -(-len(names) // parts))
    written = []
    for number, start in enumerate(range(0, len(names), size)):
        chunk = names[start : start + size]
        batch = SparseBatch.from_dicts([vectors[name] for name in chunk], dtype="int32")
        file = f"vectors/part-{number:05d}.jsonl"
        digest = write_part(folder / file, chunk, [f"text of {name}" for name in chunk], batch)
        written.append(Part(file=file, documents=len(chunk), sha256=digest))
    empty, postings = sum(not vector for vector in vectors.values()), sum(map(len, vectors.values()))
    settings: dict[str, Any] = {
        "kind": "documents",
        "complete": True,
        "collection": "tiny",
        "model": "words",
        "checkpoint": "words",
        "architecture": "words",
        "scoring": "impact",
        "encoder": description(side="document"),
        "query_encoder": description(),
        "quantizer": Quantizer(1.0),
        "query_quantizer": Quantizer(1.0),
        "counts": Counts(read=len(names), written=len(names), empty_vectors=empty, postings=postings),
        "parts": tuple(written),
    }
    write_json(folder / MANIFEST, asdict(Manifest(**{**settings, **changes})), record=True)
    return folder


def save_queries(folder: Path, vectors: Vectors, texts: Sequence[str] | None = None) -> list[str]:
    """Write encoded queries; their texts are their ids unless others are given. Returns the warnings."""
    batch = SparseBatch.from_dicts(vectors.values(), dtype="int32")
    queries = [Query(name, text) for name, text in zip(vectors, texts or vectors, strict=True)]
    return write_queries(folder, queries, batch, LuceneTerms(batch.terms))


def dot_products(query: Mapping[str, int], vectors: Vectors) -> list[tuple[str, float]]:
    """Documents with a positive score by a plain double loop: best first, ties by id."""
    scores = []
    for name, vector in vectors.items():
        score = 0
        for term, impact in query.items():
            score += impact * vector.get(term, 0)
        if score:
            scores.append((name, float(score)))
    return sorted(scores, key=lambda pair: (-pair[1], pair[0]))
