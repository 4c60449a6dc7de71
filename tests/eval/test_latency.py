"""Latency with a fake clock, and the timed calls of the searcher."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from eval import costs
from eval.costs import ROUNDS, WARM_UP, Milliseconds, milliseconds, time_searches
from learned_sparse.index.note import IndexNote
from learned_sparse.jsonvector.manifest import Counts, Manifest
from learned_sparse.search.exact_searcher import ExactSearcher
from tests.learned_sparse.encoded_folder import write_folder

QUERIES = {"q1": {"hives": 2, "itch": 1}, "q2": {"skin": 3}}


class Clock:
    """Advances only when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(costs, "time", fake)
    return fake


def test_times_exclude_the_warm_up_and_outliers(clock: Clock) -> None:
    """Query n takes n milliseconds, except a second during warm-up, and two queries a minute in one round."""
    calls: list[int] = []

    def ask(number: int) -> None:
        calls.append(number)
        count = calls.count(number)
        clock.now += 1.0 if count <= 2 else 60.0 if count == 4 and number < 2 else number / 1000

    times = milliseconds(ask, range(100))
    assert len(calls) == WARM_UP + ROUNDS * 100  # twice each, then three rounds
    assert (times.median, times.mean) == pytest.approx((49.5, 49.5))
    assert times.p99 == pytest.approx(99.0)  # of 300 calls: 0.99 * 299 = 296.01, the 297th; a tail of 3 would show


def test_the_warm_up_runs_every_query_at_least_once(clock: Clock) -> None:
    calls: list[int] = []
    assert milliseconds(calls.append, range(WARM_UP + 50)) == Milliseconds(0.0, 0.0, 0.0)
    assert calls == list(range(WARM_UP + 50)) * (1 + ROUNDS)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """``(path, scoring, vectors)`` of each opened searcher, then ``(queries, hits, threads)`` of each search."""
    recorded: list[tuple[Any, ...]] = []

    @contextlib.contextmanager
    def open_searcher(path: Path, scoring: str, *, vectors: ExactSearcher | None, bm25: Any) -> Iterator[Any]:
        def search(queries: Mapping[str, Any], hits: int, threads: int) -> dict[str, Any]:
            recorded.append((dict(queries), hits, threads))
            return {}

        recorded.append((path, scoring, vectors))
        yield search

    monkeypatch.setattr(costs, "open_searcher", open_searcher)
    return recorded


def test_more_hits_are_searched_in_an_index_of_segments(calls: list[tuple[Any, ...]], tmp_path: Path) -> None:
    cut = {"segment_length": 5, "segments": "all", "segment_overlap": 0, "segment_delimiter": "#"}
    folder = write_folder(
        tmp_path / "encoded", {"d1#0": {"a": 1}}, options=cut, counts=Counts(written=5000, largest_segments=40)
    )
    index_note = IndexNote("impact", (Manifest.load(folder),), {})
    for hits, segments in ((10, 100), (2, 20), (1, 1)):
        time_searches(Path("index"), index_note, QUERIES, hits)
        assert calls[-1][1] == segments
