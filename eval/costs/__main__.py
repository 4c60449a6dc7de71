"""``python -m eval.costs``: what searching a row of a leaderboard costs, in multiplications, room and time."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from learned_sparse.core import LearnedSparseError, run_main, write_json

if TYPE_CHECKING:
    from eval.costs.sparsity import TermCounts
    from learned_sparse.core import Query
    from learned_sparse.index import IndexNote
    from learned_sparse.search import ExactSearcher, Rows

EPILOG = """\
FLOPS: the mean number of terms that a query and a document share, E_q,d[sum p_q p_d] of SPLADE's paper. Times are those
of learned_sparse.search, one query at a time on one thread, warm, the encoding of queries left out.

examples:
  python -m eval.costs --index INDEX --queries QUERIES                what learned_sparse.encode --queries wrote
  python -m eval.costs --index BM25 --collection scifact --split test            an index of plain text
  python -m eval.costs --vectors VECTORS --queries QUERIES            searched by --backend exact, without an index
"""


@dataclass(frozen=True, kw_only=True)
class DocumentTerms:
    """What is counted of documents."""

    texts: int
    """Those without any term included."""
    postings: int
    document_frequency: Mapping[str, int]
    """Of the queries' terms at least."""


@dataclass(frozen=True, kw_only=True)
class Searched:
    """A row as it is searched."""

    place: Path
    """The index, or a folder of vectors."""
    note: IndexNote
    queries: Sequence[Query]
    encoded: Rows
    """Impacts of the queries, in order; None for plain text."""
    exact: ExactSearcher | None


def main(argv: list[str] | None = None) -> int:
    """Count, time, and print or write JSON."""
    options = _parser().parse_args(argv)
    if not (options.index or options.vectors):
        raise LearnedSparseError("give --index DIR, or --vectors DIR for what --backend exact searches")
    found = _measured(options)
    if options.output:
        write_json(options.output, found)
        print(f"{options.output}: {', '.join(f'{value:,} {name}' for name, value in found['costs'].items() if value)}")
    else:
        print(json.dumps(found, indent=2))
    return 0


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    from eval.costs.latency import time_searches
    from eval.costs.sparsity import expected_flops

    row = _searched(options)
    query_terms = _query_terms(row)
    if not query_terms.texts:
        raise LearnedSparseError(f"{options.queries or options.collection}: no queries")
    documents = _vector_terms(options.vectors) if row.exact else _index_terms(row, query_terms)
    timed = spread(range(len(row.queries)), options.timed)
    times = time_searches(
        row.place, row.note, [row.queries[place] for place in timed],
        None if row.encoded is None else [row.encoded[place] for place in timed], options.hits, row.exact,
    )  # fmt: skip
    costs = {
        "FLOPS": round(expected_flops(documents, query_terms), 6),
        "terms/document": round(documents.postings / documents.texts, 4),
        "terms/query": round(query_terms.postings / query_terms.texts, 4),
        "index bytes": None if row.exact else index_bytes(row.place),
        "ms/query": round(times.median, 4),
        "p99 ms/query": round(times.p99, 4),
    }
    sizes = {"documents": documents.texts, "queries": query_terms.texts, "timed": len(timed), "hits": options.hits}
    return {"costs": costs, **sizes}


def _searched(options: argparse.Namespace) -> Searched:
    from learned_sparse.index import IndexNote

    if options.index:  # what it was made of need not be read
        place, note, exact = options.index, IndexNote.load(options.index), None
    else:
        from learned_sparse.index import encoded_files
        from learned_sparse.search import ExactSearcher

        vectors = encoded_files(options.vectors)
        if vectors.scoring != "impact":
            raise LearnedSparseError(f"{options.vectors[0]}: terms scored by BM25; give their --index DIR")
        place, note = options.vectors[0], IndexNote(vectors.scoring, vectors.manifests, {})
        exact = ExactSearcher.load(*vectors.files)
    queries, encoded = _queries(options, note.scoring)
    return Searched(place=place, note=note, queries=queries, encoded=encoded, exact=exact)


def _queries(options: argparse.Namespace, scoring: str) -> tuple[Sequence[Query], Rows]:
    """The texts of a split where text is searched, else what was encoded of it."""
    from learned_sparse.core import Query

    if scoring == "bm25-text":
        from eval.measures import chosen_split
        from learned_sparse.collections import load_collection

        if not options.collection:
            raise LearnedSparseError(f"{options.index}: plain text; say with --collection and --split what is asked")
        collection = load_collection(options.collection, data=options.data)
        return collection.queries(chosen_split(collection, options.split)), None
    from learned_sparse.jsonvector import TOPICS, read_topics

    if not options.queries:
        raise LearnedSparseError("give --queries DIR: what learned_sparse.encode --queries wrote")
    path = options.queries
    topics = read_topics(path / TOPICS if path.is_dir() else path)
    return [Query(name, "") for name in topics], list(topics.values())


def _query_terms(row: Searched) -> TermCounts:
    from eval.costs.sparsity import count_terms

    if row.encoded is not None:
        return count_terms(row.encoded)
    from learned_sparse.lucene import analyze

    return count_terms(analyze(query.text for query in row.queries))


def _vector_terms(folders: Sequence[Path]) -> DocumentTerms:
    from eval.costs.sparsity import count_terms
    from learned_sparse.jsonvector import read_vectors

    counts = count_terms(vector for _, vector in chain.from_iterable(map(read_vectors, folders)))
    return DocumentTerms(texts=counts.texts, postings=counts.postings, document_frequency=counts.document_frequency)


def _index_terms(row: Searched, queries: TermCounts) -> DocumentTerms:
    """By Lucene's statistics: no document is read. Texts that BM25's index leaves out as empty count too."""
    from learned_sparse.core import EMPTY_TERM
    from learned_sparse.lucene import document_frequencies, read_contents

    contents = read_contents(row.place)
    frequency = document_frequencies(row.place, [*queries.document_frequency, EMPTY_TERM])
    return DocumentTerms(
        texts=contents.documents + row.note.facts.get("empty", 0),
        postings=contents.postings - frequency.pop(EMPTY_TERM),
        document_frequency=frequency,
    )


def index_bytes(index: Path) -> int:
    """Of Lucene's own files."""
    from learned_sparse.index import INDEX_MANIFEST
    from learned_sparse.lucene import LOG

    return sum(path.stat().st_size for path in index.iterdir() if path.name not in {INDEX_MANIFEST, LOG})


def spread(places: Sequence[int], most: int) -> list[int]:
    """At most ``most`` of ``places``, at equal distances.

    >>> spread(range(10), 4), spread(range(3), 4)
    ([0, 2, 5, 7], [0, 1, 2])
    """
    kept = min(most, len(places))
    return [places[number * len(places) // kept] for number in range(kept)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval.costs",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--index", type=Path, metavar="DIR", help="what learned_sparse.index made")
    add(
        "--vectors",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="encoded documents, or all shards; --index spares reading them",
    )
    add("--queries", type=Path, metavar="DIR", help="encoded queries")
    add("--collection", metavar="NAME", help="whose queries to ask of an index of plain text")
    add("--data", type=Path, metavar="DIR", help="folder the files of --collection are in")
    add("--split", help="of --collection")
    add("--hits", type=int, default=1000, metavar="K", help="documents searched for (default %(default)s)")
    add("--timed", type=int, default=1000, metavar="N", help="queries that are timed, at most (default %(default)s)")
    add("--output", type=Path, metavar="FILE", help="write everything as JSON")
    return parser


if __name__ == "__main__":
    run_main(main)
