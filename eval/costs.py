"""``python -m eval.costs``: FLOPS, index size and time of searching for one row of a leaderboard."""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import mean, median
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from eval.runs import add_collection_options, load_split
from learned_sparse.collections.topics import read_queries
from learned_sparse.core.errors import LearnedSparseError, progress_bar, run_main
from learned_sparse.core.files import write_json
from learned_sparse.core.lines import EMPTY_TERM
from learned_sparse.core.settings import CommandParser, add_set_option, parse_changes, positive, refuse
from learned_sparse.index.build import open_vectors
from learned_sparse.index.note import INDEX_MANIFEST, IndexNote
from learned_sparse.jsonvector.manifest import MANIFEST, Manifest
from learned_sparse.jsonvector.queries import check_queries, read_topics
from learned_sparse.jsonvector.reader import read_vectors
from learned_sparse.lucene.searchers import ImpactSearcher, document_frequencies, english_tokens, read_contents
from learned_sparse.search.engines import VectorSearcher, load_backend
from learned_sparse.search.exact_searcher import ExactSearcher
from learned_sparse.search.maxp import MaxP
from learned_sparse.search.query_encoder import QueryEncoder

_ENCODED = 100  # queries whose encoding is timed
EPILOG = """\
FLOPS: the mean number of terms that a query and a document share, E_q,d[sum p_q p_d] of SPLADE's paper. Times are those
of learned_sparse.search, one query at a time on one thread, warm, without encoding unless a time says so.

examples:
  python -m eval.costs --index INDEX --queries QUERIES                what learned_sparse.encode --queries wrote
  python -m eval.costs --index BM25 --collection scifact --split test            an index of plain text
  python -m eval.costs --vectors VECTORS --queries QUERIES --backend pisa        without an index
"""
T = TypeVar("T")
MEAN = "mean ms/query"
WARM_UP = 200
"""Minimum number of untimed queries, for caches and Java's compiler."""
ROUNDS = 3
_ENCODER_WARM_UP = 10
"""Untimed queries of an encoder, which has no compiler and reads no files."""


def main(argv: list[str] | None = None) -> int:
    """Measure all costs; print JSON, or write it and print a summary."""
    options = _parser().parse_args(argv)
    refuse(
        (
            not (options.index or options.vectors),
            "give --index DIR, or --vectors DIR for other searchers",
        ),
        (options.index and options.backend, f"--backend {options.backend} searches --vectors, not --index"),
        (options.set and not options.encoding, "--set is for the encoder that --encoding times"),
    )
    options.backend = "lucene" if options.index else options.backend or "exact"
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
    queries = _load_queries(options, note, None if note.scoring == "bm25-text" else options.queries)
    query_terms = _count(queries, note)
    if not query_terms.texts:
        raise LearnedSparseError(f"{options.queries or options.collection}: no queries")
    flops_terms = query_terms
    if options.flops_queries:
        flops_terms = _count(_load_queries(options, note, options.flops_queries), note)
    documents = count_documents(*options.vectors) if vectors else _index_terms(path, note)
    names = list(queries)
    timed = {names[i]: queries[names[i]] for i in evenly_spaced(len(names), options.timed)}
    times = time_searches(options, path, note, timed, vectors)
    encoding = _encoding_milliseconds(options, path, note)
    costs = {
        "FLOPS": round(expected_flops(documents, flops_terms), 6),
        "terms/document": round(documents.postings / documents.texts, 4),
        "terms/query": round(query_terms.postings / query_terms.texts, 4),
        "index bytes": None if vectors else index_bytes(path),
        **{name: round(value, 4) for name, value in times.items()},
        "mean ms/query with encoding": None if encoding is None else round(times[MEAN] + encoding, 4),
    }
    sizes = {"documents": documents.texts, "queries": query_terms.texts, "FLOPS queries": flops_terms.texts}
    measured = {"costs": costs, **sizes, "timed": len(timed), "hits": options.hits, "backend": options.backend}
    if vectors and options.backend == "seismic":  # an approximate engine's time says nothing without its recall
        exact = ExactSearcher.load(*options.vectors)
        measured["recall"] = round(recall(vectors, exact, timed, options.hits), 4)
    return measured


def _count(queries: Mapping[str, Any], note: IndexNote) -> TermCounts:
    if note.scoring == "bm25-text":
        return count_terms([term for term, _, _ in english_tokens(text)] for text in queries.values())
    return count_terms(queries.values())


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
    encoder = QueryEncoder.from_index(path, note=note, settings=parse_changes(options.set))
    return milliseconds(lambda query: encoder.encode(query.text), timed, warm_up=_ENCODER_WARM_UP)[MEAN]


