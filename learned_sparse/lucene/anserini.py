"""Anserini's IndexCollection in a process of its own, and what the index it wrote really holds."""

from __future__ import annotations

import random
import re
import subprocess
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learned_sparse.core import LearnedSparseError
from learned_sparse.lucene.java import anserini_jar, find_java, jvm_options, start_jvm

LOG = "anserini.log"
_CONTENTS, _ID = "contents", "id"


@dataclass(frozen=True)
class IndexedCounts:
    """What Anserini says at the end of its log; ``empty`` documents are not in the index."""

    documents: int
    empty: int


@dataclass(frozen=True)
class IndexContents:
    """What Lucene finds in an index."""

    documents: int
    distinct_ids: int
    """Fewer than ``documents`` when an id was indexed twice (Anserini keeps both)."""
    postings: int
    total_impacts: int
    """The sum of all impacts (of all term frequencies, without impacts)."""


def index_collection(
    kind: str, source: Path, index: Path, options: Sequence[str], *, threads: int, heap: str | None = None
) -> IndexedCounts:
    """Index the files below ``source``, a ``kind`` of Anserini's collections, into the folder ``index``.

    Anserini reads one file on one thread. Its log stays in the index. A child process of Java alone starts in a second,
    and takes nothing down with it when its memory runs out.
    """
    java = find_java()
    index.mkdir(parents=True, exist_ok=True)
    command = [
        str(java.java),
        *jvm_options(java, heap),
        "-cp",
        str(anserini_jar()),
        "io.anserini.index.IndexCollection",
    ]
    command += ["-collection", kind, "-input", str(source), "-index", str(index), "-threads", str(threads)]
    command += ["-generator", "DefaultLuceneDocumentGenerator", "-optimize", *options]
    log = index / LOG
    with log.open("wb") as file:
        status = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
    return read_log(log.read_text(encoding="utf-8", errors="replace"), status)


def read_log(text: str, status: int = 0) -> IndexedCounts:
    """The counts in Anserini's log; an error in it, or a log without an end, raises.

    Anserini exits with 0 when a broken line has ended the reading of a file, and counts no error: only the exception in
    its log tells.
    """
    indexed = re.search(r"Indexing Complete! ([\d,]+) documents? indexed", text)
    empty = re.search(r"\bempty:\s+([\d,]+)", text)
    bad = [line for line in text.splitlines() if re.search(r"\b(ERROR|FATAL)\b|Exception\b|OutOfMemoryError", line)]
    if status or bad or not indexed or not empty:
        last = "\n".join(f"  {line}" for line in (bad or text.splitlines()[-5:])[:5])
        way_out = "; give Java more memory with --heap" if "OutOfMemory" in text or "totalFiles" in text else ""
        raise LearnedSparseError(
            f"Anserini could not index everything (exit status {status}){way_out}; its log says:\n{last}"
        )
    return IndexedCounts(_number(indexed[1]), _number(empty[1]))


def read_contents(index: Path) -> IndexContents:
    """Count what is in an index, by Lucene's own statistics."""
    reader = _open(index)
    try:
        documents, ids, postings, impacts = int(reader.numDocs()), 0, 0, 0
        for leaf in _leaves(reader):
            names, terms = leaf.reader().terms(_ID), leaf.reader().terms(_CONTENTS)
            ids += int(names.size()) if names else 0
            postings += int(terms.getSumDocFreq()) if terms else 0
            impacts += int(terms.getSumTotalTermFreq()) if terms else 0
    finally:
        reader.close()
    return IndexContents(documents, ids, postings, impacts)


def document_frequencies(index: Path, terms: Iterable[str]) -> dict[str, int]:
    """In how many documents each of ``terms`` is; 0 for a term that is not in the index."""
    reader = _open(index)
    try:
        from jnius import autoclass

        term_of, bytes_of = autoclass("org.apache.lucene.index.Term"), autoclass("org.apache.lucene.util.BytesRef")
        return {term: int(reader.docFreq(term_of(_CONTENTS, bytes_of(bytearray(term, "utf-8"))))) for term in terms}
    finally:
        reader.close()


def every_document_frequency(index: Path) -> dict[str, int]:
    """In how many documents each term of the index is."""
    reader = _open(index)
    found: dict[str, int] = {}
    try:
        for leaf in _leaves(reader):
            terms = leaf.reader().terms(_CONTENTS)
            every = terms.iterator() if terms else None
            while every is not None and (term := every.next()) is not None:
                name = term.utf8ToString()
                found[name] = found.get(name, 0) + int(every.docFreq())
    finally:
        reader.close()
    return found


