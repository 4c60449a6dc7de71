"""``python -m eval.breakdown``: runs measured apart for queries that share few, some or all words with the answer."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval.breakdown.overlap import Overlap, by_class, overlap, with_matches
from eval.measures import Cell, Column, Judged, add_judged_options, chances, format_table, load_judged, read_runs, said
from learned_sparse.collections import Run
from learned_sparse.core import LearnedSparseError, did_you_mean, run_main

EPILOG = """\
The classes are those of SpaDE's Table 4: by how many distinct word pieces of the query are in its relevant document; of
several relevant documents the one that shares the most decides. --compare tests differences with Fisher's paired
randomisation test, corrected for the number of runs (Holm-Bonferroni).

examples:
  python -m eval.breakdown --collection msmarco-v1-passage --split dev --measures MRR@10 R@1000 MAP \\
      --run bm25=bm25.txt spade=spade.txt --compare spade
"""
Pieces = Callable[[Sequence[str]], list[frozenset[int]]]
"""Texts to the distinct ids of their word pieces."""


@dataclass(frozen=True, kw_only=True)
class Class:
    """The queries of one class and what the runs score on them."""

    name: str
    queries: Sequence[str]
    unmatched: int
    """Queries that share no piece at all."""
    scores: Mapping[str, Mapping[str, float]]
    """Run → measure → mean over the queries of the class."""
    chances: Mapping[str, Mapping[str, float]]
    """Run → measure → p of its difference from the run that all are compared with; empty without such a run."""


def main(argv: list[str] | None = None) -> int:
    """Classify, measure and print."""
    options = _parser().parse_args(argv)
    judged, runs = load_judged(options), read_runs(options.run)
    if options.compare is not None and options.compare not in runs:
        raise LearnedSparseError(f"--compare {options.compare}: no such run{did_you_mean(options.compare, runs)}")
    from eval.measures import load_pieces

    overlaps = query_overlaps(judged, load_pieces(options.tokenizer, options.revision), options.level)
    if left_out := len(judged.queries) - len(overlaps):
        print(f"note: queries without a document of grade {options.level}, left out: {left_out}", file=sys.stderr)
    queries = {"All": list(overlaps), **by_class(overlaps)}
    classes = [
        measure_class(name, ids, with_matches(overlaps, ids, 0), judged, runs, options.compare)
        for name, ids in queries.items()
    ]
    if options.json:
        print(json.dumps(_as_json(options, judged, classes), indent=2, ensure_ascii=False))
    else:
        print(
            "\n\n".join(
                class_table(found, judged.measures, options.compare, markdown=options.markdown) for found in classes
            )
        )
    return 0


def query_overlaps(judged: Judged, pieces: Pieces, level: int = 1) -> dict[str, Overlap]:
    """The overlap of each query with a document of grade ``level`` or more; the documents are read once."""
    relevant = {
        query: [document for document, grade in judged.qrels[query].items() if grade >= level]
        for query in judged.queries
    }
    relevant = {query: documents for query, documents in relevant.items() if documents}
    if not relevant:
        raise LearnedSparseError(f"no query has a document of grade {level} or more; lower --level")
    found = judged.documents({document for documents in relevant.values() for document in documents})
    of_document = dict(zip(found, pieces([document.text for document in found.values()]), strict=True))
    of_query = dict(zip(relevant, pieces([judged.queries[query] for query in relevant]), strict=True))
    return {query: overlap(of_query[query], map(of_document.__getitem__, ids)) for query, ids in relevant.items()}


def measure_class(
    name: str, queries: Sequence[str], unmatched: int, judged: Judged, runs: Mapping[str, Run], compare: str | None
) -> Class:
    """The means of all runs over ``queries``, by trec_eval; no scores where there is no query."""
    from eval.measures import evaluate

    qrels = {query: judged.qrels[query] for query in queries}
    found = {
        run: evaluate(qrels, hits, judged.measures, remove_query=judged.remove_query)
        for run, hits in runs.items()
        if queries
    }
    return Class(
        name=name,
        queries=queries,
        unmatched=unmatched,
        scores={run: scores.mean for run, scores in found.items()},
        chances=chances({run: scores.per_query for run, scores in found.items()}, compare) if compare and found else {},
    )


def class_table(found: Class, measures: Sequence[str], compare: str | None = None, *, markdown: bool = False) -> str:
    """A heading with the number of queries, one row a run, and what differs significantly from ``compare``."""
    some = f", {found.unmatched:,} of them share nothing" if found.unmatched else ""
    number = f"{len(found.queries):,} {'query' if len(found.queries) == 1 else 'queries'}"
    heading = f"{'### ' if markdown else ''}{found.name} ({number}{some})"
    columns = [Column("run"), *(Column(measure, best="highest") for measure in measures)]
    rows: list[list[Cell]] = [[run, *(scores[measure] for measure in measures)] for run, scores in found.scores.items()]
    if not rows:
        return heading
    table = f"{heading}\n\n{format_table(columns, rows, markdown=markdown)}"
    return f"{table}\n\n{said(found.chances, compare)}" if compare else table


def _as_json(options: argparse.Namespace, judged: Judged, classes: Sequence[Class]) -> dict[str, Any]:
    return {
        "collection": judged.collection.name,
        "split": judged.split,
        "tokenizer": options.tokenizer,
        "level": options.level,
        **({"compare": options.compare} if options.compare else {}),
        "classes": [
            {
                "name": found.name,
                "queries": len(found.queries),
                "unmatched": found.unmatched,
                "scores": found.scores,
                **({"p": found.chances} if options.compare else {}),
                "query_ids": found.queries,
            }
            for found in classes
        ],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval.breakdown",
        description="Measure runs apart for queries that share few, some or all word pieces with what is relevant.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_judged_options(parser)
    add = parser.add_argument
    add(
        "--tokenizer",
        default="minilm",
        metavar="DIR|HUB_ID",
        help="whose word pieces; the default %(default)s has BERT's uncased vocabulary and comes with the extra demo",
    )
    add("--revision", help="of a tokenizer on the Hub")
    add("--level", type=int, default=1, metavar="GRADE", help="relevant from this grade on: %(default)s")
    add("--compare", metavar="NAME", help="say which runs differ from this one by more than chance (p < 0.05)")
    add("--markdown", action="store_true", help="Markdown tables, the best in bold")
    add("--json", action="store_true", help="everything as JSON, the ids of the queries included")
    return parser


if __name__ == "__main__":
    run_main(main)
