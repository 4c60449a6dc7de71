"""Search a Lucene index (impacts by dot products, text or terms by BM25), and read what it holds: counts, postings."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from learned_sparse.core.errors import LearnedSparseError, positive_impacts
from learned_sparse.lucene.jvm import (
    BM25_SIMILARITY,
    IMPACT_SIMILARITY,
    LUCENE_CALLS,
    english_analyzer,
    java_thread,
    start_jvm,
)

if TYPE_CHECKING:
    from learned_sparse.collections.topics import Query

Hits = list[tuple[str, float]]
"""``(document id, score)``: highest score first, equal scores by ascending id."""
Impacts = Mapping[str, int]
"""``{term: impact}``."""
BM25_K1, BM25_B = 0.9, 0.4
"""Anserini's defaults."""
MAX_INT = 2**31 - 1
_CONTENTS, _ID = "contents", "id"
_CHUNK_SIZE = 10_000
"""Documents whose postings one call into Java returns as one string."""


class ImpactSearcher(contextlib.AbstractContextManager["ImpactSearcher"]):
    """Search an index of impacts, or one of text or term frequencies by BM25; ours or one of Anserini's.

    A query is ``{term: impact}``, for BM25 text or ``{term: frequency}``; Anserini's English analyzer makes the terms
    of a text. Hits, their order and the cut at ``k`` are those of Pyserini's ``LuceneImpactSearcher`` with
    ``min_idf=-1``, or ``LuceneSearcher``. Scores are the dot products; Pyserini lowers equal scores by steps of
    0.000001, and rounds those of BM25 to four decimals. Lucene adds 32-bit floats, which hold integers up to 2**24
    exactly. Close a searcher, or use it in a ``with`` block. Several threads may search it.
    """

    def __init__(
        self,
        index: str | Path,
        scoring: str = "impact",
        *,
        k1: float | None = None,
        b: float | None = None,
        check: bool = False,
    ) -> None:
        """``scoring``: that of the note of the index; any other than ``impact`` is BM25.

        ``k1`` and ``b`` are parameters of BM25 (default: Anserini's). With ``check``, raise if a file of the index
        differs from its checksum.
        """
        self._index, self._text = Path(index), scoring != "impact"
        if not self._text and (k1, b) != (None, None):
            raise LearnedSparseError(f"{index}: scored by dot products; k1 and b are parameters of BM25")
        parameters = (BM25_K1 if k1 is None else k1, BM25_B if b is None else b) if self._text else ()
        if parameters and not (0 <= parameters[0] < math.inf and 0 <= parameters[1] <= 1):
            raise LearnedSparseError("--k1 takes 0 or more, --b a number from 0 to 1")
        start_jvm()
        from jnius import JavaException, autoclass, cast

        path = autoclass("java.nio.file.Paths").get(str(self._index.resolve()))
        try:
            directory = autoclass("org.apache.lucene.store.FSDirectory").open(path)
            reader = autoclass("org.apache.lucene.index.DirectoryReader").open(directory)
        except JavaException as error:
            if "is in the future" in str(error.innermessage):
                raise LearnedSparseError(
                    f"{index}: made by a newer Lucene than that of Pyserini {version('pyserini')}; search it with the "
                    "Pyserini that made it (2.3 has Lucene 10, and needs Python 3.12), or make it again with "
                    "learned_sparse.index"
                ) from None
            raise LearnedSparseError(
                f"{index}: not a Lucene index ({error.innermessage}); make one with learned_sparse.index"
            ) from None
        leaves = reader.leaves()
        self.leaves = [leaves.get(number).reader() for number in range(leaves.size())]
        try:
            for leaf in self.leaves if check else ():
                leaf.checkIntegrity()
        except JavaException as error:
            raise LearnedSparseError(
                f"{index}: damaged ({error.innermessage}); make the index again with learned_sparse.index --overwrite"
            ) from None
        self.reader = cast("org.apache.lucene.index.IndexReader", reader)  # pyjnius: to choose among constructors
        """Lucene's ``IndexReader``."""
        self.documents = int(reader.numDocs())
        self.calls, self._java_exception = autoclass(LUCENE_CALLS), JavaException
        self._searcher = autoclass("org.apache.lucene.search.IndexSearcher")(self.reader)
        self._searcher.setSimilarity(autoclass(BM25_SIMILARITY if self._text else IMPACT_SIMILARITY)(*parameters))

    def search(self, query: str | Impacts, k: int = 1000) -> Hits:
        """The ``k`` best documents that have a term of ``query`` with an impact above 0."""
        if not 1 <= k <= MAX_INT:
            raise LearnedSparseError(f"{k} hits: give 1 to {MAX_INT:,}")
        if isinstance(query, str) and self._text:
            call, arguments = self.calls.searchText, [_english()[1], query]
        elif impacts := positive_impacts(query, MAX_INT):
            call, arguments = self.calls.searchImpacts, [list(impacts), list(map(float, impacts.values()))]
        else:
            return []
        try:
            lines = call(self._searcher, *arguments, k)
        except self._java_exception as error:
            raise LearnedSparseError(
                f"{self._index}: Lucene cannot search it: {error.classname}: {error.innermessage}"
            ) from error
        fields = lines.split("\n")
        return list(zip(fields[1::2], map(float, fields[:-1:2]), strict=True))

    def search_batch(self, queries: Mapping[str, Any], k: int = 1000, threads: int = 1) -> dict[str, Hits]:
        """``{query id: hits}`` in the order of ``queries``. The first error stops all threads."""
        if threads == 1:
            return {query_id: self.search(query, k) for query_id, query in queries.items()}

        def search(query: Any) -> Hits:
            with java_thread():
                return self.search(query, k)

        with ThreadPoolExecutor(threads) as pool:
            return dict(zip(queries, pool.map(search, queries.values()), strict=True))

    def score(self, query: Impacts, document_id: str) -> float:
        """The score of one document for weighted terms; 0 if it has none of them or is not in the index."""
        impacts = positive_impacts(query, MAX_INT)
        return float(self.calls.score(self._searcher, list(impacts), list(map(float, impacts.values())), document_id))

    def postings(self, ids: Iterable[str]) -> dict[str, dict[str, int]]:
        """``{id: {term: impact}}`` for those of ``ids`` that are in the index, by passes over all its terms."""
        ids, vectors = list(ids), dict[str, dict[str, int]]()
        for start in range(0, len(ids), _CHUNK_SIZE):
            chunk = ids[start : start + _CHUNK_SIZE]
            for line in _lines(self.calls.postings(self.reader, chunk)):
                position, _, posting = line.partition("\t")
                vector = vectors.setdefault(chunk[int(position)], {})
                if posting:
                    impact, _, term = posting.partition("\t")
                    vector[term] = int(impact)
        return vectors

    def close(self) -> None:
        """Close the files of the index."""
        self.reader.close()

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.reader.close()


