"""Files of text lines and YAML: what is right is read, and the rest refused in one line with file, place and reason."""

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
import yaml
from hypothesis import find, given
from hypothesis import strategies as st

from encoders.training.recipe import RECIPES, load_recipe
from eval.reproduce.matrix import MATRICES, load_matrix
from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.descriptions import descriptions
from learned_sparse.collections.documents import read_documents
from learned_sparse.collections.topics import read_queries
from learned_sparse.collections.trec import read_qrels, read_run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.lines import MAX_LINE_VARIABLE
from learned_sparse.core.yaml_files import read_yaml
from learned_sparse.jsonvector.queries import read_topics
from learned_sparse.jsonvector.reader import read_vectors
from tests.reliability.scale import damaged, generated, refusal, replaced

ODD = ["..", "../../x", "C:\\x", "007", "-0", "NaN", "<b>", "é", "e\u0301", "\U0001f600", "%2e", "日" * 254, "[x]"]
LETTERS = st.characters(exclude_categories=["Cs"]).filter(lambda c: not c.isspace() and c not in "\0\ufeff")
WORDS = st.sampled_from(ODD) | st.text(LETTERS, min_size=1, max_size=8)
"""Ids, terms, and words of texts."""
TEXTS = st.lists(WORDS, max_size=3).map(" ".join)
TERMS = st.dictionaries(WORDS, st.integers(1, 300), min_size=1, max_size=3)
SCORES = st.floats(width=32, allow_nan=False, allow_infinity=False)
Line = tuple[str, Any]
"""A line without its end, and the record in it."""


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


JSON: tuple[str | bytes, ...] = (
    "{", "[]", b"\xff", "x" * 99, '{"text": "x", "contents": "x", "query": "x", "vector": {"a": 1}}',
    *(f'{{"id": {id}, "text": "x", "vector": {{"a": 1}}}}' for id in (
        '"a b"', '""', "1.5", "1e400", '"a\\u0000"', '"\\ufeffa"', '"a\\u2028b"', '"\\ud800"', f'"{"x" * 40_000}"',
    )),
    '{"id": "x", "text": NaN, "vector": {"a": NaN}}',
)  # fmt: skip
VECTORS = (
    *(f'{{"id": "x", "vector": {vector}}}' for vector in (
        "{}", "[1]", '{"a b": 1}', '{"": 1}', f'{{"{chr(0x1F600) * 128}": 1}}',
        *(f'{{"a": {number}}}' for number in ("Infinity", "1e400", "0", "1.5", "2147483648", "1" + "0" * 30, "true")),
    )),
    '{"id": "x"}',
)  # fmt: skip
TEXT = ('{"id": "x"}', '{"id": "x", "text": ["x"]}')
COLUMNS: tuple[str | bytes, ...] = ("one", "\tno id", "a b\tx", b"\xff\tx")
GRADES = tuple(f"q 0 d {grade}" for grade in ("1.0", "1_0", "\u0663", "9" * 5000, "2147483648", "-"))
FLOATS = ("nan", "-Infinity", "1e400", "1_000", "\u0663", "0x10")


def documents(path: Path) -> list[Any]:
    return [(document.id, document.text, document.expanded) for document in read_documents(path)]


def queries(path: Path) -> list[Any]:
    return [(query.id, query.text) for query in read_queries(path)]


