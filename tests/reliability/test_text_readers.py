"""Files of text lines: what a good line says is read, and any other line is refused with its file and number."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import find, given
from hypothesis import strategies as st

from learned_sparse.collections.documents import read_documents
from learned_sparse.collections.topics import read_queries
from learned_sparse.collections.trec import read_qrels, read_run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.lines import MAX_LINE_VARIABLE
from learned_sparse.jsonvector.queries import read_topics
from learned_sparse.jsonvector.reader import read_vectors
from tests.reliability.scale import generated, refusal

ODD = ["..", "../../x", "C:\\x", "007", "-0", "NaN", "<b>", "é", "e\u0301", "\U0001f600", "%2e", "日" * 254, "[x]"]
LETTERS = st.characters(exclude_categories=["Cs"]).filter(lambda c: not c.isspace() and c not in "\0\ufeff")
WORDS = st.sampled_from(ODD) | st.text(LETTERS, min_size=1, max_size=8)
"""Ids, terms, and words of texts."""
TEXTS = st.lists(WORDS, max_size=3).map(" ".join)
TERMS = st.dictionaries(WORDS, st.integers(1, 300), min_size=1, max_size=3)
SCORES = st.floats(width=32, allow_nan=False, allow_infinity=False)
Line = tuple[str, Any]
"""A line without its end, and the record in it."""


@st.composite
def json_documents(draw: st.DrawFn) -> Line:
    id, title, text, expanded = draw(WORDS), draw(TEXTS), draw(TEXTS), draw(st.lists(WORDS, max_size=2))
    fields: dict[str, Any] = {
        draw(st.sampled_from(["id", "_id", "docid"])): id,
        draw(st.sampled_from(["text", "contents"])): text,
    }
    fields |= ({"title": title} if title else {}) | ({"expanded": expanded} if expanded else {})
    line = json.dumps(fields, ensure_ascii=draw(st.booleans()))
    return line, (id, " ".join(filter(None, (title, text))), " ".join(expanded))


def json_line(record: Any, **fields: Any) -> Line:
    return json.dumps(fields), record


def impacts(id: str, vector: dict[str, int]) -> Line:
    return json_line((id, vector), id=id, contents="", vector=vector or {"[empty-vector]": 1})


def repeated_terms(id: str, vector: dict[str, int]) -> Line:
    terms = " ".join(" ".join([term] * count) for term, count in vector.items())
    return f"{id}\t{terms or '[no-terms]'}", (id, vector)


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A reader of files named ``*suffix``, lines that it reads, and lines that it refuses."""

    suffix: str
    read: Callable[[Path], Any]
    """The records of a file, in any order."""
    good: st.SearchStrategy[Line]
    bad: tuple[str | bytes, ...]
    key: int = 1
    """Columns of a record that make it unique."""
    repeats: bool = True
    """Whether a repeated line is refused with its number."""
    empty: bool = False
    """Whether a file may be empty."""
    marks: bool = True
    """Whether byte order marks may begin lines."""


NUMBERS = ("NaN", "Infinity", "1e400", "-1", "0", "1.0", "1.5", "2147483648", "1" + "0" * 30, "true", '"1"', "null")
JSON: tuple[str | bytes, ...] = (
    "{", "[]", "7", b"\xff", "x" * 99, '{"text": "x", "contents": "x", "query": "x", "vector": {"a": 1}}',
    *(f'{{"id": {id}, "text": "x", "vector": {{"a": 1}}}}' for id in (
        '"a b"', '""', "true", "1.5", "1e400", '"a\\u0000"', '"\\ufeffa"', '"a\\u2028b"', '"\\ud800"',
        f'"{"x" * 40_000}"',
    )),
    '{"id": "x", "text": "\\udfff", "vector": {"\\ud800": 1}}', '{"id": "x", "text": NaN, "vector": {"a": NaN}}',
)  # fmt: skip
VECTORS = (
    *(f'{{"id": "x", "vector": {{"a": {number}}}}}' for number in NUMBERS),
    '{"id": "x"}', '{"id": "x", "vector": {}}', '{"id": "x", "vector": [1]}', '{"id": "x", "vector": {"a b": 1}}',
    '{"id": "x", "vector": {"": 1}}', f'{{"id": "x", "vector": {{"{"x" * 255}": 1}}}}',
    f'{{"id": "x", "vector": {{"{chr(0x1F600) * 128}": 1}}}}',
)  # fmt: skip
TEXT = ('{"id": "x"}', '{"id": "x", "text": 3}', '{"id": "x", "text": ["x"]}')
COLUMNS: tuple[str | bytes, ...] = ("one", "\tno id", "a b\tx", b"\xff\tx")
GRADES = tuple(f"q 0 d {grade}" for grade in ("1.0", "1_0", "\u0663", "9" * 5000, "2147483648", "--1", "-", "+1"))
FLOATS = ("nan", "inf", "-Infinity", "1e400", "1_000", "\u0663", "0x10", "1,5")


