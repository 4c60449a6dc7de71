"""``python -m learned_sparse.index``: make a verified Lucene index of encoded documents, or of plain text for BM25."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from learned_sparse.collections import (
    Collection,
    OnBadLine,
    add_bad_line_option,
    load_collection,
    read_documents,
    with_progress,
)
from learned_sparse.core import (
    CommandParser,
    LearnedSparseError,
    counted,
    encoded_folders,
    index_folder,
    positive,
    print_next,
    run_main,
)
from learned_sparse.index.build import STORE, build_bm25_index, build_index, verify
from learned_sparse.index.note import INDEX_MANIFEST, IndexNote
from learned_sparse.index.vectors import VectorFiles, check_index, encoded_files, open_vectors, plain_files
from learned_sparse.jsonvector import PRUNING, UNVERIFIED, Manifest, parts_sha256, quantize_vectors, same_vectors
from learned_sparse.ray import Engine, add_engine_options

EXAMPLES = """\
examples:
  python -m learned_sparse.index --model sparterm                     the output of learned_sparse.encode
  python -m learned_sparse.index --input SHARD-0 SHARD-1 --index INDEX
  python -m learned_sparse.index --input FOLDER --index INDEX         JsonVectorCollection files of other tools
  python -m learned_sparse.index --input FOLDER --quantize VECTORS --index INDEX      ... with float weights
  python -m learned_sparse.index --model sparterm --anserini --storeRaw           by Anserini's IndexCollection, slower
  python -m learned_sparse.index --bm25 --collection scifact                      the baseline
  python -m learned_sparse.index --model sparterm --engine ray --workers 4
  python -m learned_sparse.index --model sparterm --verify 1000       compare 1,000 documents of an existing index
