"""Anserini's JsonVectorCollection files, one ``{"id", "contents", "vector"}`` a line, written and read strictly."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import orjson

from learned_sparse.core import (
    EMPTY_TERM,
    MAX_IMPACT,
    LearnedSparseError,
    LuceneTerms,
    SparseBatch,
    atomic_write,
    unfit_reason,
)

MAX_REPEATED_CHARACTERS = 2**30
"""Anserini spells a vector out, each term as often as its impact says, and a Java string ends at 2**31 characters."""


class BadLineError(ValueError):
    """A line that cannot be read; who reads the file adds its name and the line number."""


@dataclass(frozen=True, kw_only=True)
class WrittenPart:
    """What one part file holds."""

    documents: int
    empty_vectors: int
    postings: int
    sha256: str


def write_part(
    path: Path,
    ids: Sequence[str],
    texts: Sequence[str],
    batch: SparseBatch,
    *,
    terms: LuceneTerms | None = None,
    compress: bool = False,
) -> WrittenPart:
    """Write the impacts ``batch`` of the documents ``ids`` to ``path``, whole or not at all.

    A document with an empty row is written with ``EMPTY_TERM`` as its only term. Everything Anserini would drop, split
    or mangle in silence is an error that names document and term. ``terms`` is ``LuceneTerms(batch.terms)``, made once.
    """
    with open_part(path, terms or LuceneTerms(batch.terms), compress=compress) as part:
        part.add(ids, texts, batch)
    return part.written()


class PartFile:
    """A part file that is being written, some documents at a time; see :func:`open_part`."""

    def __init__(self, out: Any, digest: Any, terms: LuceneTerms) -> None:
        """``digest`` sees the bytes as the disk gets them."""
        self._out, self._digest, self._terms = out, digest, terms
        self._documents = self._empty = self._postings = 0

    def add(self, ids: Sequence[str], texts: Sequence[str], batch: SparseBatch) -> None:
        """Write further documents; what Anserini would drop, split or mangle is an error (see :func:`write_part`)."""
        check_impacts(ids, batch, self._terms)
        for line in _lines(ids, texts, batch, self._terms):
            self._out.write(line)
        self._documents += len(ids)
        self._empty += int(np.count_nonzero(np.diff(batch.indptr) == 0))
        self._postings += len(batch.values)

    def written(self) -> WrittenPart:
        """What the file holds, once it is closed."""
        return WrittenPart(
            documents=self._documents,
            empty_vectors=self._empty,
            postings=self._postings,
            sha256=self._digest.hexdigest(),
        )


@contextlib.contextmanager
def open_part(path: Path, terms: LuceneTerms, *, compress: bool = False) -> Iterator[PartFile]:
    """A part file to add documents to: it appears as ``path`` when the block ends well, else not at all."""
    with open_lines(path, compress=compress) as (out, digest):
        yield PartFile(out, digest, terms)


@contextlib.contextmanager
def open_lines(path: Path, *, compress: bool = False) -> Iterator[tuple[Any, Any]]:
    """A file to write lines to, and the digest of the bytes it gets; whole when the block ends well, else absent."""
    digest = hashlib.sha256()
    with atomic_write(path) as file, _compressed(_Hashing(file, digest), compress) as out:
        yield out, digest


def check_impacts(ids: Sequence[str], batch: SparseBatch, terms: LuceneTerms) -> None:
    """Raise if a row cannot be written: a name, a term or an impact that Anserini would mangle."""
    for name in ids:
        if name.split() != [name]:
            raise LearnedSparseError(f"id {name!r}: a TREC run cannot hold white space or an empty id; rename it")
    if batch.values.dtype.kind not in "iu":
        raise LearnedSparseError(f"impacts are integers, got {batch.values.dtype}: quantise the weights first")
    wrong = (batch.values < 1) | (batch.values > MAX_IMPACT)
    if wrong.any():
        place = int(np.argmax(wrong))
        row = int(np.searchsorted(batch.indptr, place, side="right")) - 1
        term = batch.terms[batch.indices[place]]
        impact = batch.values[place]
        raise LearnedSparseError(f"{ids[row]!r}: term {term!r} has the impact {impact}, not 1 to {MAX_IMPACT}")
    terms.check(batch, ids)
    filled = np.flatnonzero(np.diff(batch.indptr))
    if len(filled):
        characters = batch.values.astype(np.int64) * (terms.lengths[batch.indices] + 1)
        spelled_out = np.add.reduceat(characters, batch.indptr[filled])
        if spelled_out.max() > MAX_REPEATED_CHARACTERS:
            raise LearnedSparseError(_too_long(repr(ids[filled[int(np.argmax(spelled_out))]]), int(spelled_out.max())))


def read_vectors(path: str | Path) -> Iterator[tuple[str, dict[str, int]]]:
    """``(id, {term: impact})`` of each document below ``path``, an empty dict for an empty vector.

    ``path`` is a file, a folder of files, or a folder that ``learned_sparse.encode`` wrote. Lines that Anserini would
    drop or mangle, and repeated ids, are errors with file and line.
    """
    return read_vector_files(vector_files(Path(path)))


def read_vector_files(files: Iterable[Path]) -> Iterator[tuple[str, dict[str, int]]]:
    """As ``read_vectors``, from ``files``; an id must not occur in two of them either."""
    seen: set[str] = set()
    reader = LineReader()
    for file in files:
        with contextlib.closing(numbered_lines(file)) as lines:
            for number, line in lines:
                try:
                    name, vector = reader.parse(line)
                except BadLineError as error:
                    raise LearnedSparseError(f"{file}:{number}: {error}") from None
                if name in seen:
                    raise LearnedSparseError(f"{file}:{number}: the id {name!r} occurs twice; remove one of the two")
                seen.add(name)
                yield name, vector


def vector_files(path: Path) -> list[Path]:
    """The files below ``path`` that Anserini would read, in the order of their names."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise LearnedSparseError(f"{path}: no such file or folder")
    folder = path / "vectors" if (path / "vectors").is_dir() else path
    files = sorted(file for file in folder.rglob("*") if file.suffix in {".json", ".jsonl", ".gz"} and file.is_file())
    if not files and folder == path:
        raise LearnedSparseError(f"{path}: no .jsonl, .json or .gz file here; learned_sparse.encode writes some")
    return files