def documents(path: Path) -> list[Any]:
    return [(document.id, document.text, document.expanded) for document in read_documents(path)]


def queries(path: Path) -> list[Any]:
    return [(query.id, query.text) for query in read_queries(path)]


READERS = {
    "documents.jsonl": Reader(suffix=".jsonl", read=documents, good=json_documents(), bad=(*JSON, *TEXT)),
    "documents.tsv": Reader(
        suffix=".tsv", read=documents, bad=COLUMNS,
        good=st.builds(lambda id, text: (f"{id}\t{text}", (id, text, "")), WORDS, TEXTS),
    ),
    "queries.jsonl": Reader(
        suffix=".jsonl", read=queries, bad=(*JSON, *TEXT),
        good=st.builds(lambda id, text: json_line((id, text), qid=id, query=text), WORDS, TEXTS),
    ),
    "queries.tsv": Reader(
        suffix=".tsv", read=queries, bad=(*COLUMNS, "a\tb\tc"),
        good=st.builds(lambda id, text: (f"{id}\t{text}", (id, text)), WORDS, TEXTS),
    ),
    "judgements": Reader(
        suffix=".txt", key=2, repeats=False, bad=(*GRADES, "q 0 d", "q 0 d 1 1", b"\xff 0 d 1"),
        read=lambda path: [(q, d, grade) for q, grades in read_qrels(path).items() for d, grade in grades.items()],
        good=st.builds(lambda q, d, grade: (f"{q} 0 {d} {grade}", (q, d, grade)), WORDS, WORDS, st.integers(-9, 9)),
    ),
    "run": Reader(
        suffix=".txt", key=2, empty=True, bad=(*(f"q Q0 d 1 {score} tag" for score in FLOATS), "q Q0 d 1 1.0", b"\xff"),
        read=lambda path: [(q, d, score) for q, hits in read_run(path).items() for d, score in hits],
        good=st.builds(lambda q, d, score: (f"{q} Q0 {d} 1 {score!r} tag", (q, d, score)), WORDS, WORDS, SCORES),
    ),
    "vectors.jsonl": Reader(
        suffix=".jsonl", read=lambda path: list(read_vectors(path)), bad=(*JSON, *VECTORS), empty=True, marks=False,
        good=st.builds(impacts, WORDS, TERMS | st.just({})),
    ),
    "encoded queries.tsv": Reader(
        suffix=".tsv", read=lambda path: list(read_topics(path).items()), bad=(*COLUMNS[:3], "q\t", "q\t" + "x" * 255),
        good=st.builds(repeated_terms, WORDS, TERMS.map(lambda t: {k: v % 9 + 1 for k, v in t.items()}) | st.just({})),
        marks=False,
    ),
}  # fmt: skip
EVERY = pytest.mark.parametrize("name", READERS)


def refused(read: Callable[[Path], Any], path: Path) -> str:
    """The message after the path: one short line."""
    message = refusal(read, path)
    assert message
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


def line_bytes(line: str | bytes) -> bytes:
    return line if isinstance(line, bytes) else line.encode()


def save(path: Path, content: bytes, *, pack: bool) -> Path:
    """Write the file, or two gzip members of it."""
    half = len(content) // 2
    path.write_bytes(gzip.compress(content[:half]) + gzip.compress(content[half:]) if pack else content)
    return path


@EVERY
def test_good_lines_are_read_and_a_bad_one_is_named(name: str, tmp_path: Path) -> None:
    """With ends of lines, blank lines and byte order marks of several kinds, plain and packed."""
    reader, outcomes = READERS[name], Counter[bool]()
    marks = [b"\n\xef\xbb\xbf"] if reader.marks else []
    ends = st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\n \r\n", *marks])

    @generated
    @given(st.data())
    def check(data: st.DataObject) -> None:
        lines = data.draw(st.lists(reader.good, min_size=1, max_size=4, unique_by=lambda line: line[1][: reader.key]))
        repeated = [lines[0][0]] if reader.repeats else []
        bad = data.draw(st.none() | st.sampled_from([*reader.bad, *repeated]))
        end = data.draw(ends)
        content = data.draw(st.sampled_from([b"", b"\n", *(b"\xef\xbb\xbf" for _ in marks)]))
        content += b"".join(line_bytes(line) + end for line, _ in lines)
        number = content.count(b"\n") + 1
        content += b"" if bad is None else line_bytes(bad)
        pack = data.draw(st.booleans())
        path = save(tmp_path / f"file{reader.suffix}{'.gz' * pack}", content, pack=pack)
        outcomes[bad is None] += 1
        if bad is None:
            assert sorted(map(repr, reader.read(path))) == sorted(repr(record) for _, record in lines)
        else:
            assert refused(reader.read, path).startswith(f":{number}:")

    check()
    assert len(outcomes) == 2


