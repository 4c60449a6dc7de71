"""Triples of whole-number ids read in columns, compared with the same file read line by line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from encoders.training import Negatives, Source
from encoders.training.data.files import ExampleFile
from encoders.training.data.id_triples import IdTriples, read_ids
from encoders.training.data.sources import load_source
from encoders.training.data.texts import TextStore, query_key, text_key
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import Document
from tests.toy_data import save_beir

QUERIES = {str(7 * number): f"query {number % 9}" for number in range(12)} | {"1000": " "}
DOCUMENTS = [Document(str(number), "" if number == 31 else f"text {number}") for number in range(40)]
RNG = np.random.default_rng(0)
LINES = [(int(RNG.choice(list(map(int, QUERIES)))), *RNG.integers(0, 40, 2).tolist()) for _ in range(300)]


def written(path: Path) -> Path:
    path.write_text("".join(f"{q}\t{p}\t{n}\n" for q, p, n in LINES), encoding="utf-8")
    return path


@pytest.mark.parametrize("per_query", [0, 1])
def test_columns_give_the_examples_of_the_lines(tmp_path: Path, per_query: int) -> None:
    path, texts, settings = written(tmp_path / "triples.tsv"), TextStore(DOCUMENTS), Negatives(per_query=per_query)
    columns = read_ids(path)
    assert columns is not None
    fast = IdTriples(path, settings, columns, QUERIES, texts)
    slow = ExampleFile(path, settings, queries=QUERIES, texts=texts)
    keys = [text_key("7"), text_key("21")]
    words = [query_key("query 5")]
    pairs = [(fast, slow), (fast.without(keys, words), slow.without(keys, words))]
    pairs += [(fast.without(keys, ()).without((), words), slow.without(keys, words))]
    for one, other in pairs:
        assert [one.get(i, RNG) for i in range(len(one))] == [other.get(i, RNG) for i in range(len(other))]
        assert sorted(one.query_keys()) == sorted(other.query_keys())
        assert one.judged([text_key("14"), text_key("0")]) == other.judged([text_key("14"), text_key("0")])
    assert 0 < len(pairs[1][0]) < len(fast) < len(LINES)
    assert fast.fingerprint == slow.fingerprint
    assert len({fast.fingerprint, *(one.fingerprint for one, _ in pairs[1:])}) == 3
    assert [len(fast.drawing(Negatives(per_query=count)).get(0, RNG).negatives) for count in (0, 1)] == [0, 1]
    for refused in (Negatives(per_query=2), Negatives(kind="bm25"), Negatives(margin=1.0)):
        with pytest.raises(LearnedSparseError):
            fast.drawing(refused)


@pytest.mark.parametrize("line", ["7\t1\t2\t3", "7\ta\t2", "", "-7\t1\t2", "7\t1"])
def test_any_other_line_is_left_to_the_reader_of_lines(tmp_path: Path, line: str) -> None:
    path = written(tmp_path / "triples.tsv")
    assert read_ids(path) is not None
    path.write_bytes(path.read_bytes() + f"{line}\n".encode() + b"7\t1\t2\n")
    assert read_ids(path) is None


def test_a_source_of_whole_numbers_is_read_in_columns(tmp_path: Path, tiny_collection: Path) -> None:
    """An id that is not in the collection is named, as for any file of ids."""
    path = written(tmp_path / "triples.tsv")
    save_beir(
        tmp_path / "corpus", {d.id: d.text for d in DOCUMENTS}, QUERIES, {"train": [(q, "1", 1) for q in QUERIES]}
    )
    examples = load_source(Source(collection=str(tmp_path / "corpus"), triples=path), Negatives()).examples
    assert isinstance(examples, IdTriples)
    path.write_text("7\t1\t99\n", encoding="utf-8")
    with pytest.raises(LearnedSparseError, match="document '99' is not in the collection"):
        load_source(Source(collection=str(tmp_path / "corpus"), triples=path), Negatives())
