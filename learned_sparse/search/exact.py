"""``python -m learned_sparse.search.exact``: search encoded documents in memory, exactly and without Java."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from learned_sparse.core import CommandParser, counted, positive, print_next, processors, progress_bar, run_main


def main(argv: list[str] | None = None) -> int:
    """Search all queries and write the run."""
    options = _parser().parse_args(argv)
    from learned_sparse.collections import write_run
    from learned_sparse.jsonvector import check_queries, read_query_vectors
    from learned_sparse.search.exact_searcher import ExactSearcher
    from learned_sparse.search.searching import search_all

    for folder in options.vectors:
        check_queries(options.queries, folder)
    queries = read_query_vectors(options.queries)
    searcher = ExactSearcher.load(*options.vectors)
    results = search_all(searcher.search_batch, queries, options.hits, threads=options.threads)
    write_run(options.output, progress_bar(results, "searching", "queries", len(queries)), options.tag)
    print(f"{options.output}: {counted(len(queries), 'query')}, {counted(len(searcher), 'document')}")
    run = shlex.quote(str(options.output))
    print_next(f"eval.evaluate --qrels QRELS.txt --measures MRR@10 R@100 --run {run}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="python -m learned_sparse.search.exact", description=__doc__)
    add = parser.add_argument
    add("--vectors", type=Path, required=True, nargs="+", metavar="DIR", help="folders of learned_sparse.encode")
    add(
        "--queries",
        type=Path,
        required=True,
        metavar="FILE",
        help="queries.tsv of learned_sparse.encode --queries, or JSONL",
    )
    add("--output", type=Path, required=True, metavar="RUN", help="run file, in TREC format")
    add("--hits", type=positive, default=1000, metavar="K", help="documents per query (default %(default)s)")
    add("--threads", type=positive, default=processors(), metavar="N", help="default: one per core, %(default)s")
    add("--tag", default="learned_sparse", help="last column of the run (default %(default)s)")
    return parser


if __name__ == "__main__":
    run_main(main)
