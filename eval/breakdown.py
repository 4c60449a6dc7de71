"""``python -m eval.breakdown``: measures of runs by how many word pieces queries share with relevant documents.

The classes are those of SpaDE, section 5.1 and Table 4: a query is ``Match all`` if the relevant document has all of
its pieces, otherwise ``Match <= 1`` if the document has none or one of them, otherwise ``Match > 1``. Choices where the
paper is silent:

- pieces are distinct: a piece that a query repeats counts once;
- all pieces count, also those of stop words and punctuation;
- of several relevant documents (1.07 per development query of MS MARCO on average), the one that shares most pieces
  with the query decides, because a lexical searcher could have retrieved it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from eval.measures import (
    SIGNIFICANT,
    Cell,
    Column,
    Judged,
    add_judged_options,
    evaluate,
    format_table,
    load_judged,
    load_pieces,
    p_values,
    read_runs,
)
from learned_sparse.collections.trec import Run
from learned_sparse.core.errors import LearnedSparseError, did_you_mean, run_main
from learned_sparse.core.settings import CommandParser

EPILOG = """\
The classes are those of SpaDE's Table 4: the number of distinct word pieces of the query in its relevant document; of
several relevant documents, the one that shares most pieces. --compare tests differences with Fisher's paired
randomisation test, corrected for the number of runs (Holm-Bonferroni).

examples:
  python -m eval.breakdown --collection msmarco-v1-passage --split dev --measures MRR@10 R@1000 MAP \\
      --run bm25=bm25.txt spade=spade.txt --compare spade
"""
CLASSES = ("Match <= 1", "Match > 1", "Match all")
Pieces = Callable[[Sequence[str]], list[frozenset[int]]]
"""Function from texts to the distinct ids of their word pieces."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Overlap:
    """Number of distinct pieces of a query, and how many of them its relevant document has."""

    pieces: int
    matched: int

    @property
    def name(self) -> str:
        """Class of the query, one of ``CLASSES``.

        >>> Overlap(pieces=1, matched=1).name, Overlap(pieces=3, matched=1).name
        ('Match all', 'Match <= 1')
        """
        if self.pieces and self.matched == self.pieces:
            return "Match all"
        return "Match <= 1" if self.matched <= 1 else "Match > 1"


@dataclass(frozen=True, kw_only=True)
class Class:
    """The queries of one class, and the scores of the runs on them."""

    name: str
    queries: Sequence[str]
    unmatched: int
    """Queries that share no piece at all."""
    scores: Mapping[str, Mapping[str, float]]
    """Run → measure → mean over the queries of the class; empty for a class without queries."""
    p_values: Mapping[str, Mapping[str, float]]
    """Run → measure → p-value of its difference from the reference run; empty without a reference run."""


def overlap(query: Set[int], relevant: Iterable[Set[int]]) -> Overlap:
    """Overlap of the pieces of a query with those of its relevant documents (at least one).

    >>> overlap({1, 2, 3}, [{1, 9}, {2, 3, 9}])
    Overlap(pieces=3, matched=2)
    """
    return Overlap(len(query), max(len(query & document) for document in relevant))


def query_overlaps(judged: Judged, pieces: Pieces, level: int = 1) -> dict[str, Overlap]:
    """Overlap of each query that has a document of grade ``level`` or higher; one pass over the documents."""
    relevant = {
        query: [document for document, grade in judged.qrels[query].items() if grade >= level]
        for query in judged.queries
    }
    relevant = {query: documents for query, documents in relevant.items() if documents}
    if not relevant:
        raise LearnedSparseError(f"no query has a document of grade {level} or higher; lower --level")
    documents = judged.documents({document for ids in relevant.values() for document in ids})
    of_document = dict(zip(documents, pieces([document.text for document in documents.values()]), strict=True))
    of_query = dict(zip(relevant, pieces([judged.queries[query] for query in relevant]), strict=True))
    return {query: overlap(of_query[query], map(of_document.__getitem__, ids)) for query, ids in relevant.items()}


def by_class(overlaps: Mapping[str, Overlap]) -> dict[str, list[str]]:
    """Query ids of each class, in the given order."""
    return {name: [query for query, of_query in overlaps.items() if of_query.name == name] for name in CLASSES}


