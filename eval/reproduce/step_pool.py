"""``python -m eval.reproduce.step_pool``: cut a collection to what BM25 ranks first, as a step of a leaderboard."""

from __future__ import annotations

import argparse
from pathlib import Path

from learned_sparse.collections import load_collection


def main(argv: list[str] | None = None) -> int:
    """Write the relevant documents of a split and the best of a run for each query as a collection of their own."""
    parser = argparse.ArgumentParser(prog="python -m eval.reproduce.step_pool", description=main.__doc__)
    parser.add_argument("--collection", required=True, metavar="NAME|DIR", help="the whole collection")
    parser.add_argument("--split", required=True, help="whose queries and judgements")
    parser.add_argument("--run", required=True, type=Path, metavar="FILE", help="what BM25 found in the whole")
    parser.add_argument("--depth", required=True, type=int, metavar="N", help="documents of the run for each query")
    options = parser.parse_args(argv)
    from eval.reproduce.pools import pooled

    name = load_collection(options.collection).name
    print(pooled(options.collection, name, options.split, options.run, options.depth))
    return 0


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
