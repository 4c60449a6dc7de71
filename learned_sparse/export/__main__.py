"""``python -m learned_sparse.export``: write encoded documents and queries as files of another engine."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from learned_sparse.core.errors import LearnedSparseError, counted, run_main
from learned_sparse.core.files import encoded_folders, queries_folder
from learned_sparse.core.settings import CommandParser
from learned_sparse.export.exporting import FORMATS, RECORD, USAGE, export_vectors

FACTS = ("query_terms_of_no_document", "terms_with_capitals", "query_divisor", "queries_over_1024_terms")
"""Entries of the record that are printed; ``USAGE.txt`` explains them."""
EPILOG = """\
formats:
{formats}

examples:
  python -m learned_sparse.export --format pisa --vectors VECTORS --queries QUERIES --output PISA
  python -m learned_sparse.export --format opensearch --model splade --collection scifact --split test --output OS
  python -m learned_sparse.export --format qdrant --queries QUERIES --vocabulary QDRANT/vocabulary.txt --output MORE
"""


def main(argv: list[str] | None = None) -> int:
    """Export, and print the counts."""
    options = _parser().parse_args(argv)
    if (options.collection or options.split) and not options.model:
        raise LearnedSparseError("--collection and --split are for the vectors and queries of --model NAME")
    vectors, queries, collection = options.vectors or [], options.queries, options.collection or "pydoc"
    if options.model:
        vectors = encoded_folders(collection, options.model, "--vectors", options.collection)
    if options.split:
        queries = queries_folder(collection, options.split, options.model)
    record = export_vectors(
        options.format,
        options.output,
        vectors=vectors,
        queries=queries,
        vocabulary=options.vocabulary,
        fields=options.fields or (),
        overwrite=options.overwrite,
    )
    _report(options.output, record)
    print(f"next: cat {shlex.quote(str(options.output / USAGE))}")
    return 0


def _report(output: Path, record: Mapping[str, Any]) -> None:
    counts = []
    if "documents" in record:
        counts.append(f"{counted(record['documents'], 'document')} with {record['postings']:,} impacts")
    if "queries" in record:
        counts.append(f"{counted(record['queries'], 'query')} with {record['query_terms']:,} terms")
    print(f"{output}: {', '.join(counts)}; {len(record['files'])} files, see {RECORD} and {USAGE}")
    for fact in FACTS:
        if record.get(fact):
            print(f"  {fact.replace('_', ' ')}: {record[fact]:,}")


def _parser() -> argparse.ArgumentParser:
    formats = "\n".join(f"  {name:14} {target.about}" for name, target in FORMATS.items())
    parser = CommandParser(
        prog="python -m learned_sparse.export",
        description="Write encoded documents and queries as files of another engine.",
        epilog=EPILOG.format(formats=formats),
    )
    add = parser.add_argument
    add("--format", choices=list(FORMATS), required=True, help="engine (see below)")
    vectors, queries = (parser.add_mutually_exclusive_group().add_argument for _ in range(2))
    vectors("--vectors", type=Path, nargs="+", metavar="DIR", help="encoded documents, all shards; or plain vectors")
    vectors("--model", metavar="NAME", help="instead: model with vectors of --collection in the home folder")
    queries("--queries", type=Path, metavar="DIR", help="what learned_sparse.encode --queries wrote")
    queries("--split", metavar="NAME", help="with --model, instead: split whose encoded queries to export")
    add("--collection", metavar="NAME", help="with --model: name of the collection (default pydoc)")
    add("--output", type=Path, required=True, metavar="DIR", help="folder of the export")
    add("--vocabulary", type=Path, metavar="FILE", help="for queries alone: terms of the export of their documents")
    fields_help = "opensearch, elasticsearch: fields of the encoded JSON lines to store, such as title and text"
    add("--fields", nargs="+", metavar="NAME", help=fields_help)
    add("--overwrite", action="store_true", help="replace an earlier export")
    return parser


if __name__ == "__main__":
    run_main(main)
