"""Lines of plain and gzip files in bounded memory; what they hold, checked: JSON objects, ids, terms."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from learned_sparse.core.errors import LearnedSparseError, folder_kind, not_found

ID_KEYS = ("_id", "id", "docid", "doc_id")
EMPTY_TERM = "[empty-vector]"
"""The only term of a document with an empty vector, which Anserini would drop; no query contains this term."""
NO_TERMS = "[no-terms]"
"""Placeholder for a query without terms in a topics file, where Pyserini cannot read an empty text; no document
contains this term."""
BM25_PREFIX = "b:"
"""Begins the terms of BM25 in vectors that join a model with it."""
RESERVED = frozenset({EMPTY_TERM, NO_TERMS})

LONGEST_TERM = 254
"""Maximum length in UTF-16 units (Java characters): Lucene's whitespace tokenizer splits longer terms."""

MAX_ID_BYTES = 32766
"""Maximum length of an id in UTF-8: Lucene's limit for a term that is not analyzed."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_LINE_VARIABLE = "LEARNED_SPARSE_MAX_LINE_MB"
"""Environment variable with the maximum length of a line in MB (2**20 bytes), decompressed."""
MAX_LINE_MB = 64
"""Its default. One line of a gzip file can decompress to a thousand times the size of the file."""

_GZIP = b"\x1f\x8b"  # no UTF-8 text begins so
_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive or an Excel file; unpack it, or save the sheet as tab-separated text",
    b"%PDF-": "a PDF file; extract its text into JSON lines",
    b"PAR1\x15": "a Parquet file; convert it to JSON lines",
    b"(\xb5/\xfd": "zstd data; unpack it, or compress it with gzip",
    b"\xff\xfe": "UTF-16 text; convert it with iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "UTF-16 text; convert it with iconv -f UTF-16 -t UTF-8",
}
"""First bytes of files that hold no lines of UTF-8, and the way out."""


class BadLineError(LearnedSparseError):
    """A line without a valid document or query.

    ``reason`` is one of a few fixed phrases, by which such lines are counted; ``detail`` describes this line.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        """``detail`` may be empty."""
        super().__init__(f"{reason} ({detail})" if detail else reason)
        self.reason = reason


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The text of ``read_lines``; ``LearnedSparseError`` for a line that is not UTF-8."""
    for number, line in read_lines(path):
        try:
            yield number, line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise LearnedSparseError(f"{path}:{number}: {_not_utf8(error)}") from None


def decode(line: bytes) -> str:
    """The text of a line; ``BadLineError`` if it is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_utf8(error) from None


def _not_utf8(error: UnicodeDecodeError) -> BadLineError:
    byte = f"byte 0x{error.object[error.start]:02x} at column {error.start + 1}"
    return BadLineError("not UTF-8", f"{byte}; convert the file")


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
    name, reason = str(value), ""
    # Pyserini splits lines at all that Python takes for white space, trec_eval ends an id at NUL, and a byte order mark
    # in front is no part of a line.
    if name.split() != [name] or "\0" in name or name.startswith("\ufeff"):
        reason = f"the id {name[:60]!r} is empty or holds white space, which a TREC run cannot hold"
    elif len(name) > MAX_ID_BYTES // 4 and (size := len(name.encode("utf-8", "surrogatepass"))) > MAX_ID_BYTES:
        reason = f"the id {name[:60]!r}... has {size:,} bytes, and Lucene holds {MAX_ID_BYTES:,}"
    elif not name.isprintable() and any("\ud800" <= character <= "\udfff" for character in name):
        reason = f"the id {name[:60]!r} holds half a surrogate pair, which UTF-8 cannot encode"
    if reason:
        raise BadLineError("unusable id", f"{reason}; rename it")
    return name


def unfit_reason(term: str) -> str | None:
    """Reason why Lucene, Pyserini or a file cannot store ``term``; None if they can.

    >>> unfit_reason("new york")
    'it holds white space and would be split'
    >>> unfit_reason("##ing") is None
    True
    """
    if term.isascii() and term.isprintable() and " " not in term and len(term) < LONGEST_TERM and term[:1] != "[":
        return None if term else "it is empty"  # most terms, without the slower checks; reserved ones begin with "["
    # White space in Python includes all white space in Java; Pyserini splits topics at Python's white space.
    if term.split() != [term]:
        return "it holds white space and would be split"
    if len(term) > LONGEST_TERM // 2 and len(term.encode("utf-16-le", "surrogatepass")) // 2 > LONGEST_TERM:
        return f"it is longer than {LONGEST_TERM} characters and would be split"
    if not term.isprintable() and any("\ud800" <= character <= "\udfff" for character in term):
        return "it holds half a surrogate pair, which UTF-8 cannot encode"
    if term in RESERVED:
        return "this spelling is reserved for empty vectors"
    return None


def read_lines(path: Path, *, raw: bool = False) -> Generator[tuple[int, bytes], None, None]:
    r"""Lines with their numbers, from 1, without line ends (``\n`` or ``\r\n``) and without lines of spaces.

    Byte order marks are stripped from every line, because concatenated files have them in the middle. ``raw``: all
    lines, as they are in the file.

    A file named ``*.gz`` is decompressed, all members of it. ``LearnedSparseError``: no regular file (a pipe could be
    read only once), a file of another format such as Excel's, damaged gzip data, gzip data under another name, or a
    line longer than ``MAX_LINE_VARIABLE`` says.
    """
    text = os.environ.get(MAX_LINE_VARIABLE) or str(MAX_LINE_MB)
    if not (text.isascii() and text.isdigit() and len(text) < 9 and 0 < int(text) <= 2**20):
        raise LearnedSparseError(f"{MAX_LINE_VARIABLE}={text}: give a number of MB, 1 to {2**20:,}")
    number, limit = 0, int(text) << 20
    try:
        if not path.is_file():
            if not path.exists():
                raise not_found(path)
            kind = folder_kind(path) or "a folder" if path.is_dir() else "a pipe or a device"
            raise LearnedSparseError(f"{path}: {kind}, not a regular file; name a file")
        with path.open("rb") as stream:
            first = stream.peek(8)
            if problem := next((text for start, text in _OTHER_FORMATS.items() if first.startswith(start)), ""):
                raise LearnedSparseError(f"{path}:1: {problem}")
            compressed = first.startswith(_GZIP)
            if compressed != (path.suffix == ".gz"):
                problem = "gzip data, but not named .gz" if compressed else "named .gz, but not gzip data"
                raise LearnedSparseError(f"{path}: {problem}; rename the file")
            file = io.BufferedReader(gzip.GzipFile(fileobj=stream)) if compressed else stream
            while line := file.readline(limit + 1):
                number += 1
                if len(line) > limit:
                    raise LearnedSparseError(
                        f"{path}:{number}: a line longer than {limit >> 20} MB; is this a file of lines? "
                        f"If it is, set {MAX_LINE_VARIABLE} to a larger number"
                    )
                if not raw:
                    line = line.rstrip(b"\r\n")
                    while line.startswith(_BYTE_ORDER_MARK):
                        line = line.removeprefix(_BYTE_ORDER_MARK)
                if raw or line.strip(b" "):
                    yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LearnedSparseError(
            f"{path}:{number + 1}: damaged or cut-off gzip data ({error}); get the file again"
        ) from error
    except OSError as error:
        raise LearnedSparseError(f"{path}: cannot be read ({error.strerror or error})") from error
