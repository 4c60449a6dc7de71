"""The sparsity of what ``learned_sparse.encode`` wrote, read as a stream."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eval.costs.sparsity import (
    DocumentFrequencies,
    TermCounts,
    TermsPerText,
    count_terms,
    document_frequencies,
    expected_flops,
    terms_per_text,
)
from learned_sparse.core import LearnedSparseError
from learned_sparse.jsonvector import TOPICS, read_topics, read_vectors


@dataclass(frozen=True)
class Sparsity:
    """How sparse an encoded collection is, and what its queries cost."""

    flops: float
    """Expected FLOPS of one query-document score."""
    documents: TermsPerText
    queries: TermsPerText
    document_frequencies: DocumentFrequencies


def sparsity_of_files(vectors: str | Path, queries: str | Path) -> Sparsity:
    """Of an encoded collection (a folder or file) and encoded queries (a folder, or its ``queries.tsv``)."""
    documents, topics = count_vectors(vectors), count_queries(queries)
    return Sparsity(
        flops=expected_flops(documents, topics),
        documents=terms_per_text(documents),
        queries=terms_per_text(topics),
        document_frequencies=document_frequencies(documents),
    )


def count_vectors(path: str | Path) -> TermCounts:
    """The terms of encoded documents; every line is checked on the way."""
    return _some(count_terms(vector for _, vector in read_vectors(path)), path)


def count_queries(path: str | Path) -> TermCounts:
    """The terms of encoded queries; a term that is repeated, as its impact says, is one term."""
    path = Path(path)
    return _some(count_terms(read_topics(path / TOPICS if path.is_dir() else path).values()), path)


def _some(counts: TermCounts, path: str | Path) -> TermCounts:
    if not counts.texts:
        raise LearnedSparseError(f"{path}: no vectors in it")
    return counts
