"""How often each dimension is active: a Zipf plot, and the dimensions that nearly every document has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eval.costs import Counted, expected_flops
from eval.report import Axis, Point, line_chart
from learned_sparse.prune import frequent_terms

_POINTS = 120  # of each line of the plot


@dataclass(frozen=True)
class Usage:
    """How the active dimensions of a set of texts are spread. A dimension is a term of the index."""

    texts: int
    dimensions: int
    """Active in at least one text."""
    singletons: int
    """Active in exactly one."""
    postings: int
    half: int
    """So many of the most frequent dimensions have half of all postings."""
    slope: float | None
    """Of the logarithm of the frequency against that of the rank: -1 is Zipf's law. None for less than two ranks."""


@dataclass(frozen=True)
class StopDimension:
    """A dimension that so many documents have that it hardly tells them apart."""

    dimension: str
    documents: float
    """Share of the documents in which it is active."""
    queries: float | None
    """Share of the queries; None where none are known."""


@dataclass(frozen=True)
class Profile:
    """Figure 6 of UHD-BERT's paper in numbers."""

    documents: Usage
    queries: Usage
    never_asked: int
    """Dimensions that documents have and no query."""
    flops: float
    """Expected FLOPS of one query-document score."""
    stop_dimensions: tuple[StopDimension, ...]
    """Most frequent first."""
    flops_without: float
    """FLOPS that would remain without the stop-dimensions."""


def profile(documents: Counted, queries: Counted, stop_share: float) -> Profile:
    """Stop-dimensions are active in more than ``stop_share`` of the documents."""
    stop = stop_dimensions(documents, queries, stop_share)
    asked = queries.document_frequency
    flops = expected_flops(documents, queries)
    return Profile(
        documents=usage(documents),
        queries=usage(queries),
        never_asked=sum(term not in asked for term in documents.document_frequency),
        flops=flops,
        stop_dimensions=stop,
        flops_without=flops - sum(one.documents * (one.queries or 0.0) for one in stop),
    )


def stop_dimensions(documents: Counted, queries: Counted | None, share: float) -> tuple[StopDimension, ...]:
    """The dimensions that more than ``share`` of the documents have, the most frequent first."""
    asked, texts = (queries.document_frequency, max(1, queries.texts)) if queries else ({}, 1)
    return tuple(
        StopDimension(term, count / documents.texts, asked.get(term, 0) / texts if queries else None)
        for term, count in frequent_terms(documents.document_frequency, documents.texts, share).items()
    )


def usage(counts: Counted) -> Usage:
    """See ``Usage``."""
    frequencies = _descending(counts)
    so_far = np.cumsum(frequencies)
    total = int(so_far[-1]) if len(so_far) else 0
    points = ranks(counts)
    logarithms: npt.NDArray[np.float64] = np.log(np.array(points or [(1.0, 1.0)]))
    slope = float(np.polyfit(logarithms[:, 0], logarithms[:, 1], 1)[0]) if len(points) > 1 else None
    return Usage(
        texts=counts.texts,
        dimensions=len(frequencies),
        singletons=int(np.count_nonzero(frequencies == 1)),
        postings=total,
        half=int(np.searchsorted(so_far, total / 2) + 1) if total else 0,
        slope=slope,
    )


def ranks(counts: Counted) -> list[Point]:
    """``(rank, texts)`` of dimensions by frequency, at ranks that are about equally far apart on a logarithmic axis."""
    frequencies = _descending(counts)
    if not len(frequencies):
        return []
    places = np.unique(np.geomspace(1, len(frequencies), _POINTS).round().astype(int))
    return [(float(rank), float(frequencies[rank - 1])) for rank in places.tolist()]


def frequency_chart(documents: Counted, queries: Counted | None = None) -> str:
    """In how many documents, and queries, the dimension of each rank is active, as SVG."""
    lines = {"documents": ranks(documents)} | ({"queries": ranks(queries)} if queries else {})
    x, y = Axis("rank of the dimension", logarithmic=True), Axis("texts in which it is active", logarithmic=True)
    return line_chart("Frequency of active dimensions", lines, x, y)


def _descending(counts: Counted) -> npt.NDArray[np.int64]:
    frequencies = np.fromiter(counts.document_frequency.values(), np.int64, len(counts.document_frequency))
    return np.sort(frequencies)[::-1]
