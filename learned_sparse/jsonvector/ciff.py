"""Common Index File Format files as encoded documents.

A CIFF file (Lin et al., SIGIR 2020; field numbers from CommonIndexFileFormat.proto of osirrc/ciff) is a Header, a
PostingsList for each term and a DocRecord for each document: protocol buffer messages, each after its length. Document
numbers of a postings list are gaps. Term frequencies are taken as impacts.
"""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from learned_sparse.core import LearnedSparseError, LuceneTerms, SparseBatch, new_folder, wrong_path
from learned_sparse.jsonvector.writer import open_part

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_POSTING = (0x22, 0x08, 0x10)
"""Tags of a posting in a list, of its gap and of its frequency."""
_MAX_MESSAGE = 2**31
_PART_DOCUMENTS = 50_000
_CHUNK = 256

Fields = dict[int, Any]


def read_ciff(path: Path) -> tuple[list[str], SparseBatch]:
    """Ids and impacts of all documents of a CIFF file, gzipped or not; 20 bytes of memory for each posting."""
    if not path.is_file():
        raise wrong_path(path, "a CIFF file", "name the file", "file")
    with contextlib.closing(cast(BinaryIO, gzip.open(path) if path.suffix == ".gz" else path.open("rb"))) as file:
        try:
            return _read(file, path)
        except (EOFError, IndexError, ValueError, gzip.BadGzipFile) as error:
            raise LearnedSparseError(f"{path}: no readable CIFF file ({error}); copy or export it again") from error


def convert_ciff(path: Path, output: Path) -> tuple[int, int]:
    """Write the documents of a CIFF file as JsonVectorCollection files; returns the numbers of documents and postings.

    ``output`` must not exist or be empty; it is written whole or not at all.
    """
    ids, impacts = read_ciff(path)
    terms = LuceneTerms(impacts.terms)
    with new_folder(output) as folder:
        if output.exists() and any(output.iterdir()):
            raise LearnedSparseError(f"{output}: exists and holds files; name another folder")
        for part, first in enumerate(range(0, len(ids), _PART_DOCUMENTS)):
            with open_part(folder / f"part-{part:05d}.jsonl") as lines:
                for start in range(first, min(first + _PART_DOCUMENTS, len(ids)), _CHUNK):
                    chunk = ids[start : min(start + _CHUNK, first + _PART_DOCUMENTS)]
                    lines.add(chunk, [""] * len(chunk), impacts.rows(start, start + len(chunk)), terms)
    return len(ids), len(impacts.values)


def _read(file: BinaryIO, path: Path) -> tuple[list[str], SparseBatch]:
    header = _fields(_message(file))
    lists, documents = header.get(2, 0), header.get(3, 0)
    terms: list[str] = []
    numbers, columns, impacts = [np.empty(0, np.int64)], [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    for column in range(lists):
        term, gaps, values = _postings_list(_message(file))
        terms.append(term)
        numbers.append(np.cumsum(gaps))
        columns.append(np.full(len(gaps), column, np.int32))
        impacts.append(values)
    ids = [_document_id(_fields(_message(file)), number) for number in range(documents)]
    if file.read(1):
        raise ValueError("bytes after the last document")
    if len(set(ids)) != len(ids):
        raise LearnedSparseError(f"{path}: documents repeat an id; one of them must go before the file is exported")
    rows, values = np.concatenate(numbers), np.concatenate(impacts)
    if len(rows) and not 0 <= rows.min() <= rows.max() < documents:
        raise ValueError(f"a postings list has the document number {rows.max()}, of {documents}")
    order = np.argsort(rows, kind="stable")  # columns ascend within a row
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=documents))]).astype(np.int64)
    return ids, SparseBatch(indptr, np.concatenate(columns)[order], values[order], terms)


def _document_id(record: Fields, number: int) -> str:
    if record.get(1, 0) != number:
        raise ValueError(f"document {number} has the number {record.get(1, 0)}")
    return str(record[2], "utf-8")


def _postings_list(message: bytes) -> tuple[str, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Term, gaps and frequencies. A list without a gap of 0 is a sequence of varints, six for each posting."""
    fields, start = {}, 0
    for field, value, end in _parsed(message):
        if field == 4:
            break
        fields[field], start = value, end
    numbers = _varints(message[start:])
    if len(numbers) % 6 == 4:  # the first document has the number 0, which is not written
        numbers = np.concatenate([numbers[:2], [_POSTING[1], 0], numbers[2:]])
    postings = numbers.reshape(-1, 6)
    if not (postings[:, [0, 2, 4]] == _POSTING).all() or len(postings) != fields.get(2, 0):
        raise ValueError(
            f"the postings of {fields.get(1)!r} are not {fields.get(2, 0)} document numbers and frequencies"
        )
    return str(fields[1], "utf-8"), postings[:, 3], postings[:, 5]


def _varints(data: bytes) -> npt.NDArray[np.int64]:
    """All base-128 numbers in ``data``: seven bits a byte, lowest first; the last byte of each is below 128."""
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets < 128)
    if len(octets) and (not len(ends) or ends[-1] != len(octets) - 1):
        raise ValueError("it ends within a number")
    starts = np.concatenate([[0], ends[:-1] + 1])[: len(ends)]
    lengths = ends - starts + 1
    values = np.zeros(len(ends), np.int64)
    for place in range(int(lengths.max(initial=0))):
        longer = lengths > place
        values[longer] |= (octets[starts[longer] + place].astype(np.int64) & 127) << (7 * place)
    return values


def _fields(message: bytes) -> Fields:
    return {field: value for field, value, _ in _parsed(message)}


def _parsed(message: bytes) -> Iterator[tuple[int, Any, int]]:
    """Number and value of each field of a message, and the position after it."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        if tag & 7 == _VARINT:
            value, position = _varint(message, position)
            yield tag >> 3, value, position
            continue
        if tag & 7 == _BYTES:
            size, position = _varint(message, position)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}.get(tag & 7, len(message) + 1)
        if position + size > len(message):
            raise ValueError("a message ends within a field")
        position += size
        yield tag >> 3, message[position - size : position], position


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while message[position] >= 128:
        value |= (message[position] & 127) << shift
        position, shift = position + 1, shift + 7
    return value | message[position] << shift, position + 1


def _message(file: BinaryIO) -> bytes:
    size = b""
    while not size or size[-1] >= 128:
        if not (octet := file.read(1)) or len(size) > 9:
            raise ValueError("it ends before its last document")
        size += octet
    length, _ = _varint(size, 0)
    if length > _MAX_MESSAGE or len(message := file.read(length)) != length:
        raise ValueError("it ends within a message")
    return message