def english_tokens(text: str) -> list[tuple[str, int, int]]:
    """``(term, start, end)`` of each token that Anserini's English analyzer makes of ``text``; ``end`` is exclusive."""
    tokens, analyzer = _english()
    lines = tokens(analyzer, text).split("\n")[:-1]
    return [(term, int(start), int(end)) for start, end, term in (line.split("\t", 2) for line in lines)]


def search_impacts(index: Path, queries: Mapping[str, Impacts], k: int = 1000, *, threads: int = 1) -> dict[str, Hits]:
    """The ``k`` best documents of each query by dot product."""
    with ImpactSearcher(index) as searcher:
        return searcher.search_batch(queries, k, threads)


def search_bm25(index: Path, queries: Iterable[Query], k: int = 1000) -> dict[str, Hits]:
    """The ``k`` best documents of each query by BM25, in an index of plain text."""
    with ImpactSearcher(index, "bm25-text") as searcher:
        return searcher.search_batch({query.id: query.text for query in queries}, k)


@functools.cache
def _english() -> tuple[Any, Any]:
    """The static method that analyzes a text, and the analyzer; several threads may use both."""
    start_jvm()
    from jnius import autoclass

    return autoclass(LUCENE_CALLS).tokens, english_analyzer()


def read_contents(index: Path) -> dict[str, int]:
    """Lucene's counts of an index, after a comparison of all files with their checksums.

    ``documents``; ``distinct_ids``, fewer if an id was indexed twice (Anserini keeps both documents); ``postings``;
    ``total_impacts``, the sum of all impacts, or in an index of text of all term frequencies.
    """
    with ImpactSearcher(index, check=True) as searcher:
        ids = sum(int(terms.size()) for leaf in searcher.leaves if (terms := leaf.terms(_ID)))
        reader, documents = searcher.reader, searcher.documents
        postings, impacts = int(reader.getSumDocFreq(_CONTENTS)), int(reader.getSumTotalTermFreq(_CONTENTS))
        return {"documents": documents, "distinct_ids": ids, "postings": postings, "total_impacts": impacts}


def document_frequencies(index: Path) -> dict[str, int]:
    """``{term: documents that have it}`` for all terms of the index."""
    with ImpactSearcher(index) as searcher:
        lines = _lines(searcher.calls.documentFrequencies(searcher.reader))
        pairs = (line.split("\t", 1) for line in lines)
        return {term: int(frequency) for frequency, term in pairs}


def postings_of(index: Path, ids: Iterable[str]) -> dict[str, dict[str, int]]:
    """``ImpactSearcher.postings`` of an index."""
    with ImpactSearcher(index) as searcher:
        return searcher.postings(ids)


def _lines(text: str) -> Iterator[str]:
    """Lines of a string from ``LuceneCalls``; ``str.splitlines`` also splits at characters that terms may contain."""
    return iter(text.split("\n")[:-1])
