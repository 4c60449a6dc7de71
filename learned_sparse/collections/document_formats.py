"""One line of a collection file becomes a document, or a reason why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from learned_sparse.collections.lines import has_white_space, not_utf8
from learned_sparse.core import Document, LearnedSparseError, without_mark

ID_KEYS = ("_id", "id", "docid", "doc_id")
TEXT_KEYS = ("text", "contents", "content", "segment")
TITLE_KEYS = ("title",)
EXPANDED_KEYS = ("expanded", "predicted_queries")


class BadLineError(Exception):
    """A line that is no document: ``reason`` is one of few words to count by, ``detail`` says more about this line."""

    def __init__(self, reason: str, detail: str = "") -> None:
        """``detail`` is empty where the reason says it all."""
        super().__init__(f"{reason} ({detail})" if detail else reason)
        self.reason = reason


Parse = Callable[[bytes], Document]


def parse_json(line: bytes) -> Document:
    """BEIR's, Pyserini's and Anserini's JSON lines.

    ``_id``, ``id`` or ``docid``; ``text`` or ``contents``; a ``title`` is put in front with a space between (Anserini's
    BeirFlatCollection puts a line end there). ``expanded`` or ``predicted_queries`` (of docT5query) is what expands the
    text: a string, or a list of strings that are joined with spaces. Numbers are taken as ids; other keys mean nothing.
    """
    record = _json_object(line)
    name = check_id(first_of(record, ID_KEYS))
    title, text = first_of(record, TITLE_KEYS), first_of(record, TEXT_KEYS)
    if text is None:
        raise BadLineError("missing text", f"none of the keys {', '.join(map(repr, TEXT_KEYS))}")
    for key, value in (("title", title), ("text", text)):
        if value is not None and not isinstance(value, str):
            raise BadLineError("text is not a string", f"the {key} is of type {type(value).__name__}")
    return check_text(Document(name, f"{title} {text}" if title else text, _expanded(first_of(record, EXPANDED_KEYS))))


def _expanded(value: Any) -> str:
    texts: list[Any] = [] if value is None else value if isinstance(value, list) else [value]
    for text in texts:
        if not isinstance(text, str):
            raise BadLineError("expanded text is no string", f"nor a list of strings: {type(text).__name__}")
    return " ".join(texts)


def parse_tsv(line: bytes) -> Document:
    """MS MARCO's tab-separated lines: an id, then text.

    Passages have one text column; documents have three (URL, title, body), joined with spaces, as in Anserini's index.
    """
    columns = _text(line).split("\t")
    if len(columns) < 2:
        raise BadLineError("too few columns", "expected an id, a tab and text")
    return check_text(Document(check_id(columns[0]), " ".join(column for column in columns[1:] if column)))


def parser_for(path: Path) -> Parse:
    """How to read the lines of ``path``, going by its extension (with or without ``.gz``)."""
    parse = PARSERS.get(extension(path))
    if parse is None:
        raise LearnedSparseError(
            f"{path}: unknown kind of file; documents are read from {', '.join(PARSERS)}, .cbor (each also with .gz); "
            "rename it, or move it out of the folder"
        )
    return parse


def extension(path: Path) -> str:
    """The extension before a ``.gz``: ``.jsonl`` for ``corpus.jsonl.gz``."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix


PARSERS: Mapping[str, Parse] = {".jsonl": parse_json, ".json": parse_json, ".tsv": parse_tsv, ".txt": parse_tsv}


def first_of(record: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """The value of the first of ``keys`` that is there and not null."""
    return next((record[key] for key in keys if record.get(key) is not None), None)


def check_id(value: object) -> str:
    """An id as text; ``BadLineError`` where it is missing or cannot stand in a TREC run."""
    if value is None or value == "":
        raise BadLineError("missing id")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadLineError("id is not a string", f"it is of type {type(value).__name__}")
    name = str(value)
    if has_white_space(name):
        raise BadLineError("white space in id", f"{name!r}; a TREC run has no place for it")
    return name


def check_text(document: Document) -> Document:
    """The document, as it may be handed on (see ``without_mark``); ``BadLineError`` where its text is empty."""
    text, expanded = without_mark(document.text), without_mark(document.expanded)
    if not text.strip():
        raise BadLineError("empty text", f"document {document.id!r}")
    return Document(document.id, text, expanded if expanded.strip() else "")


def _json_object(line: bytes) -> dict[str, Any]:
    _text(line)  # orjson calls other encodings malformed JSON; the byte and its place help more
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadLineError("malformed JSON", str(error)) from None
    if not isinstance(record, dict):
        raise BadLineError("malformed JSON", f"expected one object a line, got {type(record).__name__}")
    return record


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadLineError("not UTF-8", not_utf8(error).removeprefix("not UTF-8: ")) from None
