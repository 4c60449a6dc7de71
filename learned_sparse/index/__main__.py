"""``python -m learned_sparse.index``: make a Lucene index of encoded documents, or of plain text for BM25."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from learned_sparse.core.errors import counted, run_main
from learned_sparse.core.files import encoded_folders, index_folder
from learned_sparse.core.settings import CommandParser, command_line, positive, refuse
from learned_sparse.index.build import (
    VectorFiles,
    build_bm25_index,
    build_index,
    check_index,
    open_vectors,
    plain_files,
)
from learned_sparse.index.note import INDEX_MANIFEST, IndexNote
from learned_sparse.jsonvector.manifest import UNVERIFIED, same_vectors

if TYPE_CHECKING:
    from learned_sparse.collections.collection import Collection
    from learned_sparse.collections.documents import OnBadLine

EXAMPLES = """\
examples:
  python -m learned_sparse.index --model sparterm                     the output of learned_sparse.encode
  python -m learned_sparse.index --input SHARD-0 SHARD-1 --index INDEX
  python -m learned_sparse.index --input FOLDER --index INDEX         JsonVectorCollection files of other tools
  python -m learned_sparse.index --input FOLDER --quantize VECTORS --index INDEX      ... with float weights
  python -m learned_sparse.index --bm25 --collection scifact                      the baseline
  python -m learned_sparse.index --model sparterm --verify 1000       compare 1,000 documents of an existing index
