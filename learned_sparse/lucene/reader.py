"""Read what a Lucene index holds: counts, postings, document frequencies, ids."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.lucene.jvm import lucene_calls, start_jvm

_CONTENTS, _ID = "contents", "id"
_CHUNK_SIZE = 10_000
"""Documents whose postings one call into Java returns as one string."""


@dataclass(frozen=True)
class IndexContents:
    """Counts by Lucene's own statistics."""

    documents: int
    distinct_ids: int
    """Lower than ``documents`` if an id was indexed twice (Anserini keeps both documents)."""
    postings: int
    total_impacts: int
    """Sum of all impacts; in an index of text, of all term frequencies."""


def read_contents(index: Path) -> IndexContents:
    """Count documents, ids, postings and impacts, after a check of all files (see ``check_integrity``)."""
    with contextlib.closing(open_reader(index)) as reader:
        segments = check_integrity(index, reader)
        ids = sum(int(terms.size()) for segment in segments if (terms := segment.terms(_ID)))
        postings, impacts = reader.getSumDocFreq(_CONTENTS), reader.getSumTotalTermFreq(_CONTENTS)
        return IndexContents(int(reader.numDocs()), ids, int(postings), int(impacts))


def document_frequencies(index: Path, terms: Iterable[str]) -> dict[str, int]:
    """``{term: documents that have it}``; 0 for a term that is not in the index."""
    with contextlib.closing(open_reader(index)) as reader:
        from jnius import autoclass

        term_of, bytes_of = autoclass("org.apache.lucene.index.Term"), autoclass("org.apache.lucene.util.BytesRef")
        return {term: int(reader.docFreq(term_of(_CONTENTS, bytes_of(bytearray(term, "utf-8"))))) for term in terms}


def every_document_frequency(index: Path) -> dict[str, int]:
    """``{term: documents that have it}`` for all terms of the index."""
    with contextlib.closing(open_reader(index)) as reader:
        pairs = (line.split("\t", 1) for line in _lines(lucene_calls().documentFrequencies(reader)))
        return {term: int(frequency) for frequency, term in pairs}


def postings_of(index: Path, ids: Iterable[str]) -> dict[str, dict[str, int]]:
    """``{id: {term: impact}}`` for those of ``ids`` that are in the index, by passes over all terms of the index."""
    with contextlib.closing(open_reader(index)) as reader:
        return read_postings(reader, ids)


def read_postings(reader: Any, ids: Iterable[str]) -> dict[str, dict[str, int]]:
    """``postings_of`` an index that ``open_reader`` has opened; several threads may share the reader."""
    ids = list(ids)
    vectors: dict[str, dict[str, int]] = {}
    for start in range(0, len(ids), _CHUNK_SIZE):
        chunk = ids[start : start + _CHUNK_SIZE]
        for line in _lines(lucene_calls().postings(reader, chunk)):
            position, _, posting = line.partition("\t")
            vector = vectors.setdefault(chunk[int(position)], {})
            if posting:
                impact, _, term = posting.partition("\t")
                vector[term] = int(impact)
    return vectors


def sampled_documents(index: Path, sample: int) -> list[list[str]]:
    """The terms of each of ``sample`` random documents (or of all, if there are fewer); the same ones at each call."""
    with contextlib.closing(open_reader(index)) as reader:
        total, stored = int(reader.maxDoc()), reader.storedFields()
        numbers = random.Random(0).sample(range(total), min(sample, total))  # noqa: S311  (no cryptography)
        ids = [str(stored.document(number).get(_ID)) for number in sorted(numbers)]
    return [list(vector) for vector in postings_of(index, ids).values()]


def open_reader(index: Path) -> Any:
    """Lucene's ``IndexReader`` of an index; the caller closes it."""
    start_jvm()
    from jnius import JavaException, autoclass, cast

    path = autoclass("java.nio.file.Paths").get(str(index.resolve()))
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
    return cast("org.apache.lucene.index.IndexReader", reader)  # else pyjnius cannot choose between constructors


def check_integrity(index: Path, reader: Any) -> list[Any]:
    """Lucene's readers of the segments; raise if a file of the index differs from its checksum.

    Reads all files, which takes about a second for each gigabyte.
    """
    from jnius import JavaException

    leaves = reader.leaves()
    segments = [leaves.get(number).reader() for number in range(leaves.size())]
    try:
        for segment in segments:
            segment.checkIntegrity()
    except JavaException as error:
        raise LearnedSparseError(
            f"{index}: damaged ({error.innermessage}); make the index again with learned_sparse.index --overwrite"
        ) from None
    return segments


def _lines(text: str) -> Iterator[str]:
    """Lines of a string from ``LuceneCalls``; ``str.splitlines`` also splits at characters that terms may contain."""
    return iter(text.split("\n")[:-1])
