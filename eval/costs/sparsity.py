"""Sparsity of vectors: expected FLOPS and terms per text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from learned_sparse.core.errors import LearnedSparseError, progress_bar
from learned_sparse.jsonvector.manifest import MANIFEST, Manifest
from learned_sparse.jsonvector.queries import check_queries, read_topics
from learned_sparse.jsonvector.reader import read_vectors


@dataclass(frozen=True, eq=False)
class TermCounts:
    """Statistics of a set of vectors. A term is active in a text if its weight is above zero."""

    document_frequency: Mapping[str, int]
    """Term → number of texts in which it is active; of an index, possibly only of the terms of its queries."""
    texts: int
    """Number of texts, empty vectors included."""
    postings: int
    """Number of (term, text) pairs: the size of the inverted index."""
    lengths: npt.NDArray[np.int32]
    """Number of active terms of each text, in order, or of each text of a sample; 0 for an empty vector."""


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
class Sparsity:
    """Sparsity of an encoded collection and its queries."""

    flops: float
    """Expected FLOPS of one query-document score."""
    documents: TermsPerText
    queries: TermsPerText


def count_terms(vectors: Iterable[Iterable[str]]) -> TermCounts:
    """Count a stream with the active terms of each text, such as ``{term: impact}`` with positive impacts."""
    frequency: Counter[str] = Counter()
    lengths = []
    for vector in vectors:
        active = set(vector)
        frequency.update(active)
        lengths.append(len(active))
    return TermCounts(dict(frequency), len(lengths), sum(lengths), np.array(lengths, dtype=np.int32))


def count_documents(*paths: str | Path) -> TermCounts:
    """Count encoded documents: folders or files, for instance all shards of a collection."""
    vectors = (vector for _, vector in chain.from_iterable(map(read_vectors, paths)))
    folders = [Path(path) for path in paths if (Path(path) / MANIFEST).is_file()]
    total = sum(Manifest.load(folder).counts.written for folder in folders) if len(folders) == len(paths) else None
    return _not_empty(count_terms(progress_bar(vectors, "counting", "documents", total)), paths[0])


def count_queries(path: str | Path) -> TermCounts:
    """Count encoded queries (a folder, or its ``queries.tsv``); a repeated term counts once."""
    return _not_empty(count_terms(read_topics(path).values()), path)


def expected_flops(documents: TermCounts, queries: TermCounts) -> float:
    """``E_{q,d}[Σ_j p_j(q) p_j(d)]``, where p_j is the share of queries, or documents, with term j active.

    SPLADE's paper defines FLOPS so beside its Table 1: the expected number of multiplications per query-document score.
    It equals the mean number of shared terms over all pairs of a query and a document. NaN if there is no pair.

    >>> documents = count_terms([{"a": 2, "b": 1}, {"b": 3}])
    >>> queries = count_terms([{"b": 1}, {"c": 1}])  # shared terms: 1 and 1 for b, 0 and 0 for c
    >>> expected_flops(documents, queries)
    0.5
    """
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


def sparsity_of(documents: TermCounts, queries: TermCounts) -> Sparsity:
    """Sparsity of counted documents and queries."""
    return Sparsity(
        flops=expected_flops(documents, queries),
        documents=terms_per_text(documents.lengths),
        queries=terms_per_text(queries.lengths),
    )


def sparsity_of_files(vectors: str | Path, queries: str | Path) -> Sparsity:
    """Sparsity of encoded documents (a folder or file) and encoded queries (a folder, or its ``queries.tsv``)."""
    check_queries(Path(queries), Path(vectors))
    return sparsity_of(count_documents(vectors), count_queries(queries))


def _not_empty(counts: TermCounts, path: str | Path) -> TermCounts:
    if not counts.texts:
        raise LearnedSparseError(f"{path}: no vectors in it")
    return counts
