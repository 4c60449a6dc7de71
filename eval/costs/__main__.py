"""``python -m eval.costs``: FLOPS, index size and time of searching for one row of a leaderboard."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from eval.costs.latency import encode_milliseconds, recall, time_searches
from eval.costs.sparsity import TermCounts, count_documents, count_terms, expected_flops
from eval.measures import add_collection_options, load_split
from learned_sparse.collections.topics import read_queries
from learned_sparse.core.errors import LearnedSparseError, run_main
from learned_sparse.core.files import write_json
from learned_sparse.core.settings import CommandParser, add_set_option, parse_changes, positive
from learned_sparse.core.terms import EMPTY_TERM
from learned_sparse.index.note import INDEX_MANIFEST, IndexNote
from learned_sparse.index.vectors import encoded_files
from learned_sparse.jsonvector.queries import check_queries, read_topics
from learned_sparse.lucene.reader import document_frequencies, read_contents
from learned_sparse.lucene.searchers import english_tokens
from learned_sparse.search.engines import VectorSearcher, add_backend_options, load_backend, seismic_settings
from learned_sparse.search.exact_searcher import ExactSearcher
from learned_sparse.search.searching import add_bm25_options, bm25_parameters

_ENCODED = 100  # queries whose encoding is timed
EPILOG = """\
FLOPS: the mean number of terms that a query and a document share, E_q,d[sum p_q p_d] of SPLADE's paper. Times are those
of learned_sparse.search, one query at a time on one thread, warm, without the encoding of queries unless a time says
so. SPLADE's paper estimates FLOPS from about 100,000 queries of MS MARCO's whole development set: encode those with
learned_sparse.encode --queries --input FILE, and name them with --flops-queries.

examples:
  python -m eval.costs --index INDEX --queries QUERIES                what learned_sparse.encode --queries wrote
  python -m eval.costs --index BM25 --collection scifact --split test            an index of plain text
  python -m eval.costs --vectors VECTORS --queries QUERIES --backend exact       without an index
  python -m eval.costs --vectors VECTORS --queries QUERIES --backend pisa        the engine of many papers
