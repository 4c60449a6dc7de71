"""Triples of whole-number ids are indexed in columns, and equal the same file read line by line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from encoders.training import Negatives
from encoders.training.data import files
from encoders.training.data.files import ExampleFile, index_of
from encoders.training.data.texts import TextStore, query_key, text_key
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import Document

QUERIES = {str(7 * number): f"query {number % 9}" for number in range(12)} | {"1000": " "}
TEXTS = TextStore(Document(str(number), "" if number == 31 else f"text {number}") for number in range(40))
RNG = np.random.default_rng(0)
LINES = [(int(RNG.choice(list(map(int, QUERIES)))), *RNG.integers(0, 40, 2).tolist()) for _ in range(300)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "triples.tsv"
    path.write_text("".join(f"{q}\t{p}\t{n}\n" for q, p, n in LINES), encoding="utf-8")
    return path


def test_columns_give_the_examples_of_the_lines(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = ExampleFile(path, Negatives(), queries=QUERIES, texts=TEXTS)
    assert index_of(path, QUERIES, TEXTS) is not None
    monkeypatch.setattr(files, "index_of", lambda *_: None)
    slow = ExampleFile(path, Negatives(), queries=QUERIES, texts=TEXTS)
    keys, words = {text_key("7"), text_key("21")}, {query_key("query 5")}
    for one, other in ((fast, slow), (fast.without(keys, words), slow.without(keys, words))):
        assert [one.get(i, RNG) for i in range(len(one))] == [other.get(i, RNG) for i in range(len(other))]
        assert one.query_keys() == other.query_keys()
        assert one.judged({text_key("14"), text_key("0")}) == other.judged({text_key("14"), text_key("0")})
        assert one.fingerprint == other.fingerprint
    assert len(fast.without((), words)) > len(fast.without(keys, words))
    assert 0 < len(fast.without(keys, words)) < len(fast) < len(LINES)


@pytest.mark.parametrize("line", ["07\t1\t2", "7\t1 \t2", "7\t1\t2\r", "7\t1\t2\t3", "7\ta\t2", "", "-7\t1\t2", "7\t1"])
def test_any_other_line_is_read_as_text_or_as_the_same_numbers(path: Path, line: str) -> None:
    path.write_bytes(path.read_bytes() + f"{line}\n".encode() + b"7\t1\t2")
    known = index_of(path, QUERIES, TEXTS)
    if known is not None:
        offsets, keys, _ = known
        with path.open("rb") as file:
            file.seek(int(offsets[-1]))
            assert (file.readline(), keys[-1]) == (b"7\t1\t2", text_key("7"))


def test_unknown_ids_are_named(path: Path) -> None:
    path.write_text("7\t1\t99\n", encoding="utf-8")
    with pytest.raises(LearnedSparseError, match="document '99' is not in the collection"):
        ExampleFile(path, Negatives(), queries=QUERIES, texts=TEXTS)
