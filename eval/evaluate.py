"""``python -m eval.evaluate``: the measures, and the sparsity, of one run or several, and their differences."""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.costs import Sparsity, sparsity_of_files
from eval.measures import (
    Cell,
    Column,
    Comparison,
    Measure,
    Qrels,
    Scores,
    add_collection_options,
    comparisons,
    evaluate,
    format_comparison,
    format_table,
    load_split,
    named_runs,
    parse_measure,
)
from learned_sparse.collections.collection import registered_qrels
from learned_sparse.collections.trec import read_qrels
from learned_sparse.core.errors import LearnedSparseError, did_you_mean, progress_bar, run_main
from learned_sparse.core.files import atomic_write, index_folder, run_file
from learned_sparse.core.settings import CommandParser
from learned_sparse.index.note import INDEX_MANIFEST

Compared = Mapping[str, Mapping[str, Comparison]]
"""Run → measure → its comparison with the baseline."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Task:
    """What ``eval.evaluate`` measures runs against."""

    collection: str | None
    split: str | None
    qrels: Qrels
    measures: tuple[str, ...]
    remove_query: bool


@dataclass(frozen=True)
class _Result:
    """Scores of one run; all results of a table have the same measures and queries."""

    name: str
    run: Path
    scores: Scores
    sparsity: Sparsity | None


def main(argv: list[str] | None = None) -> int:
    """Evaluate the runs and print, or write JSON."""
    options = _parser().parse_args(argv)
    for measure in options.measures or ():
        parse_measure(measure)
    runs = named_runs(options.run or ())
    task = _load_task(options)
    runs = runs or _runs_at_home(task)
    baseline = options.baseline or next(iter(runs))
    if baseline not in runs:
        raise LearnedSparseError(f"--baseline {baseline}: no such run{did_you_mean(baseline, runs)}")
    results = [
        _Result(name, run, evaluate(run, task.qrels, task.measures, remove_query=task.remove_query), sparsity)
        for name, run, sparsity in zip(
            progress_bar(runs, "measuring", "runs"), runs.values(), _sparsities(options, len(runs)), strict=True
        )
    ]
    for result in results:
        _warn(result)
    per_query = {result.name: result.scores.per_query for result in results}
    compared = {} if options.no_compare else comparisons(per_query, baseline)
    as_json = _as_json(task, results, options.per_query) | {"comparisons": _compared_as_json(compared, baseline)}
    content = json.dumps(as_json, indent=2, ensure_ascii=False)
    if options.output:
        with atomic_write(options.output) as file:
            file.write(f"{content}\n".encode())
        if not options.json:
            print(f"written: {options.output}")
    elif options.json:
        print(content)
    if not options.json:
        print(_results_table(results, markdown=options.markdown))
        if compared:
            print(_compared_as_text(compared, baseline, markdown=options.markdown))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="python -m eval.evaluate",
        description="Measure runs with trec_eval, with the settings of the benchmark they belong to.",
        epilog="Give either --collection with --split, or --qrels with --measures.",
    )
    several: dict[str, Any] = {"nargs": "+", "action": "extend"}
    add = parser.add_argument
    add_collection_options(parser)
    add("--run", **several, metavar="[NAME=]FILE", help="TREC runs (default: those of the split in the home folder)")
    add("--qrels", metavar="FILE", help="judgements instead of the split's: a file, or a name registered in Pyserini")
    add("--measures", nargs="+", metavar="M", help="such as MRR@10 'MAP(rel=2)' ndcg_cut.10 (default: the split's)")
    add("--remove-query", action="store_true", help="ignore a hit with the query's own id (BEIR; the split's default)")
    add(
        "--vectors",
        **several,
        type=Path,
        metavar="DIR",
        help="encoded documents, one per run: adds FLOPS and terms per text",
    )
    add("--queries", **several, type=Path, metavar="DIR", help="the encoded queries that belong to --vectors")
    among = parser.add_mutually_exclusive_group().add_argument
    among("--baseline", metavar="NAME", help="compare the other runs with this one (default: the first run)")
    among("--no-compare", action="store_true", help="leave out the differences between the runs")
    add("--per-query", action="store_true", help="add the values of every query to the JSON")
    add("--markdown", action="store_true", help="print a Markdown table, the best value in bold")
    add("--json", action="store_true", help="print everything as JSON")
    add("--output", type=Path, metavar="FILE", help="write the JSON to this file instead of printing it")
    return parser


def _load_task(options: argparse.Namespace) -> _Task:
    qrels = _load_qrels(options.qrels) if options.qrels else None
    if options.collection is None:
        if qrels is None or not options.measures:
            raise LearnedSparseError("no judgements: give --collection, or --qrels with --measures")
        split, measures, remove_query = options.split, options.measures, options.remove_query
        return _Task(collection=None, split=split, qrels=qrels, measures=tuple(measures), remove_query=remove_query)
    collection, name = load_split(options)
    split = collection.split(name)
    return _Task(
        collection=collection.name,
        split=name,
        qrels=collection.qrels(name) if qrels is None else qrels,
        measures=tuple(options.measures or split.measures),
        remove_query=options.remove_query or split.remove_query,
    )


def _load_qrels(name: str) -> Qrels:
    path = Path(name)
    looks_like_a_file = len(path.parts) > 1 or path.suffix in {".txt", ".tsv", ".gz"}
    return read_qrels(path) if path.exists() or looks_like_a_file else registered_qrels(name)


def _runs_at_home(task: _Task) -> dict[str, Path]:
    if task.collection is None or task.split is None:
        raise LearnedSparseError("no run: give --run FILE")
    folder = run_file(task.collection, task.split, "any").parent
    runs = {path.stem: path for path in sorted(folder.glob("*.txt"))}
    if not runs:
        raise LearnedSparseError(f"{folder}: no runs (*.txt); give --run FILE")
    for name, run in runs.items():
        index = index_folder(task.collection, name)
        note = index / INDEX_MANIFEST
        if note.is_file() and note.stat().st_mtime > run.stat().st_mtime:
            logger.warning("%s: older than the index %s; search again", run, index)
    return runs


def _sparsities(options: argparse.Namespace, runs: int) -> list[Sparsity | None]:
    vectors, queries = options.vectors or [], options.queries or []
    if {len(vectors), len(queries)} not in ({0}, {runs}):
        raise LearnedSparseError("give both --vectors and --queries, one folder of each per run, in the same order")
    return [sparsity_of_files(*pair) for pair in zip(vectors, queries, strict=True)] or [None] * runs


def _warn(result: _Result) -> None:
    for queries, message in (
        (result.scores.missing, "judged queries without a hit, scored zero"),
        (result.scores.unjudged, "queries without a judgement, ignored"),
    ):
        if queries:
            logger.warning("%s: %d %s (for instance %r)", result.run, len(queries), message, queries[0])
    hits = result.scores.max_hits
    deeper = [measure for measure in map(parse_measure, result.scores.mean) if (measure.cutoff or 0) > hits]
    if hits and deeper:
        effects = ", ".join(_effect_of_few_hits(measure, hits) for measure in deeper)
        logger.warning("%s: at most %d hits a query; %s", result.run, hits, effects)


def _effect_of_few_hits(measure: Measure, hits: int) -> str:
    """What a measure is if no query has more than ``hits`` hits, which are fewer than its cut-off."""
    if measure.name.startswith(("P.", "ndcg_cut.")):  # these divide by the cut-off or by the ideal ranks up to it
        return f"{measure.text} finds nothing after rank {hits}"
    return f"{measure.text} is {measure.text.removesuffix(str(measure.cutoff))}{hits}"


def _results_table(results: Sequence[_Result], *, markdown: bool) -> str:
    """One row per run: measures, then FLOPS and terms if any run has them."""
    columns = [Column("run"), *(Column(measure, best="highest") for measure in results[0].scores.mean)]
    rows: list[list[Cell]] = [[result.name, *result.scores.mean.values()] for result in results]
    if any(result.sparsity for result in results):
        columns += [Column("FLOPS", best="lowest"), Column("terms/document", 1), Column("terms/query", 1)]
        for row, result in zip(rows, results, strict=True):
            of = result.sparsity
            row += [of.flops, of.documents.mean, of.queries.mean] if of else [None, None, None]
    return format_table(columns, rows, markdown=markdown)


def _compared_as_text(compared: Compared, baseline: str, *, markdown: bool) -> str:
    """A heading that names the statistics, and one line for each run and measure."""
    holm = f", corrected for {len(compared)} runs (Holm)" if len(compared) > 1 else ""
    lines = [
        ("- " if markdown else "") + format_comparison(name, baseline, measure, comparison)
        for name, of_measure in compared.items()
        for measure, comparison in of_measure.items()
    ]
    return "\n".join(["", f"differences, 95 % intervals, p-values of the randomisation test{holm}:", "", *lines])


def _compared_as_json(compared: Compared, baseline: str) -> list[dict[str, Any]]:
    content = []
    for name, of_measure in compared.items():
        for measure, comparison in of_measure.items():
            low, high = comparison.confidence_interval
            interval = [low, high] if math.isfinite(low) else None  # of a single query; JSON has no infinity
            numbers = {"difference": comparison.difference, "interval": interval, "p_value": comparison.p_value}
            content.append({"run": name, "baseline": baseline, "measure": measure, **numbers})
    return content


def _as_json(task: _Task, results: Sequence[_Result], per_query: bool) -> dict[str, Any]:
    runs = []
    for result in results:
        run: dict[str, Any] = {"name": result.name, "run": str(result.run), "scores": dict(result.scores.mean)}
        if result.sparsity:
            run["sparsity"] = dataclasses.asdict(result.sparsity)
        run |= {"missing": list(result.scores.missing), "unjudged": list(result.scores.unjudged)}
        runs.append(run | ({"per_query": result.scores.per_query} if per_query else {}))
    facts = {"collection": task.collection, "split": task.split, "remove_query": task.remove_query}
    return {**facts, "runs": runs}


if __name__ == "__main__":
    run_main(main)
