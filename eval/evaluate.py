"""``python -m eval.evaluate``: the measures of one run or several, and their differences."""

from __future__ import annotations

import argparse
import json
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.measures import Qrels, Scores, evaluate, parse_measure
from eval.runs import add_collection_options, by_class, load_pieces, load_split, named_runs
from eval.tables import Cell, format_table
from learned_sparse.collections.trec import read_qrels, read_run
from learned_sparse.core.errors import LearnedSparseError, did_you_mean, run_main
from learned_sparse.core.files import new_file, run_file
from learned_sparse.core.settings import CommandParser

Results = Mapping[str, Scores]
Compared = tuple[str, str, Any]
"""Run, measure, and its ``eval.stats.Comparison`` with the baseline."""
EPILOG = """\
Give either --collection with --split, or --qrels with --measures. --overlap also measures each class of SpaDE's
Table 4: by the number of distinct word pieces of the query that its relevant document has.

examples:
  python -m eval.evaluate --collection scifact --split test --run bm25=bm25.txt splade=splade.txt
  python -m eval.evaluate --collection msmarco-v1-passage --split dev --overlap --baseline spade --run *.txt
"""
_logger = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> int:
    """Evaluate the runs and print, or write JSON."""
    options = _parser().parse_args(argv)
    files, qrels = named_runs(options.run or ()), _judgements(options.qrels) if options.qrels else None
    measures, remove_query, name, split = options.measures, options.remove_query, None, options.split
    if options.collection is not None:
        collection, split = load_split(options)
        name, known = collection.name, collection.split(split)
        qrels, measures = qrels or collection.qrels(split), measures or known.measures
        remove_query = remove_query or known.remove_query
    elif qrels is None or not measures or options.overlap:
        needed = "--overlap needs --collection" if options.overlap else "no judgements"
        raise LearnedSparseError(f"{needed}: give --collection, or --qrels with --measures")
    files = files or _runs_at_home(name, split)
    baseline = options.baseline or next(iter(files))
    if baseline not in files:
        raise LearnedSparseError(f"--baseline {baseline}: no such run{did_you_mean(baseline, files)}")
    runs = dict(zip(files, map(read_run, files.values()), strict=True))
    classes: dict[str, Sequence[str]] = {"": list(qrels)}
    if options.overlap:
        classes.update(by_class(collection, split, qrels, load_pieces(options.overlap)))
    content: dict[str, Any] = {"collection": name, "split": split, "remove_query": remove_query}
    tables = []
    for of, queries in classes.items():
        judged, results, compared = {query: qrels[query] for query in queries}, dict[str, Scores](), list[Compared]()
        for run, hits in runs.items() if judged else ():
            results[run] = evaluate(hits, judged, measures, remove_query=remove_query)
        if len(results) > 1:
            from eval.stats import comparisons

            found = comparisons({run: [scores.per_query] for run, scores in results.items()}, baseline)
            compared = [(run, measure, one) for run, of_run in found.items() for measure, one in of_run.items()]
        tables.append(_as_text(results, compared, baseline, of and f"{of} ({len(queries):,} queries)"))
        part = _as_json(files, results, compared, baseline, per_query=options.per_query)
        if of:
            content.setdefault("classes", []).append({"name": of, "queries": list(queries), **part})
        else:
            content |= part
            _warn(files, results)
    text = json.dumps(content, indent=2, ensure_ascii=False)
    if options.output:
        with new_file(options.output) as temporary:
            temporary.write_text(f"{text}\n", encoding="utf-8")
        tables.insert(0, f"written: {options.output}")
    if not options.json:
        print("\n\n".join(tables))
    elif not options.output:
        print(text)
    return 0


