"""Read files of Anserini's JsonVectorCollection strictly: line by line, as dicts, or as arrays."""

from __future__ import annotations

import contextlib
import itertools
from array import array
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from learned_sparse.core import (
    EMPTY_TERM,
    MAX_IMPACT,
    LearnedSparseError,
    SparseBatch,
    folder_kind,
    not_found,
    progress_bar,
    raw_lines,
    sha256,
    unfit_id_reason,
    unfit_reason,
    wrong_path,
)
from learned_sparse.jsonvector.manifest import MANIFEST, Manifest, anserini_files, check_together

BYTE_ORDER_MARK = "\ufeff"
MAX_REPEATED_CHARACTERS = 2**30
"""Maximum length of a vector as text: Anserini repeats each term as often as its impact, in one Java string."""
CHUNK_LINES = 256
"""Lines that ``load_vectors`` converts to arrays at once."""
_MALFORMED = (AttributeError, KeyError, TypeError, ValueError, OverflowError)
"""Exceptions that a malformed line can raise in ``load_vectors``."""


class BadLineError(ValueError):
    """A line that Anserini would drop or change; the caller adds the file and the line number."""


def read_vectors(path: str | Path) -> Iterator[tuple[str, dict[str, int]]]:
    """``(id, {term: impact})`` of each document below ``path``; an empty dict for an empty vector.

    ``path`` is a file, a folder of files, or a folder that ``learned_sparse.encode`` wrote, whose files must be those
    of its manifest. Lines that Anserini would drop or change, and repeated ids, raise an error with file and line. Only
    one document is in memory at a time.
    """
    files = vector_files(Path(path))
    if (Path(path) / MANIFEST).is_file():
        Manifest.load(Path(path)).check(Path(path))
    return _read_files(files)


def _read_files(files: Iterable[Path]) -> Iterator[tuple[str, dict[str, int]]]:
    """Like ``read_vectors``, for ``files``; an id may occur only once in all of them."""
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


def load_vectors(paths: Sequence[str | Path]) -> tuple[list[str], SparseBatch]:
    """Ids and impacts of all documents below ``paths`` (files or folders), in the order of the files.

    Lines are checked as in ``read_vectors``. The files and counts of a folder with a manifest must be those that the
    manifest records; several such folders must be encoded alike, and shards must be complete. Impacts take 1, 2 or
    4 bytes each, as the largest one needs.
    """
    encoded = [path for path in map(Path, paths) if (path / MANIFEST).is_file()]
    check_together(encoded, [Manifest.load(path) for path in encoded])
    reader, files = _ArrayReader(), list[Path]()
    for path in map(Path, paths):
        files += (folder_files := vector_files(path))
        documents, postings = reader.documents, reader.postings
        for file in progress_bar(folder_files, f"reading {path.name}", "files"):
            reader.read(file)
        if (path / MANIFEST).is_file():
            _compare_with_manifest(path, folder_files, reader.documents - documents, reader.postings - postings)
    ids, impacts = reader.batch()
    if len(set(ids)) != len(ids):
        for _ in _read_files(files):
            pass  # raises at the second occurrence of an id, with file and line
    return ids, impacts


def vector_files(path: Path) -> list[Path]:
    """Files below ``path`` that Anserini would read, sorted by name; ``path`` itself if it is a file."""
    if not path.exists():
        raise not_found(path, "file or folder", "learned_sparse.encode writes such folders")
    if not path.is_dir():
        return [path]
    if folder_kind(path) in {"a Lucene index", "a checkpoint", "a test collection", "encoded queries"}:
        raise wrong_path(path, "encoded documents", "name a folder that learned_sparse.encode wrote")
    folder = path / "vectors" if (path / "vectors").is_dir() else path
    files = anserini_files(folder)
    if not files and folder == path:
        raise LearnedSparseError(f"{path}: no .jsonl, .json or .gz file here; learned_sparse.encode writes such files")
    return files


def numbered_lines(file: Path) -> Generator[tuple[int, bytes], None, None]:
    """``raw_lines`` of core without blank lines."""
    with contextlib.closing(raw_lines(file)) as lines:
        for number, line in lines:
            if not line.isspace():
                yield number, line


