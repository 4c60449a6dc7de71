"""How often dimensions are active: tables of counts, and a chart of frequencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eval.costs import TermCounts, count_documents, expected_flops, terms_per_text
from eval.dimensions.texts import is_index, only_index
from eval.tables import Axis, Cell, Column, Point, Section, line_chart
from learned_sparse.core.terms import EMPTY_TERM
from learned_sparse.jsonvector.reader import frequent_terms

SHARES = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
"""Shares of the documents in the table of cuts; SpaDE tries 0.1 to 0.9 and selects 0.7."""
_CHART_RANKS = 120  # points of each line of the frequency chart


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


def usage_section(kinds: Mapping[str, TermCounts]) -> Section:
    """Number of dimensions in use: all, those in one text only, and the most frequent with half of all postings."""
    columns = [
        *map(Column, ("texts", "number")), Column("active per text", 1),
        *map(Column, ("dimensions in use", "in one text only", "with half of all postings")),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for kind, counts in kinds.items():
        frequencies = _descending(counts)
        half = int(np.searchsorted(np.cumsum(frequencies), counts.postings / 2) + 1) if len(frequencies) else 0
        once = int(np.count_nonzero(frequencies == 1))
        rows.append([kind, counts.texts, counts.postings / max(1, counts.texts), len(frequencies), once, half])
    remarks = []
    if "queries" in kinds:
        unqueried = kinds["documents"].document_frequency.keys() - kinds["queries"].document_frequency.keys()
        remarks.append(f"{len(unqueried):,} dimensions are active in documents only.")
    return Section("Dimensions in use", remarks, columns, rows)


def lengths_of_texts(kinds: Mapping[str, TermCounts]) -> Section:
    """Mean and quantiles of the number of dimensions of a text."""
    headings = ("mean", "minimum", "5 %", "25 %", "median", "75 %", "95 %", "maximum")
    columns = [Column("texts"), *(Column(heading, 1) for heading in headings), Column("empty")]
    rows: list[list[Cell]] = [[kind, *vars(terms_per_text(of.lengths)).values()] for kind, of in kinds.items()]
    sampled, documents = len(kinds["documents"].lengths), kinds["documents"].texts
    remarks = [f"Of a sample of {sampled:,} of the {documents:,} documents."] if sampled < documents else []
    return Section("Dimensions per text", remarks, columns, rows)


def cuts_section(documents: TermCounts, queries: TermCounts | None) -> Section:
    """What pruning would remove for each of ``SHARES``: dimensions, and their shares of postings and FLOPS."""
    query_frequency = queries.document_frequency if queries else {}
    frequencies = np.fromiter(documents.document_frequency.values(), np.int64)
    products = frequencies * np.array([query_frequency.get(term, 0) for term in documents.document_frequency], np.int64)
    postings, flops = int(frequencies.sum()), int(products.sum())
    rows: list[list[Cell]] = []
    for limit in SHARES:
        stop = frequencies / max(1, documents.texts) > limit
        of_flops = 100 * float(products[stop].sum() / flops) if flops else None
        of_postings = 100 * float(frequencies[stop].sum() / postings) if postings else 0.0
        rows.append([f"{limit:.0%}", int(np.count_nonzero(stop)), of_postings, of_flops])
    columns = [
        *map(Column, ("in more than", "dimensions")), Column("% of the postings", 1), Column("% of the FLOPS", 1)
    ]  # fmt: skip
    remark = "Dimensions in more than a share of the documents: what learned_sparse.jsonvector prune would remove."
    return Section("Stop-dimensions by share", [remark], columns, rows)


def stop_section(documents: TermCounts, queries: TermCounts | None, limit: float, top: int | None) -> Section:
    """The ``top`` most frequent dimensions in more than a share of the documents (None: all), and FLOPS without them.

    UHD-BERT's Eq. 9 gives the FLOPS if all dimensions in use were equally frequent: k_q k_d / n.
    """
    in_queries, texts = (queries.document_frequency, max(1, queries.texts)) if queries else ({}, 1)
    stop = frequent_terms(documents.document_frequency, documents.texts, limit)
    rows: list[list[Cell]] = [
        [term, 100 * count / documents.texts, 100 * in_queries.get(term, 0) / texts if queries else None]
        for term, count in list(stop.items())[:top]
    ]
    remarks = []
    if queries:
        flops = expected_flops(documents, queries)
        removed = sum(count * in_queries.get(term, 0) for term, count in stop.items()) / (documents.texts * texts)
        equal = documents.postings / documents.texts * queries.postings / texts / len(documents.document_frequency)
        remarks.append(
            f"Without them FLOPS would be {flops - removed:.4f} instead of {flops:.4f}. UHD-BERT's Eq. 9, k_q k_d / n, "
            f"gives {equal:.4f}."
        )
    columns = [Column("dimension"), Column("% of the documents", 1), Column("% of the queries", 1)]
    title = f"Stop-dimensions: {len(stop):,} in more than {limit:.0%} of the documents"
    return Section(title, remarks, columns, rows)


def chart(kinds: Mapping[str, TermCounts]) -> str:
    """Number of texts in which the dimension of each rank is active, as SVG."""
    x, y = Axis("rank of the dimension", logarithmic=True), Axis("texts in which it is active", logarithmic=True)
    return line_chart("Frequency of active dimensions", {kind: _ranks(of) for kind, of in kinds.items()}, x, y)


def _ranks(counts: TermCounts) -> list[Point]:
    """``(rank, frequency)`` of dimensions, at ranks about equally spaced on a logarithmic axis."""
    frequencies = _descending(counts)
    if not len(frequencies):
        return []
    shown = np.unique(np.geomspace(1, len(frequencies), _CHART_RANKS).round().astype(int))
    return [(float(rank), float(frequencies[rank - 1])) for rank in shown.tolist()]


def _descending(counts: TermCounts) -> npt.NDArray[np.int64]:
    frequencies = np.fromiter(counts.document_frequency.values(), np.int64, len(counts.document_frequency))
    return np.sort(frequencies)[::-1]
