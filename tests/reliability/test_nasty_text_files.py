"""Named cases of bad text files, one reader each: what is read, and the error of what is refused."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from encoders.training import Negatives
from encoders.training.data.files import ExampleFile
from learned_sparse.collections.documents import read_documents
from learned_sparse.collections.topics import read_queries
from learned_sparse.collections.trec import read_qrels, read_run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.lines import MAX_LINE_VARIABLE
from learned_sparse.core.records import Document
from learned_sparse.encode.pipeline import write_vectors
from learned_sparse.jsonvector.queries import read_topics
from learned_sparse.jsonvector.reader import load_vectors, read_vectors
from tests.fake_encoder import FakeEncoder
from tests.reliability.scale import FULL

Read = Callable[[Path], Any]


def documents(path: Path) -> dict[str, str]:
    return {document.id: document.text for document in read_documents(path)}


def queries(path: Path) -> dict[str, str]:
    return {query.id: query.text for query in read_queries(path)}


def vectors(path: Path) -> dict[str, dict[str, int]]:
    return dict(read_vectors(path))


def arrays(path: Path) -> list[str]:
    return load_vectors([path])[0]


def triples(path: Path) -> int:
    return len(ExampleFile(path, Negatives()))


FILES: dict[str, tuple[Read, str]] = {
    "corpus.jsonl": (documents, '{"id": "d1", "text": "one"}\n'),
    "corpus.tsv": (documents, "d1\tone\n"),
    "topics.tsv": (queries, "q1\tone\n"),
    "topics.jsonl": (queries, '{"id": "q1", "text": "one"}\n'),
    "topics.json": (queries, '{"q1": "one"}\n'),
    "topics.trec": (queries, "<top>\n<num> q1\n<title> one\n</top>\n"),
    "qrels.txt": (read_qrels, "q1 0 d1 1\n"),
    "run.txt": (read_run, "q1 Q0 d1 1 1.5 tag\n"),
    "vectors.jsonl": (vectors, '{"id": "d1", "vector": {"a": 1}}\n'),
    "arrays.jsonl": (arrays, '{"id": "d1", "vector": {"a": 1}}\n'),
    "encoded.tsv": (read_topics, "q1\ta a b\n"),
    "triples.tsv": (triples, "q\tyes\tno\n"),
}
"""A reader and the content of a file for it."""
EVERY = pytest.mark.parametrize("name", FILES)


def refused(read: Read, path: Path) -> str:
    """The message of the error, after the path."""
    with pytest.raises(LearnedSparseError) as error:
        read(path)
    assert str(error.value).startswith(str(path))
    return str(error.value).removeprefix(str(path))


@EVERY
def test_not_a_regular_file(tmp_path: Path, name: str) -> None:
    read, _ = FILES[name]
    assert refused(read, tmp_path / name).startswith(": no such file")
    os.mkfifo(tmp_path / name)
    assert "not a regular file" in refused(read, tmp_path / name)
    (tmp_path / name).unlink()
    if name not in {
        "corpus.jsonl",
        "corpus.tsv",
        "vectors.jsonl",
        "arrays.jsonl",
        "encoded.tsv",
    }:  # these may be folders
        (tmp_path / name).mkdir()
        assert "not a regular file" in refused(read, tmp_path / name)


@EVERY
def test_an_empty_file(tmp_path: Path, name: str) -> None:
    read, _ = FILES[name]
    path = tmp_path / name
    path.write_bytes(b"")
    if name in {"run.txt", "vectors.jsonl", "arrays.jsonl"}:
        assert not read(path)
    else:
        assert refused(read, path).startswith(": no ")


@EVERY
def test_no_line_end_at_the_end_and_carriage_returns(tmp_path: Path, name: str) -> None:
    read, content = FILES[name]
    (tmp_path / name).write_bytes(content.encode())
    plain = read(tmp_path / name)
    for other in (content.rstrip("\n"), content.replace("\n", "\r\n"), "\n" + content + "\n \n"):
        (tmp_path / name).write_bytes(other.encode())
        assert read(tmp_path / name) == plain


@EVERY
def test_carriage_returns_alone_are_no_line_ends(tmp_path: Path, name: str) -> None:
    """A file of an old Macintosh would be one record."""
    read, content = FILES[name]
    other = content.replace("1", "2")
    (tmp_path / name).write_bytes((content + other).replace("\n", "\r").encode())
    if name == "topics.trec":  # two topics in one line
        assert sorted(read(tmp_path / name)) == ["q1", "q2"]
    else:
        assert refused(read, tmp_path / name).startswith(":1: ")


@EVERY
def test_byte_order_marks(tmp_path: Path, name: str) -> None:
    """A mark in the middle comes from files that were joined."""
    read, content = FILES[name]
    (tmp_path / name).write_bytes(content.encode())
    plain = read(tmp_path / name)
    (tmp_path / name).write_bytes(f"\ufeff{content}".encode())
    if name in {"vectors.jsonl", "arrays.jsonl"}:  # Anserini would not read it
        assert refused(read, tmp_path / name).startswith(":1: not JSON")
        return
    assert read(tmp_path / name) == plain
    if name != "topics.json":
        more = content.replace("1", "2")
        (tmp_path / name).write_bytes(f"{content}{more}".encode())
        joined = read(tmp_path / name)
        (tmp_path / name).write_bytes(f"{content}\ufeff{more}".encode())
        assert read(tmp_path / name) == joined


@EVERY
def test_text_that_is_not_utf8(tmp_path: Path, name: str) -> None:
    read, content = FILES[name]
    (tmp_path / name).write_bytes(content.encode() + b"\xe9")
    assert refused(read, tmp_path / name).startswith(":")
    (tmp_path / name).write_bytes(content.encode("utf-16"))
    assert refused(read, tmp_path / name).startswith(":1: ")


@EVERY
def test_gzip(tmp_path: Path, name: str) -> None:
    read, content = FILES[name]
    (tmp_path / name).write_bytes(content.encode())
    plain = read(tmp_path / name)
    data = gzip.compress(content.encode())
    (tmp_path / name).write_bytes(data)
    assert "gzip data, but not named .gz; rename the file" in refused(read, tmp_path / name)
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(data)
    if name == "triples.tsv":
        assert "unpack the file first" in refused(read, packed)
        return
    assert read(packed) == plain
    half = len(content) // 2
    packed.write_bytes(gzip.compress(content[:half].encode()) + gzip.compress(content[half:].encode()) + b"\0" * 9)
    assert read(packed) == plain  # several members, and padding as tar writes it
    for damaged in (data[:-3], data[: len(data) // 2], data + b"garbage", data + data[:8], b"\x1f\x8b"):
        packed.write_bytes(damaged)
        assert "damaged or cut-off gzip data" in refused(read, packed)
    packed.write_bytes(content.encode())
    assert "named .gz, but not gzip data" in refused(read, packed)


@EVERY
def test_a_line_longer_than_the_limit(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read, content = FILES[name]
    path = tmp_path / (name if name == "triples.tsv" else f"{name}.gz")
    long = (content + "a" * (2**20 + 1)).encode()
    path.write_bytes(long if path.suffix == ".tsv" else gzip.compress(long))
    monkeypatch.setenv(MAX_LINE_VARIABLE, "1")
    lines = content.count("\n") + 1
    assert refused(read, path).startswith(f":{lines}: a line longer than 1 MB; is this a file of lines? If it is, set")
    monkeypatch.setenv(MAX_LINE_VARIABLE, "0")
    with pytest.raises(LearnedSparseError, match=f"{MAX_LINE_VARIABLE}=0: give a number of MB"):
        read(path)


@pytest.mark.skipif(not FULL, reason="takes seconds")
def test_a_gzip_bomb_takes_bounded_memory(tmp_path: Path) -> None:
    """1 GB in one line: refused after the first 64 MB."""
    path = tmp_path / "corpus.tsv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(2**10):
            file.write(b"a" * 2**20)
    tracemalloc.start()
    assert "a line longer than 64 MB" in refused(documents, path)
    assert tracemalloc.get_traced_memory()[1] < 2**28
    tracemalloc.stop()


def test_a_line_of_100_mb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused by default; read where the limit is raised."""
    path = tmp_path / "corpus.tsv"
    with path.open("wb") as file:
        file.write(b"d1\t" + b"a" * 100_000_000)
    assert "a line longer than 64 MB" in refused(documents, path)
    monkeypatch.setenv(MAX_LINE_VARIABLE, "128")
    assert len(documents(path)["d1"]) == 100_000_000


