"""``python -m learned_sparse.index``: encoded documents (or plain text, for BM25) into a verified Lucene index."""

from __future__ import annotations

import argparse
from pathlib import Path

from learned_sparse.collections import Collection, load_collection
from learned_sparse.core import LearnedSparseError, encoded_folders, index_folder
from learned_sparse.index.note import INDEX_MANIFEST, IndexNote
from learned_sparse.index.vectors import STORE, VectorFiles, build_index, encoded_files, plain_files, verify

EXAMPLES = """\
examples:
  python -m learned_sparse.index --model sparterm                     what learned_sparse.encode wrote by default
  python -m learned_sparse.index --input SHARD-0 SHARD-1 --index INDEX
  python -m learned_sparse.index --input VECTORS --no-manifest --index INDEX      JsonVectorCollection files of others
  python -m learned_sparse.index --model sparterm --anserini --storeRaw           by Anserini's own, slower way
  python -m learned_sparse.index --bm25 --collection scifact                      the baseline
  python -m learned_sparse.index --model sparterm --verify 1000       compare 1,000 documents with an index made before
"""


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m learned_sparse.index",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--model", help="name of the model whose vectors of --collection are in the home folder")
    parser.add_argument("--collection", help="name, folder or ir_datasets:ID (default pydoc)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="with --bm25: folder the files of --collection are in")
    parser.add_argument("--input", nargs="+", type=Path, metavar="DIR", help="encoded folder, or all shards of one")
    parser.add_argument("--index", type=Path, metavar="DIR", help="where to (default: by --collection and --model)")
    parser.add_argument("--bm25", action="store_true", help="index the text of --collection (or of --input) for BM25")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--direct", action="store_true", help="each impact as one number (default for vectors)")
    how.add_argument("--anserini", action="store_true", help="Anserini's IndexCollection: each term impact times")
    parser.add_argument("--no-manifest", action="store_true", help="plain vectors, not from learned_sparse.encode")
    parser.add_argument(
        "--threads", type=int, help="default: one for each processor, at most 4 (--anserini: one for each file)"
    )
    parser.add_argument("--heap", metavar="SIZE", help="Java's memory, such as 4g (default $LEARNED_SPARSE_JAVA_HEAP)")
    parser.add_argument("--overwrite", action="store_true", help="replace an index that is there already")
    parser.add_argument(
        "--verify", type=int, metavar="N", help="index nothing: compare N documents' postings with the files, status 2 "
        "on any difference",
    )  # fmt: skip
    for name in STORE:
        parser.add_argument(
            f"--store{name}", action="append_const", const=name, dest="store", help=f"Anserini's -store{name}"
        )
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    options = parser().parse_args(argv)
    if options.threads is not None and options.threads < 1:
        raise LearnedSparseError(f"--threads {options.threads}: give at least 1")
    model = "bm25" if options.bm25 else options.model
    if options.bm25 and (options.model or options.no_manifest or options.store or options.direct):
        raise LearnedSparseError("--bm25 indexes text: it takes neither --model, --no-manifest, --direct nor --store*")
    if not options.input and not model:
        raise LearnedSparseError("nothing to index: give --model NAME, --input DIR, or --bm25")
    if not options.index and not model:
        raise LearnedSparseError("where to? give --index DIR (or --model NAME for its place in the home folder)")
    collection = load_collection(options.collection or "pydoc", data=options.data)
    index = options.index or index_folder(collection.name, model)
    if options.verify is not None:
        return _verify(options, collection.name, index)
    facts = _bm25(options, collection, index) if options.bm25 else _vectors(options, collection.name, index)
    print(f"{index}: {facts}")
    return 0


def _verify(options: argparse.Namespace, collection: str, index: Path) -> int:
    from learned_sparse.index.check import check_index

    if options.bm25:
        raise LearnedSparseError("--verify compares with vector files: it does not go with --bm25")
    if options.verify < 1:
        raise LearnedSparseError(f"--verify {options.verify}: give at least 1")
    check = check_index(_files(options, collection), index, options.verify)
    print(f"{index}: {check.report()}")
    return check.status


def _files(options: argparse.Namespace, collection: str) -> VectorFiles:
    folders = options.input or encoded_folders(collection, options.model, "--input", options.collection)
    return plain_files(folders) if options.no_manifest else encoded_files(folders)


def _vectors(options: argparse.Namespace, collection: str, index: Path) -> str:
    vectors = _files(options, collection)
    if not options.overwrite and not options.store and is_index_of(vectors, index):
        note = IndexNote.load(index)
        verify(vectors, index)
        print("the index of these vectors is there already")
    else:
        note = build_index(
            vectors,
            index,
            threads=options.threads,
            store=options.store or (),
            overwrite=options.overwrite,
            heap=options.heap,
            direct=not options.anserini,
            say=print,
        )
    return (
        f"{note.facts['documents']:,} documents, {note.facts['postings']:,} postings; counts are as in the files, "
        f"so are all impacts of {note.facts['verified_documents']:,} sampled documents"
    )


def is_index_of(vectors: VectorFiles, index: Path) -> bool:
    """Whether ``index`` says that it was made from these very encoded folders."""
    note = index / INDEX_MANIFEST
    return bool(vectors.manifests) and note.is_file() and IndexNote.load(index).manifests == vectors.manifests


def _bm25(options: argparse.Namespace, collection: Collection, index: Path) -> str:
    from learned_sparse.collections import read_documents
    from learned_sparse.index.bm25_index import build_bm25_index

    if options.input and len(options.input) > 1:
        raise LearnedSparseError("--bm25 takes one --input: a file or a folder of documents")
    documents = read_documents(options.input[0]) if options.input else collection.documents()
    indexed = build_bm25_index(
        documents, index, threads=options.threads, overwrite=options.overwrite, heap=options.heap
    )
    return f"{indexed:,} documents of plain text for BM25"


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
