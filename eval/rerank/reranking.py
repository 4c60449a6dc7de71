"""The first results of a run in the order of better scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from learned_sparse.collections import Run, ranked
from learned_sparse.core import Document

Pair = tuple[str, str]
"""Query id, document id."""
Done = Callable[[int], object]
"""Told how many more pairs are scored."""


class Scorer(Protocol):
    """What scores pairs of a query and a document; higher is better."""

    @property
    def description(self) -> Mapping[str, Any]:
        """What decides the scores, as JSON values."""

    def scores(
        self, queries: Mapping[str, str], documents: Mapping[str, Document], pairs: Sequence[Pair], done: Done
    ) -> npt.NDArray[np.float64]:
        """One score for each of ``pairs``, in order."""


def first_stage(run: Run, queries: Iterable[str], *, remove_query: bool = False) -> Run:
    """The results of ``queries`` in a run, best first, without the query itself where ``remove_query`` says so."""
    kept = {query: run[query] for query in queries if run.get(query)}
    if remove_query:
        kept = {query: [hit for hit in hits if hit[0] != query] for query, hits in kept.items()}
    return {query: hits for query, hits in kept.items() if hits}


def pairs_of(runs: Iterable[Run], depth: int) -> list[Pair]:
    """All pairs that re-ranking to ``depth`` needs, each once, in order of the documents."""
    pairs = {(query, hit[0]) for run in runs for query, hits in run.items() for hit in hits[:depth]}
    return sorted(pairs, key=lambda pair: (pair[1], pair[0]))


def rerank(run: Run, scores: Mapping[Pair, float], depth: int) -> Run:
    """The first ``depth`` results of each query by ``scores``; those below follow in the order they had.

    The scores of those below count down by one from the lowest above them: only their order means something.

    >>> run = {"q": [("d1", 9.0), ("d2", 8.0), ("d3", 7.0)]}
    >>> rerank(run, {("q", "d1"): 0.25, ("q", "d2"): 0.5}, depth=2)
    {'q': [('d2', 0.5), ('d1', 0.25), ('d3', -0.75)]}
    """
    reranked: Run = {}
    for query, hits in run.items():
        head = ranked((document, scores[query, document]) for document, _ in hits[:depth])
        lowest = head[-1][1]
        tail = [(document, lowest - place) for place, (document, _) in enumerate(hits[depth:], start=1)]
        reranked[query] = head + tail
    return reranked
