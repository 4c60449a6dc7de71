"""How the postings are shared out among dimensions: by tenths, and what stop-dimensions hold of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eval.costs import Counted
from eval.report import Axis, line_chart

SHARES = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
"""Of the table; SpaDE tries 0.1 to 0.9 and takes 0.7."""
_FINE = tuple(number / 50 for number in range(1, 51))  # of the figure


@dataclass(frozen=True, kw_only=True)
class Tenth:
    """A tenth of the dimensions, by document frequency."""

    dimensions: int
    highest: int
    """Documents that the most frequent one is in."""
    lowest: int
    postings: float
    """Share of all postings."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The dimensions that are in more than a share of the documents: what pruning them would take away."""

    share: float
    dimensions: int
    postings: float
    """Share of all postings."""
    flops: float | None
    """Share of the expected FLOPS; None without queries."""


def tenths(documents: Counted) -> tuple[Tenth, ...]:
    """Ten parts of about equal size, the most frequent dimensions first; fewer where there are not ten dimensions."""
    frequencies = np.sort(np.fromiter(documents.document_frequency.values(), np.int64))[::-1]
    parts = [part for part in np.array_split(frequencies, 10) if len(part)]
    return tuple(
        Tenth(
            dimensions=len(part),
            highest=int(part[0]),
            lowest=int(part[-1]),
            postings=float(part.sum() / frequencies.sum()),
        )
        for part in parts
    )


def cuts(documents: Counted, queries: Counted | None = None, shares: Sequence[float] = SHARES) -> tuple[Cut, ...]:
    """One for each of ``shares`` (of the documents)."""
    asked = queries.document_frequency if queries else {}
    frequencies = np.fromiter(documents.document_frequency.values(), np.int64)
    multiplied = frequencies * np.array([asked.get(term, 0) for term in documents.document_frequency], np.int64)
    postings, flops = int(frequencies.sum()), int(multiplied.sum())
    found = []
    for share in shares:
        stop = frequencies / max(1, documents.texts) > share
        found.append(
            Cut(
                share=share,
                dimensions=int(np.count_nonzero(stop)),
                postings=float(frequencies[stop].sum() / postings) if postings else 0.0,
                flops=float(multiplied[stop].sum() / flops) if flops else None,
            )
        )
    return tuple(found)


def stop_chart(documents: Counted, queries: Counted | None = None) -> str:
    """What the stop-dimensions hold, by the share of documents from which on they are called so, as SVG."""
    found = cuts(documents, queries, _FINE)
    lines = {"postings": [(cut.share, cut.postings) for cut in found]}
    if asked := [(cut.share, cut.flops) for cut in found if cut.flops is not None]:
        lines["expected FLOPS"] = asked
    x, y = Axis("dimensions in more than this share of the documents"), Axis("hold this share of the whole")
    return line_chart("What stop-dimensions hold", lines, x, y)