def _load_vectors(options: argparse.Namespace) -> tuple[IndexNote, VectorSearcher]:
    vectors = open_vectors(options.vectors)
    if vectors.scoring != "impact":
        raise LearnedSparseError(f"{options.vectors[0]}: scored by BM25; give the index of these vectors: --index")
    return IndexNote(vectors.scoring, vectors.manifests, {}), load_backend(options.backend, vectors.files)


def _load_queries(options: argparse.Namespace, note: IndexNote, source: Path | None) -> Mapping[str, Any]:
    """Query id → text for an index of plain text, otherwise impacts; ``source``: topics, or encoded queries."""
    if note.scoring != "bm25-text":
        if not source:
            raise LearnedSparseError("give --queries DIR: what learned_sparse.encode --queries wrote")
        for manifest in note.manifests[:1]:
            check_queries(source, manifest)
        return read_topics(source)
    if source:
        return {query.id: query.text for query in read_queries(source)}
    if not options.collection:
        raise LearnedSparseError(f"{options.index}: an index of plain text; give --collection and --split")
    collection, split = load_split(options)
    return {query.id: query.text for query in collection.queries(split)}


def _index_terms(index: Path, note: IndexNote) -> TermCounts:
    """Lucene's statistics, so no document is read. Empty texts that the BM25 index left out count as documents."""
    contents = read_contents(index)
    frequency = document_frequencies(index)
    postings = contents["postings"] - frequency.pop(EMPTY_TERM, 0)
    texts = contents["documents"] + note.facts.get("empty", 0)
    return TermCounts(frequency, texts, postings, np.empty(0, np.int32))


def index_bytes(index: Path) -> int:
    """Size of Lucene's own files in an index folder, or in all folders of a set."""
    files = [path for path in index.rglob("*") if path.is_file() and path.name != INDEX_MANIFEST]
    return sum(path.stat().st_size for path in files)


@dataclass(frozen=True, eq=False)
class TermCounts:
    """Statistics of a set of vectors. A term is active in a text if its weight is above zero."""

    document_frequency: Mapping[str, int]
    """Term → number of texts in which it is active; of an index, possibly only of the terms of its queries."""
    texts: int
    """Number of texts, empty vectors included."""
    postings: int
    """Number of (term, text) pairs: the size of the inverted index."""
    lengths: npt.NDArray[np.int32]
    """Number of active terms of each text, in order, or of each text of a sample; 0 for an empty vector."""


def count_terms(vectors: Iterable[Iterable[str]]) -> TermCounts:
    """Count a stream with the active terms of each text, such as ``{term: impact}`` with positive impacts."""
    frequency: Counter[str] = Counter()
    lengths = []
    for vector in vectors:
        active = set(vector)
        frequency.update(active)
        lengths.append(len(active))
    return TermCounts(dict(frequency), len(lengths), sum(lengths), np.array(lengths, dtype=np.int32))


def count_documents(*paths: str | Path) -> TermCounts:
    """Count encoded documents: folders or files, for instance all shards of a collection."""
    vectors = (vector for _, vector in chain.from_iterable(map(read_vectors, paths)))
    folders = [Path(path) for path in paths if (Path(path) / MANIFEST).is_file()]
    total = sum(Manifest.load(folder).counts.written for folder in folders) if len(folders) == len(paths) else None
    return _not_empty(count_terms(progress_bar(vectors, "counting", "documents", total)), paths[0])


def count_queries(path: str | Path) -> TermCounts:
    """Count encoded queries (a folder, or its ``queries.tsv``); a repeated term counts once."""
    return _not_empty(count_terms(read_topics(path).values()), path)


def expected_flops(documents: TermCounts, queries: TermCounts) -> float:
    """``E_{q,d}[Σ_j p_j(q) p_j(d)]``, where p_j is the share of queries, or documents, with term j active.

    SPLADE's paper defines FLOPS so beside its Table 1: the expected number of multiplications per query-document score.
    It equals the mean number of shared terms over all pairs of a query and a document. NaN if there is no pair.

    >>> documents = count_terms([{"a": 2, "b": 1}, {"b": 3}])
    >>> queries = count_terms([{"b": 1}, {"c": 1}])  # shared terms: 1 and 1 for b, 0 and 0 for c
    >>> expected_flops(documents, queries)
    0.5
    """
    pairs = documents.texts * queries.texts
    in_queries = queries.document_frequency
    shared = sum(in_queries[term] * count for term, count in documents.document_frequency.items() if term in in_queries)
    return shared / pairs if pairs else float("nan")


