"""``python -m learned_sparse.search``: queries through the encoder an index asks for, then a run of their hits."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from learned_sparse.collections import load_collection, read_queries
from learned_sparse.core import (
    LearnedSparseError,
    Query,
    add_set_option,
    encoded_folders,
    index_folder,
    parse_changes,
    run_file,
)
from learned_sparse.index import IndexNote
from learned_sparse.search.passages import Passages, asks_for_passages
from learned_sparse.search.run import Outcome, search

if TYPE_CHECKING:
    from learned_sparse.search.exact_searcher import ExactSearcher

__all__ = ["Outcome", "encode", "main", "parser", "search"]

EPILOG = """\
Options of Pyserini's search.lucene may follow. --hits, --threads, --batch-size, --output-format trec or msmarco,
--remove-query, --max-passage, --max-passage-hits and --max-passage-delimiter are done without Pyserini: the same run,
sooner. With any other (--rocchio, --k1, --b, --min-idf, ...) stock search.lucene does everything, in this process.
An index of segments ranks their documents, which is what --hits counts then.
--backend exact holds all vectors in memory and starts no Java: the same run again, the fastest way for some 100,000
documents.

examples:
  python -m learned_sparse.search --model sparterm --split test
  python -m learned_sparse.search --index INDEX --topics queries.tsv --output RUN --hits 100 --threads 2
  python -m learned_sparse.search --backend exact --vectors VECTORS --topics queries.tsv --output RUN --threads 2
  python -m learned_sparse.search --bm25 --collection scifact --split test
"""


def parser() -> argparse.ArgumentParser:
    """The options of the command, less those of search.lucene."""
    parser = argparse.ArgumentParser(
        prog="python -m learned_sparse.search",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--index", type=Path, metavar="DIR", help="index (default: by --collection and --model)")
    parser.add_argument("--model", help="name of the model whose index of --collection is in the home folder")
    parser.add_argument("--bm25", action="store_true", help="search the index of plain text of --collection")
    parser.add_argument(
        "--backend", choices=["lucene", "exact"], default="lucene", help="what searches (default %(default)s)"
    )
    parser.add_argument(
        "--vectors", type=Path, nargs="+", metavar="DIR",
        help="for --backend exact: encoded documents, or all their shards (default: by --collection and --model)",
    )  # fmt: skip
    parser.add_argument("--collection", help="whose queries: name, folder or ir_datasets:ID (default pydoc)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder the files of --collection are in")
    parser.add_argument("--split", help="split of --collection (default test, or its only one)")
    parser.add_argument("--topics", type=Path, metavar="FILE", help="queries in a file: .tsv, .jsonl, .json, TREC")
    parser.add_argument("--output", type=Path, metavar="RUN", help="run file (default: by collection, split and model)")
    parser.add_argument("--checkpoint", help="where the index's encoder is now (default: where it was)")
    parser.add_argument("--device", help="device to encode on, such as cpu or cuda:0")
    add_set_option(parser, "change a setting that only queries depend on, for instance query_k=100; may be repeated")
    parser.add_argument("--encode-batch", type=int, default=256, metavar="N", help="queries a batch (default 256)")
    parser.add_argument(
        "--rank-segments", action="store_true", help="in an index of segments: rank these, not their documents (MaxP)"
    )
    parser.add_argument("--heap", metavar="SIZE", help="Java's memory, such as 4g (default $LEARNED_SPARSE_JAVA_HEAP)")
    parser.add_argument("--impact", action="store_true", help=argparse.SUPPRESS)  # the index itself says so
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    options, stock = parser().parse_known_args(argv)
    _check(options, stock)
    collection = load_collection(options.collection or "pydoc", data=options.data)
    model = "bm25" if options.bm25 else options.model
    place, note, exact = _place(options, collection.name)
    if options.topics:
        queries, output = read_queries(options.topics), options.output
    else:
        split = options.split or (next(iter(collection.splits)) if len(collection.splits) == 1 else "test")
        queries = collection.queries(split)
        output = options.output or run_file(collection.name, split, model or place.name)
        if collection.split(split).remove_query and "--remove-query" not in stock:
            stock = [*stock, "--remove-query"]
    if note.scoring == "bm25-text" and options.set:
        raise LearnedSparseError(f"--set: {place} holds plain text, which is searched without an encoder")
    encoded = None if note.scoring == "bm25-text" else encode(queries, place, note, options)
    whole = options.rank_segments or asks_for_passages(stock)
    outcome = search(
        place, note.scoring, queries, encoded, output, stock,
        passages=None if whole else Passages.of(note), heap=options.heap, exact=exact,
    )  # fmt: skip
    print(f"{output}: {outcome.queries:,} queries, {len(outcome.without_hits):,} without a hit")
    for name in outcome.without_hits[:10]:
        print(f"  without a hit: {name}")
    return 0


def _place(options: argparse.Namespace, collection: str) -> tuple[Path, IndexNote, ExactSearcher | None]:
    """The index, or the folder of vectors that ``--backend exact`` reads; what it is made of; the exact searcher."""
    if options.backend == "lucene":
        index = options.index or index_folder(collection, "bm25" if options.bm25 else options.model)
        return index, IndexNote.load(index), None
    from learned_sparse.index import encoded_files
    from learned_sparse.search.exact_searcher import ExactSearcher

    folders = options.vectors or encoded_folders(collection, options.model, "--vectors", options.collection)
    vectors = encoded_files(folders)
    if vectors.scoring != "impact":
        raise LearnedSparseError(f"{folders[0]}: terms scored by BM25, which --backend exact does not know")
    note = IndexNote(vectors.scoring, vectors.manifests, {})
    return folders[0], note, ExactSearcher.load(*vectors.files)


def encode(queries: Sequence[Query], place: Path, note: IndexNote, options: argparse.Namespace) -> list[dict[str, int]]:
    """The impacts of ``queries`` by the encoder that ``note``, of the index or the vectors in ``place``, asks for."""
    from learned_sparse.search.query_encoder import QueryEncoder

    chosen = {"device": options.device} if options.device else {}
    settings = parse_changes(options.set)
    encoder = QueryEncoder.from_note(note, place, options.checkpoint, settings=settings, **chosen)
    step = max(1, options.encode_batch)
    return [
        row
        for start in range(0, len(queries), step)
        for row in encoder.encode_batch([q.text for q in queries[start : start + step]])
    ]


def _check(options: argparse.Namespace, stock: Sequence[str]) -> None:
    if options.backend == "exact" and (options.index or options.bm25 or not (options.vectors or options.model)):
        raise LearnedSparseError("--backend exact reads vectors, no index: give --vectors DIR or --model NAME")
    if options.backend == "lucene" and options.vectors:
        raise LearnedSparseError("--vectors are for --backend exact; Lucene reads an index")
    if not (options.index or options.model or options.bm25 or options.vectors):
        raise LearnedSparseError("which index? give --index DIR, --model NAME or --bm25")
    if options.topics and not options.output:
        raise LearnedSparseError("where to? --topics needs --output RUN")
    if options.topics and (options.collection or options.split) and (options.index or options.vectors):
        raise LearnedSparseError("give --topics FILE or --collection NAME --split SPLIT, not both")
    ours = {"--encoder": "--checkpoint", "--onnx-encoder": "--checkpoint", "--topics-format": "--topics"}
    for word in stock:
        if word in ours:
            raise LearnedSparseError(
                f"{word}: here the index names its encoder; use {ours[word]}, or learned_sparse.pyserini search.lucene"
            )
        if word == "kilt":
            raise LearnedSparseError("kilt needs KILT topics; use learned_sparse.pyserini search.lucene")


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
