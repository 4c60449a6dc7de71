"""PISA and Seismic as backends: engines of papers on efficiency, over the vectors that the exact searcher reads."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.lazy import import_extra
from learned_sparse.core.machine import processors
from learned_sparse.core.records import SparseBatch
from learned_sparse.export.inverted import write_pisa
from learned_sparse.export.tables import SEISMIC_DIMENSIONS, SEISMIC_LARGEST, SEISMIC_TERM, check_seismic_terms
from learned_sparse.jsonvector.reader import load_vectors
from learned_sparse.search.exact_searcher import ExactSearcher

Queries = Mapping[str, Mapping[str, int]]
Hits = list[tuple[str, float]]
ENCODING, ALGORITHM = "block_simdbp", "maxscore"
"""MaxScore is the faster algorithm for learned weights (Mackenzie, Trotman, Lin, "Wacky Weights in Learned Sparse
Representations and the Revenge of Score-at-a-Time Query Evaluation", 2021)."""
PISA_QUERY = 2**22
"""Largest sum of the impacts of a query for PISA; with larger sums, scores are not exact in 32-bit floats either."""
SEISMIC_TEXT = f"U{SEISMIC_TERM}"
"""``seismic.get_seismic_string()``: the only type of terms and ids that it accepts."""
SEISMIC_SEARCH = {"query_cut": 20, "heap_factor": 0.7}
"""Terms of a query that Seismic searches, and its threshold for skipping blocks: higher cuts and lower factors are
slower and find more."""


class PisaSearcher:
    """PISA's MaxScore over its compressed index, which a temporary folder holds; needs the extra ``pisa``.

    Scores are exact (32-bit floats, up to 2**24), ties are sorted by id. At rank ``k`` PISA may keep another document
    of the same score than the exact searcher.
    """

    def __init__(self, ids: Sequence[str], impacts: SparseBatch) -> None:
        """``impacts`` has one row of integers above 0 for each of ``ids``."""
        # The module below PisaRetrieve, which builds a data frame for each call: about 10 ms, ten times the search.
        self._pisa = import_extra("pyterrier_pisa._pisathon", "pisa")
        if not len(impacts.values):
            raise LearnedSparseError("PISA cannot index documents without any impact")
        order = sorted(range(len(ids)), key=ids.__getitem__)  # PISA sorts ties by the number of the document
        self._size = len(ids)
        self._folder = tempfile.TemporaryDirectory(prefix="learned-sparse-pisa-")
        # Numbers in place of terms, because PISA looks terms of queries up in lower case.
        self._number_of = {term: f"{number:010d}" for number, term in enumerate(impacts.terms)}
        sorted_impacts = replace(impacts.take(order), terms=list(self._number_of.values()))
        write_pisa(Path(self._folder.name), [ids[row] for row in order], sorted_impacts)
        self._context = self._pisa.RetrievalContext()
        with _quiet():
            self._pisa.prepare_index(
                self._context, self._folder.name, ENCODING, "quantized", "", quantize=0, stop_fname=""
            )

    def search_batch(self, queries: Queries, k: int = 1000, threads: int = 1) -> dict[str, Hits]:
        """The ``k`` best documents with a positive score of each query."""
        k = min(k, self._size)
        size, names = len(queries) * k, list(queries)
        rows, ranks = np.empty(size, np.int32), np.empty(size, np.int32)
        ids, scores = np.empty(size, object), np.empty(size, np.float32)
        for name, query in queries.items():  # PISA repeats each term as often as its weight says
            if (total := sum(query.values())) > PISA_QUERY:
                raise LearnedSparseError(
                    f"query {name!r}: its impacts add up to {total:,}, and PISA takes memory for each; at most "
                    f"{PISA_QUERY:,}: quantise with a smaller factor, or use --backend exact"
                )
        weights = [
            {self._number_of[term]: float(impact) for term, impact in query.items() if term in self._number_of}
            for query in queries.values()
        ]
        count = self._pisa.retrieve(
            self._context, ALGORITHM, list(enumerate(weights)), k=k, threads=threads, pretokenised=True,
            query_weighted=1, result_qidxs=rows, result_docnos=ids, result_ranks=ranks, result_scores=scores,
        )  # fmt: skip
        hits: dict[str, Hits] = {name: [] for name in names}
        for row, name, score in zip(rows[:count].tolist(), ids[:count], scores[:count].tolist(), strict=True):
            hits[names[row]].append((name, score))
        return hits


class SeismicSearcher:
    """Seismic (Bruch et al., SIGIR 2024), which is approximate: state its recall with its speed; extra ``seismic``.

    The scores of the documents that it finds are exact for impacts up to 2,048. Its settings are those of its package,
    not tuned to the vectors.
    """

    def __init__(self, ids: Sequence[str], impacts: SparseBatch) -> None:
        """``impacts`` has one row of integers above 0 for each of ``ids``."""
        seismic = import_extra("seismic", "seismic")
        if impacts.values.max(initial=0) > SEISMIC_LARGEST:
            raise LearnedSparseError(
                f"the largest impact is {impacts.values.max():,}; Seismic holds 16-bit floats, exact up to "
                f"{SEISMIC_LARGEST:,}: encode with --bits 11 or fewer"
            )
        check_seismic_terms(impacts.terms)
        large = len(impacts.terms) > SEISMIC_DIMENSIONS
        dataset = seismic.SeismicDatasetLV() if large else seismic.SeismicDataset()
        terms = np.array(impacts.terms, SEISMIC_TEXT)
        for row, (start, end) in enumerate(zip(impacts.indptr[:-1], impacts.indptr[1:], strict=True)):
            values = impacts.values[start:end].astype(np.float32)
            dataset.add_document(str(row), terms[impacts.indices[start:end]], values)
        index = seismic.SeismicIndexLV if large else seismic.SeismicIndex
        self._ids = ids
        with _quiet():
            self._index = index.build_from_dataset(dataset, num_threads=processors())

    def search_batch(self, queries: Queries, k: int = 1000, threads: int = 1) -> dict[str, Hits]:
        """At most ``k`` documents with a positive score of each query."""
        # Seismic cuts longer terms, which no document has.
        rows_of = [{t: weight for t, weight in q.items() if len(t) <= SEISMIC_TERM} for q in queries.values()]
        texts = [np.array(list(query), SEISMIC_TEXT) for query in rows_of]
        weights = [np.fromiter(query.values(), np.float32, len(query)) for query in rows_of]
        numbers = np.array([str(number) for number in range(len(queries))], SEISMIC_TEXT)
        if threads == 1:  # a pool of threads takes longer than a query
            rows = [
                self._index.search(*query, k=k, **SEISMIC_SEARCH) for query in zip(numbers, texts, weights, strict=True)
            ]
        else:  # in any order
            rows = self._index.batch_search(numbers, texts, weights, k=k, num_threads=threads, **SEISMIC_SEARCH)
        names = list(queries)
        hits: dict[str, Hits] = {name: [] for name in names}
        for number, score, row in itertools.chain.from_iterable(rows):
            if score > 0:
                hits[names[int(number)]].append((self._ids[int(row)], score))
        return {name: sorted(of_query, key=lambda hit: (-hit[1], hit[0])) for name, of_query in hits.items()}


VectorSearcher = ExactSearcher | PisaSearcher | SeismicSearcher
"""A searcher of vectors in memory."""


def load_backend(backend: str, folders: Sequence[str | Path]) -> VectorSearcher:
    """The searcher of ``--backend``, other than lucene, over all ``folders``."""
    searchers: dict[str, type[VectorSearcher]]
    searchers = {"exact": ExactSearcher, "pisa": PisaSearcher, "seismic": SeismicSearcher}
    return searchers[backend](*load_vectors(folders))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Discard what C++ and Rust print to the standard streams; commands print their results there."""
    libc = ctypes.CDLL(None)
    with contextlib.ExitStack() as stack:
        null = os.open(os.devnull, os.O_WRONLY)
        stack.callback(os.close, null)
        for stream in (1, 2):
            copy = os.dup(stream)
            stack.callback(os.close, copy)
            stack.callback(os.dup2, copy, stream)
            os.dup2(null, stream)
        stack.callback(libc.fflush, None)  # runs first: what C has buffered is discarded too
        yield
