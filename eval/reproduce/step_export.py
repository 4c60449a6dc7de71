"""``python -m eval.reproduce.step_export``: a collection as the plain files that stock Pyserini and trec_eval read."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import orjson

from eval.measures import write_qrels
from learned_sparse.collections import Collection, load_collection
from learned_sparse.core import atomic_write
from learned_sparse.jsonvector import renamed_ids

DOCUMENTS, TOPICS, QRELS = "documents", "topics.tsv", "qrels.txt"


def main(argv: list[str] | None = None) -> int:
    """Write qrels.txt, topics.tsv, and with --documents also documents/documents.jsonl for JsonCollection."""
    parser = argparse.ArgumentParser(prog="python -m eval.reproduce.step_export", description=main.__doc__)
    parser.add_argument("--collection", required=True, metavar="NAME|DIR")
    parser.add_argument("--split", required=True, help="whose topics and judgements")
    parser.add_argument("--documents", action="store_true", help="the texts, too")
    parser.add_argument("--output", required=True, type=Path, metavar="DIR")
    options = parser.parse_args(argv)
    collection = load_collection(options.collection)
    for warning in export(collection, options.split, options.output, documents=options.documents):
        print(f"warning: {warning}")
    print(f"{options.output}: {collection.name}, {options.split}")
    return 0


def export(collection: Collection, split: str, folder: Path, *, documents: bool) -> list[str]:
    """Write the files; warnings about what stock Pyserini makes of the queries' ids."""
    queries = collection.queries(split)
    _write(folder / TOPICS, (f"{query.id}\t{' '.join(query.text.split())}\n".encode() for query in queries))
    if documents:
        lines = ({"id": document.id, "contents": document.text} for document in collection.documents())
        _write(folder / DOCUMENTS / "documents.jsonl", (orjson.dumps(line) + b"\n" for line in lines))
    write_qrels(folder / QRELS, collection.qrels(split))
    return renamed_ids([query.id for query in queries])


def _write(path: Path, lines: Iterable[bytes]) -> None:
    with atomic_write(path) as file:
        file.writelines(lines)


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
