"""Sparsity of vectors: expected FLOPS, terms per text, and document frequencies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from learned_sparse.core import LearnedSparseError, SparseBatch
from learned_sparse.jsonvector import TOPICS, read_topics, read_vectors


class Counted(Protocol):
    """Term statistics that expected FLOPS are computed from."""

    @property
    def document_frequency(self) -> Mapping[str, int]:
        """Term → number of texts in which it is active."""

    @property
    def texts(self) -> int:
        """Number of texts, empty vectors included."""


@dataclass(frozen=True, eq=False)
class TermCounts:
    """Statistics of a stream of vectors. A term is active in a text if its weight is above zero."""

    document_frequency: Mapping[str, int]
    """Term → number of texts in which it is active (at least 1)."""
    lengths: npt.NDArray[np.int32]
    """Number of active terms of each text, in order; 0 for an empty vector."""

    @property
    def texts(self) -> int:
        """Number of texts, empty vectors included."""
        return len(self.lengths)

    @property
    def postings(self) -> int:
        """Number of (term, text) pairs: the size of the inverted index."""
        return int(self.lengths.sum(dtype=np.int64))


@dataclass(frozen=True)
class TermsPerText:
    """Mean and quantiles (interpolated as NumPy does) of the number of active terms per text."""

    mean: float
    minimum: float
    q05: float
    q25: float
    median: float
    q75: float
    q95: float
    maximum: float
    empty: int
    """Texts without an active term."""


@dataclass(frozen=True)
class DocumentFrequencies:
    """Distribution of postings over terms. Terms of nearly all texts cost the most and distinguish texts the least."""

    texts: int
    terms: int
    """Terms active in at least one text."""
    postings: int
    singletons: int
    """Terms active in exactly one text."""
    top_share: float
    """Share of all postings that the ``top`` terms have."""
    top: tuple[tuple[str, float], ...]
    """Most frequent terms with the share of texts in which each is active; ties in alphabetical order."""


@dataclass(frozen=True)
class Sparsity:
    """Sparsity of an encoded collection and its queries."""

    flops: float
    """Expected FLOPS of one query-document score."""
    documents: TermsPerText
    queries: TermsPerText
    document_frequencies: DocumentFrequencies


def count_terms(vectors: SparseBatch | Iterable[Iterable[str]]) -> TermCounts:
    """Count a batch, or a stream with the active terms of each text (``{term: impact}`` with positive impacts)."""
    return _count_batch(vectors) if isinstance(vectors, SparseBatch) else _count_stream(vectors)


def count_queries(path: str | Path) -> TermCounts:
    """Count encoded queries (a folder, or its ``queries.tsv``); a repeated term counts once."""
    path = Path(path)
    return _not_empty(count_terms(read_topics(path / TOPICS if path.is_dir() else path).values()), path)


def expected_flops(documents: SparseBatch | Counted, queries: SparseBatch | Counted) -> float:
    """``E_{q,d}[Σ_j p_j(q) p_j(d)]``, where p_j is the share of queries, or documents, with term j active.

    SPLADE's paper defines FLOPS so beside its Table 1: the expected number of multiplications per query-document score.
    It equals the mean number of shared terms over all pairs of a query and a document. NaN if there is no pair.

    >>> documents = SparseBatch.from_dicts([{"a": 2, "b": 1}, {"b": 3}])
    >>> queries = SparseBatch.from_dicts([{"b": 1}, {"c": 1}])  # shared terms: 1 and 1 for b, 0 and 0 for c
    >>> expected_flops(documents, queries)
    0.5
    """
    documents = count_terms(documents) if isinstance(documents, SparseBatch) else documents
    queries = count_terms(queries) if isinstance(queries, SparseBatch) else queries
    pairs = documents.texts * queries.texts
    in_queries = queries.document_frequency
    shared = sum(in_queries[term] * count for term, count in documents.document_frequency.items() if term in in_queries)
    return shared / pairs if pairs else float("nan")


def terms_per_text(lengths: npt.NDArray[np.int32]) -> TermsPerText:
    """Statistics of the numbers of active terms of at least one text."""
    if not len(lengths):
        raise LearnedSparseError("there are no vectors to measure")
    minimum, q05, q25, median, q75, q95, maximum = np.quantile(lengths, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]).tolist()
    mean, empty = float(lengths.mean()), int((lengths == 0).sum())
    return TermsPerText(mean, minimum, q05, q25, median, q75, q95, maximum, empty)


def document_frequencies(counts: TermCounts, top: int = 20) -> DocumentFrequencies:
    """Document-frequency statistics; empty vectors count as texts."""
    ranked = sorted(counts.document_frequency.items(), key=lambda item: (-item[1], item[0]))
    in_top = sum(count for _, count in ranked[:top])
    return DocumentFrequencies(
        texts=counts.texts,
        terms=len(ranked),
        postings=counts.postings,
        singletons=sum(count == 1 for _, count in ranked),
        top_share=in_top / counts.postings if counts.postings else 0.0,
        top=tuple((term, count / counts.texts) for term, count in ranked[:top]),
    )


def sparsity_of(documents: TermCounts, queries: TermCounts) -> Sparsity:
    """Sparsity of counted documents and queries."""
    return Sparsity(
        flops=expected_flops(documents, queries),
        documents=terms_per_text(documents.lengths),
        queries=terms_per_text(queries.lengths),
        document_frequencies=document_frequencies(documents),
    )


def sparsity_of_files(vectors: str | Path, queries: str | Path) -> Sparsity:
    """Sparsity of encoded documents (a folder or file) and encoded queries (a folder, or its ``queries.tsv``)."""
    documents = _not_empty(count_terms(vector for _, vector in read_vectors(vectors)), vectors)
    return sparsity_of(documents, count_queries(queries))


def _not_empty(counts: TermCounts, path: str | Path) -> TermCounts:
    if not counts.texts:
        raise LearnedSparseError(f"{path}: no vectors in it")
    return counts


def _count_batch(batch: SparseBatch) -> TermCounts:
    active = batch.values > 0
    frequency = np.bincount(batch.indices[active], minlength=len(batch.terms))
    active_before = np.concatenate([[0], np.cumsum(active)])  # number of active values before each position
    lengths = np.diff(active_before[batch.indptr]).astype(np.int32)
    return TermCounts({batch.terms[j]: int(frequency[j]) for j in np.flatnonzero(frequency).tolist()}, lengths)


def _count_stream(vectors: Iterable[Iterable[str]]) -> TermCounts:
    frequency: Counter[str] = Counter()
    lengths = []
    for vector in vectors:
        active = set(vector)
        frequency.update(active)
        lengths.append(len(active))
    return TermCounts(dict(frequency), np.array(lengths, dtype=np.int32))
