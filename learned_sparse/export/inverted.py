"""Inverted indexes of research engines: CIFF files, and index folders of PISA."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import MAX_IMPACT
from learned_sparse.core.records import SparseBatch
from learned_sparse.export.documents import Documents, Vector
from learned_sparse.jsonvector.reader import load_vectors

CIFF_FILE = "documents.ciff"
PISA_TERMS = "fwd.terms"
QUERIES = "queries.txt"
Array = npt.NDArray[Any]


def export_ciff(documents: Documents, folder: Path) -> None:
    """Write ``documents.ciff``. Memory: as the exact searcher, 5 to 8 bytes per posting."""
    write_ciff(folder / CIFF_FILE, *load_vectors(documents.vectors.files))


def export_pisa(documents: Documents, folder: Path) -> dict[str, Any]:
    """Write an index folder of PISA; memory as for CIFF. The record has the number of terms with capitals."""
    write_pisa(folder, *load_vectors(documents.vectors.files))
    return {"terms_with_capitals": sum(term != term.lower() for term in documents.terms)}


def export_queries(queries: Mapping[str, Vector], folder: Path, terms: Sequence[str]) -> None:
    """Write ``queries.txt``: term numbers, each as often as its impact."""
    number_of = {term: str(number) for number, term in enumerate(terms)}
    with (folder / QUERIES).open("xb") as file:
        for name, query in queries.items():
            if ":" in name:
                raise LearnedSparseError(f"query {name!r}: PISA reads the id up to the first colon; rename it")
            numbers = " ".join(" ".join([number_of[term]] * impact) for term, impact in query.items())
            file.write(f"{name}:{numbers}\n".encode())


def write_ciff(path: Path, ids: Sequence[str], impacts: SparseBatch) -> None:
    """Write impacts as a Common Index File Format file.

    The file is a Header, a PostingsList for each term (in the order of the terms) and a DocRecord for each document,
    each message after its length. Document numbers in a postings list are gaps (Lin et al., "Supporting
    Interoperability Between Open-Source Search Engines with the Common Index File Format", SIGIR 2020; field numbers
    from CommonIndexFileFormat.proto of osirrc/ciff).
    """
    lengths = _lengths(ids, impacts)
    total = int(lengths.sum())
    filled = len(np.unique(impacts.indices))
    with path.open("xb") as file:
        header = _numbers((1, 1), (2, filled), (3, len(ids)), (4, filled), (5, len(ids)), (6, total))
        average = b"\x39" + np.array([total / max(len(ids), 1)], "<f8").tobytes()  # field 7, 64-bit
        _write_message(file, header + average + _text(8, "impacts of learned_sparse"))
        for term, documents, values in postings_lists(impacts):
            gaps = np.diff(documents, prepend=0)
            counts = _numbers((2, len(documents)), (3, int(values.sum(dtype=np.int64))))
            _write_message(file, _text(1, term) + counts + _postings(gaps, values))
        for number, (name, length) in enumerate(zip(ids, lengths.tolist(), strict=True)):
            _write_message(file, _numbers((1, number)) + _text(2, name) + _numbers((3, length)))


def write_pisa(folder: Path, ids: Sequence[str], impacts: SparseBatch) -> None:
    """Write impacts as an uncompressed collection of PISA, with lexicons, as pyterrier-pisa lays an index out.

    ``inv.docs``, ``inv.freqs`` and ``inv.sizes`` are sequences of 32-bit integers, each after its length; the first
    sequence of ``inv.docs`` is the number of documents. ``*lex`` is a payload vector: the number of texts, their
    offsets (64-bit), and the texts (PISA's guide, "Inverted index" and "Lexicon").
    """
    terms: list[str] = []
    with (folder / "inv.docs").open("xb") as documents_file, (folder / "inv.freqs").open("xb") as impacts_file:
        documents_file.write(_sequence(np.array([len(ids)])))
        for term, documents, values in postings_lists(impacts):
            terms.append(term)
            documents_file.write(_sequence(documents))
            impacts_file.write(_sequence(values))
    (folder / "inv.sizes").write_bytes(_sequence(_lengths(ids, impacts)))
    for name, lexicon, texts in (("fwd.terms", "fwd.termlex", terms), ("fwd.documents", "fwd.doclex", ids)):
        (folder / name).write_bytes(_lines(texts))
        (folder / lexicon).write_bytes(_payload_vector(texts))
    meta = {"type": "sparse_index", "format": "pisa", "package_hint": "pyterrier-pisa", "stemmer": "none"}
    (folder / "pt_meta.json").write_text(json.dumps(meta), encoding="utf-8", newline="")


def postings_lists(impacts: SparseBatch) -> Iterator[tuple[str, Array, Array]]:
    """``(term, document numbers, impacts)`` of each term that a document has, terms ascending by code point."""
    columns = impacts.to_scipy().tocsc()  # document numbers ascend in each column
    bounds = columns.indptr.tolist()
    for term, number in sorted((term, number) for number, term in enumerate(impacts.terms)):
        start, end = bounds[number], bounds[number + 1]
        if end > start:
            yield term, columns.indices[start:end], columns.data[start:end]


def _lengths(ids: Sequence[str], impacts: SparseBatch) -> npt.NDArray[np.int64]:
    """Sum of the impacts of each document."""
    sums = np.concatenate([[0], np.cumsum(impacts.values, dtype=np.int64)])
    lengths: npt.NDArray[np.int64] = np.diff(sums[impacts.indptr])
    if len(lengths) and lengths.max() > MAX_IMPACT:
        name = ids[int(lengths.argmax())]
        raise LearnedSparseError(f"{name!r}: its impacts add up to more than {MAX_IMPACT:,}; quantise with fewer bits")
    return lengths


def _sequence(numbers: Array) -> bytes:
    return np.concatenate([[len(numbers)], numbers]).astype("<u4").tobytes()


def _payload_vector(texts: Sequence[str]) -> bytes:
    payloads = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, payloads)])
    return np.concatenate([[len(payloads)], offsets]).astype("<u8").tobytes() + b"".join(payloads)


def _lines(texts: Iterable[str]) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


# Protocol buffers: a field is its number * 8 + its type (0: varint, 1: 64 bits, 2: bytes after their length).


def _write_message(file: BinaryIO, message: bytes) -> None:
    file.write(_varint(len(message)))
    file.write(message)


def _varint(number: int) -> bytes:
    """Seven bits a byte, lowest first; the high bit marks that more follow.

    >>> _varint(300).hex()
    'ac02'
    """
    digits = bytearray()
    while number >= 0x80:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


def _numbers(*fields: tuple[int, int]) -> bytes:
    return b"".join(_varint(field << 3) + _varint(number) for field, number in fields)


def _text(field: int, text: str) -> bytes:
    encoded = text.encode()
    return _varint(field << 3 | 2) + _varint(len(encoded)) + encoded


def _postings(gaps: Array, impacts: Array) -> bytes:
    """Field 4 of a PostingsList for each posting: a message of gap (field 1) and impact (field 2)."""
    lists = [_varints(gaps), _varints(impacts)]
    content = np.zeros((len(gaps), 14), np.uint8)
    used = np.ones(content.shape, bool)
    for start, field, (digits, in_use) in zip((3, 9), (1, 2), lists, strict=True):
        content[:, start - 1], content[:, start : start + 5], used[:, start : start + 5] = field << 3, digits, in_use
    content[:, 0], content[:, 1] = 4 << 3 | 2, used[:, 2:].sum(axis=1)  # field, length: below 128, one byte
    return content[used].tobytes()


def _varints(numbers: Array) -> tuple[Array, Array]:
    """``(numbers, 5)`` bytes of each number below 2**35 as a varint, and which of them are in use."""
    shifted = numbers.astype(np.int64)[:, None] >> np.arange(0, 42, 7)
    more = shifted[:, 1:] > 0
    used = np.hstack([np.ones((len(numbers), 1), bool), more[:, :-1]])
    return shifted[:, :-1] & 0x7F | more << 7, used