READERS = {
    "documents.jsonl": Reader(
        suffix=".jsonl", read=documents, bad=(*JSON, *TEXT),
        good=st.builds(lambda id, text: json_line((id, text, ""), _id=id, text=text), WORDS, TEXTS),
    ),
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


@st.composite
def cut(draw: st.DrawFn, good: st.SearchStrategy[Line]) -> bytes:
    """Good lines with a piece cut out and another one put in its place."""
    odd = ['"', "\\ud800", "\t", "\n", "\ufeff", "\0", "1e999", "{}", " "]
    content = b"\n".join(line_bytes(line) for line, _ in draw(st.lists(good, min_size=1, max_size=3)))
    start, length = draw(st.integers(0, len(content))), draw(st.integers(0, 9))
    return (
        content[:start] + draw(st.binary(max_size=6) | st.sampled_from(odd).map(str.encode)) + content[start + length :]
    )


YAML: dict[str, tuple[Callable[[Path], Any], list[Path]]] = {
    "recipe": (load_recipe, sorted(RECIPES.glob("[!_]*.yaml"))),
    "matrix": (load_matrix, [path for path in sorted(MATRICES.glob("*.yaml")) if path.stat().st_size < 8_000]),
    "collection": (load_collection, sorted({path for path in descriptions().values() if path.stem != "cqadupstack"})),
}
YAML_VALUES: list[Any] = [
    None, True, 0, -1, 10**30, 0.5, float("nan"), float("inf"), "", "x", "7", "1e-3", "no", "..", "/etc/passwd",
    "C:\\x", "a\nb", "\u2028", "é" * 300, "-x", "{data}", [], {}, [[]], {"x": 1}, [None], {"kind": "none"},
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, files: list[Path]) -> bytes:
    """A YAML file of the repository with one value changed, a bit flipped, or the end missing."""
    content = draw(st.sampled_from(files)).read_bytes()
    whole = draw(replaced(yaml.safe_load(content), YAML_VALUES))
    changed = yaml.safe_dump(whole, sort_keys=False, allow_unicode=draw(st.booleans()))
    return draw(st.just(changed.encode("utf-8", "surrogatepass")) | damaged(content))


CONTENTS: dict[str, tuple[str, Callable[[Path], Any], st.SearchStrategy[bytes]]] = {
    **{name: (reader.suffix, reader.read, cut(reader.good)) for name, reader in READERS.items()},
    **{name: (".yaml", read, mutated(files)) for name, (read, files) in YAML.items()},
}


@pytest.mark.parametrize("name", CONTENTS)
def test_any_bytes_are_read_or_refused(name: str, tmp_path: Path) -> None:
    suffix, read, contents = CONTENTS[name]
    path, outcomes = tmp_path / f"file{suffix}", Counter[bool]()

    @generated
    @given(contents)
    def check(content: bytes) -> None:
        path.write_bytes(content)
        message = refusal(read, path)
        assert suffix == ".yaml" or (message or str(path)).startswith(str(path))
        outcomes[message is None] += 1

    check()
    assert len(outcomes) == 2


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
    assert not reader.read(path) if reader.empty else refused(reader.read, path).startswith(": no ")
    monkeypatch.setenv(MAX_LINE_VARIABLE, "1")
    long = content + b"a" * (2**20 + 1)
    for file, data, message in (
        (path, content + b"\xe9", r":\d+: "), (path, content.decode().encode("utf-16"), r":\d+: "),
        (path, gzip.compress(content), "gzip data, but not named .gz; rename the file"),
        (path, long, ":2: a line longer than 1 MB; is this a file of lines"),
        (packed, gzip.compress(long), "a line longer than 1 MB"),
        (packed, content, "named .gz, but not gzip data"),
        *((packed, data, "damaged or cut-off gzip data") for data in (gzip.compress(content)[:-3], b"\x1f\x8b")),
    ):  # fmt: skip
        file.write_bytes(data)
        assert re.search(message, refused(reader.read, file))


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


NASTY = {
    b"a: 1\na: 2\n": "2: not readable as YAML: the key 'a' is given twice; keep one",
    b"x: 1\n? [a]\n: 2\n": "2: .*unhashable key",
    b"x: 1\ny: !!python/object/apply:os.system ['touch ran']\n": "2: .*could not determine a constructor",
    b"x: 1\ny: " + b"[" * 100_000: "recursion",
    **dict.fromkeys((b"x: !!int z", b"x: !!int ''", b"x: !!bool z", b"x: !!timestamp z"), "does not fit its tag"),
}  # fmt: skip


@pytest.mark.parametrize("content", NASTY, ids=lambda content: repr(content[:40]))
def test_nasty_files(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "nasty.yaml"
    path.write_bytes(content)
    with pytest.raises(LearnedSparseError, match=rf"nasty\.yaml:.*{NASTY[content]}") as error:
        read_yaml(path)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500
    assert [file.name for file in tmp_path.iterdir()] == ["nasty.yaml"]  # nothing ran


def test_values_that_are_read_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_bytes(
        "\ufeffdate: 2026-01-01\r\nyes_or_no: [no, on, true]\r\nnumbers: [010, 12:30, 0x10, .nan]\r\n".encode()
        + b"2020: a\r\nhalf: [5.0e-1, 5e-1, .5]\r\nnothing: [null, ~]\r\nshared: &s {a: 1}\r\nagain: {<<: *s, a: 2}\r\n"
    )
    assert read_yaml(path) == {
        "date": "2026-01-01", "yes_or_no": ["no", "on", True], "numbers": ["010", "12:30", "0x10", ".nan"],
        "2020": "a", "half": [0.5] * 3, "nothing": [None, None], "shared": {"a": 1}, "again": {"a": 2},
    }  # fmt: skip
