"""Lines of text files, plain or gzip, and the ids and JSON objects in them, checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from learned_sparse.core import LearnedSparseError, raw_lines, unfit_id_reason

ID_KEYS = ("_id", "id", "docid", "doc_id")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WHITE_SPACE = re.compile(r"[ \t\n\r\x0b\f]")


class BadLineError(Exception):
    """A line without a valid document or query.

    ``reason`` is one of a few fixed phrases, by which such lines are counted; ``detail`` describes this line.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        """``detail`` may be empty."""
        super().__init__(f"{reason} ({detail})" if detail else reason)
        self.reason = reason


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    r"""Numbered lines, from 1, without line ends (``\n`` or ``\r\n``); lines of spaces are left out.

    A byte order mark at the beginning of a line is left out too: files that have one are joined with ``cat``.
    """
    return ((number, line) for number, _, line in positioned_lines(raw_lines(path)))


def positioned_lines(lines: Iterable[tuple[int, bytes]], offset: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """The lines of ``read_lines``, with their offsets; the first of ``lines`` is ``offset`` bytes into a file."""
    for number, line in lines:
        start, offset = offset, offset + len(line)
        line = line.rstrip(b"\r\n")
        while line.startswith(_BYTE_ORDER_MARK):
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if line.strip(b" "):
            yield number, start, line


def extension(path: Path) -> str:
    """The extension before a ``.gz``: ``.jsonl`` for ``corpus.jsonl.gz``."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix


def columns(line: bytes, where: str) -> list[str]:
    """The columns of a line, separated by ASCII white space as in trec_eval; a no-break space is part of a column.

    ``where`` (``qrels.txt:3``) opens the message of the ``LearnedSparseError`` for a line that is not UTF-8.
    """
    decode_or_fail(line, where)
    return [column.decode("utf-8") for column in line.split()]


def has_white_space(text: str) -> bool:
    """Whether ``columns`` would split ``text``."""
    return _WHITE_SPACE.search(text) is not None


def decode(line: bytes) -> str:
    """The text of a line; ``BadLineError`` if it is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{error.object[error.start]:02x} at column {error.start + 1}"
        raise BadLineError("not UTF-8", byte) from None


def decode_or_fail(line: bytes, where: str) -> str:
    """The text of a line; ``LearnedSparseError`` if it is not UTF-8."""
    try:
        return decode(line)
    except BadLineError as error:
        raise LearnedSparseError(f"{where}: {error}; convert the file to UTF-8") from None


def json_object(line: bytes) -> dict[str, Any]:
    """The JSON object on a line; ``BadLineError`` if there is none."""
    decode(line)  # orjson reports other encodings as malformed JSON; the byte and its column help more
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadLineError("malformed JSON", f"{error}{_whole_objects(line)}") from None
    if not isinstance(record, dict):
        raise BadLineError("malformed JSON", f"expected an object, got {type(record).__name__}{_whole_objects(line)}")
    return record


def _whole_objects(line: bytes) -> str:
    """What to do about JSON that is not one object a line: an array, an object over several lines, or no JSON."""
    if line.lstrip().startswith(b"["):
        return "; each line must be one object: jq -c '.[]' FILE converts an array"
    return "" if line.lstrip().startswith(b"{") and len(line.strip()) > 1 else "; each line must be one object"


def first_of(record: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """The value of the first of ``keys`` that is present and not null; None if all are missing."""
    return next((record[key] for key in keys if record.get(key) is not None), None)


def check_id(value: object) -> str:
    """An id as text; ``BadLineError`` if it is missing, or if a TREC run or Lucene cannot hold it."""
    if value is None or value == "":
        raise BadLineError("missing id")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadLineError("id is not a string", f"it is of type {type(value).__name__}")
    name = str(value)
    if reason := unfit_id_reason(name):
        raise BadLineError("unusable id", reason)
    return name
