"""Queries out of files: every form of topics that Pyserini reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import orjson

from learned_sparse.collections.car import OUTLINES
from learned_sparse.collections.car_outlines import read_outlines
from learned_sparse.collections.document_formats import ID_KEYS, BadLineError, check_id, extension, first_of
from learned_sparse.collections.lines import decode, read_lines
from learned_sparse.core import LearnedSparseError, Query, without_mark

_ID_KEYS = (*ID_KEYS, "qid", "query_id")
_LINE_END = re.compile(r"\s*\n\s*")
_TEXT_KEYS = ("text", "title", "query", "contents")
_LABEL = r"(\s*(?:Number|Topic|Description|Narrative):)?"  # "<num> Number: 301"
_TAG = re.compile(rf"</?(?P<name>top|num|title|desc|narr)\b[^>]*>{_LABEL}", re.IGNORECASE)


def read_queries(path: str | Path) -> list[Query]:
    """The queries of a file in its order, texts stripped of white space at both ends and on one line.

    By extension (each also with ``.gz``): ``.tsv`` and ``.txt`` are ``id<TAB>text`` (TREC CAR's ``enwiki:`` lines too),
    ``.jsonl`` one object a line, ``.json`` one object ``{id: {"title": text}}``, ``.outlines`` TREC CAR's CBOR; files
    that start with ``<top`` are classic TREC topics, whose title is the query. A bad line, a repeated id or an empty
    text is always an error: to leave out a query would change the mean.
    """
    path = Path(path)
    if extension(path) == OUTLINES:
        return read_outlines(path)
    lines = list(_decoded(path))
    if not lines:
        raise LearnedSparseError(f"{path}: no queries")
    queries: dict[str, Query] = {}
    for where, name, text in _reader(path, lines[0][1])(lines):
        query = Query(_identifier(name, where), _LINE_END.sub(" ", without_mark(text).strip()))
        if query.id in queries:
            raise LearnedSparseError(f"{where}: query {query.id!r} was given before; keep one of them")
        if not query.text:
            raise LearnedSparseError(f"{where}: query {query.id!r} has an empty text; take it out")
        queries[query.id] = query
    return list(queries.values())


Lines = Iterable[tuple[str, str]]
Topics = Iterator[tuple[str, Any, str]]
"""Where a topic stands, its id as found, and its text."""


def _reader(path: Path, first_line: str) -> Callable[[Lines], Topics]:
    if first_line.lstrip().lower().startswith("<top"):
        return _trec_topics
    readers = {".tsv": _tab_separated, ".txt": _tab_separated, ".jsonl": _json_lines, ".json": _json_object}
    reader = readers.get(extension(path))
    if reader is None:
        raise LearnedSparseError(
            f"{path}: unknown kind of topics; expected {', '.join([*readers, OUTLINES])} (each also with .gz), "
            "or TREC's <top> ..."
        )
    return reader


def _tab_separated(lines: Lines) -> Topics:
    for where, line in lines:
        if "\t" not in line and line.startswith("enwiki:"):  # TREC CAR: the id is the text, spelled as in a URL
            yield where, line.strip(), unquote_plus(line.strip().removeprefix("enwiki:"))
            continue
        columns = line.split("\t")
        if len(columns) != 2:
            raise LearnedSparseError(f"{where}: {len(columns)} columns; expected an id, a tab and the query's text")
        yield where, columns[0].strip(" "), columns[1]


def _json_lines(lines: Lines) -> Topics:
    for where, line in lines:
        record = _parse_object(line, where)
        yield where, first_of(record, _ID_KEYS), _query_text(record, where)


def _json_object(lines: Lines) -> Topics:
    lines = list(lines)
    where = lines[0][0]
    for name, record in _parse_object("\n".join(line for _, line in lines), where).items():
        yield where, name, record if isinstance(record, str) else _query_text(record, f"{where}: query {name!r}")


def _trec_topics(lines: Lines) -> Topics:
    topic: dict[str, str] = {}
    field, start = "", ""
    for where, line in lines:
        place = 0
        for tag in _TAG.finditer(line):
            topic[field] = topic.get(field, "") + line[place : tag.start()]
            place, field = tag.end(), tag["name"].lower()
            if field == "top" and not tag[0].startswith("</"):
                topic, start = {}, where
            elif field == "top":
                yield _trec_topic(topic, start)
                start = ""
            elif tag[0].startswith("</"):
                field = ""
        topic[field] = topic.get(field, "") + line[place:] + "\n"
    if start:
        raise LearnedSparseError(f"{start}: <top> without </top>; is the file cut off?")


def _trec_topic(topic: Mapping[str, str], where: str) -> tuple[str, str, str]:
    for field in ("num", "title"):
        if not topic.get(field, "").strip():
            raise LearnedSparseError(f"{where}: the topic has no <{field}>")
    return where, topic["num"].strip(), topic["title"].strip()


def _decoded(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in read_lines(path):
        where = f"{path}:{number}"
        yield where, decode(line, where)


def _identifier(value: object, where: str) -> str:
    try:
        return check_id(value)
    except BadLineError as error:
        raise LearnedSparseError(f"{where}: {error}") from None


def _parse_object(text: str, where: str) -> dict[str, Any]:
    try:
        record = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise LearnedSparseError(f"{where}: malformed JSON ({error})") from None
    if not isinstance(record, dict):
        raise LearnedSparseError(f"{where}: expected a JSON object, got {type(record).__name__}")
    return record


def _query_text(record: object, where: str) -> str:
    text = first_of(record, _TEXT_KEYS) if isinstance(record, Mapping) else None
    if not isinstance(text, str):
        raise LearnedSparseError(f"{where}: no text under the keys {', '.join(map(repr, _TEXT_KEYS))}")
    return text