def parse_line(line: bytes) -> tuple[str, dict[str, Any]]:
    """Id and vector of a line, whose terms and values are not checked; ``BadLineError`` for any other line."""
    try:
        content = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadLineError(f"not JSON ({error}); Anserini would stop reading the file here") from None
    if not isinstance(content, dict):
        raise BadLineError(f"expected an object, got {type(content).__name__}")
    if content.get("vector") is None and any(key in content for key in ("text", "contents")):
        raise BadLineError('text and no "vector"; encode it with learned_sparse.encode, or index it with --bm25')
    for key in ("id", "vector"):
        if content.get(key) is None:
            raise BadLineError(f'no "{key}"; Anserini would stop reading the file here, or drop the document')
    name, vector = _name(content["id"]), content["vector"]
    if not isinstance(vector, dict):
        raise BadLineError(f'"vector" is a {type(vector).__name__}, not an object {{term: impact}}')
    return name, vector


class LineReader:
    """Parses lines strictly, and checks each distinct term only once."""

    def __init__(self) -> None:
        self._fit: set[str] = set()
        self._longest = 0

    def parse(self, line: bytes) -> tuple[str, dict[str, int]]:
        """``(id, {term: impact})`` of a line; a ``BadLineError`` says what Anserini would do with a bad line."""
        name, vector = parse_line(line)
        return name, self._vector(vector)

    def _vector(self, vector: dict[str, Any]) -> dict[str, int]:
        if not vector:
            raise BadLineError(f'the vector is empty and Anserini would drop the document; write {{"{EMPTY_TERM}": 1}}')
        if vector == {EMPTY_TERM: 1} and type(vector[EMPTY_TERM]) is int:
            return {}
        impacts = vector.values()
        if set(map(type, impacts)) != {int} or min(impacts) < 1 or (largest := max(impacts)) > MAX_IMPACT:
            raise BadLineError(_wrong_impact(vector))
        if not self._fit.issuperset(vector):
            self._check_terms(vector.keys() - self._fit)
        if largest * len(vector) * (self._longest + 1) > MAX_REPEATED_CHARACTERS:
            characters = sum(impact * (len(term) + 1) for term, impact in vector.items())
            if characters > MAX_REPEATED_CHARACTERS:
                raise BadLineError(too_long("the vector", characters))
        return vector

    def _check_terms(self, terms: Iterable[str]) -> None:
        for term in terms:
            if reason := unfit_reason(term):
                raise BadLineError(f"Lucene cannot hold the term {term!r}: {reason}")
            self._fit.add(term)
            self._longest = max(self._longest, len(term))


class _TermNumbers(dict[str, int]):
    """Numbers terms in the order of their first occurrence."""

    longest = 0
    """Characters of the longest term."""

    def __missing__(self, term: str) -> int:
        if reason := unfit_reason(term):
            raise BadLineError(reason)
        self.longest = max(self.longest, len(term))
        number = self[term] = len(self)
        return number


class _ArrayReader:
    """Reads files into arrays. Lines that are not obviously valid go to ``LineReader``, the one validator."""

    def __init__(self) -> None:
        self._validator = LineReader()
        self._numbers = _TermNumbers()
        self._ids: list[str] = []
        self.postings = 0
        """Number of postings read."""
        self._lengths: list[npt.NDArray[np.int64]] = [np.zeros(1, np.int64)]
        self._indices = [np.empty(0, np.int32)]
        self._impacts: list[npt.NDArray[np.integer]] = [np.empty(0, np.uint8)]

    @property
    def documents(self) -> int:
        """Number of documents read."""
        return len(self._ids)

    def read(self, file: Path) -> None:
        """Append the documents of ``file``."""
        with contextlib.closing(numbered_lines(file)) as lines:
            while chunk := list(itertools.islice(lines, CHUNK_LINES)):
                try:
                    self._add([line for _, line in chunk])
                except _MALFORMED:
                    for number, line in chunk:
                        try:
                            self._validator.parse(line)
                        except BadLineError as error:
                            raise LearnedSparseError(f"{file}:{number}: {error}") from None
                    raise

    def batch(self) -> tuple[list[str], SparseBatch]:
        """Ids and impacts of all documents read."""
        indptr = np.cumsum(np.concatenate(self._lengths))
        indices, impacts = np.concatenate(self._indices), np.concatenate(self._impacts)
        return self._ids, SparseBatch(indptr, indices, impacts, list(self._numbers))

    def _add(self, lines: Sequence[bytes]) -> None:
        """Append a chunk of lines; a bad line raises one of ``_MALFORMED``."""
        names: list[str | int] = []
        terms: list[str] = []
        values: list[int] = []
        counts: list[int] = []
        for line in lines:
            content = orjson.loads(line)
            vector = content["vector"]
            if not vector or EMPTY_TERM in vector:
                _, vector = self._validator.parse(line)
            names.append(content["id"])
            terms.extend(vector)
            values.extend(vector.values())
            counts.append(len(vector))
        ids = list(map(str, names))
        if not set(map(type, names)) <= {str, int} or any(map(unfit_id_reason, ids)):
            raise ValueError("an id is no string, or unfit")
        impacts = np.frombuffer(array("i", values), np.int32)  # raises for integers above 32 bits
        if not set(map(type, values)) <= {int} or impacts.min(initial=1) < 1:
            raise ValueError("an impact is no integer above 0")
        indices = np.fromiter(map(self._numbers.__getitem__, terms), np.int32, len(terms))
        if int(impacts.max(initial=0)) * max(counts) * (self._numbers.longest + 1) > MAX_REPEATED_CHARACTERS:
            for line in lines:
                self._validator.parse(line)  # raises if a vector really has too many characters
        self._ids += ids
        self.postings += len(impacts)
        self._lengths.append(np.array(counts, np.int64))
        self._indices.append(indices)
        self._impacts.append(impacts.astype(np.min_scalar_type(impacts.max(initial=0))))