def sampled_documents(index: Path, sample: int) -> list[list[str]]:
    """The terms of ``sample`` documents, at most all (the same ones each time), in one pass over the terms."""
    reader = _open(index)
    try:
        total = int(reader.maxDoc())
        chosen = random.Random(0).sample(range(total), min(sample, total))  # noqa: S311  (the same documents each time)
        found: dict[int, list[str]] = {number: [] for number in sorted(chosen)}
        for leaf in _leaves(reader):
            first, count = int(leaf.docBase), int(leaf.reader().maxDoc())
            here = [number - first for number in found if first <= number < first + count]
            for term, document, _ in _postings(leaf.reader(), here):
                found[first + document].append(term)
    finally:
        reader.close()
    return list(found.values())


def read_impacts(index: Path, wanted: Iterable[tuple[str, Iterable[str]]]) -> dict[str, dict[str, int]]:
    """``{id: {term: impact}}`` out of the postings, for the documents and terms asked for, as far as there."""
    terms_of = {name: list(terms) for name, terms in wanted}
    found: dict[str, dict[str, int]] = {}
    reader = _open(index)
    try:
        for leaf in _leaves(reader):
            names = _documents(leaf.reader(), terms_of)
            found.update({name: {} for name in names.values() if name not in found})
            asking: dict[str, list[int]] = {}
            for document in sorted(names):
                for term in terms_of[names[document]]:
                    asking.setdefault(term, []).append(document)
            for term, document, impact in _postings_asked_for(leaf.reader(), asking):
                found[names[document]][term] = impact
    finally:
        reader.close()
    return found


def postings_of(index: Path, ids: Iterable[str]) -> dict[str, dict[str, int]]:
    """``{id: {term: impact}}``: all that the postings hold of the documents ``ids``, as far as these are there.

    One pass over the terms of the index, for all documents at once.
    """
    found: dict[str, dict[str, int]] = {}
    reader = _open(index)
    try:
        ids = list(ids)
        for leaf in _leaves(reader):
            names = _documents(leaf.reader(), ids)
            found.update({name: {} for name in names.values() if name not in found})
            for term, document, impact in _postings(leaf.reader(), sorted(names)):
                found[names[document]][term] = impact
    finally:
        reader.close()
    return found


def _documents(leaf: Any, ids: Iterable[str]) -> dict[int, str]:
    """Lucene's numbers of the documents ``ids`` in a segment."""
    from jnius import autoclass

    term_of, end = autoclass("org.apache.lucene.index.Term"), 2**31 - 1
    numbers: dict[int, str] = {}
    for name in ids:
        place = leaf.postings(term_of(_ID, name))
        while place is not None and (document := place.nextDoc()) != end:
            numbers[document] = name
    return numbers


def _postings(leaf: Any, documents: Sequence[int]) -> Iterator[tuple[str, int, int]]:
    """``(term, document, impact)`` for each posting of ``documents``, ascending, in a segment."""
    terms = leaf.terms(_CONTENTS) if documents else None
    every = terms.iterator() if terms else None
    postings = None
    while every is not None and (term := every.next()) is not None:
        postings = every.postings(postings)
        for document, impact in _impacts(postings, documents):
            yield term.utf8ToString(), document, impact


def _postings_asked_for(leaf: Any, asking: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, int, int]]:
    """The same for the terms and documents asked for; each term is looked up once."""
    from jnius import autoclass

    terms = leaf.terms(_CONTENTS)
    if terms is None:
        return
    bytes_of, every, postings = autoclass("org.apache.lucene.util.BytesRef"), terms.iterator(), None
    for term, documents in sorted(asking.items()):
        if every.seekExact(bytes_of(bytearray(term, "utf-8"))):
            postings = every.postings(postings)
            for document, impact in _impacts(postings, documents):
                yield term, document, impact


def _impacts(postings: Any, documents: Sequence[int]) -> Iterator[tuple[int, int]]:
    """``(document, impact)`` for those of ``documents``, ascending, that are in the postings of a term."""
    place = 0
    while place < len(documents):
        at = postings.advance(documents[place])
        place = bisect_left(documents, at, lo=place)
        if place < len(documents) and documents[place] == at:
            yield at, int(postings.freq())
            place += 1


def _open(index: Path) -> Any:
    start_jvm()
    from jnius import JavaException, autoclass

    directory = autoclass("org.apache.lucene.store.FSDirectory").open(
        autoclass("java.nio.file.Paths").get(str(index.resolve()))
    )
    try:
        return autoclass("org.apache.lucene.index.DirectoryReader").open(directory)
    except JavaException as error:
        raise LearnedSparseError(f"{index}: not a Lucene index ({error}); make one with learned_sparse.index") from None


def _leaves(reader: Any) -> Iterable[Any]:
    leaves = reader.leaves()
    return (leaves.get(number) for number in range(leaves.size()))


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))
