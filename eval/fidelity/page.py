"""The results of ``eval.fidelity`` as a page for people, and the verdict on each dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eval.measures import Cell, Column, format_table

MOST_LOST = 0.002
"""Of nDCG@10 on any collection, by a dtype that may be a default."""
MEASURES = ("nDCG@10", "MRR@10")
_JUDGED = MEASURES[0]
_AGREEMENT = {"cosine": "cosine", "jaccard": "Jaccard", "equal": "equal integers", "within_one": "within 1"}


def verdict(dtype: str, compared: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What ``dtype`` loses of nDCG@10 where it loses most, and what follows; a gain elsewhere makes up for nothing."""
    losses = {
        found["collection"]: round(-row["difference"][_JUDGED], 4)
        for found in compared
        for row in found["rows"]
        if row["dtype"] == dtype
    }
    worst = max(losses, key=losses.__getitem__)
    may = losses[worst] <= MOST_LOST
    return {"largest loss": losses[worst], "on": worst, "may be a default": may}


def page(found: Mapping[str, Any]) -> str:
    """All of ``fidelity.json`` as Markdown."""
    lines = ["# Fewer bits: what they cost", "", *_preface(found), "", "## Verdict", ""]
    lines += [_said(dtype, said) for dtype, said in found["verdicts"].items()]
    for of_collection in found["collections"]:
        lines += ["", f"## {of_collection['collection']}, {of_collection['split']}", "", *_tables(of_collection)]
    return "\n".join([*lines, "", "## fp32 against the plain formula", "", *_plain(found["collections"])])


def _preface(found: Mapping[str, Any]) -> list[str]:
    emulated = "" if found["bf16 instructions"] else "; it has no bf16 instructions: bf16 is computed the long way"
    return [
        f"Written by `{found['command']}`.",
        f"{found['checkpoint']} ({found['architecture']}, documents cut at {found['max_length']} tokens) encoded",
        "documents and queries in each dtype, the same quantisers made them integers. The search was exact, without",
        "Lucene; the measures are trec_eval's. A collection named `...-pool-N` is cut down to what is relevant, and",
        "BM25's N best documents for each query: it compares dtypes, its scores say nothing about the whole.",
        f"Device: {found['device']}, threads: {found['threads']}{emulated}.",
    ]


def _said(dtype: str, said: Mapping[str, Any]) -> str:
    loses = f"loses {said['largest loss']:.4f}" if said["largest loss"] > 0 else "loses nothing"
    may = "may be a default" if said["may be a default"] else "must not be a default"
    return f"- {dtype} {may}: it {loses} of {_JUDGED} where it does worst ({said['on']}; {MOST_LOST} is allowed)."


def _tables(found: Mapping[str, Any]) -> list[str]:
    top = next(key for key in found["rows"][1] if key.startswith("overlap"))
    columns: list[Column | str] = ["dtype", *MEASURES]
    columns += [word for measure in MEASURES for word in (f"{measure}: difference", "p")]
    columns += [top, Column("documents/s", 1)]
    scores: list[list[Cell]] = [
        [row["dtype"], *(row["scores"][m] for m in MEASURES), *_differences(row), row.get(top), row["documents/s"]]
        for row in found["rows"]
    ]
    vectors: list[list[Cell]] = [
        [row["dtype"], f"{row[side]['texts']} {name}", *(row[side][key] for key in _AGREEMENT)]
        for row in found["rows"][1:]
        for side, name in (("document", "documents"), ("query", "queries"))
    ]
    texts = f"{found['document texts']:,} documents, {found['query texts']:,} queries."
    return [
        f"{texts} p: paired randomisation test against fp32. documents/s: of processor time, for a few",
        "documents on a machine that had other work: not a benchmark.",
        "",
        format_table(columns, scores, markdown=True),
        "",
        "The vectors beside those of fp32: means over texts; integers of the terms that either has.",
        "",
        format_table(["dtype", "texts", *_AGREEMENT.values()], vectors, markdown=True),
    ]


def _differences(row: Mapping[str, Any]) -> list[Cell]:
    if "difference" not in row:
        return [None, None] * len(MEASURES)
    return [value for measure in MEASURES for value in (row["difference"][measure], row["p"][measure])]


def _plain(compared: Sequence[Mapping[str, Any]]) -> list[str]:
    rows: list[list[Cell]] = [
        [of["collection"], side, found["texts"], f"{found['weights']:.1e}", found["integers"], _holds(found["holds"])]
        for of in compared
        for side, found in of["plain formula"].items()
        if found is not None
    ]
    if not rows:
        return ["No plain formula is written down for this architecture and its settings."]
    headings = ["collection", "side", "texts", "weights differ by", "integers differ by", "holds"]
    return [
        "One text at a time through the plain Hugging Face model: full logits, no padding. Largest differences;",
        "allowed are 1e-5 (of the weight, where it is above 1) and 1 (a weight on the edge between two integers).",
        "",
        format_table(headings, rows, markdown=True),
    ]


def _holds(holds: bool) -> str:
    return "yes" if holds else "no"
