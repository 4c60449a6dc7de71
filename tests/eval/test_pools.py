"""Pools: the part of a collection that makes its test hard."""

from __future__ import annotations

from pathlib import Path

from eval.reproduce.pools import pooled
from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.trec import write_run
from tests.toy_data import save_collection


def test_a_pool_holds_what_is_relevant_and_what_was_found(tmp_home: Path, tmp_path: Path) -> None:
    source = save_collection(tmp_path / "source", ("test",))
    write_run(tmp_path / "run.txt", {"q0": [("d3", 2.0), ("d4", 1.0)], "q1": [("d3", 1.0)]}, "x")
    full = pooled(str(source), "toy", "test", tmp_path / "run.txt", 1)
    assert {d.id for d in load_collection(str(full)).documents()} == {f"d{i}" for i in range(12)}  # all are relevant
    (source / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\nq1\td9\t0\n", encoding="utf-8")
    small = load_collection(str(pooled(str(source), "toy", "test", tmp_path / "run.txt", 1)))
    assert [d.id for d in small.documents()] == ["d0", "d3"]
    assert small.qrels("test") == {"q0": {"d0": 1}}
    assert [query.id for query in small.queries("test")] == ["q0"]