SEPARATORS = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e"


def test_line_separators_of_unicode_split_no_line_and_no_column(tmp_path: Path) -> None:
    (tmp_path / "c.tsv").write_text(f"d1\ta{SEPARATORS}b\n", encoding="utf-8")
    assert documents(tmp_path / "c.tsv") == {"d1": f"a{SEPARATORS}b"}
    (tmp_path / "c.jsonl").write_text('{"id": "d1", "text": "a\u2028\x85b"}\n', encoding="utf-8")
    assert documents(tmp_path / "c.jsonl") == {"d1": "a\u2028\x85b"}
    (tmp_path / "qrels.txt").write_text("q\u2028 0 d\x85\u2029 1\n", encoding="utf-8")
    assert read_qrels(tmp_path / "qrels.txt") == {"q\u2028": {"d\x85\u2029": 1}}
    (tmp_path / "run.txt").write_text("q\u2028 Q0 d\x85 1 2.0 tag\n", encoding="utf-8")
    assert read_run(tmp_path / "run.txt") == {"q\u2028": [("d\x85", 2.0)]}
    (tmp_path / "t.tsv").write_text("q1\tone\u2028two \x85 three\r\n", encoding="utf-8")
    assert queries(tmp_path / "t.tsv") == {"q1": "one two three"}  # a query is one line


