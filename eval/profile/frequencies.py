"""How often dimensions are active: counts, Zipf plot, stop-dimensions, and their tables and a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eval.costs import TermCounts, count_documents
from eval.measures import Cell, Column, format_table
from eval.report import Axis, Point, line_chart
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.terms import EMPTY_TERM
from learned_sparse.jsonvector.reader import frequent_terms

SHARES = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
"""Shares of the documents in the table of cuts; SpaDE tries 0.1 to 0.9 and selects 0.7."""
_CHART_RANKS = 120  # points of each line of the frequency chart


@dataclass(frozen=True)
class Usage:
    """Distribution of active dimensions over a set of texts. A dimension is a term of the index."""

    texts: int
    dimensions: int
    """Dimensions active in at least one text."""
    singletons: int
    """Dimensions active in exactly one text."""
    postings: int
    half: int
    """Number of most frequent dimensions that have half of all postings."""
    slope: float | None
    """Slope of log frequency against log rank; -1 is Zipf's law. None for less than two ranks."""


@dataclass(frozen=True)
class StopDimension:
    """A dimension active in so many documents that it hardly distinguishes them."""

    dimension: str
    documents: float
    """Share of the documents in which it is active."""
    queries: float | None
    """Share of the queries; None without queries."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The dimensions active in more than a share of the documents: which pruning would remove."""

    share: float
    dimensions: int
    postings: float
    """Share of all postings."""
    flops: float | None
    """Share of the expected FLOPS; None without queries."""


@dataclass(frozen=True)
class Section:
    """A titled table with an optional remark below the title."""

    title: str
    remark: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]


def is_index(path: Path) -> bool:
    """Whether ``path`` is a folder that Lucene wrote."""
    return next(path.glob("segments_*"), None) is not None


def only_index(paths: Sequence[Path]) -> Path:
    """The single index of ``paths``."""
    if len(paths) > 1:
        raise LearnedSparseError(f"{paths[0]}: an index; give one index at a time")
    return paths[0]


def read_counts(paths: Sequence[Path], sample: int) -> TermCounts:
    """Count one Lucene index, or encoded folders or files (several shards).

    The lengths of an index are those of ``sample`` documents, because Lucene stores terms by posting list.
    """
    if not is_index(paths[0]):
        return count_documents(*paths)
    from learned_sparse.lucene.reader import every_document_frequency, read_contents, sampled_documents

    index = only_index(paths)
    frequencies = every_document_frequency(index)
    frequencies.pop(EMPTY_TERM, None)
    lengths = [len(terms) - (EMPTY_TERM in terms) for terms in sampled_documents(index, sample)]
    documents, postings = read_contents(index).documents, sum(frequencies.values())
    return TermCounts(frequencies, documents, postings, np.array(lengths, np.int32))


def usage(counts: TermCounts) -> Usage:
    """Usage statistics of counted texts."""
    frequencies = _descending(counts)
    cumulative = np.cumsum(frequencies)
    total = int(cumulative[-1]) if len(cumulative) else 0
    points = ranks(counts)
    logarithms: npt.NDArray[np.float64] = np.log(np.array(points or [(1.0, 1.0)]))
    slope = float(np.polyfit(logarithms[:, 0], logarithms[:, 1], 1)[0]) if len(points) > 1 else None
    return Usage(
        texts=counts.texts,
        dimensions=len(frequencies),
        singletons=int(np.count_nonzero(frequencies == 1)),
        postings=total,
        half=int(np.searchsorted(cumulative, total / 2) + 1) if total else 0,
        slope=slope,
    )


def ranks(counts: TermCounts) -> list[Point]:
    """``(rank, frequency)`` of dimensions, at ranks about equally spaced on a logarithmic axis."""
    frequencies = _descending(counts)
    if not len(frequencies):
        return []
    shown = np.unique(np.geomspace(1, len(frequencies), _CHART_RANKS).round().astype(int))
    return [(float(rank), float(frequencies[rank - 1])) for rank in shown.tolist()]


def stop_dimensions(documents: TermCounts, queries: TermCounts | None, share: float) -> tuple[StopDimension, ...]:
    """The dimensions active in more than ``share`` of the documents, the most frequent first."""
    frequency, texts = (queries.document_frequency, max(1, queries.texts)) if queries else ({}, 1)
    return tuple(
        StopDimension(term, count / documents.texts, frequency.get(term, 0) / texts if queries else None)
        for term, count in frequent_terms(documents.document_frequency, documents.texts, share).items()
    )


def cuts(documents: TermCounts, queries: TermCounts | None = None, shares: Sequence[float] = SHARES) -> tuple[Cut, ...]:
    """One cut for each of ``shares`` of the documents."""
    query_frequency = queries.document_frequency if queries else {}
    frequencies = np.fromiter(documents.document_frequency.values(), np.int64)
    products = frequencies * np.array([query_frequency.get(term, 0) for term in documents.document_frequency], np.int64)
    postings, flops = int(frequencies.sum()), int(products.sum())
    result = []
    for share in shares:
        stop = frequencies / max(1, documents.texts) > share
        result.append(
            Cut(
                share=share,
                dimensions=int(np.count_nonzero(stop)),
                postings=float(frequencies[stop].sum() / postings) if postings else 0.0,
                flops=float(products[stop].sum() / flops) if flops else None,
            )
        )
    return tuple(result)


def frequency_chart(documents: TermCounts, queries: TermCounts) -> str:
    """Number of documents, and queries, in which the dimension of each rank is active, as SVG."""
    lines = {"documents": ranks(documents), "queries": ranks(queries)}
    x, y = Axis("rank of the dimension", logarithmic=True), Axis("texts in which it is active", logarithmic=True)
    return line_chart("Frequency of active dimensions", lines, x, y)


def usage_section(usages: Mapping[str, Usage]) -> Section:
    """Table of the usage by documents, and by queries."""
    columns = [
        Column("texts"),
        Column("number"),
        Column("active per text", 1),
        *map(Column, ("dimensions in use", "in one text only", "with half of all postings")),
        Column("Zipf slope", 2),
    ]
    rows: list[list[Cell]] = [
        [kind, of.texts, of.postings / max(1, of.texts), of.dimensions, of.singletons, of.half, of.slope]
        for kind, of in usages.items()
    ]
    return Section("Dimensions in use", "", columns, rows)


def stop_section(dimensions: Sequence[StopDimension], share: float, top: int) -> Section:
    """Table of the first ``top`` stop-dimensions of ``share``."""
    columns = [Column("dimension"), Column("% of the documents", 1), Column("% of the queries", 1)]
    rows: list[list[Cell]] = [
        [dimension.dimension, 100 * dimension.documents, None if dimension.queries is None else 100 * dimension.queries]
        for dimension in dimensions[:top]
    ]
    title = f"Stop-dimensions: {len(dimensions):,} in more than {share:.0%} of the documents"
    return Section(title, f"The {top:,} most frequent." if len(dimensions) > top else "", columns, rows)


def format_sections(title: str, sections: Sequence[Section], *, markdown: bool) -> str:
    """All sections as plain text or Markdown."""
    parts = [f"{'# ' if markdown else ''}{title}"]
    for section in sections:
        parts.append(f"{'## ' if markdown else ''}{section.title}")
        parts += [section.remark] if section.remark else []
        parts.append(format_table(section.columns, section.rows, markdown=markdown) if section.rows else "none")
    return "\n\n".join(parts)


def _descending(counts: TermCounts) -> npt.NDArray[np.int64]:
    frequencies = np.fromiter(counts.document_frequency.values(), np.int64, len(counts.document_frequency))
    return np.sort(frequencies)[::-1]
