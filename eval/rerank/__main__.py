"""``python -m eval.rerank``: what a slower model makes of the first results of runs, at several depths."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eval.measures import Cell, Column, Judged, add_judged_options, format_table, load_judged, read_runs
from eval.rerank.reranking import Scorer, first_stage, pairs_of, rerank
from learned_sparse.collections import Run, write_run
from learned_sparse.core import (
    LearnedSparseError,
    add_set_option,
    checkpoint_folder,
    parse_changes,
    run_main,
    write_json,
)
from learned_sparse.jsonvector import versions

DEPTHS = (10, 20, 50, 100)
"""Of SpaDE's Table 5."""
EPILOG = """\
A cross-encoder reads query and document together (transformers' sequence classification with one label, or two). A
checkpoint of ours re-ranks by exact dot products of its weights, not quantised. Results below the depth keep their
order. Every pair is scored once, whatever the number of runs and depths.

examples:
  python -m eval.rerank --collection msmarco-v1-passage --split dev --run bm25=bm25.txt spade=spade.txt \\
      --cross-encoder cross-encoder/ms-marco-MiniLM-L6-v2 --output reranked
  python -m eval.rerank --collection trec-car --split test --run bm25.txt --depth 1000 --checkpoint DIR
"""
Row = tuple[str, int | None, Mapping[str, float]]
"""Run, depth (None: the first stage) and measures."""


def main(argv: list[str] | None = None) -> int:
    """Score, re-rank, measure, print, and write what is asked for."""
    options = _parser().parse_args(argv)
    depths = sorted(set(options.depth))
    if depths[0] < 1:
        raise LearnedSparseError(f"--depth {depths[0]}: give at least 1")
    if options.cross_encoder and options.set:
        raise LearnedSparseError("--set changes a checkpoint of ours; a cross-encoder has no such settings")
    judged = load_judged(options)
    runs = {
        name: first_stage(run, judged.queries, remove_query=judged.remove_query)
        for name, run in read_runs(options.run).items()
    }
    scorer = load_scorer(options)
    scores = _scores(scorer, judged, list(runs.values()), depths[-1])
    rows: list[Row] = []
    for name, run in runs.items():
        rows.append((name, None, _measure(judged, run)))
        for depth in depths:
            better = rerank(run, scores, depth)
            if options.output:
                write_run(options.output / f"{name}-top{depth}.txt", better)
            rows.append((name, depth, _measure(judged, better)))
    found = {"collection": judged.collection.name, "split": judged.split, **scorer.description, **_as_json(rows)}
    if options.output:
        write_json(options.output / "rerank.json", {**found, "pairs": len(scores), "versions": versions()})
    print(json.dumps(found, indent=2, ensure_ascii=False) if options.json else rerank_table(rows, options.markdown))
    return 0


def load_scorer(options: argparse.Namespace) -> Scorer:
    """The model that the options name."""
    chosen = {
        "revision": options.revision,
        "max_length": options.max_length,
        "batch_size": options.batch_size,
        "device": options.device,
        "dtype": options.dtype,
    }
    if options.cross_encoder:
        from eval.rerank.cross_encoder import CrossEncoder

        return CrossEncoder(options.cross_encoder, **chosen)
    from eval.rerank.dot_products import DotProducts

    checkpoint = options.checkpoint or str(checkpoint_folder(options.model))
    return DotProducts(checkpoint, settings=parse_changes(options.set), **chosen)


def rerank_table(rows: Sequence[Row], markdown: bool = False) -> str:
    """One row a run and depth."""
    measures = list(rows[0][2])
    columns = [Column("run"), Column("depth"), *(Column(measure, best="highest") for measure in measures)]
    cells: list[list[Cell]] = [
        [run, "first stage" if depth is None else depth, *(scores[measure] for measure in measures)]
        for run, depth, scores in rows
    ]
    return format_table(columns, cells, markdown=markdown)


def _scores(scorer: Scorer, judged: Judged, runs: Sequence[Run], depth: int) -> dict[tuple[str, str], float]:
    from tqdm import tqdm

    pairs = pairs_of(runs, depth)
    if not pairs:
        raise LearnedSparseError(f"no run has a result for a judged query of {judged.collection.name} {judged.split}")
    documents = judged.documents({document for _, document in pairs})
    with tqdm(total=len(pairs), unit=" pairs", disable=None) as bar:
        found = scorer.scores(judged.queries, documents, pairs, bar.update)
    if not np.isfinite(found).all():
        query, document = pairs[int(np.argmin(np.isfinite(found)))]
        raise LearnedSparseError(f"query {query!r}, document {document!r}: the score is not finite; try --dtype fp32")
    return dict(zip(pairs, found.tolist(), strict=True))


def _measure(judged: Judged, run: Run) -> Mapping[str, float]:
    from eval.measures import evaluate

    return evaluate(run, judged.qrels, judged.measures).mean


def _as_json(rows: Sequence[Row]) -> dict[str, Any]:
    return {"rows": [{"run": run, "depth": depth, "scores": dict(scores)} for run, depth, scores in rows]}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval.rerank",
        description="Re-rank the first results of runs with a slower model, and measure it at several depths.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_judged_options(parser)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--cross-encoder", metavar="DIR|HUB_ID", help="a sequence classifier, weights in safetensors")
    which.add_argument("--checkpoint", metavar="DIR|HUB_ID", help="a model of ours")
    which.add_argument("--model", metavar="NAME", help="the model of ours of that name in the home folder")
    add = parser.add_argument
    add("--depth", nargs="+", type=int, default=DEPTHS, metavar="N", help=f"default: {' '.join(map(str, DEPTHS))}")
    add("--revision", help="of a model on the Hub")
    add_set_option(parser, "change a setting of a checkpoint, for instance alpha=0.3; may be repeated")
    add("--max-length", type=int, metavar="TOKENS", help="default: 512 for a pair, else the checkpoint's")
    add("--batch-size", metavar="N|Nt", help="texts (32) or tokens (4096t) of one forward pass")
    add("--device", help="cpu, cuda, cuda:1, ...; default: a GPU if there is one")
    add("--dtype", default="fp32", help="fp32 (default), bf16 or fp16; fewer bits make equal scores of unequal ones")
    add("--output", type=Path, metavar="DIR", help="write the runs, NAME-topN.txt, and rerank.json")
    add("--markdown", action="store_true", help="a Markdown table, the best in bold")
    add("--json", action="store_true", help="everything as JSON")
    return parser


if __name__ == "__main__":
    run_main(main)