ODD = ["..", "../../x", "a/b", "C:\\x", "007", "7", "D1", "d1", "-0", "NaN", "<b>", "%2e%2e", "日"]  # fmt: skip


@pytest.mark.parametrize("suffix", ["jsonl", "tsv"])
def test_odd_ids_stay_apart(tmp_path: Path, suffix: str) -> None:
    names = [*ODD, "\u00e9", unicodedata.normalize("NFD", "\u00e9")]
    path = tmp_path / f"c.{suffix}"
    lines = {"tsv": "{0}\t{0}\n", "jsonl": '{{"id": "{0}", "text": "{0}"}}\n'}[suffix]
    path.write_text("".join(lines.format(name.replace("\\", "\\\\") if suffix == "jsonl" else name) for name in names))
    assert documents(path) == {name: name for name in names}


@pytest.mark.parametrize("name", ["d 1", " d1", "d\t1", "d\n1", "d\0", "d\xa01", "d\u20281", "\ufeffd1", "x" * 40_000])
def test_ids_that_no_run_can_hold(tmp_path: Path, name: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(
        json.dumps({"id": "d0", "text": "", "vector": {"a": 1}})
        + "\n"
        + json.dumps({"id": name, "text": "x", "vector": {"a": 1}})
    )
    for read in (documents, queries, vectors, arrays):
        message = refused(read, path)
        assert message.startswith(":2: ")
        assert len(message) < 300
    with pytest.raises(LearnedSparseError, match="document 1: unusable id"):
        write_vectors(tmp_path / "out", [Document(name, "w1")], FakeEncoder("document"))


def test_halves_of_surrogate_pairs(tmp_path: Path) -> None:
    for line in (
        '{"id": "d\\ud800", "text": "x"}',
        '{"id": "d1", "text": "\\udfff"}',
        '{"id": "d1", "vector": {"\\ud800": 1}}',
    ):
        (tmp_path / "c.jsonl").write_text(line)
        for read in (documents, queries, vectors, arrays):
            assert refused(read, tmp_path / "c.jsonl").startswith(":1: ")
    for document in (Document("d\ud800", "w1"), Document("d1", "w1 \udfff"), Document("d1", "w1", "\ud800")):
        with pytest.raises(LearnedSparseError, match=r"document 1: .* half a surrogate pair"):
            write_vectors(tmp_path / "out", [document], FakeEncoder("document"))


@pytest.mark.parametrize(
    "number",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e400",
        "-1",
        "0",
        "1.0",
        "1.5",
        "2147483648",
        "1" + "0" * 30,
        "true",
        '"1"',
        "null",
        "-0",
    ],
)
def test_numbers_that_are_no_impact(tmp_path: Path, number: str) -> None:
    (tmp_path / "c.jsonl").write_text(f'{{"id": "d1", "vector": {{"a": {number}}}}}')
    for read in (vectors, arrays):
        assert refused(read, tmp_path / "c.jsonl").startswith(":1: ")


@pytest.mark.parametrize("number", ["1e400", "99999999999999999999999", "1.5", "true", "NaN"])
def test_numbers_that_are_no_id(tmp_path: Path, number: str) -> None:
    (tmp_path / "c.jsonl").write_text(f'{{"id": {number}, "text": "x", "vector": {{"a": 1}}}}')
    for read in (documents, queries, vectors, arrays):
        assert refused(read, tmp_path / "c.jsonl").startswith(":1: ")


