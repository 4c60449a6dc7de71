"""Queries of files: every format of topics that Pyserini reads."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

from learned_sparse.collections.lines import (
    ID_KEYS,
    BadLineError,
    check_id,
    decode_or_fail,
    extension,
    first_of,
    json_object,
    read_lines,
)
from learned_sparse.core import LearnedSparseError, Query, without_mark

_ID_KEYS = (*ID_KEYS, "qid", "query_id")
_TEXT_KEYS = ("text", "title", "query", "contents")
_LABEL = r"(\s*(?:Number|Topic|Description|Narrative):)?"  # "<num> Number: 301"
_TAG = re.compile(rf"</?(?P<name>top|num|title|desc|narr)\b[^<>]*>{_LABEL}", re.IGNORECASE)

Lines = Iterable[tuple[str, str]]
"""The location of a line (``topics.tsv:3``) and its text."""
Topics = Iterator[tuple[str, Any, str]]
"""The location of a topic, its unchecked id, and its text."""


def read_queries(path: str | Path) -> list[Query]:
    """The queries of a file in their order; each text is on one line, without tabs and without white space at its ends.

    The extension (each also with ``.gz``) decides the format: ``.tsv`` and ``.txt`` hold ``id<TAB>text`` lines or
    TREC CAR's ``enwiki:`` lines, ``.jsonl`` one object a line, ``.json`` one object ``{id: {"title": text}}``. A file
    that starts with ``<top`` holds classic TREC topics; the title is the query. A malformed line or a repeated id is
    always an error, because leaving out a query would change the mean of every measure. A query with an empty text is
    kept: it has no hits, and measures count it as 0.
    """
    path = Path(path)
    lines = ((f"{path}:{number}", decode_or_fail(line, f"{path}:{number}")) for number, line in read_lines(path))
    first = next(lines, None)
    queries: dict[str, Query] = {}
    for where, name, text in _reader(path, first[1])(chain([first], lines)) if first else ():
        try:
            query = Query(check_id(name), _on_one_line(without_mark(text)))
        except BadLineError as error:
            raise LearnedSparseError(f"{where}: {error}") from None
        if query.id in queries:
            raise LearnedSparseError(f"{where}: query {query.id!r} was given before; keep one of them")
        queries[query.id] = query
    if not queries:
        raise LearnedSparseError(f"{path}: no queries")
    return list(queries.values())


def _reader(path: Path, first_line: str) -> Callable[[Lines], Topics]:
    if first_line.lstrip().lower().startswith("<top"):
        return _trec_topics
    readers = {".tsv": _tab_separated, ".txt": _tab_separated, ".jsonl": _json_lines, ".json": _json_topics}
    reader = readers.get(extension(path))
    if reader is None:
        raise LearnedSparseError(
            f"{path}: unknown kind of topics; expected {', '.join(readers)} (each also with .gz), or TREC's <top> ...; "
            "convert or rename the file"
        )
    return reader


def _tab_separated(lines: Lines) -> Topics:
    for where, line in lines:
        if "\t" not in line and line.startswith("enwiki:"):  # TREC CAR: the id is the text, percent-encoded
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


def _json_topics(lines: Lines) -> Topics:
    lines = list(lines)
    where, text = lines[0][0], "\n".join(line for _, line in lines)
    records = _parse_object(text, where)
    _check_repeated(text, where)
    for name, record in records.items():
        yield where, name, record if isinstance(record, str) else _query_text(record, f"{where}: query {name!r}")


def _trec_topics(lines: Lines) -> Topics:
    topic: dict[str, str] = {}
    field, start = "", ""
    for where, line in lines:
        offset = 0
        for tag in _TAG.finditer(line):
            topic[field] = topic.get(field, "") + line[offset : tag.start()]
            offset, field = tag.end(), tag["name"].lower()
            closing = tag[0].startswith("</")
            if field == "top" and closing == (not start):
                raise LearnedSparseError(f"{start or where}: <top> and </top> do not alternate; is a line missing?")
            if field == "top" and not closing:
                topic, start = {}, where
            elif field == "top":
                yield _trec_topic(topic, start)
                start = ""
            elif closing:
                field = ""
            elif field in topic:
                raise LearnedSparseError(f"{where}: <{field}> is given twice in one topic; is </top> missing?")
        topic[field] = topic.get(field, "") + line[offset:] + "\n"
    if start:
        raise LearnedSparseError(f"{start}: <top> without </top>; is the file cut off?")


def _trec_topic(topic: Mapping[str, str], where: str) -> tuple[str, str, str]:
    if not topic.get("num", "").strip():
        raise LearnedSparseError(f"{where}: the topic has no <num>")
    if "title" not in topic:
        raise LearnedSparseError(f"{where}: the topic has no <title>")
    return where, topic["num"].strip(), topic["title"].strip()


def _check_repeated(text: str, where: str) -> None:
    """Raise if the JSON object ``text`` has the same key twice: orjson keeps the last one silently."""
    try:
        names = Counter(name for name, _ in json.loads(text, object_pairs_hook=list))
    except RecursionError:
        raise LearnedSparseError(f"{where}: malformed JSON (nested too deep)") from None
    for name, count in names.items():
        if count > 1:
            raise LearnedSparseError(f"{where}: query {name!r} is given {count} times; keep one of them")


def _on_one_line(text: str) -> str:
    """``text`` with a space in place of each line end or tab and the white space around it."""
    return " ".join(filter(None, map(str.strip, text.replace("\t", "\n").splitlines())))


def _parse_object(text: str, where: str) -> dict[str, Any]:
    try:
        return json_object(text.encode("utf-8"))
    except BadLineError as error:
        raise LearnedSparseError(f"{where}: {error}") from None


def _query_text(record: object, where: str) -> str:
    text = first_of(record, _TEXT_KEYS) if isinstance(record, Mapping) else None
    if not isinstance(text, str):
        raise LearnedSparseError(f"{where}: no text under the keys {', '.join(map(repr, _TEXT_KEYS))}")
    return text