def _judgements(name: str) -> Qrels:
    """Judgements of a file, or registered in Pyserini."""
    path = Path(name)
    if path.exists() or len(path.parts) > 1 or path.suffix in {".txt", ".tsv", ".gz"}:
        return read_qrels(path)
    from learned_sparse.collections.collection import registered_qrels

    return registered_qrels(name)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="python -m eval.evaluate",
        description="Measure runs with trec_eval, with the settings of the benchmark they belong to.",
        epilog=EPILOG,
    )
    add = parser.add_argument
    add_collection_options(parser)
    runs = "TREC runs (default: those of the split in the home folder)"
    add("--run", nargs="+", action="extend", metavar="[NAME=]FILE", help=runs)
    add("--qrels", metavar="FILE", help="judgements instead of the split's: a file, or a name registered in Pyserini")
    add("--measures", nargs="+", metavar="M", help="such as MRR@10 'MAP(rel=2)' ndcg_cut.10 (default: the split's)")
    add("--remove-query", action="store_true", help="ignore a hit with the query's own id (BEIR; the split's default)")
    add("--baseline", metavar="NAME", help="compare the other runs with this one (default: the first run)")
    overlap = "also measure by word pieces shared with relevant documents (default: BERT's uncased, of the extra demo)"
    add("--overlap", nargs="?", const="minilm", metavar="TOKENIZER", help=overlap)
    add("--per-query", action="store_true", help="add the values of every query to the JSON")
    add("--json", action="store_true", help="print everything as JSON")
    add("--output", type=Path, metavar="FILE", help="write the JSON to this file instead of printing it")
    return parser


def _runs_at_home(collection: str | None, split: str) -> dict[str, Path]:
    folder = run_file(collection, split, "any").parent if collection else Path()
    if not collection or not (files := sorted(folder.glob("*.txt"))):
        raise LearnedSparseError(f"no runs{f' (*.txt) in {folder}' if collection else ''}; give --run FILE")
    return {path.stem: path for path in files}


def _warn(files: Mapping[str, Path], results: Results) -> None:
    for run, scores in results.items():
        for queries, message in (
            (scores.missing, "judged queries without a hit, scored zero"),
            (scores.unjudged, "queries without a judgement, ignored"),
        ):
            if queries:
                _logger.warning("%s: %d %s (for instance %r)", files[run], len(queries), message, queries[0])
        if deeper := [text for text in scores.mean if 0 < scores.max_hits < (parse_measure(text).cutoff or 0)]:
            text = "%s: at most %d hits a query; less deep than %s"
            _logger.warning(text, files[run], scores.max_hits, ", ".join(deeper))


def _as_text(results: Results, compared: Sequence[Compared], baseline: str, heading: str) -> str:
    """The heading of a class, one row per run, and one line for each run and measure that is compared."""
    texts = [heading] if heading else []
    if results:
        rows: list[list[Cell]] = [[run, *scores.mean.values()] for run, scores in results.items()]
        texts.append(format_table(["run", *next(iter(results.values())).mean], rows))
    if compared:
        from eval.stats import format_comparison

        holm = f", corrected for {len(results) - 1} runs (Holm)" if len(results) > 2 else ""
        lines = [format_comparison(run, baseline, measure, one) for run, measure, one in compared]
        texts += [f"differences, 95 % intervals, p-values of the paired t-test{holm}:", "\n".join(lines)]
    return "\n\n".join(texts)


def _as_json(
    files: Mapping[str, Path], results: Results, compared: Sequence[Compared], baseline: str, *, per_query: bool
) -> dict[str, Any]:
    runs = [
        {"name": name, "run": str(files[name]), "scores": dict(scores.mean), "missing": list(scores.missing),
         "unjudged": list(scores.unjudged), **({"per_query": scores.per_query} if per_query else {})}
        for name, scores in results.items()
    ]  # fmt: skip
    found = [
        {
            "run": name,
            "baseline": baseline,
            "measure": measure,
            "difference": one.difference,
            "interval": list(one.confidence_interval) if math.isfinite(one.confidence_interval[0]) else None,
            "p_value": one.p_value,
            "queries_higher": one.wins[0],
        }
        for name, measure, one in compared
    ]
    return {"runs": runs, "comparisons": found}


if __name__ == "__main__":
    run_main(main)