def test_large_integers_are_ids(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"id": 9223372036854775808, "text": "x", "vector": {"a": 1}}')
    for read in (documents, queries, vectors):
        assert list(read(tmp_path / "c.jsonl")) == ["9223372036854775808"]


@pytest.mark.parametrize("score", ["nan", "inf", "-Infinity", "1e400", "1_000", "\u0663", "0x10", "", "1,5"])
def test_scores_that_are_no_numbers(tmp_path: Path, score: str) -> None:
    (tmp_path / "run.txt").write_text(f"q Q0 d 1 {score} tag\n", encoding="utf-8")
    assert refused(read_run, tmp_path / "run.txt").startswith(":1: ")


@pytest.mark.parametrize("grade", ["1.0", "1_0", "\u0663", "9" * 5000, "2147483648", "--1", "-", "+1"])
def test_grades_that_are_no_integers(tmp_path: Path, grade: str) -> None:
    (tmp_path / "qrels.txt").write_text(f"q 0 d {grade}\n", encoding="utf-8")
    message = refused(read_qrels, tmp_path / "qrels.txt")
    assert message.startswith(":1: the grade")
    assert len(message) < 200


def test_keys_given_twice(tmp_path: Path) -> None:
    """The last value counts, as in Python and in Anserini; a query given twice is refused."""
    (tmp_path / "c.jsonl").write_text('{"id": "d0", "id": "d1", "text": "a", "text": "b", "vector": {"a": 1, "a": 2}}')
    assert documents(tmp_path / "c.jsonl") == {"d1": "b"}
    assert vectors(tmp_path / "c.jsonl") == {"d1": {"a": 2}}
    (tmp_path / "t.json").write_text('{"q1": "one", "q1": "two"}')
    assert "query 'q1' was given before" in refused(queries, tmp_path / "t.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<top>\n<num> 1\n<title> a\n<top>\n<num> 2\n<title> b\n</top>\n", ":1: <top> and </top> do not alternate"),
        ("<top>\n<num> 1\n<title> a\n</top>\n</top>\n", ":1: <top> and </top> do not alternate"),
        ("<top>\n<num> 1\n<title> a\n<num> 2\n<title> b\n</top>\n", ":1: <num> is given twice in one topic"),
    ],
)
def test_topics_with_a_missing_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.trec").write_text(text)
    assert refused(queries, tmp_path / "t.trec").startswith(message)


@pytest.mark.parametrize("text", ["<top>" + "<top" * 200_000, "<top><num>1<title>a" + " " * 200_000 + "b</top>"])
def test_topics_are_read_in_linear_time(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.trec").write_text(text)
    try:
        assert list(queries(tmp_path / "t.trec")) == ["1"]
    except LearnedSparseError as error:
        assert "do not alternate" in str(error)  # noqa: PT017


def test_columns_of_documents(tmp_path: Path) -> None:
    (tmp_path / "c.tsv").write_text("d1\ttitle\ttext\nd2\n")
    assert refused(documents, tmp_path / "c.tsv").startswith(":2: too few columns")
    (tmp_path / "c.tsv").write_text("d1\ttitle\ttext\n")
    assert documents(tmp_path / "c.tsv") == {"d1": "title text"}


def test_a_folder_with_a_broken_link_or_a_pipe_is_not_read_in_part(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.tsv").write_text("d1\tone\n")
    (folder / "b.tsv").symlink_to(tmp_path / "gone.tsv")
    with pytest.raises(LearnedSparseError, match=r"b\.tsv: not a regular file, so the folder cannot be read whole"):
        read_documents(folder)
    (folder / "b.tsv").unlink()
    (tmp_path / "more").mkdir()
    (folder / "more").symlink_to(tmp_path / "more")
    with pytest.raises(LearnedSparseError, match="more: not a regular file"):
        read_documents(folder)


def test_terms_at_the_limits_of_lucene(tmp_path: Path) -> None:
    """254 Java characters are 762 bytes at most, far below Lucene's 32,766."""
    for term, fits in (
        ("x" * 254, True),
        ("x" * 255, False),
        ("\u65e5" * 254, True),
        ("\U0001f600" * 127, True),
        ("\U0001f600" * 128, False),
    ):
        (tmp_path / "c.jsonl").write_text(f'{{"id": "d1", "vector": {{"{term}": 1}}}}', encoding="utf-8")
        for read in (vectors, arrays):
            if fits:
                assert list(read(tmp_path / "c.jsonl")) == ["d1"]
            else:
                assert refused(read, tmp_path / "c.jsonl").startswith(":1: ")
