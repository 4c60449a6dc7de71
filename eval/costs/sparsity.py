"""How sparse vectors are: expected FLOPS, terms per text, and which terms the postings go to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from learned_sparse.core import LearnedSparseError, SparseBatch


class Counted(Protocol):
    """What expected FLOPS are computed from."""

    @property
    def document_frequency(self) -> Mapping[str, int]:
        """Term → number of texts in which it is active."""

    @property
    def texts(self) -> int:
        """Number of texts, empty vectors included."""


@dataclass(frozen=True, eq=False)
class TermCounts:
    """All that is kept of a set of vectors, so that millions can stream through.

    A term is active in a text when its weight is above zero.
    """

    document_frequency: Mapping[str, int]
    """Term → number of texts in which it is active (at least 1)."""
    lengths: npt.NDArray[np.int32]
    """Active terms of each text, in order; 0 for an empty vector."""

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
    """Active terms per text: the mean, and the numbers that 0, 5, 25, 50, 75, 95, 100 % of the texts do not exceed."""

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
    """Where the postings go. A few terms in nearly every text cost most of the time and tell texts apart the least."""

    texts: int
    terms: int
    """Terms active in at least one text."""
    postings: int
    singletons: int
    """Terms active in exactly one text."""
    top_share: float
    """Part of all postings that belongs to the ``top`` terms."""
    top: tuple[tuple[str, float], ...]
    """The most frequent terms, each with the part of the texts it is active in; ties in the order of the terms."""


def count_terms(vectors: SparseBatch | Iterable[Iterable[str]]) -> TermCounts:
    """Count a batch, or a stream of the active terms of each text (``{term: impact}`` will do: impacts are above 0)."""
    return _count_batch(vectors) if isinstance(vectors, SparseBatch) else _count_stream(vectors)


def expected_flops(documents: SparseBatch | Counted, queries: SparseBatch | Counted) -> float:
    """``E_{q,d}[Σ_j p_j(q) p_j(d)]``, p_j being the part of the queries, or documents, with term j active.

    SPLADE's paper defines it so beside its Table 1. It counts the multiplications in one query-document score, and is
    exactly the mean number of shared terms over all pairs of a query and a document. NaN where there is no pair.

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


def terms_per_text(vectors: SparseBatch | TermCounts) -> TermsPerText:
    """Mean and quantiles (interpolated, as numpy does it) of the active terms per text."""
    lengths = _counts(vectors).lengths
    if not len(lengths):
        raise LearnedSparseError("there are no vectors to measure")
    minimum, q05, q25, median, q75, q95, maximum = np.quantile(lengths, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]).tolist()
    mean, empty = float(lengths.mean()), int((lengths == 0).sum())
    return TermsPerText(mean, minimum, q05, q25, median, q75, q95, maximum, empty)


def document_frequencies(vectors: SparseBatch | TermCounts, top: int = 20) -> DocumentFrequencies:
    """The document-frequency profile of a set of vectors (empty ones count as texts)."""
    counts = _counts(vectors)
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


def _counts(vectors: SparseBatch | TermCounts) -> TermCounts:
    return vectors if isinstance(vectors, TermCounts) else count_terms(vectors)


def _count_batch(batch: SparseBatch) -> TermCounts:
    active = batch.values > 0
    frequency = np.bincount(batch.indices[active], minlength=len(batch.terms))
    before = np.concatenate([[0], np.cumsum(active)])  # active values in front of each place
    lengths = np.diff(before[batch.indptr]).astype(np.int32)
    return TermCounts({batch.terms[j]: int(frequency[j]) for j in np.flatnonzero(frequency).tolist()}, lengths)


def _count_stream(vectors: Iterable[Iterable[str]]) -> TermCounts:
    frequency: Counter[str] = Counter()
    lengths = []
    for vector in vectors:
        active = set(vector)
        frequency.update(active)
        lengths.append(len(active))
    return TermCounts(dict(frequency), np.array(lengths, dtype=np.int32))
