"""MaxP: a run of documents out of an index of segments."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.collections.trec import read_run
from learned_sparse.core.records import Query
from learned_sparse.index.note import IndexNote
from learned_sparse.index.vectors import build_index, encoded_files
from learned_sparse.jsonvector import Counts, Manifest
from learned_sparse.search import __main__ as search
from learned_sparse.search.passages import Passages, asks_for_passages, search_documents
from tests.learned_sparse.encoded_folder import dot_products, write_folder

CUT = {"segment_length": 5, "segments": "all", "segment_overlap": 0, "segment_delimiter": "%"}
DRAW = random.Random(3)
VECTORS: dict[str, dict[str, int]] = {
    f"d{name}%{number}": {f"t{DRAW.randrange(12)}": DRAW.randrange(1, 200) for _ in range(4)}
    for name in range(30)
    for number in range(40 if name == 7 else 1 + name % 4)
}
QUERIES = {"d7": {"t1": 3, "t2": 1}, "q2": {"t3": 2, "t4": 5, "t5": 1}, "q3": {"t11": 1}, "q4": {"nowhere": 1}}


def best(query: Mapping[str, int]) -> dict[str, float]:
    """The double loop: each document with the score of its best segment."""
    scores: dict[str, float] = {}
    for segment, score in dot_products(query, VECTORS):
        document = segment.split("%")[0]
        scores[document] = max(score, scores.get(document, 0))
    return scores


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("passages")
    counts = Counts(read=len(VECTORS), written=len(VECTORS), segmented=30, largest_segments=40)
    counts = dataclasses.replace(counts, postings=sum(map(len, VECTORS.values())))
    encoded = write_folder(folder / "encoded", VECTORS, options=CUT, counts=counts)
    build_index(encoded_files([encoded]), folder / "index")
    return folder / "index"


def write_run(index: Path, place: Path, *options: str) -> None:
    passages = Passages.of(IndexNote.load(index))
    queries = [Query(name, name) for name in QUERIES]
    outcome = search.search(index, "impact", queries, list(QUERIES.values()), place, options, passages=passages)
    assert outcome.without_hits == ("q4",)


def run(index: Path, place: Path, *options: str) -> dict[str, list[tuple[str, float]]]:
    write_run(index, place, *options)
    return read_run(place)


@pytest.mark.jvm
@pytest.mark.parametrize("hits", [1, 3, 20, 1_000])
def test_documents_by_their_best_segment(index: Path, tmp_path: Path, hits: int) -> None:
    """The document of 40 segments would fill many hits by itself."""
    found = run(index, tmp_path / "run", "--hits", str(hits), "--threads", "2", "--batch-size", "3")
    for name, query in QUERIES.items():
        expected = best(query)
        scores = sorted(expected.values(), reverse=True)[:hits]
        hit = found.get(name, [])
        assert [score for _, score in hit] == pytest.approx(scores, abs=1e-3)
        assert len({document for document, _ in hit}) == len(hit)
        for document, score in hit:
            assert score == pytest.approx(expected[document], abs=1e-3)


@pytest.mark.jvm
def test_the_query_itself_is_left_out(index: Path, tmp_path: Path) -> None:
    with_it = run(index, tmp_path / "1", "--hits", "5")
    without = run(index, tmp_path / "2", "--hits=5", "--remove-query")
    assert "d7" in dict(with_it["d7"])
    assert "d7" not in dict(without["d7"])
    assert len(without["d7"]) == 5
    assert without["q2"] == with_it["q2"]
    lines = (tmp_path / "2").read_text().splitlines()
    assert [line.split()[3] for line in lines if line.startswith("d7 ")] == ["1", "2", "3", "4", "5"]


@pytest.mark.jvm
def test_in_the_format_of_ms_marco(index: Path, tmp_path: Path) -> None:
    write_run(index, tmp_path / "run", "--hits", "2", "--output-format", "msmarco")
    lines = [line.split("\t") for line in (tmp_path / "run").read_text().splitlines()]
    assert [(name, rank) for name, _, rank in lines] == [(q, r) for q in ("d7", "q2", "q3") for r in ("1", "2")]


def test_only_queries_short_of_documents_are_searched_again(tmp_path: Path) -> None:
    asked: list[tuple[list[str], Any, list[str]]] = []

    def stock(queries: Sequence[Query], rows: Any, options: Sequence[str], place: Path) -> None:
        asked.append(([query.id for query in queries], rows, list(options)))
        counts = {"a": 2, "b": 1 if len(asked) == 1 else 2}
        lines = (f"{q.id} Q0 x{n} {n} {9 - n}.0 tag\n" for q in queries for n in range(counts[q.id]))
        place.write_text("".join(lines))

    queries, rows = [Query("b", "b"), Query("a", "a")], [{"t": 1}, {"u": 2}]
    passages = Passages("#", most=100, total=10_000)
    search_documents(passages, queries, rows, ["--hits", "2", "--k1", "1"], tmp_path / "run", stock)
    best_of = ["--k1", "1", "--max-passage", "--max-passage-delimiter", "#", "--max-passage-hits", "2"]
    assert asked == [(["b", "a"], rows, [*best_of, "--hits", "20"]), (["b"], [{"t": 1}], [*best_of, "--hits", "101"])]
    assert [line.split()[:4] for line in (tmp_path / "run").read_text().splitlines()] == [
        ["b", "Q0", "x0", "1"], ["b", "Q0", "x1", "2"], ["a", "Q0", "x0", "1"], ["a", "Q0", "x1", "2"],
    ]  # fmt: skip


def test_what_an_index_says(tmp_path: Path) -> None:
    counts = [Counts(written=9, largest_segments=most) for most in (3, 5)]
    manifests = [
        Manifest.load(write_folder(tmp_path / str(c.largest_segments), {}, options=CUT, counts=c)) for c in counts
    ]
    assert Passages.of(IndexNote("impact", tuple(manifests), {})) == Passages("%", most=5, total=18)
    whole = Manifest.load(write_folder(tmp_path / "whole", {"d": {"a": 1}}))
    assert Passages.of(IndexNote("impact", (whole,), {})) is None
    assert Passages.of(IndexNote("bm25-text", (), {})) is None


def test_enough() -> None:
    assert [Passages("#", most=4, total=50).enough(n) for n in (1, 2, 10, 100)] == [1, 5, 37, 50]
    assert Passages("#", most=1, total=5_000).enough(1_000) == 1_000
    assert asks_for_passages(["--max-passage-hits=3"])
    assert not asks_for_passages(["--hits", "3"])
