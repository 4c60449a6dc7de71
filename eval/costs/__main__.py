"""``python -m eval.costs``: what searching one row of a leaderboard costs in FLOPS, index size and time."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from learned_sparse.core import LearnedSparseError, run_main, write_json

if TYPE_CHECKING:
    from eval.costs.sparsity import TermCounts
    from learned_sparse.core import Query
    from learned_sparse.index import IndexNote
    from learned_sparse.search import ExactSearcher, Rows

EPILOG = """\
FLOPS: the mean number of terms that a query and a document share, E_q,d[sum p_q p_d] of SPLADE's paper. Times are those
of learned_sparse.search, one query at a time on one thread, warm, without the encoding of queries.

examples:
  python -m eval.costs --index INDEX --queries QUERIES                what learned_sparse.encode --queries wrote
  python -m eval.costs --index BM25 --collection scifact --split test            an index of plain text
  python -m eval.costs --vectors VECTORS --queries QUERIES            searched by --backend exact, without an index
"""


@dataclass(frozen=True, kw_only=True)
class SearchSetup:
    """An index or vectors, and the queries to search."""

    path: Path
    """The index, or a folder of vectors."""
    note: IndexNote
    queries: Sequence[Query]
    encoded: Rows
    """Impacts of the queries, in order; None for plain text."""
    exact: ExactSearcher | None


def main(argv: list[str] | None = None) -> int:
    """Measure all costs; print JSON, or write it and print a summary."""
    options = _parser().parse_args(argv)
    if not (options.index or options.vectors):
        raise LearnedSparseError("give --index DIR, or --vectors DIR for what --backend exact searches")
    result = _measure(options)
    if options.output:
        write_json(options.output, result)
        print(f"{options.output}: {', '.join(f'{value:,} {name}' for name, value in result['costs'].items() if value)}")
    else:
        print(json.dumps(result, indent=2))
    return 0


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    from eval.costs.latency import time_searches
    from eval.costs.sparsity import expected_flops

    setup = _load_setup(options)
    query_terms = _query_terms(setup)
    if not query_terms.texts:
        raise LearnedSparseError(f"{options.queries or options.collection}: no queries")
    documents = _vector_terms(options.vectors) if setup.exact else _index_terms(setup, query_terms)
    timed = evenly_spaced(len(setup.queries), options.timed)
    times = time_searches(
        setup.path,
        setup.note,
        [setup.queries[i] for i in timed],
        None if setup.encoded is None else [setup.encoded[i] for i in timed],
        options.hits,
        setup.exact,
    )
    costs = {
        "FLOPS": round(expected_flops(documents, query_terms), 6),
        "terms/document": round(documents.postings / documents.texts, 4),
        "terms/query": round(query_terms.postings / query_terms.texts, 4),
        "index bytes": None if setup.exact else index_bytes(setup.path),
        "ms/query": round(times.median, 4),
        "p99 ms/query": round(times.p99, 4),
    }
    sizes = {"documents": documents.texts, "queries": query_terms.texts, "timed": len(timed), "hits": options.hits}
    return {"costs": costs, **sizes}


def _load_setup(options: argparse.Namespace) -> SearchSetup:
    from learned_sparse.index import IndexNote

    if options.index:  # its source vectors need not be read
        path, note, exact = options.index, IndexNote.load(options.index), None
    else:
        from learned_sparse.index import encoded_files
        from learned_sparse.search import ExactSearcher

        vectors = encoded_files(options.vectors)
        if vectors.scoring != "impact":
            raise LearnedSparseError(f"{options.vectors[0]}: scored by BM25; give the index of these vectors: --index")
        path, note = options.vectors[0], IndexNote(vectors.scoring, vectors.manifests, {})
        exact = ExactSearcher.load(*vectors.files)
    queries, encoded = _load_queries(options, note.scoring)
    return SearchSetup(path=path, note=note, queries=queries, encoded=encoded, exact=exact)


def _load_queries(options: argparse.Namespace, scoring: str) -> tuple[Sequence[Query], Rows]:
    """Texts of a split for an index of plain text, otherwise encoded queries."""
    from learned_sparse.core import Query

    if scoring == "bm25-text":
        from eval.measures import chosen_split
        from learned_sparse.collections import load_collection

        if not options.collection:
            raise LearnedSparseError(f"{options.index}: an index of plain text; give --collection and --split")
        collection = load_collection(options.collection, data=options.data)
        return collection.queries(chosen_split(collection, options.split)), None
    from learned_sparse.jsonvector import TOPICS, read_topics

    if not options.queries:
        raise LearnedSparseError("give --queries DIR: what learned_sparse.encode --queries wrote")
    path = options.queries
    topics = read_topics(path / TOPICS if path.is_dir() else path)
    return [Query(name, "") for name in topics], list(topics.values())


def _query_terms(setup: SearchSetup) -> TermCounts:
    from eval.costs.sparsity import count_terms

    if setup.encoded is not None:
        return count_terms(setup.encoded)
    from learned_sparse.lucene import analyze

    return count_terms(analyze(query.text for query in setup.queries))


def _vector_terms(folders: Sequence[Path]) -> TermCounts:
    from eval.costs.sparsity import count_terms
    from learned_sparse.jsonvector import read_vectors

    return count_terms(vector for _, vector in chain.from_iterable(map(read_vectors, folders)))


def _index_terms(setup: SearchSetup, queries: TermCounts) -> TermCounts:
    """Lucene's statistics, so no document is read. Empty texts that the BM25 index left out count as documents."""
    from eval.costs.sparsity import TermCounts
    from learned_sparse.core import EMPTY_TERM
    from learned_sparse.lucene import document_frequencies, read_contents

    contents = read_contents(setup.path)
    frequency = document_frequencies(setup.path, [*queries.document_frequency, EMPTY_TERM])
    postings = contents.postings - frequency.pop(EMPTY_TERM)
    texts = contents.documents + setup.note.facts.get("empty", 0)
    return TermCounts(frequency, texts, postings, np.empty(0, np.int32))


def index_bytes(index: Path) -> int:
    """Size of Lucene's own files in an index folder."""
    from learned_sparse.index import INDEX_MANIFEST
    from learned_sparse.lucene import LOG

    return sum(path.stat().st_size for path in index.iterdir() if path.name not in {INDEX_MANIFEST, LOG})


def evenly_spaced(length: int, maximum: int) -> list[int]:
    """At most ``maximum`` evenly spaced positions below ``length``.

    >>> evenly_spaced(10, 4), evenly_spaced(3, 4)
    ([0, 2, 5, 7], [0, 1, 2])
    """
    count = min(maximum, length)
    return [number * length // count for number in range(count)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval.costs",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--index", type=Path, metavar="DIR", help="an index that learned_sparse.index made")
    add("--vectors", type=Path, nargs="+", metavar="DIR", help="encoded documents, all shards; not read with --index")
    add("--queries", type=Path, metavar="DIR", help="encoded queries")
    add("--collection", metavar="NAME", help="collection whose queries search an index of plain text")
    add("--data", type=Path, metavar="DIR", help="folder with the files of --collection")
    add("--split", help="split of --collection")
    add("--hits", type=int, default=1000, metavar="K", help="documents per query (default: %(default)s)")
    add("--timed", type=int, default=1000, metavar="N", help="maximum number of timed queries (default: %(default)s)")
    add("--output", type=Path, metavar="FILE", help="write the JSON to this file")
    return parser


if __name__ == "__main__":
    run_main(main)