def _not_empty(counts: TermCounts, path: str | Path) -> TermCounts:
    if not counts.texts:
        raise LearnedSparseError(f"{path}: no vectors in it")
    return counts


def time_searches(
    options: argparse.Namespace, path: Path, note: IndexNote, queries: Mapping[str, Any], vectors: VectorSearcher | None
) -> dict[str, float]:
    """Times of the search for the ``--hits`` best documents of each query (see ``milliseconds``).

    ``queries``: query id → impacts, or text for an index of plain text. ``vectors``: a searcher to use instead of the
    index at ``path``. An index of segments is searched to the depth of the first search for ``--hits`` documents.
    """
    maxp = MaxP.from_note(note)
    k = maxp.first_depth(options.hits) if maxp else options.hits
    opened: Any = contextlib.nullcontext(vectors)
    if vectors is None:
        opened = ImpactSearcher(path, note.scoring, k1=options.k1, b=options.b)
    with opened as searcher:
        return milliseconds(lambda query: searcher.search_batch({query: queries[query]}, k, 1), list(queries))


def recall(searcher: VectorSearcher, exact: ExactSearcher, queries: Mapping[str, Mapping[str, int]], k: int) -> float:
    """Share of the exact ``k`` best documents of all queries that ``searcher`` finds; 1.0 if no document has a score.

    A document counts if its score is at least that of the exact k-th document, so that ties count alike.
    """
    hits = total = 0
    for name, found in searcher.search_batch(queries, k).items():
        best = exact.search(queries[name], k)
        hits += sum(score >= best[-1][1] for _, score in found) if best else 0
        total += len(best)
    return hits / total if total else 1.0


def milliseconds(
    function: Callable[[T], object], arguments: Sequence[T], warm_up: int | None = None
) -> dict[str, float]:
    """Time ``function`` for each argument, ``ROUNDS`` times after the warm-up; median and mean are of medians.

    Papers report the mean. The 99th percentile is of all timed calls (interpolated as NumPy does): the median of a
    query would hide its tail.

    ``warm_up``: untimed calls; None: at least ``WARM_UP``, and every argument once.
    """
    warming = max(WARM_UP, len(arguments)) if warm_up is None else warm_up
    with progress_bar(None, "timing", "queries", warming + ROUNDS * len(arguments)) as progress:
        for number in range(warming):
            function(arguments[number % len(arguments)])
        progress.update(warming)
        rounds: list[list[float]] = []
        for _ in range(ROUNDS):
            rounds.append([])
            for argument in arguments:
                started = time.perf_counter()
                function(argument)
                rounds[-1].append(time.perf_counter() - started)
            progress.update(len(arguments))  # between rounds, so that it costs no measured time
    times = [1000 * median(of_argument) for of_argument in zip(*rounds, strict=True)]
    return {"ms/query": median(times), MEAN: mean(times), "p99 ms/query": 1000 * float(np.quantile(rounds, 0.99))}


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
    )
    add = parser.add_argument
    add("--index", type=Path, metavar="DIR", help="an index that learned_sparse.index made")
    add("--vectors", type=Path, nargs="+", metavar="DIR", help="encoded documents, all shards; not read with --index")
    engines = "searcher of --vectors (default exact); Lucene searches --index"
    add("--backend", choices=["exact", "pisa", "seismic"], help=engines)
    add("--queries", type=Path, metavar="DIR", help="encoded queries")
    flops = "queries that FLOPS are estimated from: encoded, or topics for plain text (default: the queries)"
    add("--flops-queries", type=Path, metavar="DIR|FILE", help=flops)
    add_collection_options(parser)
    add("--hits", type=positive, default=1000, metavar="K", help="documents per query (default: %(default)s)")
    add("--timed", type=positive, default=1000, metavar="N", help="most timed queries (default: %(default)s)")
    add("--k1", type=float, metavar="X", help="BM25's k1 (default 0.9, Pyserini's)")
    add("--b", type=float, metavar="X", help="BM25's b, from 0 to 1 (default 0.4, Pyserini's)")
    add("--encoding", action="store_true", help=f"also time the encoding of at most {_ENCODED} queries")
    add_set_option(parser, "with --encoding: a changed setting that only queries depend on, such as query_k=100")
    add("--output", type=Path, metavar="FILE", help="write the JSON to this file")
    return parser


if __name__ == "__main__":
    run_main(main)
