"""The same searches by SciPy, by Lucene and by Seismic: each searches a batch, and gives ids and scores."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from learned_sparse.core.records import SparseBatch
from learned_sparse.lucene import ImpactSearcher
from learned_sparse.search import best_rows as best
from tests.learned_sparse.lucene.stock_searcher import impact_searcher

Queries = Mapping[str, Mapping[str, int]]
Found = Mapping[str, Sequence[tuple[str, float]]]
Search = Callable[[Queries, int], Found]
"""``(queries, k)`` to hits, best first."""


class Scipy:
    """Three ways of writing it down with SciPy. They choose hits as the exact searcher does: only the sums differ."""

    def __init__(self, ids: Sequence[str], impacts: SparseBatch) -> None:
        """Everything in 32 bits, document numbers of the columns in 64: what indexing by an array asks for."""
        self._ids = np.array(ids, dtype=object)
        self._numbers = {term: number for number, term in enumerate(impacts.terms)}
        shape = (len(impacts), len(impacts.terms))
        values, bounds = impacts.values.astype(np.int32), impacts.indptr.astype(np.int32)
        self._rows = csr_array((values, impacts.indices, bounds), shape=shape)
        columns = self._rows.tocsc()
        self._bounds, self._impacts = columns.indptr, columns.data
        self._documents = columns.indices.astype(np.int64)
        self._by_term = columns.T

    def columns(self, queries: Queries, k: int) -> Found:
        """The columns of a query added up one by one."""
        return {name: self._hits(self._sum_columns(query), k) for name, query in queries.items()}

    def dense(self, queries: Queries, k: int) -> Found:
        """The matrix of all documents times a query with all terms."""
        found = {}
        for name, query in queries.items():
            vector = np.zeros(len(self._numbers), np.int32)
            vector[[self._numbers[term] for term in query]] = list(query.values())
            found[name] = self._hits(self._rows @ vector, k)
        return found

    def sparse(self, queries: Queries, k: int) -> Found:
        """A sparse matrix of all queries times the transposed one of all documents."""
        indices = [self._numbers[term] for query in queries.values() for term in query]
        values = [impact for query in queries.values() for impact in query.values()]
        bounds = np.cumsum([0, *map(len, queries.values())])
        asked = csr_array(
            (np.array(values, np.int32), np.array(indices, np.int32), bounds.astype(np.int32)),
            shape=(len(queries), len(self._numbers)),
        )
        products = asked @ self._by_term
        found = {}
        for row, name in enumerate(queries):
            place = slice(products.indptr[row], products.indptr[row + 1])
            found[name] = self._hits(products.data[place], k, products.indices[place])
        return found

    def _sum_columns(self, query: Mapping[str, int]) -> npt.NDArray[np.int32]:
        scores = np.zeros(len(self._ids), np.int32)
        for term, impact in query.items():
            number = self._numbers[term]
            place = slice(self._bounds[number], self._bounds[number + 1])
            scores[self._documents[place]] += np.int32(impact) * self._impacts[place]
        return scores

    def _hits(
        self, scores: npt.NDArray[np.int32], k: int, places: npt.NDArray[np.int32] | None = None
    ) -> list[tuple[str, float]]:
        chosen = best(scores, k)
        names = self._ids[chosen if places is None else places[chosen]]
        return list(zip(names.tolist(), scores[chosen].tolist(), strict=True))


def lucene(index: Path, threads: int) -> Search:
    """The same Lucene query as Pyserini's, the ids read in bulk (``learned_sparse.search --backend lucene``)."""
    searcher = ImpactSearcher(index)  # open until the process ends
    return lambda queries, k: searcher.search_batch(queries, k, threads)


def stock_pyserini(index: Path, queries: Queries, threads: int) -> Search:
    """``LuceneImpactSearcher.batch_search`` as installed; its encoder knows the impacts of ``queries``."""
    searcher = impact_searcher(index, queries)

    def search(some: Queries, k: int) -> Found:
        found = searcher.batch_search(list(some), list(some), k, threads)
        return {name: [(hit.docid, hit.score) for hit in found.get(name, [])] for name in some}

    return search


class Seismic:
    """``pyseismic-lsr``, which is approximate; cuts and heap factors are not tuned to these vectors."""

    POSTINGS = 3500
    SUMMARY_ENERGY = 0.4
    CUTS: Mapping[int, tuple[int, float]] = {10: (8, 0.9), 1000: (20, 0.7)}
    """``query_cut`` and ``heap_factor`` for each ``k``."""

    def __init__(self, ids: Sequence[str], impacts: SparseBatch, threads: int) -> None:
        seismic = importlib.import_module("seismic")
        dataset = seismic.SeismicDataset()
        for row, name in enumerate(ids):
            vector = impacts.row(row)
            dataset.add_document(name, _strings(vector), np.array(list(vector.values()), np.float32))
        self._index = seismic.SeismicIndex.build_from_dataset(
            dataset, n_postings=self.POSTINGS, summary_energy=self.SUMMARY_ENERGY, num_threads=threads
        )

    def search(self, queries: Queries, k: int, threads: int) -> Found:
        """All ``queries`` at once."""
        cut, factor = self.CUTS[k]
        found = self._index.batch_search(
            np.array(list(queries), "U100"),
            [_strings(query) for query in queries.values()],
            [np.array(list(query.values()), np.float32) for query in queries.values()],
            k=k, query_cut=cut, heap_factor=factor, num_threads=threads,
        )  # fmt: skip
        none: dict[str, list[tuple[str, float]]] = {name: [] for name in queries}
        return none | {rows[0][0]: [(name, score) for _, score, name in rows] for rows in found}


def _strings(vector: Mapping[str, Any]) -> npt.NDArray[np.str_]:
    return np.array(list(vector), "U100")
