"""``python -m learned_sparse.search``: encode queries as the index records, search them and write the run."""

from __future__ import annotations

import argparse
import contextlib
import logging
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from learned_sparse.collections.trec import write_run
from learned_sparse.core.errors import LearnedSparseError, counted, progress_bar, run_main
from learned_sparse.core.files import encoded_folders, index_folder, run_file
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.settings import CommandParser, add_set_option, command_line, parse_changes, positive, refuse
from learned_sparse.index.note import IndexNote
from learned_sparse.jsonvector.manifest import EXACT_FLOATS, MANIFEST, UNVERIFIED, Manifest
from learned_sparse.search.query_encoder import QueryEncoder

if TYPE_CHECKING:
    from learned_sparse.collections.topics import Query
    from learned_sparse.search.maxp import BatchSearch, Hits, MaxP

CHUNK_SIZE = 256
"""Queries searched before their hits are written, so that the hits of a large run are never all in memory."""
_log = logging.getLogger(__name__)

EPILOG = """\
Hits, their order and their scores are those of Pyserini's search.lucene with --min-idf -1. (Pyserini lowers tied
scores by steps of 0.000001, and rounds BM25 scores to four decimals.)
In an index of segments, --hits counts documents, each scored by its best segment (MaxP).
--backend exact holds all vectors in memory and starts no Java: the same run, fastest below some 100,000 documents.
--backend pisa gives the same scores, from an index that is built at each call; at the last rank, another document may
have the same score. --backend seismic is approximate: eval.costs states its recall. Both are extras of this package.
An index without learned_sparse.json, such as a prebuilt one, needs --checkpoint or --query-vectors.
For other options of Pyserini's search.lucene, encode the queries with python -m learned_sparse.encode --queries, then
run python -m learned_sparse.pyserini search.lucene --impact --min-idf -1 --index INDEX --topics QUERIES/queries.tsv.

examples:
  python -m learned_sparse.search --model sparterm --split test
  python -m learned_sparse.search --index INDEX --topics queries.tsv --output RUN --hits 100 --threads 2
  python -m learned_sparse.search --backend exact --vectors VECTORS --topics queries.tsv --output RUN --threads 2
  python -m learned_sparse.search --bm25 --collection scifact --split test
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    options = parse_arguments(argv)
    collection = None  # read only if it is needed
    if options.collection or not (options.index or options.vectors):
        from learned_sparse.collections.collection import load_collection

        collection = load_collection(options.collection or "pydoc", data=options.data)
    of, vectors = collection.name if collection else "", None
    if options.backend == "lucene":
        path: Path = options.index or index_folder(of, "bm25" if options.bm25 else options.model)
        note = IndexNote.load(path, foreign=bool(options.checkpoint or options.query_vectors))
    else:
        from learned_sparse.search.engines import load_backend

        folders = options.vectors or encoded_folders(of, options.model, "--vectors", options.collection)
        path, vectors = folders[0], load_backend(options.backend, folders)
        note = IndexNote("impact", tuple(Manifest.load(f) for f in folders if (f / MANIFEST).is_file()), {})
    split = (
        collection.choose_split(options.split) if collection and not (options.topics or options.query_vectors) else ""
    )
    queries, empty = _queries(options, path, note, collection.queries(split) if collection and split else None)
    output = options.output or run_file(of, split, "bm25" if options.bm25 else options.model or path.name)
    maxp = None
    if options.max_passage or (note.manifests and note.manifests[0].options.get("segment_length")):
        from learned_sparse.search.maxp import MaxP

        maxp = None if options.rank_segments else MaxP.from_note(note)
        if options.max_passage:
            maxp = MaxP(options.max_passage, max_segments=1, total=options.hits)  # among the first hits only
    opened: Any = contextlib.nullcontext(vectors)
    if vectors is None:
        from learned_sparse.lucene.jvm import start_jvm
        from learned_sparse.lucene.searchers import ImpactSearcher

        start_jvm(heap=options.heap)
        opened = ImpactSearcher(path, note.scoring, k1=options.k1, b=options.b, check=not options.no_check)
    with opened as searcher:
        how: dict[str, Any] = {"threads": options.threads, "chunk_size": options.batch_size, "maxp": maxp}
        how["remove_query"] = options.remove_query or bool(
            collection and split and collection.split(split).remove_query
        )
        results = search_all(searcher.search_batch, queries, options.hits, **how)
        shown = progress_bar(results, "searching", "queries", len(queries))
        without_hits = write_run(output, shown, output_format=options.output_format)
    without_text = f" ({empty:,} without text)" if empty else ""
    print(f"{output}: {counted(len(queries), 'query')}{without_text}, {len(without_hits):,} without a hit")
    for name in without_hits[:10]:
        print(f"  without a hit: {name}")
    if options.output_format == "trec":
        where = ["--qrels", "QRELS.txt", "--measures", "MRR@10", "R@100"]  # QRELS.txt is for the user to replace
        if split:
            data = ["--data", str(options.data)] if options.data else []
            where = ["--collection", options.collection or "pydoc", *data, "--split", split]
        print("next:", command_line(f"eval.evaluate {shlex.join([*where, '--run', str(output)])}"))
    return 0


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Options given on the command line (``sys.argv`` for None); raise for options that belong to another option."""
    parser = CommandParser(prog="python -m learned_sparse.search", description=__doc__, epilog=EPILOG)
    where = parser.add_argument_group("index and encoder")
    target, kind = where.add_mutually_exclusive_group().add_argument, where.add_mutually_exclusive_group().add_argument
    target("--index", type=Path, metavar="DIR", help="index (default: by --collection and --model)")
    target(
        "--vectors", type=Path, nargs="+", metavar="DIR",
        help="for other backends than lucene: encoded documents, all shards (default: by --collection and --model)",
    )  # fmt: skip
    kind("--model", metavar="NAME", help="model whose index of --collection is in the home folder")
    kind("--bm25", action="store_true", help="search the index of plain text of --collection")
    add = where.add_argument
    backends = ["lucene", "exact", "pisa", "seismic"]
    add("--backend", choices=backends, default="lucene", help="searcher (default %(default)s)")
    add("--checkpoint", metavar="DIR", help="encoder of the queries (default: the one recorded in the index)")
    add("--device", help="device to encode on, such as cpu or cuda:0")
    add_set_option(parser, "change a setting that only queries depend on, for instance query_k=100; may be repeated")
    add(
        "--alpha", type=float, metavar="X", help="of a model joined with BM25: share of the model, from 0 (BM25 alone) "
        "to 1 (default: the one recorded in the index)",
    )  # fmt: skip
    add("--no-check", action="store_true", help="do not compare the index with its checksums (a second per gigabyte)")
    add("--heap", metavar="SIZE", help="Java's memory, such as 4g (default $LEARNED_SPARSE_JAVA_HEAP)")
    what = parser.add_argument_group("queries")
    source = what.add_mutually_exclusive_group().add_argument
    what.add_argument("--collection", metavar="NAME", help="name, folder or ir_datasets:ID (default pydoc)")
    what.add_argument("--data", type=Path, metavar="DIR", help="folder with the files of --collection")
    source("--split", metavar="NAME", help="split of --collection (default test, or its only one)")
    source("--topics", type=Path, metavar="FILE", help="queries in a file: .tsv, .jsonl, .json, TREC")
    source(
        "--query-vectors", type=Path, metavar="FILE",
        help="encoded queries: queries.tsv of learned_sparse.encode --queries, or JSON lines with id and vector",
    )  # fmt: skip
    what.add_argument(
        "--quantization-factor", type=float, metavar="X", help="impact of weight 1, for float --query-vectors"
    )
    how = parser.add_argument_group("run").add_argument
    how("--output", type=Path, metavar="RUN", help="run file (default: by collection, split and model)")
    how("--output-format", choices=["trec", "msmarco"], default="trec", help="(default %(default)s)")
    how("--hits", type=positive, default=1000, metavar="K", help="documents per query (default %(default)s)")
    how("--threads", type=positive, default=1, metavar="N", help="threads that search (default %(default)s)")
    how(
        "--batch-size", type=positive, default=CHUNK_SIZE, metavar="N",
        help="queries encoded, and searched before their hits are written, at a time (default %(default)s)",
    )  # fmt: skip
    how("--k1", type=float, metavar="X", help="BM25's k1 (default 0.9, Pyserini's)")
    how("--b", type=float, metavar="X", help="BM25's b, from 0 to 1 (default 0.4, Pyserini's)")
    how("--remove-query", action="store_true", help="drop hits with the id of their query (some collections record it)")
    how("--rank-segments", action="store_true", help="in an index of segments: rank segments, not documents")
    how(
        "--max-passage", nargs="?", const="#", metavar="DELIMITER",
        help="in an index of another tool, whose ids are DOCUMENT#SEGMENT: rank documents by their best segment among "
        "--hits segments",
    )  # fmt: skip
    options = parser.parse_args(argv)
    lucene, encoded, factor = options.backend == "lucene", options.query_vectors, options.quantization_factor
    encoding = [name for name in ("checkpoint", "device", "set", "bm25") if getattr(options, name)]
    encoding += ["alpha"] * (options.alpha is not None)
    refuse(
        (lucene and options.vectors, "--vectors are for --backend exact, pisa or seismic; Lucene reads an index"),
        (
            not lucene and (options.index or options.bm25 or not (options.vectors or options.model)),
            f"--backend {options.backend} reads vectors, not an index: give --vectors DIR or --model NAME",
        ),
        (
            not (options.index or options.model or options.bm25 or options.vectors),
            "no index is named: give --index DIR, --model NAME or --bm25",
        ),
        (
            not lucene and (options.k1, options.b) != (None, None),
            f"--backend {options.backend}: scored by dot products; k1 and b are parameters of BM25",
        ),
        ((options.topics or encoded) and not options.output, "--topics and --query-vectors need --output RUN"),
        (encoded and encoding, f"--{next(iter(encoding), None)}: --query-vectors are encoded queries already"),
        (factor is not None and not encoded, "--quantization-factor is for --query-vectors; an encoder has its own"),
        (
            options.topics and options.collection and (options.index or options.vectors),
            "give --topics FILE or --collection NAME --split SPLIT, not both",
        ),
    )
    return options


