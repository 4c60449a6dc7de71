"""The profile of an index as text, Markdown, HTML and JSON."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eval.costs import TermCounts, TermsPerText, expected_flops, terms_per_text
from eval.measures import Cell, Column, format_table
from eval.profile.counts import Counts
from eval.profile.dimension_profile import frequency_chart, stop_dimensions, usage
from eval.profile.scores import ScoreParts
from eval.profile.stop import cuts, stop_chart, tenths
from learned_sparse.core import escape
from learned_sparse.core import page as html_page


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What there is to say of an index."""

    name: str
    documents: Counts
    queries: TermCounts | None
    scores: ScoreParts | None
    stop_share: float


@dataclass(frozen=True)
class Section:
    """A table with a title and what to know about it."""

    title: str
    note: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]


def charts(profile: Profile) -> dict[str, str]:
    """Two figures (SVG) by name."""
    return {
        "profile-frequency.svg": frequency_chart(profile.documents, profile.queries),
        "profile-stop.svg": stop_chart(profile.documents, profile.queries),
    }


def as_text(profile: Profile, top: int, *, markdown: bool = False) -> str:
    """All tables; ``top`` stop-dimensions."""
    parts = [f"{'# ' if markdown else ''}{profile.name}: {_headline(profile)}"]
    for section in _sections(profile, top):
        parts.append(f"{'## ' if markdown else ''}{section.title}")
        parts += [section.note] if section.note else []
        parts.append(format_table(section.columns, section.rows, markdown=markdown) if section.rows else "none")
    return "\n\n".join(parts)


def as_html(profile: Profile, top: int) -> str:
    """The same tables, and the figures, as one page."""
    parts = [f"<h1>{escape(profile.name)}</h1>", f"<p>{escape(_headline(profile))}</p>"]
    parts += [_image(name, chart) for name, chart in charts(profile).items()]
    for section in _sections(profile, top):
        parts.append(f"<h2>{escape(section.title)}</h2>")
        parts += [f"<p>{escape(section.note)}</p>"] if section.note else []
        parts.append(_html_table(section))
    return html_page(f"Profile of {profile.name}", "\n".join(parts))


def _image(name: str, svg: str) -> str:
    return (
        f'<p><img alt="{escape(name)}" src="data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"></p>'
    )


def as_json(profile: Profile) -> dict[str, Any]:
    """All of it but the figures, every stop-dimension included."""
    documents, queries = profile.documents, profile.queries
    texts: dict[str, TermCounts | Counts] = {"documents": documents} | ({"queries": queries} if queries else {})
    return {
        "usage": {kind: dataclasses.asdict(usage(counts)) for kind, counts in texts.items()},
        "terms_per_text": {kind: dataclasses.asdict(_lengths(counts)) for kind, counts in texts.items()},
        "sampled_documents": len(documents.lengths),
        "flops": expected_flops(documents, queries) if queries else None,
        "tenths": [dataclasses.asdict(tenth) for tenth in tenths(documents)],
        "cuts": [dataclasses.asdict(cut) for cut in cuts(documents, queries)],
        "stop_share": profile.stop_share,
        "stop_dimensions": [dataclasses.asdict(one) for one in stop_dimensions(documents, queries, profile.stop_share)],
        "scores": dataclasses.asdict(profile.scores) if profile.scores else None,
    }


def _headline(profile: Profile) -> str:
    documents = profile.documents
    line = (
        f"{documents.texts:,} documents, {documents.postings:,} postings of "
        f"{len(documents.document_frequency):,} dimensions"
    )
    return f"{line}; expected FLOPS {expected_flops(documents, profile.queries):.4f}" if profile.queries else line


def _sections(profile: Profile, top: int) -> list[Section]:
    found = [_usage(profile), _text_lengths(profile), _tenths(profile), _cuts(profile), _stop(profile, top)]
    return [*found, _scores(profile.scores)] if profile.scores else found


def _usage(profile: Profile) -> Section:
    kinds = {"documents": usage(profile.documents)} | ({"queries": usage(profile.queries)} if profile.queries else {})
    headings = ("texts", "number", "dimensions in use", "in one text only", "with half of all postings")
    columns = [*map(Column, headings), Column("Zipf slope", 2)]
    rows: list[list[Cell]] = [
        [kind, of.texts, of.dimensions, of.singletons, of.half, of.slope] for kind, of in kinds.items()
    ]
    return Section("Dimensions in use", "", columns, rows)


