"""Encoded documents to be exported: read strictly, with their counts, and numbered terms."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from learned_sparse.core.errors import LearnedSparseError, progress_bar
from learned_sparse.core.lines import ID_KEYS, BadLineError, first_of, json_object, read_lines
from learned_sparse.index.build import VectorFiles, open_vectors
from learned_sparse.jsonvector.reader import read_vectors

Vector = Mapping[str, int]
FIELD = "impacts"
"""Name of the field or column of vectors."""
VOCABULARY = "vocabulary.txt"
"""File with the terms, one a line, in formats that number them."""
HITS = 1000
"""Hits of each exported query."""
MAX_BYTES = 10_000_000
"""Size of a file that is sent in one request; the smallest limit of managed OpenSearch."""


@dataclass(frozen=True)
class Documents:
    """``(id, {term: impact})`` of documents, read from their files at each iteration, and their counts."""

    vectors: VectorFiles
    count: int
    postings: int
    largest_impact: int
    most_terms: int
    """Maximum number of terms of a document."""
    terms: tuple[str, ...]
    """All terms, ascending by code point; the number of a term is its position."""
    fields: tuple[str, ...] = ()
    """Fields of the encoded files to be stored beside the vectors."""

    @classmethod
    def open(cls, folders: Sequence[Path], fields: Sequence[str] = ()) -> Documents:
        """Check manifests as ``learned_sparse.index`` does, and count in one pass over all documents."""
        files = open_vectors(folders)
        if files.scoring != "impact":
            raise LearnedSparseError(f"{folders[0]}: scored by BM25, not by a sum of impacts; exports are dot products")
        count = postings = largest = most = 0
        terms: set[str] = set()
        for _, vector in _read(files):
            count += 1
            postings += len(vector)
            most = max(most, len(vector))
            largest = max(largest, *vector.values(), 0)
            terms.update(vector)
        return cls(files, count, postings, largest, most, tuple(sorted(terms)), tuple(fields))

    def __iter__(self) -> Iterator[tuple[str, Vector]]:
        """Documents in the order of the files; an empty dict for an empty vector."""
        return _read(self.vectors)

    def with_fields(self) -> Iterator[tuple[str, Vector, dict[str, object]]]:
        """Id, vector and ``fields`` of each document. A document without a field is returned without it.

        The fields are read again from the JSON lines that were encoded. ``LearnedSparseError`` if these are not the
        documents in the order of the vectors, or if no document has a field.
        """
        missing = set(self.fields)
        lines = self._lines() if self.fields else iter(())
        for id, vector in self:
            record: dict[str, object] = {}
            if self.fields:
                record = next((record for record in lines if str(first_of(record, ID_KEYS)) == id), record)
                if not record:
                    raise LearnedSparseError(
                        f"--fields: document {id!r} does not follow the one before it in the encoded files, which have "
                        "changed, or the vectors are of several shards; encode the files again, without shards"
                    )
            missing.difference_update(record)
            yield id, vector, {name: record[name] for name in self.fields if name in record}
        if missing:
            raise LearnedSparseError(f"--fields: no document has {', '.join(map(repr, sorted(missing)))}")

    def _lines(self) -> Iterator[dict[str, Any]]:
        """JSON objects of the encoded files, without malformed lines, which were reported when they were encoded."""
        inputs = [entry for manifest in self.vectors.manifests for entry in manifest.input]
        files = [Path(entry["file"]) for entry in inputs if "file" in entry]
        if not files or any(Path(file.name.removesuffix(".gz")).suffix not in {".jsonl", ".json"} for file in files):
            raise LearnedSparseError("--fields: the vectors were not encoded from JSON lines")
        for file in files:
            for _, line in read_lines(file):
                with contextlib.suppress(BadLineError):
                    yield json_object(line)


def numbered(vectors: Iterable[tuple[str, Vector]], terms: Sequence[str]) -> Iterator[tuple[str, list[int], list[int]]]:
    """``(id, term numbers, impacts)`` of each vector, numbers ascending. All terms must be in ``terms``.

    >>> list(numbered([("d1", {"itch": 2, "hives": 3})], ["hives", "itch"]))
    [('d1', [0, 1], [3, 2])]
    """
    number_of = {term: number for number, term in enumerate(terms)}
    for name, vector in vectors:
        pairs = sorted((number_of[term], impact) for term, impact in vector.items())
        yield name, [number for number, _ in pairs], [impact for _, impact in pairs]


def write_parts(folder: Path, name: str, records: Iterable[bytes], before: bytes = b"", after: bytes = b"") -> None:
    """Write ``records`` to files of at most ``MAX_BYTES``, unless one record is longer; at least one file.

    ``points.json`` becomes ``points-00000.json``, ... ``before`` and ``after`` open and close each file, with commas
    between records.
    """
    stem, _, suffix = name.partition(".")
    part: list[bytes] = []
    size = number = 0

    def flush() -> None:
        content = before + (b"," if before else b"").join(part) + after
        (folder / f"{stem}-{number:05d}.{suffix}").write_bytes(content)

    for record in records:
        if part and size + len(record) + 1 + len(before) + len(after) > MAX_BYTES:
            flush()
            part, size, number = [], 0, number + 1
        part.append(record)
        size += len(record) + 1
    if part or not number:
        flush()


def json_line(content: object) -> bytes:
    """``content`` as JSON and a line end."""
    return orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE)


def _read(files: VectorFiles) -> Iterator[tuple[str, Vector]]:
    return iter(progress_bar(read_vectors(*files.files), "vectors", "documents", files.documents))