def numbered_lines(file: Path) -> Generator[tuple[int, bytes], None, None]:
    """The lines of a plain or gzip file that are not blank, numbered from 1."""
    number = 0
    with cast(BinaryIO, gzip.open(file) if file.suffix == ".gz" else file.open("rb")) as lines:
        try:
            for number, line in enumerate(lines, start=1):
                if not line.isspace():
                    yield number, line
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise LearnedSparseError(f"{file}:{number + 1}: broken gzip file ({error}); write it anew") from None


class LineReader:
    """Reads lines strictly; remembers the terms it found fit, so that each is examined once."""

    def __init__(self) -> None:
        self._fit: set[str] = set()

    def parse(self, line: bytes) -> tuple[str, dict[str, int]]:
        """``(id, {term: impact})``; a ``BadLineError`` says what is wrong and what Anserini would do with it."""
        try:
            content = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise BadLineError(f"not JSON ({error}); Anserini would stop reading the file here") from None
        if not isinstance(content, dict):
            raise BadLineError(f"expected an object, got {type(content).__name__}")
        for key in ("id", "vector"):
            if content.get(key) is None:
                raise BadLineError(f'no "{key}"; Anserini would stop reading the file here, or drop the document')
        return _name(content["id"]), self._vector(content["vector"])

    def _vector(self, vector: Any) -> dict[str, int]:
        if not isinstance(vector, dict):
            raise BadLineError(f'"vector" is a {type(vector).__name__}, not an object {{term: impact}}')
        if not vector:
            raise BadLineError(f'the vector is empty and Anserini would drop the document; write {{"{EMPTY_TERM}": 1}}')
        if vector == {EMPTY_TERM: 1} and type(vector[EMPTY_TERM]) is int:
            return {}
        if set(map(type, vector.values())) != {int} or min(vector.values()) < 1 or max(vector.values()) > MAX_IMPACT:
            raise BadLineError(_wrong_impact(vector))
        for term in vector.keys() - self._fit:
            if reason := unfit_reason(term):
                raise BadLineError(f"Lucene cannot hold the term {term!r}: {reason}")
            self._fit.add(term)
        spelled_out = sum(impact * (len(term) + 1) for term, impact in vector.items())
        if spelled_out > MAX_REPEATED_CHARACTERS:
            raise BadLineError(_too_long("the vector", spelled_out))
        return vector


def _name(value: Any) -> str:
    if type(value) not in (str, int):
        raise BadLineError(f'"id" is a {type(value).__name__}, not a string')
    name = str(value)
    if name.split() != [name]:
        raise BadLineError(f"the id {name!r} is empty or holds white space, which a TREC run cannot hold")
    return name


def _wrong_impact(vector: dict[str, Any]) -> str:
    term, value = next((t, v) for t, v in vector.items() if type(v) is not int or not 1 <= v <= MAX_IMPACT)
    return f"{term!r} has the impact {value!r}, not an integer from 1 to {MAX_IMPACT}; Anserini would cut or drop it"


def _too_long(what: str, characters: int) -> str:
    return (
        f"{what}: Anserini would spell this vector out in {characters:,} characters, more than the "
        f"{MAX_REPEATED_CHARACTERS:,} it can index; quantise with a smaller factor or fewer bits"
    )


def _lines(ids: Sequence[str], texts: Sequence[str], batch: SparseBatch, terms: LuceneTerms) -> Iterator[bytes]:
    names, values, bounds = terms.names[batch.indices].tolist(), batch.values.tolist(), batch.indptr.tolist()
    for row, (name, text) in enumerate(zip(ids, texts, strict=True)):
        start, end = bounds[row], bounds[row + 1]
        vector = dict(zip(names[start:end], values[start:end], strict=True)) or {EMPTY_TERM: 1}
        try:
            yield orjson.dumps({"id": name, "contents": text, "vector": vector}, option=orjson.OPT_APPEND_NEWLINE)
        except TypeError as error:
            raise LearnedSparseError(f"document {name!r}: not writable as UTF-8 ({error}); mend its text") from None


class _Hashing:
    def __init__(self, file: BinaryIO, digest: Any) -> None:
        self._file, self._digest = file, digest

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


@contextlib.contextmanager
def _compressed(file: _Hashing, compress: bool) -> Iterator[Any]:
    if not compress:
        yield file
        return
    # No name and no time in the header: equal documents give equal bytes.
    with gzip.GzipFile(filename="", mode="wb", fileobj=cast(BinaryIO, file), mtime=0, compresslevel=6) as out:
        yield out


if __name__ == "__main__":
    from learned_sparse.core import run_main
    from learned_sparse.jsonvector.check import main

    run_main(main)
