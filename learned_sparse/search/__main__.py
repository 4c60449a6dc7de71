"""``python -m learned_sparse.search``: encode queries as the index records, search them and write the run."""

from __future__ import annotations

import argparse
import logging
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from learned_sparse.collections import Collection, load_collection, read_queries, write_run
from learned_sparse.core import (
    CommandParser,
    LearnedSparseError,
    Quantizer,
    Query,
    add_set_option,
    counted,
    encoded_folders,
    index_folder,
    parse_changes,
    positive,
    print_next,
    progress_bar,
    run_file,
    run_main,
)
from learned_sparse.encode import ALPHA
from learned_sparse.index import IndexNote
from learned_sparse.jsonvector import (
    MANIFEST,
    UNVERIFIED,
    Manifest,
    check_queries,
    read_query_vectors,
    same_vectors,
    topic_text,
)
from learned_sparse.search.engines import VectorSearcher, add_backend_options, load_backend, seismic_settings
from learned_sparse.search.query_encoder import QueryEncoder, read_note
from learned_sparse.search.searching import (
    CHUNK_SIZE,
    Hits,
    MaxP,
    Rows,
    add_bm25_options,
    best_segments,
    bm25_parameters,
    open_searcher,
    queries_by_id,
    search_all,
)

_log = logging.getLogger(__name__)

EPILOG = """\
Hits, their order and their scores are those of Pyserini's search.lucene with --min-idf -1. (Pyserini lowers tied
scores by steps of 0.000001, and rounds BM25 scores to four decimals.)
In an index of segments, --hits counts documents, each scored by its best segment (MaxP).
--backend exact holds all vectors in memory and starts no Java: the same run, fastest below some 100,000 documents.
--backend pisa gives the same scores, from an index that is built at each call; at the last rank, another document may
have the same score. --backend seismic is approximate: eval.costs states its recall. Both are extras of this package.
An index without learned_sparse.json, such as a prebuilt one, needs --checkpoint or --query-vectors.

examples:
  python -m learned_sparse.search --model sparterm --split test
  python -m learned_sparse.search --index INDEX --topics queries.tsv --output RUN --hits 100 --threads 2
  python -m learned_sparse.search --backend exact --vectors VECTORS --topics queries.tsv --output RUN --threads 2
  python -m learned_sparse.search --bm25 --collection scifact --split test
"""
MIN_MEAN_IMPACT = 2
"""Mean impact of an index of another tool below which its impacts may be term frequencies of a text."""
STOCK_COMMAND = (
    "python -m learned_sparse.pyserini search.lucene --impact --min-idf -1 --index INDEX "
    "--topics QUERIES/queries.tsv --output RUN"
)


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    options = _parse(argv)
    collection = load_collection(options.collection or "pydoc", data=options.data)
    path, index_note, vectors = _target(options, collection.name)
    recorded = index_note.manifests[0].collection if index_note.manifests else None
    queries, output, remove_query = _queries(options, collection, path, recorded)
    if options.query_vectors:
        queries, rows = _encoded_queries(options, index_note)
    else:
        rows = _encode(queries, path, index_note, options)
    scoring, check = index_note.scoring, not options.no_check
    bm25 = bm25_parameters(options)
    how: dict[str, Any] = {"heap": options.heap, "check": check, "bm25": bm25}
    with open_searcher(path, scoring, vectors=vectors, **how) as search:
        if vectors is None:
            _warn_of_text(path, index_note)
        explicit = options.max_passage or options.max_passage_hits or options.max_passage_delimiter
        results = search_all(
            search, queries_by_id(queries, rows), options.hits, threads=options.threads, chunk_size=options.batch_size,
            maxp=None if explicit or options.rank_segments else MaxP.from_note(index_note), remove_query=remove_query,
        )  # fmt: skip
        if explicit:
            delimiter, documents = options.max_passage_delimiter or "#", options.max_passage_hits or 100
            results = ((name, best_segments(hits, delimiter)[:documents]) for name, hits in results)
        without_hits: list[str] = []
        shown = progress_bar(_counted(results, without_hits), "searching", "queries", len(queries))
        write_run(output, shown, output_format=options.output_format)
    empty = sum(not query.text.strip() for query in queries)
    without_text = f" ({empty:,} without text)" if empty else ""
    print(f"{output}: {counted(len(queries), 'query')}{without_text}, {len(without_hits):,} without a hit")
    for name in without_hits[:10]:
        print(f"  without a hit: {name}")
    if options.output_format == "trec":
        print_next(f"eval.evaluate {shlex.join(_evaluation(options, collection, output))}")
    return 0


