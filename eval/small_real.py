"""``python -m eval.small_real``: SparTerm and SPLADE trained on small real collections, tested on five splits."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eval import steps
from eval.bars import bar_chart
from eval.budgets import budget, stages, threads
from eval.encoded_files import sparsity_of_files
from eval.measures import evaluate
from eval.steps import BM25, Place
from eval.table import Cell, Column, format_table
from eval.written import write_texts
from learned_sparse.collection import load_collection
from learned_sparse.home import queries_folder, run_file, vectors_folder
from learned_sparse.manifest import versions

MODELS = ("small-sparterm-literal", "small-sparterm", "small-splade")
TRAINING = ("msmarco-mini", "squad-sent")
TESTS = (
    ("msmarco-mini", "test"),
    ("msmarco-mini", "test-dl19"),
    ("squad-sent", "test"),
    ("scifact", "test"),
    ("vaswani", "test"),
)
MEASURES = ("nDCG@10", "MRR@10", "R@100")
HITS = 100
NEGATIVES = 50  # of BM25, for each training query
_RESULTS = Path(__file__).parent / "results"
_SETTINGS = ("--dtype", "fp32")


def main(argv: list[str] | None = None) -> int:
    """Run every step that is not done yet; write a table and all numbers."""
    parser = argparse.ArgumentParser(prog="python -m eval.small_real", description=main.__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help=f"with {', '.join(_names())}")
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS, metavar="MODEL")
    parser.add_argument("--output", type=Path, default=_RESULTS, metavar="DIR", help="where to (default: %(default)s)")
    options = parser.parse_args(argv)
    steps.check_data(options.data, _names())
    places = [Place(collection=str(options.data / name), name=name, split=split) for name, split in TESTS]
    _run(BM25, places, anew=False)
    sources = negatives(options.data)
    for model in options.models:
        _run(model, places, anew=steps.train(model, model, sources))
    rows = [_measured(model, place) for place in places for model in (BM25, *options.models)]
    _write(options.output, rows, options.models)
    return 0


def _run(model: str, places: Sequence[Place], *, anew: bool) -> None:
    seen: set[str] = set()
    for place in places:
        if model != BM25 and place.name not in seen:
            steps.encode(model, place, anew=anew, options=_SETTINGS)
        if place.name not in seen:
            steps.index(model, place, anew=anew)
        if model != BM25:
            steps.encode_queries(model, place, anew=anew, options=_SETTINGS)
        steps.search(model, place, HITS)
        seen.add(place.name)


def negatives(data: Path) -> list[str]:
    """Options of encoders.train: the training pairs, each with BM25's best documents to take hard negatives from."""
    words: list[str] = []
    for name in TRAINING:
        words += ["--data", f"{data / name}:train"]
    for number, name in enumerate(TRAINING):
        place = Place(collection=str(data / name), name=name, split="train")
        words += ["--set", f"data.{number}.run={steps.bm25_run(place, NEGATIVES)}"]
    return words


def _measured(model: str, place: Place) -> dict[str, Any]:
    collection = load_collection(place.collection)
    scores = evaluate(
        collection.qrels(place.split),
        run_file(place.name, place.split, model),
        MEASURES,
        remove_query=collection.split(place.split).remove_query,
    )
    row: dict[str, Any] = {"collection": place.name, "split": place.split, "model": model, "scores": dict(scores.mean)}
    if model != BM25:
        found = sparsity_of_files(vectors_folder(place.name, model), queries_folder(place.name, place.split, model))
        row |= {
            "FLOPS": round(found.flops, 4),
            "terms/document": round(found.documents.mean, 2),
            "terms/query": round(found.queries.mean, 2),
        }
    return row


def _write(folder: Path, rows: Sequence[dict[str, Any]], models: Sequence[str]) -> None:
    budgets = {model: budget(model) for model in models}
    found = {
        "command": "python -m eval.small_real --data DIR",
        "python": platform.python_version(),
        "versions": versions(),
        "training": budgets,
        "results": list(rows),
    }
    head = ["# Small real collections", "", _preface(budgets), "![nDCG@10](small-real.svg)"]
    files = {
        "small-real.json": json.dumps(found, indent=2),
        "small-real.md": "\n".join([*head, *_tables(rows)]),
        "small-real.svg": chart(rows),
    }
    write_texts(folder, files)
    print("\n" + "\n".join(_tables(rows)) + f"\n\nwritten: {folder / 'small-real.md'}, small-real.json")


def chart(rows: Sequence[dict[str, Any]]) -> str:
    """nDCG@10 of every model on every split, as SVG."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    groups: dict[str, list[float]] = {}
    for row in rows:
        groups.setdefault(f"{row['collection']} {row['split']}", []).append(row["scores"]["nDCG@10"])
    return bar_chart("nDCG@10", groups, [model.removeprefix("small-") for model in models])


def _preface(budgets: dict[str, dict[str, Any]]) -> str:
    lines = [
        "Written by `python -m eval.small_real --data DIR`; every run searched by Lucene, measured by trec_eval.",
        "msmarco-mini is a small sample in which nearly every passage answers some query: its scores are far above",
        "those on the full collection and must not be compared with published ones. The models were trained on the",
        "training queries of msmarco-mini and squad-sent; scifact and vaswani are zero-shot. What each was given:",
        "",
    ]
    for model, given in budgets.items():
        lines.append(
            f"- {model}: {stages(given)}; {given['seconds'] / 60:.1f} minutes on {given['processor']} "
            f"({threads(given)}); the first {given['layers']} "
            f"layers of {given['backbone']}, documents cut at {given['max_length']['document']} tokens"
        )
    return "\n".join([*lines, ""])


def _tables(rows: Sequence[dict[str, Any]]) -> list[str]:
    columns = [
        Column("model"),
        *(Column(measure, best="highest") for measure in MEASURES),
        Column("FLOPS", 2),
        Column("terms/document", 1),
        Column("terms/query", 1),
    ]
    lines: list[str] = []
    for name, split in TESTS:
        here = [row for row in rows if (row["collection"], row["split"]) == (name, split)]
        cells: list[list[Cell]] = [
            [row["model"], *row["scores"].values(), *(row.get(column.heading) for column in columns[4:])]
            for row in here
        ]
        lines += ["", f"## {name}, {split}", "", format_table(columns, cells, markdown=True)]
    return lines


def _names() -> list[str]:
    return list(dict.fromkeys(name for name, _ in TESTS))


if __name__ == "__main__":
    from learned_sparse.cli import run_main

    run_main(main)
