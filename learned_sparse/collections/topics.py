"""Queries of files: every format of topics that Pyserini reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus
from xml.etree import ElementTree

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.lines import (
    ID_KEYS,
    BadLineError,
    check_id,
    first_of,
    json_object,
    text_lines,
)
from learned_sparse.core.records import EXPANDED

_ID_KEYS = (*ID_KEYS, "qid", "query_id")
_TEXT_KEYS = ("text", "title", "query", "contents")
_TOPIC = re.compile(r"<top\b.*?(?=<top\b|\Z)", re.IGNORECASE | re.DOTALL)
_FIELD = re.compile(
    r"<(?P<name>num|title)\b[^<>]*>(?:\s*(?:Number|Topic):)?(?P<text>.*?)(?=</?(?:top|num|title|desc|narr)\b)",
    re.IGNORECASE | re.DOTALL,
)  # "<num> Number: 301"

Lines = Iterable[tuple[int, str]]
Topics = Iterable[tuple[int, Any]]
"""Line number and unparsed content of each topic."""
Parse = Callable[[Any], tuple[Any, Any]]
"""From the content of a topic to its id and its text, both unchecked; ``BadLineError`` if it is malformed."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query (TREC: a topic)."""

    id: str
    text: str


def read_queries(path: str | Path) -> list[Query]:
    """The queries of a file in their order; each text is on one line, without tabs and without white space at its ends.

    The extension (each also with ``.gz``) decides the format: ``.tsv`` and ``.txt`` hold ``id<TAB>text`` lines or
    TREC CAR's ``enwiki:`` lines, ``.jsonl`` one object a line, ``.json`` one object ``{id: {"title": text}}``. With any
    extension, a file that starts with ``<top>`` holds classic TREC topics, whose title is the query; one that starts
    with ``<topics`` or ``<?xml`` holds ``<topic number="1">`` elements with a ``<query>`` (TREC-COVID) or ``<title>``.
    A malformed topic or a repeated id is an error, because a missing query would change the mean of every measure. A
    query with an empty text is kept: it has no hits, and measures count it as 0.
    """
    path = Path(path)
    lines = text_lines(path)
    first = next(lines, None)
    if first is None:
        raise LearnedSparseError(f"{path}: no queries")
    start, extension = first[1].lstrip().lower(), Path(path.name.removesuffix(".gz")).suffix
    kind = next((kind for kind in ("<topics", "<?xml", "<top") if start.startswith(kind)), extension)
    if kind not in _FORMATS:
        raise LearnedSparseError(
            f"{path}: unknown kind of topics; expected .tsv, .txt, .jsonl, .json (each also with .gz), TREC's <top> or "
            "XML; convert or rename it"
        )
    split, parse = _FORMATS[kind]
    queries: dict[str, Query] = {}
    number = 1
    try:
        for number, content in split(chain([first], lines)):  # noqa: B007 -- for the message
            name, text = parse(content)
            if not isinstance(text, str):
                raise BadLineError(f"query {name!r}: no text under the keys {', '.join(map(repr, _TEXT_KEYS))}")
            parts = map(str.strip, text.replace(EXPANDED, " ").replace("\t", "\n").splitlines())
            query = Query(check_id(name), " ".join(filter(None, parts)))
            if query.id in queries:
                raise BadLineError(f"query {query.id!r} was given before; keep one of them")
            queries[query.id] = query
    except BadLineError as error:
        raise LearnedSparseError(f"{path}:{number}: {error}") from None
    if not queries:
        raise LearnedSparseError(f"{path}: no queries")
    return list(queries.values())


def _tab_separated(line: str) -> tuple[str, str]:
    if "\t" not in line and line.startswith("enwiki:"):  # TREC CAR: the id is the text, percent-encoded
        return line.strip(), unquote_plus(line.strip().removeprefix("enwiki:"))
    columns = line.split("\t")
    if len(columns) != 2:
        raise BadLineError(f"{len(columns)} columns; expected an id, a tab and the query's text")
    return columns[0].strip(" "), columns[1]


def _json_line(line: str) -> tuple[Any, Any]:
    record = json_object(line.encode("utf-8"))
    return first_of(record, _ID_KEYS), first_of(record, _TEXT_KEYS)


def _json_members(lines: Lines) -> Topics:
    text = "\n".join(line for _, line in lines)
    json_object(text.encode("utf-8"))
    return zip(repeat(1), json.loads(text, object_pairs_hook=tuple))  # orjson keeps only the last of two equal keys


def _json_member(member: tuple[str, Any]) -> tuple[str, Any]:
    name, record = member
    return name, first_of(dict(record), _TEXT_KEYS) if isinstance(record, tuple) else record


def _trec_topics(lines: Lines) -> Topics:
    """Texts from each ``<top>`` to the next."""
    numbers, texts = zip(*lines, strict=True)
    text = "\n".join(texts)
    for topic in _TOPIC.finditer(text):
        yield numbers[text.count("\n", 0, topic.start())], topic[0]


def _trec_topic(topic: str) -> tuple[str, str]:
    if len(re.findall(r"</top\s*>", topic, re.IGNORECASE)) != 1 or not topic.rstrip().endswith(">"):
        raise BadLineError("<top> and </top> do not alternate; is a line missing, or the file cut off?")
    fields: dict[str, str] = {}
    for field in _FIELD.finditer(topic):
        name = field["name"].lower()
        if name in fields:
            raise BadLineError(f"<{name}> is given twice in one topic; is </top> missing?")
        fields[name] = field["text"].strip()
    for name in ("num", "title"):
        if name not in fields:
            raise BadLineError(f"the topic has no <{name}>")
    return fields["num"], fields["title"]


def _xml_elements(lines: Lines) -> Topics:
    try:
        root = ElementTree.fromstring("\n".join(line for _, line in lines))  # noqa: S314 -- expat limits expansion
    except ElementTree.ParseError as error:
        raise BadLineError("malformed XML", str(error)) from None
    return zip(repeat(1), root.iter("topic"))


def _xml_topic(topic: ElementTree.Element) -> tuple[str | None, str]:
    text = next((field for name in ("query", "title") if (field := topic.find(name)) is not None), None)
    if text is None:
        raise BadLineError(f"topic {topic.get('number')!r} has neither <query> nor <title>")
    return topic.get("number"), "".join(text.itertext())


_FORMATS: dict[str, tuple[Callable[[Lines], Topics], Parse]] = {
    ".tsv": (iter, _tab_separated),
    ".txt": (iter, _tab_separated),
    ".jsonl": (iter, _json_line),
    ".json": (_json_members, _json_member),
    "<top": (_trec_topics, _trec_topic),
    "<topics": (_xml_elements, _xml_topic),
    "<?xml": (_xml_elements, _xml_topic),
}
"""How topics are divided and parsed, by the beginning of the file or its extension."""