def _queries(
    options: argparse.Namespace, path: Path, note: IndexNote, queries: Sequence[Query] | None
) -> tuple[Mapping[str, Any], int]:
    """Impacts of each query, or its text if the index holds plain text; and the number of queries without text.

    ``queries``: those of a collection.
    """
    if options.query_vectors:
        return _encoded_queries(options, path, note), 0
    if options.topics:
        from learned_sparse.collections.topics import read_queries

        queries = read_queries(options.topics)
    if queries is None:
        raise LearnedSparseError(
            f"{path}: no queries; give --topics FILE, --query-vectors FILE, or --collection NAME with --split NAME"
        )
    texts = {query.id: query.text for query in queries}
    empty = sum(not text.strip() for text in texts.values())
    settings = parse_changes(options.set)
    if any("hybrid" in manifest.encoder for manifest in note.manifests):
        from learned_sparse.encode.hybrid import ALPHA
        from learned_sparse.lucene.jvm import start_jvm

        start_jvm(heap=options.heap)  # its queries are analysed by Lucene, with any backend
        settings |= {} if options.alpha is None else {ALPHA: options.alpha}
    elif options.alpha is not None:
        raise LearnedSparseError(f"--alpha: {path} holds no BM25 to weigh; encode documents --with bm25")
    if note.scoring == "bm25-text":
        if settings or options.checkpoint:
            given = "--set" if settings else "--checkpoint"
            raise LearnedSparseError(f"{given}: {path} holds plain text, which is searched without an encoder; omit it")
        return texts, empty
    if not note.manifests and options.checkpoint:
        _log.warning(
            "%s: cannot verify that %s is the encoder of its documents: %s", path, options.checkpoint, UNVERIFIED
        )
    encoder = QueryEncoder.from_index(path, options.checkpoint, note=note, settings=settings, device=options.device)
    names, rows = list(texts), list[Any]()
    for start in progress_bar(range(0, len(names), options.batch_size), "encoding", "batches"):
        rows += encoder.encode_batch([texts[name] for name in names[start : start + options.batch_size]])
    return dict(zip(names, rows, strict=True)), empty


