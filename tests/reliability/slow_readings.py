"""Slow and obvious readings of lines of text files, written apart from the readers of the package.

Each takes the number and the bytes of a line and returns a record, None if the line must be refused, or ``SKIPPED``.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any
from urllib.parse import unquote_plus

OTHER_FORMATS = (b"\x1f\x8b", b"PK\x03\x04", b"%PDF-", b"PAR1\x15", b"(\xb5/\xfd", b"\xff\xfe", b"\xfe\xff")
"""How files that are refused as a whole begin: gzip, zip, PDF, Parquet, zstd and UTF-16."""
SKIPPED = object()
"""A line that is no record and no error."""


def slow_lines(content: bytes, *, marks: bool = True) -> list[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers, without line ends.

    ``marks``: byte order marks at the beginning of lines are left out; a line is blank if it has only spaces. Else a
    line is blank if it has only white space.
    """
    lines = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        while line.endswith(b"\r"):
            line = line[:-1]
        while marks and line.startswith(b"\xef\xbb\xbf"):
            line = line[3:]
        if line.translate(None, b" " if marks else b" \t\n\r\x0b\x0c"):
            lines.append((number, line))
    return lines


def slow_json(line: bytes) -> dict[str, Any] | None:
    """The JSON object of a line as orjson should see it; None if there is none."""

    def refuse(_: str) -> None:
        raise ValueError

    def number(text: str) -> float:
        if not math.isfinite(value := float(text)):
            raise ValueError
        return value

    def integer(text: str) -> float:
        value = int(text)
        return value if -(2**63) <= value < 2**64 else float(value)

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        json.dumps(pairs, ensure_ascii=False).encode("utf-8")  # no half of a surrogate pair in any of the pairs
        return dict(pairs)

    try:
        content = json.loads(
            line.decode("utf-8"), parse_constant=refuse, parse_float=number, parse_int=integer,
            object_pairs_hook=fields,
        )  # fmt: skip
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def slow_id(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value)
    if not text or any(character.isspace() or character == "\0" for character in text) or text[0] == "\ufeff":
        return None
    return text if len(text.encode("utf-8")) <= 32766 else None


def slow_text(line: bytes) -> str | None:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return None


def first(content: dict[str, Any], keys: str) -> Any:
    values = [content[key] for key in keys.split() if content.get(key) is not None]
    return next((value for value in values if value not in ("", [])), values[-1] if values else None)


def slow_json_document(_: int, line: bytes) -> Any:
    content = slow_json(line)
    if content is None or (name := slow_id(first(content, "_id id docid doc_id"))) is None:
        return None
    title, text = content.get("title"), first(content, "text contents content segment")
    expanded = first(content, "expanded predicted_queries")
    expanded = [] if expanded is None else expanded if isinstance(expanded, list) else [expanded]
    if not isinstance(text, str) or not isinstance(title, str | None):
        return None
    if not all(isinstance(part, str) for part in expanded):
        return None
    joined = f"{title} {text}" if title and text else title or text
    more = " ".join(expanded).replace("\x1f", " ")
    return name, joined.replace("\x1f", " "), more if more.strip() else ""


def slow_tsv_document(_: int, line: bytes) -> Any:
    text = slow_text(line)
    if text is None or "\t" not in text or "\r" in text.rpartition("\t")[0]:
        return None
    name, *parts = text.split("\t")
    return (slow_id(name), " ".join(filter(None, parts)).replace("\x1f", " "), "") if slow_id(name) else None


def slow_query_text(text: str) -> str:
    return re.sub(r"\s*[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*", " ", text.replace("\x1f", " ").strip())


def slow_tsv_query(_: int, line: bytes) -> Any:
    text = slow_text(line)
    if text is None:
        return None
    if "\t" not in text and text.startswith("enwiki:"):
        name = slow_id(text.strip())
        return name and (name, slow_query_text(unquote_plus(text.strip().removeprefix("enwiki:"))))
    if text.count("\t") != 1 or slow_id(text.partition("\t")[0].strip(" ")) is None:
        return None
    return text.partition("\t")[0].strip(" "), slow_query_text(text.partition("\t")[2])


def slow_json_query(_: int, line: bytes) -> Any:
    content = slow_json(line)
    if content is None or (name := slow_id(first(content, "_id id docid doc_id qid query_id"))) is None:
        return None
    text = first(content, "text title query contents")
    return (name, slow_query_text(text)) if isinstance(text, str) else None


def slow_judgement(number: int, line: bytes) -> Any:
    parts = re.findall(rb"[^ \t\n\r\x0b\x0c]+", line)
    if slow_text(line) is None:
        return None
    if number == 1 and len(parts) == 3 and parts[2].decode().isalpha():
        return SKIPPED
    if len(parts) not in {3, 4} or not re.fullmatch(rb"-?[0-9]{1,9}", parts[-1]):
        return None
    return parts[0].decode(), parts[-2].decode(), int(parts[-1])


def slow_hit(_: int, line: bytes) -> Any:
    parts = re.findall(rb"[^ \t\n\r\x0b\x0c]+", line)
    if slow_text(line) is None or len(parts) != 6:
        return None
    if not re.fullmatch(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", parts[4]):
        return None
    score = float(parts[4])
    return (parts[0].decode(), parts[2].decode(), score) if math.isfinite(score) else None


def slow_term(term: str) -> bool:
    blank = not term or any(character.isspace() for character in term)
    return not blank and term not in {"[empty-vector]", "[no-terms]"} and len(term.encode("utf-16-le")) <= 508


def slow_vector(_: int, line: bytes) -> Any:
    content = slow_json(line)
    if content is None or (name := slow_id(content.get("id"))) is None:
        return None
    vector = content.get("vector")
    if not isinstance(vector, dict) or not vector:
        return None
    if not all(type(impact) is int and 1 <= impact < 2**31 for impact in vector.values()):
        return None
    if vector == {"[empty-vector]": 1}:
        return name, {}
    if sum(impact * (len(term) + 1) for term, impact in vector.items()) > 2**30:
        return None
    return (name, vector) if all(map(slow_term, vector)) else None


def slow_topic(_: int, line: bytes) -> Any:
    text = slow_text(line)
    if text is None or text.count("\t") != 1:
        return None
    name, terms = text.lstrip("\ufeff").split("\t")
    counts = Counter(terms.split())
    if slow_id(name) is None or not counts:
        return None
    if counts == {"[no-terms]": 1}:
        return name, {}
    return (name, dict(counts)) if all(map(slow_term, counts)) else None


def slow_triple(_: int, line: bytes) -> Any:
    text = slow_text(line)
    if text is None or text.count("\t") != 2:
        return None
    parts = tuple(part.strip() for part in text.lstrip("\ufeff").split("\t"))
    return parts if all(parts) else SKIPPED
