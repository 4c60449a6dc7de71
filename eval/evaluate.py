"""``python -m eval.evaluate``: one table with the measures, and the sparsity, of one run or several."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.costs import Sparsity, sparsity_of_files
from eval.measures import (
    Result,
    chosen_split,
    evaluate,
    notes,
    parse_measure,
    queries_table,
    result_as_json,
    results_table,
)
from learned_sparse.collections import Qrels, load_collection, read_qrels, registered_qrels
from learned_sparse.core import LearnedSparseError, atomic_write, run_file, run_main


@dataclass(frozen=True, kw_only=True)
class Task:
    """What the runs are measured against, and how."""

    collection: str | None
    split: str | None
    qrels: Qrels
    measures: tuple[str, ...]
    remove_query: bool


def main(argv: list[str] | None = None) -> int:
    """Evaluate and print; notes on what was left out go to standard error."""
    options = _parser().parse_args(argv)
    for measure in options.measures or ():
        parse_measure(measure)
    for run in options.run or ():
        if not run.is_file():
            raise LearnedSparseError(f"{run}: no such run")
    task = _task(options)
    runs = options.run or _runs_of(task)
    results = [
        Result(name, run, evaluate(task.qrels, run, task.measures, remove_query=task.remove_query), sparsity)
        for name, run, sparsity in zip(_names(runs), runs, _sparsities(options, len(runs)), strict=True)
    ]
    for note in (note for result in results for note in notes(result)):
        print(f"note: {note}", file=sys.stderr)
    if options.output:
        with atomic_write(options.output) as file:
            file.write(_json_text(task, results, options.per_query).encode())
    elif options.json:
        print(_json_text(task, results, options.per_query), end="")
    if not options.json:
        print(results_table(results, markdown=options.markdown))
    if options.per_query and not options.json:
        print("\n" + queries_table(results, markdown=options.markdown))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval.evaluate",
        description="Measure runs with trec_eval, with the settings of the benchmark they belong to.",
        epilog="Either --collection with --split, or --qrels with --measures, says what a run is measured against.",
    )
    many: dict[str, Any] = {"nargs": "+", "action": "extend", "metavar": "FILE"}
    add = parser.add_argument
    add("--collection", metavar="NAME|PATH", help="a collection by name, folder, YAML file, or ir_datasets:ID")
    add("--data", type=Path, metavar="DIR", help="folder the files of --collection are in")
    add("--split", help="which of its splits (needed where it has several)")
    add(
        "--run",
        type=Path,
        **many,
        help="TREC runs, a row each; without it, all runs of the split below the home folder",
    )
    add("--qrels", metavar="FILE", help="judgements instead of the split's: a file, or a name registered in Pyserini")
    add(
        "--measures", nargs="+", metavar="M", help="for instance MRR@10 R@1000 'MAP(rel=2)'; the default is the split's"
    )
    add(
        "--remove-query",
        action="store_true",
        help="ignore a result with the query's own id (BEIR; a split knows itself)",
    )
    add("--vectors", type=Path, **many, help="encoded documents, one folder a run: adds FLOPS and terms per text")
    add("--queries", type=Path, **many, help="the encoded queries that belong to --vectors")
    add("--per-query", action="store_true", help="the value of every query, too")
    add("--markdown", action="store_true", help="a Markdown table, the best in bold")
    add("--json", action="store_true", help="everything as JSON, document frequencies included")
    add("--output", type=Path, metavar="FILE", help="write the JSON to this file, and print it no more")
    return parser


def _task(options: argparse.Namespace) -> Task:
    qrels = _qrels(options.qrels) if options.qrels else None
    if options.collection is None:
        if qrels is None or not options.measures:
            raise LearnedSparseError("measured against what? Give --collection, or --qrels with --measures")
        split, measures, remove_query = options.split, options.measures, options.remove_query
        return Task(collection=None, split=split, qrels=qrels, measures=tuple(measures), remove_query=remove_query)
    collection = load_collection(options.collection, data=options.data)
    name = chosen_split(collection, options.split)
    split = collection.split(name)
    return Task(
        collection=collection.name,
        split=name,
        qrels=collection.qrels(name) if qrels is None else qrels,
        measures=tuple(options.measures or split.measures),
        remove_query=options.remove_query or split.remove_query,
    )


def _qrels(name: str) -> Qrels:
    """A file, or what Pyserini knows by a plain name."""
    path = Path(name)
    looks_like_a_file = len(path.parts) > 1 or path.suffix in {".txt", ".tsv", ".gz"}
    return read_qrels(path) if path.exists() or looks_like_a_file else registered_qrels(name)


def _runs_of(task: Task) -> list[Path]:
    if task.collection is None or task.split is None:
        raise LearnedSparseError("no run is given; name some with --run FILE")
    folder = run_file(task.collection, task.split, "any").parent
    found = sorted(folder.glob("*.txt"))
    if not found:
        raise LearnedSparseError(f"{folder}: no runs (*.txt) there; name some with --run FILE")
    return found


def _names(runs: Sequence[Path]) -> list[str]:
    """The file's name without its ending, or all of the path where two are called the same."""
    often = Counter(run.stem for run in runs)
    return [run.stem if often[run.stem] == 1 else str(run) for run in runs]


def _sparsities(options: argparse.Namespace, runs: int) -> list[Sparsity | None]:
    vectors, queries = options.vectors or [], options.queries or []
    if {len(vectors), len(queries)} not in ({0}, {runs}):
        raise LearnedSparseError("--vectors and --queries go together: one of each for every run, in the same order")
    return [sparsity_of_files(*pair) for pair in zip(vectors, queries, strict=True)] or [None] * runs


def _json_text(task: Task, results: Sequence[Result], per_query: bool) -> str:
    return json.dumps(_as_json(task, results, per_query), indent=2, ensure_ascii=False) + "\n"


def _as_json(task: Task, results: Sequence[Result], per_query: bool) -> dict[str, Any]:
    about = {"collection": task.collection, "split": task.split, "remove_query": task.remove_query}
    return {**about, "runs": [result_as_json(result, per_query=per_query) for result in results]}


if __name__ == "__main__":
    run_main(main)
