"""Generated files for each reader of text: read as a slow reading reads them, or refused with file and line."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from encoders.training import Negatives
from encoders.training.data.files import ExampleFile
from learned_sparse.collections.documents import read_documents
from learned_sparse.collections.topics import read_queries
from learned_sparse.collections.trec import read_qrels, read_run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.jsonvector.queries import read_topics
from learned_sparse.jsonvector.reader import load_vectors, read_vectors
from tests.reliability.scale import INPUTS, record
from tests.reliability.slow_readings import (
    OTHER_FORMATS,
    SKIPPED,
    slow_hit,
    slow_id,
    slow_json_document,
    slow_json_query,
    slow_judgement,
    slow_lines,
    slow_topic,
    slow_triple,
    slow_tsv_document,
    slow_tsv_query,
    slow_vector,
)

NASTY = [
    *(
        "",
        " ",
        "\t",
        "\n",
        "\r",
        "\r\n",
        "\0",
        "\x0b",
        "\x0c",
        "\x1c",
        "\x1f",
        "\x85",
        "\xa0",
        "\u2028",
        "\u2029",
        "\u3000",
    ),
    *(
        "\ufeff",
        "\ufeffd1",
        "a b",
        "a\tb",
        "a\x00b",
        "a\u2028b",
        "a\rb",
        "..",
        "/",
        "../../etc/passwd",
        "C:\\x",
        "007",
        "7",
    ),
    *("D1", "d1", "\u00e9", "e\u0301", "\U0001f600", "\ud800", "a\udfffb", "<script>", "[empty-vector]", "[no-terms]"),
    *("enwiki:a%20b+c", "NaN", "1e400", "x" * 300, "日" * 254, "\U0001f600" * 128),
]
NUMBERS = st.one_of(
    st.sampled_from([0, 1, -1, -0.0, 2**31 - 1, 2**31, 2**63, 2**64, 10**30, math.nan, math.inf, 1.5, 1e-400]),
    st.integers(1, 300),
)
STRINGS = st.one_of(st.sampled_from(NASTY), st.text(max_size=12))
IDS = st.one_of(st.sampled_from(["d1", "d2", "D1", "q1", "007", "7", "e\u0301", "\u00e9", "a/b"]), STRINGS)
RAW = st.one_of(st.binary(max_size=20), STRINGS.map(lambda text: text.encode("utf-8", "surrogatepass")))


def json_text(pairs: Iterable[tuple[str, Any]]) -> bytes:
    """A JSON object, which may have the same key twice."""
    return ("{" + ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in pairs) + "}").encode()


def columns(*strategies: st.SearchStrategy[str], between: str = "\t") -> st.SearchStrategy[bytes]:
    """A line of columns; one column may be missing, or be there twice."""
    parts = st.tuples(*strategies).flatmap(
        lambda texts: st.sampled_from([texts, texts, texts, texts[:-1], (*texts, texts[-1])])
    )
    return parts.map(lambda texts: between.join(texts).encode("utf-8", "surrogatepass"))


def files(reader: Reader) -> st.SearchStrategy[bytes]:
    """Lines, half the time only such as can be read, with ends of several kinds, byte order marks and blank lines."""
    good = reader.line.filter(lambda line: reader.slow(2, line) is not None)
    lines = st.one_of(st.lists(good, max_size=3), st.lists(st.one_of(good, reader.line, RAW), max_size=8))
    ends = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b" \n", b"\n \r\n", b"\n\xef\xbb\xbf"])
    starts = st.sampled_from([b"", b"", b"\xef\xbb\xbf", b"\xef\xbb\xbf\xef\xbb\xbf", b"\n"])
    parts = st.tuples(starts, lines, ends, st.booleans())
    contents = parts.map(lambda part: part[0] + part[2].join(part[1]) + part[2] * part[3])
    return contents.filter(lambda content: not content.startswith(OTHER_FORMATS))


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A reader, and its slow counterpart."""

    name: str
    suffix: str
    read: Callable[[Path], list[Any]]
    """All records of a file."""
    slow: Callable[[int, bytes], Any]
    """Record of a line; None if the line must be refused."""
    line: st.SearchStrategy[bytes]
    key: Callable[[Any], Any] | None = None
    """Records with equal keys must not both be read."""
    may_be_empty: bool = False
    marks: bool = True
    """As for ``slow_lines``."""


