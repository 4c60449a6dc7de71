"""``python -m eval.reproduce.step_expanded``: documents with what expands them in one text, as BM25 reads them."""

from __future__ import annotations

import argparse
from pathlib import Path

import orjson

from learned_sparse.collections import read_documents
from learned_sparse.core import atomic_write


def main(argv: list[str] | None = None) -> int:
    """Append docT5query's queries to the text of each document."""
    parser = argparse.ArgumentParser(prog="python -m eval.reproduce.step_expanded", description=main.__doc__)
    parser.add_argument(
        "--input", required=True, type=Path, metavar="FILE|DIR", help='JSON lines with "expanded" beside the text'
    )
    parser.add_argument("--output", required=True, type=Path, metavar="DIR", help="for documents.jsonl")
    options = parser.parse_args(argv)
    expanded = 0
    with atomic_write(options.output / "documents.jsonl") as file:
        reader = read_documents(options.input)
        for document in reader:
            expanded += bool(document.expanded)
            text = f"{document.text} {document.expanded}".rstrip()
            file.write(orjson.dumps({"id": document.id, "contents": text}, option=orjson.OPT_APPEND_NEWLINE))
    print(f"{options.output}: {reader.read:,} documents, {expanded:,} of them expanded")
    return 0


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
