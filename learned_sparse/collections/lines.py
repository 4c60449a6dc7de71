"""Lines of text files, plain or gzip, and the ids and JSON objects in them, checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.lines import raw_lines
from learned_sparse.core.terms import unfit_id_reason

ID_KEYS = ("_id", "id", "docid", "doc_id")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class BadLineError(Exception):
    """A line without a valid document or query.

    ``reason`` is one of a few fixed phrases, by which such lines are counted; ``detail`` describes this line.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        """``detail`` may be empty."""
        super().__init__(f"{reason} ({detail})" if detail else reason)
        self.reason = reason


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    r"""Numbered lines, from 1, without line ends (``\n`` or ``\r\n``) and without lines of spaces.

    Byte order marks are stripped from every line, because concatenated files have them in the middle.
    """
    for number, line in raw_lines(path):
        line = line.rstrip(b"\r\n")
        while line.startswith(_BYTE_ORDER_MARK):
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if line.strip(b" "):
            yield number, line


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The text of ``read_lines``; ``LearnedSparseError`` for a line that is not UTF-8."""
    for number, line in read_lines(path):
        try:
            yield number, decode(line)
        except BadLineError as error:
            raise LearnedSparseError(f"{path}:{number}: {error}") from None


def extension(path: Path) -> str:
    """The extension before a ``.gz``: ``.jsonl`` for ``corpus.jsonl.gz``."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix


def decode(line: bytes) -> str:
    """The text of a line; ``BadLineError`` if it is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{error.object[error.start]:02x} at column {error.start + 1}"
        raise BadLineError("not UTF-8", f"{byte}; convert the file") from None


def json_object(line: bytes) -> dict[str, Any]:
    """The JSON object on a line; ``BadLineError`` if there is none."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        decode(line)  # orjson reports other encodings as malformed JSON; the byte and its column help more
        problem = str(error)
    else:
        if isinstance(record, dict):
            return record
        problem = f"expected an object, got {type(record).__name__}"
    raise BadLineError("malformed JSON", f"{problem}; each line must be one object, jq -c '.[]' FILE converts an array")


def first_of(record: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """The value of the first of ``keys`` that has content; without one "" or [] if a key has it, else None.

    >>> first_of({"text": "", "contents": "words"}, ("text", "contents")), first_of({"text": ""}, ("text", "contents"))
    ('words', '')
    """
    empty = None
    for key in keys:
        value = record.get(key)
        if value is not None:
            if value != "" and value != []:
                return value
            empty = value
    return empty


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