def _evaluation(options: argparse.Namespace, collection: Collection, run: Path) -> list[str]:
    """Options of eval.evaluate; QRELS.txt is for the user to replace."""
    if options.topics or options.query_vectors:
        return ["--qrels", "QRELS.txt", "--measures", "MRR@10", "R@100", "--run", str(run)]
    data = ["--data", str(options.data)] if options.data else []
    split = collection.choose_split(options.split)
    return ["--collection", options.collection or "pydoc", *data, "--split", split, "--run", str(run)]


def parser() -> CommandParser:
    """The options of the command."""
    parser = CommandParser(
        prog="python -m learned_sparse.search",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    where = parser.add_argument_group("index and encoder").add_argument
    where("--index", type=Path, metavar="DIR", help="index (default: by --collection and --model)")
    where("--model", metavar="NAME", help="model whose index of --collection is in the home folder")
    where("--bm25", action="store_true", help="search the index of plain text of --collection")
    add_backend_options(where)
    where(
        "--vectors", type=Path, nargs="+", metavar="DIR",
        help="for other backends than lucene: encoded documents, all shards (default: by --collection and --model)",
    )  # fmt: skip
    where("--checkpoint", metavar="DIR", help="encoder of the queries (default: the one recorded in the index)")
    where("--device", help="device to encode on, such as cpu or cuda:0")
    add_set_option(parser, "change a setting that only queries depend on, for instance query_k=100; may be repeated")
    where(
        "--alpha", type=float, metavar="X", help="of a model joined with BM25: share of the model, from 0 (BM25 alone) "
        "to 1 (default: the one recorded in the index)",
    )  # fmt: skip
    where("--encode-batch", type=positive, default=256, metavar="N", help="queries encoded at a time (default 256)")
    where(
        "--no-check", action="store_true",
        help="do not compare the files of the index with their checksums, which takes about a second for each gigabyte",
    )  # fmt: skip
    where("--heap", metavar="SIZE", help="Java's memory, such as 4g (default $LEARNED_SPARSE_JAVA_HEAP)")
    where("--impact", action="store_true", help=argparse.SUPPRESS)  # an option of search.lucene; the index records it
    what = parser.add_argument_group("queries").add_argument
    what("--collection", metavar="NAME", help="collection: name, folder or ir_datasets:ID (default pydoc)")
    what("--data", type=Path, metavar="DIR", help="folder with the files of --collection")
    what("--split", metavar="NAME", help="split of --collection (default test, or its only one)")
    what("--topics", type=Path, metavar="FILE", help="queries in a file: .tsv, .jsonl, .json, TREC")
    what(
        "--query-vectors", type=Path, metavar="FILE",
        help="encoded queries: queries.tsv of learned_sparse.encode --queries, or JSON lines with id and vector",
    )  # fmt: skip
    what("--quantization-factor", type=float, metavar="X", help="impact of weight 1, for float --query-vectors")
    how = parser.add_argument_group("run").add_argument
    how("--output", type=Path, metavar="RUN", help="run file (default: by collection, split and model)")
    how("--output-format", choices=["trec", "msmarco"], default="trec", help="(default %(default)s)")
    how("--hits", type=positive, default=1000, metavar="K", help="documents per query (default %(default)s)")
    how(
        "--threads",
        type=positive,
        default=1,
        metavar="N",
        help="threads that search (default %(default)s)",
    )
    how(
        "--batch-size", type=positive, default=CHUNK_SIZE, metavar="N",
        help="queries searched before their hits are written (default %(default)s)",
    )  # fmt: skip
    add_bm25_options(how)
    how("--remove-query", action="store_true", help="drop hits with the id of their query (some collections record it)")
    how("--rank-segments", action="store_true", help="in an index of segments: rank segments, not documents")
    how("--max-passage", action="store_true", help="rank documents by the best of their segments among --hits segments")
    how("--max-passage-hits", type=positive, metavar="K", help="documents kept by --max-passage (default 100)")
    how("--max-passage-delimiter", metavar="TEXT", help="between document id and segment (default #)")
    return parser


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    command = parser()
    options, unknown = command.parse_known_args(argv)
    for word in unknown:
        option = word.partition("=")[0]  # stock search.lucene also accepts abbreviations
        if len(option) > len("--") and any(name.startswith(option) for name in ("--encoder", "--onnx-encoder")):
            raise LearnedSparseError(f"{word}: the index records its encoder; --checkpoint says where the encoder is")
        if nearest := command.nearest(option):
            raise LearnedSparseError(f"{option}: unknown option{nearest}")
    if unknown:
        words = shlex.join(unknown)
        raise LearnedSparseError(
            f"{words}: unknown to learned_sparse.search (see --help). For other options of Pyserini's search.lucene, "
            f"encode the queries with python -m learned_sparse.encode --queries, then run {STOCK_COMMAND} {words}"
        )
    reads_vectors = options.backend != "lucene"
    if reads_vectors and (options.index or options.bm25 or not (options.vectors or options.model)):
        raise LearnedSparseError(
            f"--backend {options.backend} reads vectors, no index: give --vectors DIR or --model NAME"
        )
    if options.vectors and not reads_vectors:
        raise LearnedSparseError("--vectors are for --backend exact, pisa or seismic; Lucene reads an index")
    if not (options.index or options.model or options.bm25 or options.vectors):
        raise LearnedSparseError("no index is named: give --index DIR, --model NAME or --bm25")
    seismic_settings(options)
    if (options.topics or options.query_vectors) and not options.output:
        raise LearnedSparseError(f"--{'topics' if options.topics else 'query-vectors'} needs --output RUN")
    encoding = ("topics", "split", "checkpoint", "device", "set", "bm25")
    given = [name for name in encoding if getattr(options, name)] + ["alpha"] * (options.alpha is not None)
    if options.query_vectors and given:
        listed = ", ".join(f"--{name}" for name in given)
        raise LearnedSparseError(f"{listed}: --query-vectors are encoded queries already")
    if options.quantization_factor is not None and not options.query_vectors:
        raise LearnedSparseError("--quantization-factor is for --query-vectors; an encoder has its own")
    if options.topics and (options.collection or options.split) and (options.index or options.vectors):
        raise LearnedSparseError("give --topics FILE or --collection NAME --split SPLIT, not both")
    return options


def _target(options: argparse.Namespace, collection: str) -> tuple[Path, IndexNote, VectorSearcher | None]:
    """The index and its note, or the first folder of vectors with a note of its manifests and a searcher of vectors."""
    if options.backend == "lucene":
        index = options.index or index_folder(collection, "bm25" if options.bm25 else options.model)
        index_note = read_note(index, options.checkpoint or options.query_vectors)
        if options.model and not options.index:
            _check_current(index, index_note, collection, options)
        return index, index_note, None
    folders = options.vectors or encoded_folders(collection, options.model, "--vectors", options.collection)
    encoded = [folder for folder in folders if (folder / MANIFEST).is_file()]
    searcher = load_backend(options, folders)  # compares the files with their manifests
    return folders[0], IndexNote("impact", tuple(map(Manifest.load, encoded)), {}), searcher


def _check_current(index: Path, index_note: IndexNote, collection: str, options: argparse.Namespace) -> None:
    """Raise if the documents have been encoded again since ``index``, an index found by name, was made."""
    try:
        folders = encoded_folders(collection, options.model, "--vectors")
        manifests = [Manifest.load(folder) for folder in folders]
    except LearnedSparseError:
        return  # no vectors here, or several encodings: nothing to compare with
    if index_note.manifests and not all(manifest.complete for manifest in manifests):
        _log.warning("%s: made of earlier vectors than those in %s, which are not complete yet", index, folders[0])
    elif index_note.manifests and not same_vectors(index_note.manifests, manifests):
        named = f"--model {options.model}" + (f" --collection {options.collection}" if options.collection else "")
        raise LearnedSparseError(
            f"{index}: made of other vectors than {folders[0]} holds now; make it again with python -m "
            f"learned_sparse.index {named} --overwrite, or search it as it is with --index {index}"
        )


def _queries(
    options: argparse.Namespace, collection: Collection, path: Path, recorded: str | None
) -> tuple[list[Query], Path, bool]:
    """The queries, the run file, and whether hits with the id of their query are dropped.

    ``recorded``: collection of the documents. The default, pydoc, is only for documents of pydoc.
    """
    if options.query_vectors:
        return [], options.output, options.remove_query
    if options.topics:
        return read_queries(options.topics), options.output, options.remove_query
    if (options.index or options.vectors) and not options.collection and recorded != "pydoc":
        raise LearnedSparseError(
            f"{path}: which queries? give --topics FILE, --query-vectors FILE or --collection NAME with --split NAME"
        )
    split = collection.choose_split(options.split)
    model = "bm25" if options.bm25 else options.model or path.name
    output = options.output or run_file(collection.name, split, model)
    return collection.queries(split), output, options.remove_query or collection.split(split).remove_query


def _encode(queries: Sequence[Query], path: Path, index_note: IndexNote, options: argparse.Namespace) -> Rows:
    """Impacts of the queries, or None if the index holds plain text."""
    settings = parse_changes(options.set)
    if any("hybrid" in manifest.encoder for manifest in index_note.manifests):
        from learned_sparse.lucene import start_jvm

        start_jvm(heap=options.heap)  # its queries are analysed by Lucene, with any backend
        settings |= {} if options.alpha is None else {ALPHA: options.alpha}
    elif options.alpha is not None:
        raise LearnedSparseError(f"--alpha: {path} holds no BM25 to weigh; encode documents --with bm25")
    if index_note.scoring == "bm25-text":
        if settings or options.checkpoint:
            given = "--set" if settings else "--checkpoint"
            raise LearnedSparseError(f"{given}: {path} holds plain text, which is searched without an encoder; omit it")
        return None
    if not index_note.manifests and options.checkpoint:
        _log.warning(
            "%s: cannot verify that %s is the encoder of its documents: %s", path, options.checkpoint, UNVERIFIED
        )
    device = {"device": options.device} if options.device else {}
    encoder = QueryEncoder.from_index(path, options.checkpoint, note=index_note, settings=settings, **device)
    size = options.encode_batch
    rows: list[Any] = []
    with progress_bar(None, "encoding", "queries", len(queries)) as progress:
        for start in range(0, len(queries), size):
            rows += encoder.encode_batch([query.text for query in queries[start : start + size]])
            progress.update(len(rows) - start)
    return rows


def _encoded_queries(options: argparse.Namespace, index_note: IndexNote) -> tuple[list[Query], Rows]:
    """The queries of ``--query-vectors``, their terms as text, and their impacts."""
    factor, path = options.quantization_factor, options.query_vectors
    if index_note.scoring == "bm25-text":
        raise LearnedSparseError(f"{options.index}: holds plain text, not impacts; search it with --topics FILE")
    vectors = read_query_vectors(path, None if factor is None else Quantizer(factor))
    for manifest in index_note.manifests[:1]:
        check_queries(path, manifest)
    return [Query(name, topic_text(vector)) for name, vector in vectors.items()], list(vectors.values())


def _warn_of_text(index: Path, index_note: IndexNote) -> None:
    """Log that an index of another tool, of which nothing is known, may hold term frequencies instead of impacts."""
    if index_note.manifests or index_note.facts:
        return
    from learned_sparse.lucene import read_contents

    contents = read_contents(index)
    if contents.total_impacts < MIN_MEAN_IMPACT * contents.postings:
        _log.warning(
            "%s: the mean impact is %.1f, so this may be an index of plain text; search that with python -m "
            "learned_sparse.pyserini search.lucene --bm25", index, contents.total_impacts / contents.postings,
        )  # fmt: skip


def _counted(results: Iterable[tuple[str, Hits]], without_hits: list[str]) -> Iterator[tuple[str, Hits]]:
    """``results``, adding the ids of queries without hits to ``without_hits``."""
    for name, hits in results:
        if not hits:
            without_hits.append(name)
        yield name, hits


if __name__ == "__main__":
    run_main(main)