def _encoded_queries(options: argparse.Namespace, path: Path, note: IndexNote) -> dict[str, dict[str, int]]:
    """The queries of ``--query-vectors``."""
    from learned_sparse.jsonvector.queries import check_queries, read_query_vectors

    if note.scoring == "bm25-text":
        raise LearnedSparseError(f"{path}: holds plain text, not impacts; search it with --topics FILE")
    factor = options.quantization_factor
    queries = read_query_vectors(options.query_vectors, None if factor is None else Quantizer(factor))
    for manifest in note.manifests[:1]:
        check_queries(options.query_vectors, manifest)
    return queries


def search_all(
    search: BatchSearch,
    queries: Mapping[str, Any],
    k: int,
    *,
    threads: int = 1,
    chunk_size: int = CHUNK_SIZE,
    maxp: MaxP | None = None,
    remove_query: bool = False,
) -> Iterator[tuple[str, Hits]]:
    """``(query id, hits)`` of all queries, in their order, with a warning about inexact scores.

    ``k`` counts documents where ``maxp`` is given. ``remove_query`` drops a hit that has the id of its query; as in
    Pyserini, such a query then has one hit less, unless ``maxp`` is given.
    """
    names, warned = list(queries), False
    for start in range(0, len(names), chunk_size):
        chunk = {name: queries[name] for name in names[start : start + chunk_size]}
        if maxp is None:
            hits_by_query = search(chunk, k, threads)
        else:
            hits_by_query = maxp.search(search, chunk, k + remove_query, threads)
        for name in chunk:
            hits = hits_by_query[name]
            if hits and isinstance(hits[0][1], float) and hits[0][1] > EXACT_FLOATS and not warned:
                warned = True
                _log.warning(
                    "query %s: scores above %s are rounded to 32-bit floats, so that close documents may change "
                    "places; quantise with a smaller factor, or search with --backend exact",
                    name,
                    f"{EXACT_FLOATS:,}",
                )
            yield name, [hit for hit in hits if hit[0] != name][:k] if remove_query else hits


if __name__ == "__main__":
    run_main(main)