def triples(path: Path) -> list[Any]:
    examples = ExampleFile(path, Negatives())
    rng = np.random.default_rng(0)
    found = (examples.get(number, rng) for number in range(len(examples)))
    return [(example.query, example.positive, *example.negatives) for example in found]


def vectors_as_arrays(path: Path) -> list[Any]:
    names, impacts = load_vectors([path])
    return [(name, impacts.row(row)) for row, name in enumerate(names)]


def json_lines(keys: str, texts: str, *others: tuple[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[bytes]:
    name, text = st.sampled_from(keys.split()), st.sampled_from(texts.split())
    value = st.one_of(STRINGS, STRINGS, STRINGS, NUMBERS, st.none(), st.booleans(), st.lists(STRINGS, max_size=2))
    pairs = st.tuples(st.tuples(name, st.one_of(IDS, IDS, IDS, NUMBERS)), st.tuples(text, value))
    more = st.lists(
        st.one_of(*(st.tuples(st.just(key), values) for key, values in others), st.tuples(text, value)), max_size=2
    )
    return st.builds(lambda first_pairs, rest: json_text([*first_pairs, *rest]), pairs, more)


WEIGHTS = st.one_of(st.integers(1, 300), st.integers(1, 300), NUMBERS, STRINGS, st.none(), st.booleans())
VECTORS = st.one_of(
    st.dictionaries(STRINGS, WEIGHTS, max_size=3),
    st.dictionaries(st.sampled_from(["a", "##ing", "日本", "é"]), st.integers(1, 300), min_size=1, max_size=3),
    st.just({"[empty-vector]": 1}),
    st.none(),
)
TERMS = st.one_of(st.sampled_from(["a a b", "[no-terms]", "##ing", "日本 é"]), STRINGS)
GRADES = st.one_of(st.sampled_from(["0", "1", "2", "-1", "01", "1.0", "1_0", "9" * 5000, "٣", "x"]), STRINGS)
SCORES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["1", "nan", "inf", "1e400", "-1e400", "1_000", "٣", "0x1p3", ".5", "5.", "+1", "1e5", "infinity"]),
)
EXPANDED = st.one_of(STRINGS, st.lists(STRINGS, max_size=2), NUMBERS, st.none())