"""


def main(argv: list[str] | None = None) -> int:
    """Measure all costs; print JSON, or write it and print a summary."""
    options = _parser().parse_args(argv)
    if not (options.index or options.vectors):
        raise LearnedSparseError("give --index DIR, or --vectors DIR for what --backend exact searches")
    if options.index and options.backend not in (None, "lucene"):
        raise LearnedSparseError(f"--backend {options.backend} searches --vectors, not --index")
    options.backend = options.backend or ("lucene" if options.index else "exact")
    if options.backend == "lucene" and not options.index:
        raise LearnedSparseError("--backend lucene searches an index: give --index DIR")
    seismic_settings(options)
    if options.set and not options.encoding:
        raise LearnedSparseError("--set is for the encoder that --encoding times")
    result = _measure(options)
    if options.output:
        write_json(options.output, result)
        print(f"{options.output}: {', '.join(f'{value:,} {name}' for name, value in result['costs'].items() if value)}")
    else:
        print(json.dumps(result, indent=2))
    return 0


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    if options.index:  # its source vectors need not be read
        path, note, vectors = options.index, IndexNote.load(options.index), None
    else:
        path, (note, vectors) = options.vectors[0], _load_vectors(options)
    queries = _load_queries(options, note)
    query_terms = _count(queries, note)
    if not query_terms.texts:
        raise LearnedSparseError(f"{options.queries or options.collection}: no queries")
    flops_terms = _count(_flops_queries(options, note), note) if options.flops_queries else query_terms
    documents = count_documents(*options.vectors) if vectors else _index_terms(path, note, flops_terms)
    names = list(queries)
    timed = {names[i]: queries[names[i]] for i in evenly_spaced(len(names), options.timed)}
    times = time_searches(path, note, timed, options.hits, vectors, bm25_parameters(options))
    encoding = _encoding_milliseconds(options, path, note)
    costs = {
        "FLOPS": round(expected_flops(documents, flops_terms), 6),
        "terms/document": round(documents.postings / documents.texts, 4),
        "terms/query": round(query_terms.postings / query_terms.texts, 4),
        "index bytes": None if vectors else index_bytes(path),
        "ms/query": round(times.median, 4),
        "mean ms/query": round(times.mean, 4),
        "p99 ms/query": round(times.p99, 4),
        "mean ms/query with encoding": None if encoding is None else round(times.mean + encoding, 4),
    }
    sizes = {"documents": documents.texts, "queries": query_terms.texts, "timed": len(timed), "hits": options.hits}
    measured = {"costs": costs, **sizes, "FLOPS queries": flops_terms.texts, "backend": options.backend}
    if vectors and options.backend == "seismic":  # an approximate engine's time says nothing without its recall
        exact = ExactSearcher.load(*options.vectors)
        measured["recall"] = round(recall(vectors, exact, timed, options.hits), 4)
    return measured


def _count(queries: Mapping[str, Any], note: IndexNote) -> TermCounts:
    if note.scoring == "bm25-text":
        return count_terms([term for term, _, _ in english_tokens(text)] for text in queries.values())
    return count_terms(queries.values())


def _flops_queries(options: argparse.Namespace, note: IndexNote) -> Mapping[str, Any]:
    """The queries that FLOPS are estimated from: texts for an index of plain text, otherwise impacts."""
    if note.scoring == "bm25-text":
        return {query.id: query.text for query in read_queries(options.flops_queries)}
    for manifest in note.manifests[:1]:
        check_queries(options.flops_queries, manifest)
    return read_topics(options.flops_queries)


def _encoding_milliseconds(options: argparse.Namespace, path: Path, note: IndexNote) -> float | None:
    """Mean time to encode a query; 0 for text, which Lucene analyses itself; None without the texts of the queries."""
    if note.scoring == "bm25-text":
        return 0.0
    if not options.encoding:
        return None
    if not options.collection:
        raise LearnedSparseError("--encoding: give the queries to encode with --collection and --split")
    collection, split = load_split(options)
    queries = collection.queries(split)
    timed = [queries[i] for i in evenly_spaced(len(queries), min(options.timed, _ENCODED))]
    return encode_milliseconds(path, timed, note, parse_changes(options.set)).mean


def _load_vectors(options: argparse.Namespace) -> tuple[IndexNote, VectorSearcher]:
    vectors = encoded_files(options.vectors)
    if vectors.scoring != "impact":
        raise LearnedSparseError(f"{options.vectors[0]}: scored by BM25; give the index of these vectors: --index")
    return IndexNote(vectors.scoring, vectors.manifests, {}), load_backend(options, vectors.files)


def _load_queries(options: argparse.Namespace, note: IndexNote) -> Mapping[str, Any]:
    """Query id → text for an index of plain text, otherwise impacts."""
    if note.scoring != "bm25-text":
        if not options.queries:
            raise LearnedSparseError("give --queries DIR: what learned_sparse.encode --queries wrote")
        for manifest in note.manifests[:1]:
            check_queries(options.queries, manifest)
        return read_topics(options.queries)
    if not options.collection:
        raise LearnedSparseError(f"{options.index}: an index of plain text; give --collection and --split")
    collection, split = load_split(options)
    return {query.id: query.text for query in collection.queries(split)}


def _index_terms(index: Path, note: IndexNote, queries: TermCounts) -> TermCounts:
    """Lucene's statistics, so no document is read. Empty texts that the BM25 index left out count as documents."""
    contents = read_contents(index)
    frequency = document_frequencies(index, [*queries.document_frequency, EMPTY_TERM])
    postings = contents.postings - frequency.pop(EMPTY_TERM)
    texts = contents.documents + note.facts.get("empty", 0)
    return TermCounts(frequency, texts, postings, np.empty(0, np.int32))


def index_bytes(index: Path) -> int:
    """Size of Lucene's own files in an index folder, or in all folders of a set."""
    files = [path for path in index.rglob("*") if path.is_file() and path.name != INDEX_MANIFEST]
    return sum(path.stat().st_size for path in files)


def evenly_spaced(length: int, maximum: int) -> list[int]:
    """At most ``maximum`` evenly spaced positions below ``length``.

    >>> evenly_spaced(10, 4), evenly_spaced(3, 4)
    ([0, 2, 5, 7], [0, 1, 2])
    """
    count = min(maximum, length)
    return [number * length // count for number in range(count)]


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="python -m eval.costs",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--index", type=Path, metavar="DIR", help="an index that learned_sparse.index made")
    add("--vectors", type=Path, nargs="+", metavar="DIR", help="encoded documents, all shards; not read with --index")
    add_backend_options(add, default=None, about="searcher (default lucene with --index, exact with --vectors)")
    add("--queries", type=Path, metavar="DIR", help="encoded queries")
    add(
        "--flops-queries",
        type=Path,
        metavar="DIR|FILE",
        help="queries that FLOPS are estimated from: encoded, or topics for plain text (default: the queries)",
    )
    add_collection_options(parser)
    add("--hits", type=positive, default=1000, metavar="K", help="documents per query (default: %(default)s)")
    add(
        "--timed",
        type=positive,
        default=1000,
        metavar="N",
        help="maximum number of timed queries (default: %(default)s)",
    )
    add_bm25_options(add)
    add("--encoding", action="store_true", help=f"also time the encoding of at most {_ENCODED} queries")
    add_set_option(parser, "with --encoding: a changed setting that only queries depend on, such as query_k=100")
    add("--output", type=Path, metavar="FILE", help="write the JSON to this file")
    return parser


if __name__ == "__main__":
    run_main(main)