@EVERY
def test_any_bytes_are_read_or_refused(name: str, tmp_path: Path) -> None:
    """Good lines with a piece cut out and another one put in its place."""
    reader = READERS[name]
    odd = ['"', "\\ud800", "\t", "\n", "\ufeff", "\0", "1e999", "{}", " "]
    pieces = st.binary(max_size=6) | st.sampled_from(odd).map(str.encode)

    @generated
    @given(st.lists(reader.good, min_size=1, max_size=3), pieces, st.data())
    def check(lines: list[Line], piece: bytes, data: st.DataObject) -> None:
        content = b"\n".join(line_bytes(line) for line, _ in lines)
        start, cut = data.draw(st.integers(0, len(content))), data.draw(st.integers(0, 9))
        path = save(tmp_path / f"file{reader.suffix}", content[:start] + piece + content[start + cut :], pack=False)
        assert (refusal(reader.read, path) or str(path)).startswith(str(path))

    check()


@EVERY
def test_files_that_are_refused_as_a_whole(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = READERS[name]
    content = f"{find(reader.good, lambda _: True)[0]}\n".encode()
    path, packed = tmp_path / f"file{reader.suffix}", tmp_path / f"file{reader.suffix}.gz"
    assert refused(reader.read, path).startswith(": no such file")
    os.mkfifo(path)
    assert "not a regular file" in refused(reader.read, path)
    path.unlink()
    path.write_bytes(b"")
    if reader.empty:
        assert not reader.read(path)
    else:
        assert refused(reader.read, path).startswith(": no ")
    for data in (content + b"\xe9", content.decode().encode("utf-16")):
        path.write_bytes(data)
        assert re.match(r":\d+: ", refused(reader.read, path))
    path.write_bytes(gzip.compress(content))
    assert "gzip data, but not named .gz; rename the file" in refused(reader.read, path)
    monkeypatch.setenv(MAX_LINE_VARIABLE, "1")
    path.write_bytes(content + b"a" * (2**20 + 1))
    assert refused(reader.read, path).startswith(":2: a line longer than 1 MB; is this a file of lines? If it is, set")
    for damaged in (gzip.compress(content)[:-3], gzip.compress(content) + b"garbage", b"\x1f\x8b"):
        packed.write_bytes(damaged)
        assert "damaged or cut-off gzip data" in refused(reader.read, packed)
    packed.write_bytes(content)
    assert "named .gz, but not gzip data" in refused(reader.read, packed)
    packed.write_bytes(gzip.compress(content + b"a" * (2**20 + 1)))
    assert "a line longer than 1 MB" in refused(reader.read, packed)


def test_separators_of_unicode_split_no_line_and_no_column(tmp_path: Path) -> None:
    path, odd = tmp_path / "c.tsv", "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e"
    path.write_text(f"d1\ta{odd}b\n", encoding="utf-8")
    assert documents(path) == [("d1", f"a{odd}b", "")]
    path.write_text("q\u2028 0 d\x85\u2029 1\n", encoding="utf-8")
    assert read_qrels(path) == {"q\u2028": {"d\x85\u2029": 1}}
    path.write_text("q1\tone\u2028two \x85 three\r\n", encoding="utf-8")
    assert queries(path) == [("q1", "one two three")]  # a query is one line


@pytest.mark.parametrize("text", ["<top>" + "<top" * 200_000, "<top><num>" + " " * 200_000 + "</top>"], ids=len)
def test_topics_of_trec_are_read_in_linear_time(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.trec").write_text(text)
    refused(queries, tmp_path / "t.trec")


def test_a_folder_with_a_broken_link_is_not_read_in_part(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("d1\tone\n")
    (tmp_path / "b.tsv").symlink_to(tmp_path / "gone.tsv")
    with pytest.raises(LearnedSparseError, match=r"b\.tsv: not a regular file, so the folder cannot be read whole"):
        read_documents(tmp_path)