READERS = [
    Reader(
        name="documents in JSON lines",
        suffix=".jsonl",
        read=lambda path: [(d.id, d.text, d.expanded) for d in read_documents(path)],
        slow=slow_json_document,
        line=json_lines("id _id docid", "text contents segment", ("title", EXPANDED), ("expanded", EXPANDED)),
        key=lambda document: document[0],
    ),
    Reader(
        name="documents in columns",
        suffix=".tsv",
        read=lambda path: [(d.id, d.text, d.expanded) for d in read_documents(path)],
        slow=slow_tsv_document,
        line=columns(IDS, STRINGS),
        key=lambda document: document[0],
    ),
    Reader(
        name="queries in columns",
        suffix=".tsv",
        read=lambda path: [(query.id, query.text) for query in read_queries(path)],
        slow=slow_tsv_query,
        line=columns(IDS, STRINGS),
        key=lambda query: query[0],
    ),
    Reader(
        name="queries in JSON lines",
        suffix=".jsonl",
        read=lambda path: [(query.id, query.text) for query in read_queries(path)],
        slow=slow_json_query,
        line=json_lines("id _id qid", "text title query"),
        key=lambda query: query[0],
    ),
    Reader(
        name="judgements",
        suffix=".txt",
        read=lambda path: [(q, d, grade) for q, grades in read_qrels(path).items() for d, grade in grades.items()],
        slow=slow_judgement,
        line=columns(IDS, st.just("0"), IDS, GRADES, between=" "),
        key=lambda judgement: judgement[:2],
    ),
    Reader(
        name="runs",
        suffix=".txt",
        read=lambda path: [(q, d, score) for q, hits in read_run(path).items() for d, score in hits],
        slow=slow_hit,
        line=columns(IDS, st.just("Q0"), IDS, st.just("1"), SCORES, st.just("tag"), between=" "),
        key=lambda hit: hit[:2],
        may_be_empty=True,
    ),
    *(
        Reader(
            name=f"encoded documents, {way}",
            suffix=".jsonl",
            read=read,
            slow=slow_vector,
            line=json_lines("id", "contents", ("vector", VECTORS), ("vector", VECTORS)),
            key=lambda document: document[0],
            may_be_empty=True,
            marks=False,
        )
        for way, read in (("one by one", lambda path: list(read_vectors(path))), ("as arrays", vectors_as_arrays))
    ),
    Reader(
        name="encoded queries",
        suffix=".tsv",
        read=lambda path: list(read_topics(path).items()),
        slow=slow_topic,
        line=columns(IDS, TERMS),
        key=lambda topic: topic[0],
        marks=False,
    ),
    Reader(
        name="triples",
        suffix=".tsv",
        read=triples,
        slow=slow_triple,
        line=columns(STRINGS, STRINGS, STRINGS),
        marks=False,
    ),
]


