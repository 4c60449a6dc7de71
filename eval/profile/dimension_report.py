"""An analysis of dimensions as a page, and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

from eval.measures import Cell, Column, format_table
from eval.profile.density import LengthGroup
from eval.profile.dimension_analysis import Analysis
from eval.profile.dimension_profile import Profile
from eval.profile.dimension_words import Meaning

_WORDS = 10  # of a dimension, on the page


def page(analysis: Analysis, *, top: int, chosen: Collection[str] = (), markdown: bool = False) -> str:
    """Tables of usage, stop-dimensions, lengths and meanings; ``top`` dimensions each, but all of ``chosen`` if any."""
    found = analysis.profile
    saved = 1 - found.flops_without / found.flops if found.flops else 0.0
    stop = (
        f"{len(found.stop_dimensions)} stop-dimensions; without them FLOPS would be {found.flops_without:.4f} "
        f"instead of {found.flops:.4f} ({saved:.0%} less)"
    )
    parts = [
        ("Dimensions in use", _usage(analysis, markdown)),
        (stop, _stop(found, top, markdown)),
        *((f"Active dimensions of {kind} by length in tokens", _lengths(groups, analysis.dimensions, markdown))
          for kind, groups in analysis.lengths.items()),
        ("Words of queries that activate a dimension, and in how many such queries", _meanings(
            _chosen(analysis.meanings, chosen, top), markdown)),
    ]  # fmt: skip
    return "\n\n".join(f"{'## ' if markdown else ''}{title}\n\n{table}" for title, table in parts)


def as_json(analysis: Analysis) -> dict[str, Any]:
    """All of it but the charts."""
    return {
        "dimensions": analysis.dimensions,
        "profile": dataclasses.asdict(analysis.profile),
        "lengths": {kind: [dataclasses.asdict(group) for group in of] for kind, of in analysis.lengths.items()},
        "meanings": [dataclasses.asdict(meaning) for meaning in analysis.meanings],
    }


def _usage(analysis: Analysis, markdown: bool) -> str:
    columns: list[Column | str] = [
        "texts", Column("number", 0), Column("active each", 1), "dimensions in use", "in one text only",
        "with half of all postings", Column("Zipf slope", 2),
    ]  # fmt: skip
    kinds = {"documents": analysis.profile.documents, "queries": analysis.profile.queries}
    rows: list[list[Cell]] = [
        [kind, used.texts, used.postings / used.texts, used.dimensions, used.singletons, used.half, used.slope]
        for kind, used in kinds.items()
    ]
    table = format_table(columns, rows, markdown=markdown)
    known = f" of {analysis.dimensions:,}" if analysis.dimensions else ""
    return f"{table}\n\n{analysis.profile.never_asked:,} dimensions{known} are active in documents and in no query."


def _stop(found: Profile, top: int, markdown: bool) -> str:
    columns: list[Column | str] = ["dimension", Column("share of documents", 3), Column("share of queries", 3)]
    rows: list[list[Cell]] = [[one.dimension, one.documents, one.queries] for one in found.stop_dimensions[:top]]
    return format_table(columns, rows, markdown=markdown) if rows else "none"


def _lengths(groups: Sequence[LengthGroup], dimensions: int | None, markdown: bool) -> str:
    columns: list[Column | str] = ["tokens", "texts", Column("active dimensions", 1), Column("density in %", 3)]
    rows: list[list[Cell]] = [
        [_range(group), group.texts, group.mean_active, 100 * group.mean_active / dimensions if dimensions else None]
        for group in groups
    ]
    return format_table(columns, rows, markdown=markdown) if rows else "none"


def _range(group: LengthGroup) -> str:
    return str(group.shortest) if group.shortest == group.longest else f"{group.shortest}–{group.longest}"


def _chosen(found: Sequence[Meaning], chosen: Collection[str], top: int) -> list[Meaning]:
    return [meaning for meaning in found if meaning.dimension in chosen] if chosen else list(found[:top])


def _meanings(found: Sequence[Meaning], markdown: bool) -> str:
    rows: list[list[Cell]] = [
        [
            meaning.dimension,
            meaning.queries,
            ", ".join(f"{word.word} ({word.queries})" for word in meaning.words[:_WORDS]),
        ]
        for meaning in found
    ]
    return format_table(["dimension", "queries", "words"], rows, markdown=markdown) if rows else "none"