def main(argv: list[str] | None = None) -> int:
    """Classify the queries, measure the runs on each class, and print."""
    options = _parser().parse_args(argv)
    judged, runs = load_judged(options), read_runs(options.run)
    if options.compare is not None and options.compare not in runs:
        raise LearnedSparseError(f"--compare {options.compare}: no such run{did_you_mean(options.compare, runs)}")
    overlaps = query_overlaps(judged, load_pieces(options.tokenizer, options.revision), options.level)
    if left_out := len(judged.queries) - len(overlaps):
        logger.warning("%d queries without a document of grade %d, left out", left_out, options.level)
    queries = {"All": list(overlaps), **by_class(overlaps)}
    classes = [_measure(name, ids, overlaps, judged, runs, options.compare) for name, ids in queries.items()]
    if options.json:
        facts = {"collection": judged.collection.name, "split": judged.split, "compare": options.compare}
        content = facts | {"tokenizer": options.tokenizer, "level": options.level}
        content["classes"] = [dataclasses.asdict(query_class) for query_class in classes]
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        print("\n\n".join(_class_table(query_class, judged.measures, options) for query_class in classes))
    return 0


def _measure(
    name: str,
    queries: Sequence[str],
    overlaps: Mapping[str, Overlap],
    judged: Judged,
    runs: Mapping[str, Run],
    reference: str | None,
) -> Class:
    qrels = {query: judged.qrels[query] for query in queries}
    scores = {
        run: evaluate(hits, qrels, judged.measures, remove_query=judged.remove_query)
        for run, hits in runs.items()
        if queries
    }
    per_query = {run: [of_run.per_query] for run, of_run in scores.items()}
    return Class(
        name=name,
        queries=queries,
        unmatched=sum(overlaps[query].matched == 0 for query in queries),
        scores={run: of_run.mean for run, of_run in scores.items()},
        p_values=p_values(per_query, reference) if reference and scores else {},
    )


def _class_table(query_class: Class, measures: Sequence[str], options: argparse.Namespace) -> str:
    """A heading with the number of queries, one row per run, and which runs differ significantly."""
    unmatched = f", {query_class.unmatched:,} of them share no piece" if query_class.unmatched else ""
    number = f"{len(query_class.queries):,} {'query' if len(query_class.queries) == 1 else 'queries'}"
    heading = f"{'### ' if options.markdown else ''}{query_class.name} ({number}{unmatched})"
    columns = [Column("run"), *(Column(measure, best="highest") for measure in measures)]
    rows: list[list[Cell]] = [
        [run, *(scores[measure] for measure in measures)] for run, scores in query_class.scores.items()
    ]
    if not rows:
        return heading
    parts = [heading, format_table(columns, rows, markdown=options.markdown)]
    return "\n\n".join([*parts, _significance(query_class, options.compare)] if options.compare else parts)


def _significance(query_class: Class, reference: str) -> str:
    measures = next(iter(query_class.p_values.values()), {})
    runs = {
        measure: [run for run, p in query_class.p_values.items() if p[measure] < SIGNIFICANT] for measure in measures
    }
    parts = [f"{measure}: {', '.join(names)}" for measure, names in runs.items() if names]
    return f"significantly different from {reference} (p < {SIGNIFICANT}): {'; '.join(parts) or 'none'}"


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="python -m eval.breakdown",
        description="Measure runs by how many of their word pieces queries share with relevant documents.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_judged_options(parser)
    add = parser.add_argument
    add(
        "--tokenizer",
        default="minilm",
        metavar="DIR|HUB_ID",
        help="tokenizer of the word pieces (default: %(default)s, BERT's uncased vocabulary, of the extra demo)",
    )
    add("--revision", help="revision of a tokenizer on the Hub")
    add("--level", type=int, default=1, metavar="GRADE", help="smallest relevant grade (default: %(default)s)")
    add("--compare", metavar="NAME", help="test the differences of all other runs from this one (p < 0.05)")
    add("--markdown", action="store_true", help="print Markdown tables, the best value in bold")
    add("--json", action="store_true", help="print everything as JSON, query ids included")
    return parser


if __name__ == "__main__":
    run_main(main)