def expected(reader: Reader, content: bytes) -> tuple[list[Any], int | None]:
    """The records before the first line that must be refused, and the number of that line; None if there is none."""
    records: list[Any] = []
    seen: dict[Any, Any] = {}
    for number, line in slow_lines(content, marks=reader.marks):
        found = reader.slow(number, line)
        if found is SKIPPED:
            continue
        key = None if found is None or reader.key is None else reader.key(found)
        if found is None or (
            key is not None and key in seen and not (reader.name == "judgements" and seen[key] == found)
        ):
            return records, number
        if key is None or key not in seen:
            records.append(found)
        seen[key] = found
    return records, None


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_every_file_is_read_right_or_refused(reader: Reader, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("files")
    outcomes: Counter[str] = Counter()

    @settings(max_examples=INPUTS, suppress_health_check=list(HealthCheck))
    @given(files(reader), st.booleans())
    def check(content: bytes, compress: bool) -> None:
        compress = compress and reader.name != "triples"
        path = folder / f"file{reader.suffix}{'.gz' * compress}"
        half = len(content) // 2  # two members
        path.write_bytes(gzip.compress(content[:half]) + gzip.compress(content[half:]) if compress else content)
        records, refused = expected(reader, content)
        try:
            found = reader.read(path)
        except LearnedSparseError as error:
            message = str(error)
            outcomes["refused"] += 1
            if refused is None:
                assert not records
                assert not reader.may_be_empty, message
                assert re.match(rf"{re.escape(str(path))}: no ", message), message
            elif reader.name != "encoded documents, as arrays":  # which reports repeated ids at the end
                assert message.startswith(f"{path}:{refused}:"), message
        else:
            outcomes["read"] += 1
            assert refused is None, f"line {refused} was accepted"
            assert sorted(map(repr, found)) == sorted(map(repr, records))

    check()
    assert min(outcomes["read"], outcomes["refused"]) > INPUTS // 100  # both happen
    test = "tests/reliability/test_text_readers.py::test_every_file_is_read_right_or_refused"
    record("input", reader.name, INPUTS, "read as by a slow reading, or refused with file and line", test)


@pytest.mark.parametrize("reader", READERS[:2], ids=lambda reader: reader.name)
def test_documents_in_are_documents_out_and_refused(reader: Reader, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("files")

    @settings(max_examples=INPUTS, suppress_health_check=list(HealthCheck))
    @given(files(reader))
    def check(content: bytes) -> None:
        good: dict[str, Any] = {}
        lines = slow_lines(content)
        for number, line in lines:
            if (found := reader.slow(number, line)) is not None:
                good.setdefault(found[0], found)
        path = folder / f"file{reader.suffix}"
        path.write_bytes(content)
        documents = read_documents(path, on_bad_line="skip")
        if not good:
            with pytest.raises(LearnedSparseError, match="no documents"):
                list(documents)
            return
        assert [(d.id, d.text, d.expanded) for d in documents] == list(good.values())
        assert documents.read + sum(documents.skipped.values()) == len(lines)
        assert documents.empty == sum(not f"{text}{expanded}".strip() for _, text, expanded in good.values())

    check()
    test = "tests/reliability/test_text_readers.py::test_documents_in_are_documents_out_and_refused"
    record("input", f"{reader.name}, bad lines skipped", INPUTS, "documents in = documents out + lines refused", test)


@pytest.mark.parametrize("suffix", [".trec", ".json", ".jsonl", ".tsv"])
def test_any_file_of_queries_is_read_or_refused(suffix: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("files")
    tags = [
        "<top>",
        "</top>",
        "<num>",
        "</num>",
        "<title>",
        "</title>",
        "<desc>",
        " Number: ",
        "<top",
        "<",
        "\n",
        "{",
        "}",
    ]
    pieces = st.lists(st.one_of(st.sampled_from([*tags, '"q1": "a"', ",", '"q1": {"title": "b"}']), IDS), max_size=14)

    @settings(max_examples=INPUTS, suppress_health_check=list(HealthCheck))
    @given(pieces)
    def check(texts: list[str]) -> None:
        path = folder / f"file{suffix}"
        path.write_bytes("".join(texts).encode("utf-8", "surrogatepass"))
        try:
            queries = read_queries(path)
        except LearnedSparseError as error:
            assert str(error).startswith(str(path))  # noqa: PT017
        else:
            assert len({query.id for query in queries}) == len(queries) > 0
            assert all(slow_id(query.id) and query.text.split("\n") == [query.text.strip()] for query in queries)

    check()
    test = "tests/reliability/test_text_readers.py::test_any_file_of_queries_is_read_or_refused"
    record("input", f"queries, {suffix}", INPUTS, "read, or refused with the file", test)


def test_damaged_gzip_data_is_refused_or_harmless(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("files") / "corpus.tsv.gz"
    lines = [f"d{number}\ttext {number * 7919 % 1009}" for number in range(40)]
    content = gzip.compress("\n".join(lines[:20]).encode() + b"\n") + gzip.compress("\n".join(lines[20:]).encode())
    whole = [line.partition("\t")[0] for line in lines]
    position = st.integers(0, len(content) - 1)
    damage = st.one_of(
        st.builds(lambda end: content[:end], position),
        st.builds(
            lambda at, bit: content[:at] + bytes([content[at] ^ (1 << bit)]) + content[at + 1 :],
            position,
            st.integers(0, 7),
        ),
        st.builds(lambda tail: content + tail, st.binary(min_size=1, max_size=9)),
    )
    first_member = len(gzip.compress("\n".join(lines[:20]).encode() + b"\n"))

    @settings(max_examples=INPUTS)
    @given(damage)
    def check(damaged: bytes) -> None:
        path.write_bytes(damaged)
        try:
            found = [document.id for document in read_documents(path)]
        except LearnedSparseError as error:
            assert str(error).startswith(str(path))  # noqa: PT017
        else:
            assert found == whole or len(damaged) == first_member  # a file cut between two members is a whole file

    check()
    test = "tests/reliability/test_text_readers.py::test_damaged_gzip_data_is_refused_or_harmless"
    record("corruption", "documents, gzip", INPUTS, "refused, or read whole", test)