def _compare_with_manifest(folder: Path, files: Sequence[Path], documents: int, postings: int) -> None:
    """Raise if the manifest of ``folder`` records other files, bytes or counts than those read, or no impacts."""
    manifest = Manifest.load(folder)
    where = folder / MANIFEST
    if manifest.kind != "documents":
        raise LearnedSparseError(f"{folder}: encoded {manifest.kind}, not documents; only documents can be searched")
    if not manifest.complete:
        raise LearnedSparseError(f"{where}: not complete; run learned_sparse.encode with --resume")
    if manifest.scoring != "impact":
        raise LearnedSparseError(f"{where}: scored by BM25, not by a sum of impacts; index it, and search the index")
    recorded = {folder / part.file for part in manifest.parts}
    for path in sorted(recorded ^ set(files)):
        problem = "missing" if path in recorded else "not in the manifest"
        raise LearnedSparseError(f"{path}: {problem}; encode again, or search the files without the manifest")
    counts = manifest.counts
    if (documents, postings) != (counts.written, counts.postings):
        raise LearnedSparseError(
            f"{where}: {counts.written:,} documents and {counts.postings:,} impacts in the manifest, "
            f"{documents:,} and {postings:,} read; encode again"
        )
    for part in manifest.parts:
        if sha256(folder / part.file) != part.sha256:
            raise LearnedSparseError(f"{folder / part.file}: not the bytes the manifest records; encode again")


def _name(value: Any) -> str:
    if type(value) not in (str, int):
        raise BadLineError(f'"id" is a {type(value).__name__}, not a string')
    name = str(value)
    if reason := unfit_id_reason(name):
        raise BadLineError(reason)
    return name


def _wrong_impact(vector: dict[str, Any]) -> str:
    term, value = next((t, v) for t, v in vector.items() if type(v) is not int or not 1 <= v <= MAX_IMPACT)
    way_out = "; learned_sparse.index --quantize turns weights into impacts" if type(value) is float else ""
    return (
        f"{term!r} has the impact {value!r}, not an integer from 1 to {MAX_IMPACT}; Anserini would cut or drop it"
        f"{way_out}"
    )


def too_long(name: str, characters: int) -> str:
    """Error message for a vector with too many ``characters``."""
    return (
        f"{name}: Anserini would write this vector as {characters:,} characters, more than the "
        f"{MAX_REPEATED_CHARACTERS:,} it can index; quantise with a smaller factor or fewer bits"
    )


def frequent_terms(frequencies: Mapping[str, int], documents: int, share: float) -> dict[str, int]:
    """Terms in more than ``share`` of ``documents``, with their document frequencies, most frequent first.

    This is corpus-level pruning (SpaDE, section 3.4), with document frequencies of the encoded documents.

    >>> frequent_terms({"hives": 2, "the": 10, "of": 7}, documents=10, share=0.6)
    {'the': 10, 'of': 7}
    """
    # count / documents is the float nearest to the quotient, as is 0.29 in the source; 0.29 * 100 is below 29.
    return {term: count for term, count in by_frequency(frequencies) if count / documents > share}


def by_frequency(frequencies: Mapping[str, int]) -> list[tuple[str, int]]:
    """Terms with their document frequencies, most frequent first, ties by code point."""
    return sorted(frequencies.items(), key=lambda item: (-item[1], item[0]))
