"""TREC CAR's CBOR files, one record at a time; a paragraph becomes a document.

The format is that of the track's own ``trec-car-tools``, and so are the texts: a paragraph's runs of text and the
anchors of its links, put together without anything between. Files begin with ``["CAR", [kind], provenance]`` and hold
an array without a stated length, or (release 1.5) are the bare records one after the other.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from learned_sparse.collections.document_formats import BadLineError, check_id, check_text
from learned_sparse.core import Document, LearnedSparseError

PARAGRAPHS = ".cbor"
OUTLINES = ".outlines"
_KINDS = ("pages", "outlines", "paragraphs")
"""Named by number in the header."""
_LIST, _BREAK = b"\x9f", b"\xff"


def read_paragraphs(path: Path) -> Iterator[tuple[int, Any]]:
    """``(1, first paragraph)`` and so on, as CBOR has them; see ``parse_paragraph``."""
    return enumerate(read_records(path, "paragraphs"), start=1)


def parse_paragraph(record: object) -> Document:
    """``[0, id, bodies]`` as a document.

    A body is ``[0, text]``, or a link ``[1, [0, page, section, page id, anchor]]``.

    >>> link = [0, "Chelonia", [], b"enwiki:Chelonia", "sea turtles"]
    >>> parse_paragraph([0, b"6f3a", [[0, "Green "], [1, link], [0, " swim."]]])
    Document(id='6f3a', text='Green sea turtles swim.', expanded='')
    """
    try:
        tag, name, bodies = cast(Any, record)
        if tag != 0:
            raise BadLineError("not a paragraph", f"the record has the tag {tag!r}")
        text = "".join(_body(*body) for body in bodies)
        return check_text(Document(check_id(name.decode("ascii")), text.strip()))
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise BadLineError("not a paragraph", str(error)) from None


def read_records(path: Path, kind: str) -> Iterator[Any]:
    """The records of a CBOR file of ``kind``, plain or gzip; only the current one is in memory.

    ``LearnedSparseError`` for another kind, a file that is damaged or cut off, or where ``cbor2`` is missing.
    """
    cbor2 = _cbor2(path)
    number = 0
    with _opened(path) as file:
        decoder = cbor2.CBORDecoder(file)
        try:
            first = decoder.decode()
            listed = isinstance(first, list) and first[:1] == ["CAR"]
            if listed:
                _check_header(first, kind, path)
                if decoder.read(1) != _LIST:
                    raise LearnedSparseError(f"{path}: no list of {kind} after the header; fetch the file again")
            else:
                number = 1
                yield first
            while size := _next_size(decoder, cbor2, path, listed):
                number += 1
                yield [decoder.decode() for _ in range(size)]
        except cbor2.CBORDecodeError as error:
            raise LearnedSparseError(f"{path}, record {number}: damaged or cut-off CBOR data ({error})") from error


def _next_size(decoder: Any, cbor2: Any, path: Path, listed: bool) -> int:
    """How many items the record that begins here has; 0 at the end, which in a list is a sign of its own."""
    try:
        begin = decoder.read(1)
    except cbor2.CBORDecodeEOF:
        if listed:
            raise
        return 0
    if begin == _BREAK and listed:
        return 0
    if not 0x81 <= begin[0] <= 0x97:  # an array of 1 to 23 items, in one byte
        raise LearnedSparseError(f"{path}: byte 0x{begin[0]:02x} where a record begins; is this a file of TREC CAR?")
    return cast(int, begin[0] - 0x80)


def _body(tag: int, content: Any) -> str:
    if tag not in {0, 1}:
        raise ValueError(f"a part of the text has the unknown tag {tag!r}")
    text = content if tag == 0 else content[4]
    if not isinstance(text, str):
        raise TypeError(f"a part of the text is of type {type(text).__name__}")
    return text


def _check_header(header: list[Any], kind: str, path: Path) -> None:
    number = header[1][0] if len(header) > 1 and isinstance(header[1], list) and header[1] else None
    found = _KINDS[number] if isinstance(number, int) and 0 <= number < len(_KINDS) else f"kind {number!r}"
    if found != kind:
        raise LearnedSparseError(f"{path}: holds {found}, not {kind}; name another file of TREC CAR")


def _cbor2(path: Path) -> Any:
    try:
        import cbor2
    except ImportError:
        raise LearnedSparseError(
            f"{path}: cbor2, which reads TREC CAR's files, is not installed; pip install 'learned-sparse[data]'"
        ) from None
    return cbor2


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise LearnedSparseError(f"{path}: no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LearnedSparseError(f"{path}: damaged or cut-off gzip data; fetch the file again") from error
    except OSError as error:
        raise LearnedSparseError(f"{path}: cannot be read ({error.strerror})") from error