For options of Anserini, such as --storeRaw and --storeDocvectors: python -m learned_sparse.pyserini index.lucene
"""
MAX_SHOWN = 10
"""Differences that ``--verify`` prints."""


def parser() -> CommandParser:
    """The options of the command."""
    parser = CommandParser(prog="python -m learned_sparse.index", description=__doc__, epilog=EXAMPLES)
    add = parser.add_argument
    add("--model", help="name of the model whose vectors of --collection are in the home folder")
    add("--collection", help="name, folder or ir_datasets:ID (default pydoc)")
    add("--data", type=Path, metavar="DIR", help="with --bm25: folder with the files of --collection")
    add("--input", nargs="+", type=Path, metavar="DIR", help="encoded folder, or all shards of one")
    add("--index", type=Path, metavar="DIR", help="output folder (default: by --collection and --model)")
    either = parser.add_mutually_exclusive_group().add_argument
    either("--bm25", action="store_true", help="index the text of --collection (or of --input) for BM25")
    either("--no-manifest", action="store_true", help="ignore the manifests of --input")
    either(
        "--quantize", type=Path, metavar="DIR", help="--input has float weights: write impacts into DIR and index these"
    )
    either(
        "--verify",
        type=positive,
        metavar="N",
        help="index nothing; compare the postings of N documents with the files; status 2 if any differ",
    )
    add("--bits", type=positive, help="with --quantize: the largest weight becomes the largest impact (default 8)")
    add("--quantization-factor", type=float, metavar="X", help="with --quantize: impact of weight 1")
    add("--on-bad-line", choices=["error", "skip"], help="with --bm25: malformed lines (default error)")
    add("--threads", type=positive, help="default: one for each processor, for vectors at most 4")
    add("--heap", metavar="SIZE", help="Java's memory, such as 4g (default $LEARNED_SPARSE_JAVA_HEAP)")
    add("--overwrite", action="store_true", help="replace an existing index")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    options = parser().parse_args(argv)
    bm25, quantizes = options.bm25, options.quantize
    model, scales = "bm25" if bm25 else options.model, options.bits or options.quantization_factor is not None
    refuse(
        (bm25 and options.model, "--bm25 takes no --model"),
        (bm25 and len(options.input or ()) > 1, "--bm25 takes one --input: a file or a folder of documents"),
        (options.on_bad_line and not bm25, "--on-bad-line is for the text of --bm25; bad vectors are always errors"),
        (quantizes and not options.input, "--quantize needs --input"),
        (scales and not quantizes, "--bits and --quantization-factor need --quantize DIR, which gets the impacts"),
        (not (options.input or model), "nothing to index: give --model NAME, --input DIR, or --bm25"),
        (not (options.index or model), "no output folder: give --index DIR, or --model NAME for the home folder"),
    )
    collection = None  # read only if it is needed
    if options.collection or not (options.input and options.index):
        from learned_sparse.collections.collection import load_collection

        collection = load_collection(options.collection or "pydoc", data=options.data)
    name = collection.name if collection else ""
    index: Path = options.index or index_folder(name, model)
    if options.bm25:
        summary = _bm25(options, collection, index)
    else:
        folders = options.input or encoded_folders(name, model, "--input", options.collection)
        plain = options.quantize or options.no_manifest
        vectors = plain_files(_quantized(options, folders)) if plain else open_vectors(folders)
        if options.verify:
            compared, wrong = check_index(vectors, index, options.verify)
            print("\n  ".join([f"{index}: {compared}", *wrong[:MAX_SHOWN]]))
            return 2 if wrong else 0
        summary = _vectors(options, vectors, index)
    print(f"{index}: {summary}")
    print("next:", command_line(f"learned_sparse.{shlex.join(_next_command(options, collection, index))}"))
    return 0


def _quantized(options: argparse.Namespace, folders: Sequence[Path]) -> Sequence[Path]:
    """``folders``; with ``--quantize``, the folder with their impacts, which are written first."""
    if not options.quantize:
        return folders
    from learned_sparse.jsonvector.weights import quantize_vectors

    how = {"bits": options.bits, "factor": options.quantization_factor, "overwrite": options.overwrite}
    quantizer, counts = quantize_vectors(folders, options.quantize, **how)
    print(
        f"{options.quantize}: {counts.written:,} documents ({counts.empty_vectors:,} with an empty vector), "
        f"quantisation factor {quantizer.scale:.6g}, {counts.clipped:,} weights clipped, {counts.lost_to_rounding:,} "
        "lost to rounding"
    )
    return [options.quantize]


def _vectors(options: argparse.Namespace, vectors: VectorFiles, index: Path) -> str:
    exists = bool(vectors.manifests) and (index / INDEX_MANIFEST).is_file() and not options.overwrite
    if exists and same_vectors(IndexNote.load(index).manifests, vectors.manifests):  # leaderboards are continued
        return "the index of these vectors exists already"
    note = build_index(vectors, index, threads=options.threads, overwrite=options.overwrite, heap=options.heap)
    if not vectors.manifests:
        print(f"not verified: {UNVERIFIED}; name the encoder of queries with --checkpoint, or search encoded queries")
    documents = counted(note.facts["documents"], "document")
    return (
        f"{documents}, {note.facts['postings']:,} postings; the counts and the sum of impacts equal those of the files"
    )


def _bm25(options: argparse.Namespace, collection: Collection | None, index: Path) -> str:
    on_bad_line: OnBadLine = options.on_bad_line or "error"
    if options.input or collection is None:
        from learned_sparse.collections.collection import with_progress
        from learned_sparse.collections.documents import read_documents

        documents = with_progress(read_documents(options.input[0], on_bad_line=on_bad_line))
    else:
        documents = collection.documents_shown(on_bad_line)
    indexed = build_bm25_index(
        documents, index, threads=options.threads, overwrite=options.overwrite, heap=options.heap
    )
    return f"{counted(indexed, 'document')} of plain text for BM25"


def _next_command(options: argparse.Namespace, collection: Collection | None, index: Path) -> list[str]:
    """Module and options of the search; QUERIES.tsv is for the user to replace."""
    if collection is None or not collection.splits or (options.input and not options.collection):
        return ["search", "--index", str(index), "--topics", "QUERIES.tsv", "--output", f"{index}.run.txt"]
    where = ["--index", str(index)] if options.index else ["--bm25"] if options.bm25 else ["--model", options.model]
    data = ["--data", str(options.data)] if options.data else []
    split = "test" if "test" in collection.splits else next(iter(collection.splits))
    return ["search", *where, "--collection", options.collection or "pydoc", *data, "--split", split]


if __name__ == "__main__":
    run_main(main)