def _text_lengths(profile: Profile) -> Section:
    seen, documents = len(profile.documents.lengths), profile.documents.texts
    headings = ("mean", "least", "5 %", "25 %", "median", "75 %", "95 %", "most")
    columns = [Column("texts"), *(Column(heading, 1) for heading in headings), Column("empty")]
    kinds = {"documents": _lengths(profile.documents)}
    if profile.queries:
        kinds["queries"] = _lengths(profile.queries)
    rows: list[list[Cell]] = [[kind, *dataclasses.astuple(of)] for kind, of in kinds.items()]
    note = f"Of {seen:,} documents, drawn from all {documents:,}." if seen < documents else ""
    return Section("Dimensions of each text", note, columns, rows)


def _tenths(profile: Profile) -> Section:
    headings = ("tenth", "dimensions", "documents of the first", "of the last")
    columns = [*map(Column, headings), Column("% of the postings", 1)]
    rows: list[list[Cell]] = [
        [number, tenth.dimensions, tenth.highest, tenth.lowest, 100 * tenth.postings]
        for number, tenth in enumerate(tenths(profile.documents), start=1)
    ]
    return Section("Document frequencies", "Tenths of the dimensions, the most frequent ones first.", columns, rows)


def _cuts(profile: Profile) -> Section:
    columns = [Column("in more than"), Column("dimensions"), Column("% of the postings", 1)]
    rows: list[list[Cell]] = []
    for cut in cuts(profile.documents, profile.queries):
        flops = [100 * cut.flops if cut.flops is not None else None] if profile.queries else []
        rows.append([f"{cut.share:.0%}", cut.dimensions, 100 * cut.postings, *flops])
    columns += [Column("% of the FLOPS", 1)] if profile.queries else []
    note = "Dimensions in more than a share of the documents: what learned_sparse.prune would remove."
    return Section("Stop-dimensions by share", note, columns, rows)


def _stop(profile: Profile, top: int) -> Section:
    found = stop_dimensions(profile.documents, profile.queries, profile.stop_share)
    columns = [Column("dimension"), Column("% of the documents", 1)]
    rows: list[list[Cell]] = [[one.dimension, 100 * one.documents] for one in found[:top]]
    if profile.queries:
        columns.append(Column("% of the queries", 1))
        for row, one in zip(rows, found, strict=False):
            row.append(100 * (one.queries or 0.0))
    title = f"Stop-dimensions: {len(found):,} in more than {profile.stop_share:.0%} of the documents"
    return Section(title, f"The {top:,} most frequent." if len(found) > top else "", columns, rows)


def _scores(scores: ScoreParts) -> Section:
    columns = [Column("matched terms"), Column("% of the score", 1), Column("terms a hit", 2)]
    rows: list[list[Cell]] = [[part.kind, 100 * part.score, part.terms] for part in scores.parts]
    note = f"Mean over the {scores.hits:,} best hits of {scores.queries:,} queries; literal: a word piece of the text."
    return Section("Where scores come from", note, columns, rows)


def _lengths(counts: TermCounts | Counts) -> TermsPerText:
    return terms_per_text(counts.lengths)


def _html_table(section: Section) -> str:
    if not section.rows:
        return "<p>none</p>"
    numbers = [any(isinstance(row[i], int | float) for row in section.rows) for i in range(len(section.columns))]
    kinds = [' class="number"' if number else "" for number in numbers]
    head = "".join(f"<th{kind}>{escape(c.heading)}</th>" for kind, c in zip(kinds, section.columns, strict=True))
    lines = [f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>']
    for row in section.rows:
        cells = zip(kinds, row, section.columns, strict=True)
        lines.append(f"<tr>{''.join(f'<td{kind}>{_shown(cell, c)}</td>' for kind, cell, c in cells)}</tr>")
    return "\n".join([*lines, "</tbody></table></div>"])


def _shown(cell: Cell, column: Column) -> str:
    if isinstance(cell, float):
        return f"{cell:,.{column.digits}f}"
    if isinstance(cell, int):
        return f"{cell:,}"
    return "–" if cell is None else escape(cell)