"""


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = CommandParser(
        prog="python -m learned_sparse.index",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", help="name of the model whose vectors of --collection are in the home folder")
    parser.add_argument("--collection", help="name, folder or ir_datasets:ID (default pydoc)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="with --bm25: folder with the files of --collection")
    parser.add_argument("--input", nargs="+", type=Path, metavar="DIR", help="encoded folder, or all shards of one")
    parser.add_argument(
        "--index", type=Path, metavar="DIR", help="output folder (default: by --collection and --model)"
    )
    parser.add_argument("--bm25", action="store_true", help="index the text of --collection (or of --input) for BM25")
    add_bad_line_option(parser.add_argument, default=None)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--direct", action="store_true", help="write each impact as one number (default for vectors)")
    how.add_argument("--anserini", action="store_true", help="use Anserini's IndexCollection, which repeats each term")
    parser.add_argument("--no-manifest", action="store_true", help="ignore the manifests of --input")
    parser.add_argument(
        "--quantize", type=Path, metavar="DIR", help="--input has float weights: write impacts into DIR and index these"
    )
    parser.add_argument(
        "--bits", type=positive, help="with --quantize: the largest weight becomes the largest impact (default 8)"
    )
    parser.add_argument("--quantization-factor", type=float, metavar="X", help="with --quantize: impact of weight 1")
    parser.add_argument(
        "--threads", type=positive, help="default: one for each processor, at most 4 (--anserini: one for each file)"
    )
    parser.add_argument("--heap", metavar="SIZE", help="Java's memory, such as 4g (default $LEARNED_SPARSE_JAVA_HEAP)")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing index")
    parser.add_argument(
        "--verify",
        type=positive,
        metavar="N",
        help="index nothing; compare the postings of N documents with the files; status 2 if any differ",
    )
    add_engine_options(parser)
    for name in STORE:
        parser.add_argument(
            f"--store{name}", action="append_const", const=name, dest="store", help=f"Anserini's -store{name}"
        )
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    options = parser().parse_args(argv)
    model = "bm25" if options.bm25 else options.model
    if options.bm25 and (options.model or options.no_manifest or options.store or options.direct):
        raise LearnedSparseError("--bm25 indexes text: it takes neither --model, --no-manifest, --direct nor --store*")
    if options.on_bad_line and not options.bm25:
        raise LearnedSparseError("--on-bad-line is for the text of --bm25; a malformed vector is always an error")
    if options.quantize and (not options.input or options.bm25 or options.verify or options.no_manifest):
        raise LearnedSparseError("--quantize needs --input, and goes with neither --bm25, --verify nor --no-manifest")
    if (options.bits or options.quantization_factor is not None) and not options.quantize:
        raise LearnedSparseError("--bits and --quantization-factor need --quantize DIR, which gets the impacts")
    engine = Engine.from_options(options)
    if engine and (options.bm25 or options.anserini or options.verify):
        raise LearnedSparseError("--engine ray is for impacts as numbers: not with --bm25, --anserini or --verify")
    if not options.input and not model:
        raise LearnedSparseError("nothing to index: give --model NAME, --input DIR, or --bm25")
    if not options.index and not model:
        raise LearnedSparseError("no output folder: give --index DIR (or --model NAME for one in the home folder)")
    collection = load_collection(options.collection or "pydoc", data=options.data)
    index = options.index or index_folder(collection.name, model)
    if options.verify is not None:
        return _verify(options, collection.name, index)
    summary = _bm25(options, collection, index) if options.bm25 else _vectors(options, collection.name, index, engine)
    print(f"{index}: {summary}")
    print_next(f"learned_sparse.{shlex.join(_next_command(options, collection, index))}")
    return 0


def _next_command(options: argparse.Namespace, collection: Collection, index: Path) -> list[str]:
    """Module and options of the search; QUERIES.tsv is for the user to replace."""
    if not collection.splits or (options.input and not options.collection):
        return ["search", "--index", str(index), "--topics", "QUERIES.tsv", "--output", f"{index}.run.txt"]
    where = ["--index", str(index)] if options.index else ["--bm25"] if options.bm25 else ["--model", options.model]
    data = ["--data", str(options.data)] if options.data else []
    split = "test" if "test" in collection.splits else next(iter(collection.splits))
    return ["search", *where, "--collection", options.collection or "pydoc", *data, "--split", split]


def _verify(options: argparse.Namespace, collection: str, index: Path) -> int:
    if options.bm25:
        raise LearnedSparseError("--verify compares with vector files: it does not go with --bm25")
    check = check_index(_files(options, collection), index, options.verify)
    print(f"{index}: {check.report()}")
    return 2 if check.differences else 0


def _files(options: argparse.Namespace, collection: str) -> VectorFiles:
    folders = options.input or encoded_folders(collection, options.model, "--input", options.collection)
    if options.quantize:
        return plain_files([_quantized(options)])
    if options.no_manifest:
        return plain_files(folders)
    if not options.input:
        _check_pruned(folders[0], collection, options.model)
        return encoded_files(folders)
    return open_vectors(folders)


def _quantized(options: argparse.Namespace) -> Path:
    """The folder of ``--quantize``, with the impacts of ``--input``."""
    folder: Path = options.quantize
    quantizer, counts = quantize_vectors(
        options.input, folder, bits=options.bits, factor=options.quantization_factor, overwrite=options.overwrite
    )
    print(
        f"{folder}: {counts.written:,} documents ({counts.empty_vectors:,} with an empty vector), quantisation factor "
        f"{quantizer.scale:.6g}, {counts.clipped:,} weights clipped, {counts.lost_to_rounding:,} lost to rounding"
    )
    return folder


def _check_pruned(folder: Path, collection: str, model: str) -> None:
    """Raise if the vectors in the home folder that ``folder`` was pruned from have been encoded again since."""
    manifest = Manifest.load(folder)
    pruning = manifest.options.get(PRUNING, {})
    if manifest.model == model or not pruning or "before" in pruning:  # vectors pruned twice do not name their source
        return
    try:
        sources = encoded_folders(collection, manifest.model, "--input")
    except LearnedSparseError:
        return  # removed, or several encodings: nothing to compare with
    if parts_sha256(map(Manifest.load, sources)) != pruning.get("source_sha256"):
        raise LearnedSparseError(
            f"{folder}: pruned from other vectors than {sources[0]} holds now; prune them again with --overwrite, or "
            f"index these with --input {folder}"
        )


def _vectors(options: argparse.Namespace, collection: str, index: Path, engine: Engine | None) -> str:
    vectors = _files(options, collection)
    if not options.overwrite and not options.store and is_index_of(vectors, index):
        note = IndexNote.load(index)
        verify(vectors, index)
        print("the index of these vectors exists already")
    else:
        note = build_index(
            vectors,
            index,
            threads=options.threads,
            store=options.store or (),
            overwrite=options.overwrite,
            heap=options.heap,
            direct=not options.anserini,
            engine=engine,
        )
    if not vectors.manifests:
        print(f"not verified: {UNVERIFIED}; name the encoder of queries with --checkpoint, or search encoded queries")
    return (
        f"{counted(note.facts['documents'], 'document')}, {note.facts['postings']:,} postings; the counts equal those "
        f"of the files, and so do all impacts of {note.facts['verified_documents']:,} sampled documents"
    )


def is_index_of(vectors: VectorFiles, index: Path) -> bool:
    """Whether ``index`` was made of exactly these encoded folders, by its note."""
    if not vectors.manifests or not (index / INDEX_MANIFEST).is_file():
        return False
    return same_vectors(IndexNote.load(index).manifests, vectors.manifests)


def _bm25(options: argparse.Namespace, collection: Collection, index: Path) -> str:
    if options.input and len(options.input) > 1:
        raise LearnedSparseError("--bm25 takes one --input: a file or a folder of documents")
    on_bad_line: OnBadLine = options.on_bad_line or "error"
    documents = (
        with_progress(read_documents(options.input[0], on_bad_line=on_bad_line))
        if options.input
        else collection.documents_shown(on_bad_line)
    )
    indexed = build_bm25_index(
        documents, index, threads=options.threads, overwrite=options.overwrite, heap=options.heap
    )
    return f"{counted(indexed, 'document')} of plain text for BM25"


if __name__ == "__main__":
    run_main(main)
