"""``python -m learned_sparse.inspect``: term weights of a text, a document or a query, and a score term by term."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from learned_sparse.core import LearnedSparseError, add_set_option, did_you_mean, parse_changes

if TYPE_CHECKING:
    from learned_sparse.core import Query
    from learned_sparse.inspect.setup import Inspection

TERMS = 25
EPILOG = """\
What is shown: --text as a model reads it; a --document as an index holds it; --query or --query-id with --document and
the score, which is the sum of query impact times document impact and is compared with Lucene's own.
Words are shaded by the weight of the term they spell, or, where dimensions are no words (UHD-BERT), by how much they
give to all dimensions. Behind each term: the words it comes from.

examples:
  python -m learned_sparse.inspect --model splade --text "can hives be a sign of pregnancy" --side query
  python -m learned_sparse.inspect --model splade --document pathlib.Path.read_text
  python -m learned_sparse.inspect --model splade --query "how do I read a file" --document pathlib.Path.read_text
  python -m learned_sparse.inspect --index INDEX --query-id 300 --topics queries.tsv --document 7187158 --html page.html
"""


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m learned_sparse.inspect",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    what = parser.add_argument_group("what to look at")
    what.add_argument("--text", help="a text of your own")
    what.add_argument("--side", choices=["query", "document"], help="which side reads --text (default document)")
    what.add_argument("--document", metavar="ID", help="a document of the index")
    what.add_argument("--query", metavar="TEXT", help="a query of your own, with --document")
    what.add_argument("--query-id", metavar="ID", help="a query of --topics, or of a split of the collection")
    where = parser.add_argument_group("where it is")
    where.add_argument("--model", help="name of a model in the home folder: its checkpoint, its index of --collection")
    where.add_argument("--index", type=Path, metavar="DIR", help="index (default: by --collection and --model)")
    where.add_argument("--checkpoint", help="for --text: DIR or Hub id; else: where the index's encoder is now")
    where.add_argument("--collection", help="name of the collection (default pydoc, or what the index says)")
    where.add_argument("--data", type=Path, metavar="DIR", help="folder the files of --collection are in")
    where.add_argument("--split", help="split of --collection that has --query-id (default test, or its only one)")
    where.add_argument("--topics", type=Path, metavar="FILE", help="queries in a file: .tsv, .jsonl, .json, TREC")
    where.add_argument("--device", help="device to encode on, such as cpu or cuda:0")
    add_set_option(where, "change a setting for --text or for the query, for instance query_k=100; may be repeated")
    where.add_argument("--heap", metavar="SIZE", help="Java's memory, such as 4g (default $LEARNED_SPARSE_JAVA_HEAP)")
    how = parser.add_argument_group("how to show it")
    how.add_argument("--terms", type=int, default=TERMS, metavar="N", help="heaviest terms shown (default %(default)s)")
    how.add_argument("--no-sources", action="store_true", help="show what the index holds; do not read the text again")
    how.add_argument("--json", action="store_true", help="print JSON: all terms, tokens and sources")
    how.add_argument("--html", type=Path, metavar="FILE", help="write a page that needs nothing else")
    how.add_argument("--no-color", action="store_true", help="plain text, as where output is no terminal")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    options = parser().parse_args(argv)
    _check(options)
    _show(_inspect(options), options)
    return 0


def _inspect(options: argparse.Namespace) -> Inspection:
    from learned_sparse.core import index_folder
    from learned_sparse.inspect import setup as setup
    from learned_sparse.inspect.texts import Places

    places = Places(
        checkpoint=options.checkpoint, device=options.device, collection=options.collection, data=options.data
    )
    changes = parse_changes(options.set)
    if options.text is not None:
        side = options.side or "document"
        if options.index:
            return setup.inspect_text_for_index(options.text, side, options.index, changes, places)
        model, checkpoint = (
            options.model or options.checkpoint,
            options.checkpoint or _default_checkpoint(options.model),
        )
        return setup.inspect_text(options.text, side, model, checkpoint, changes, options.device)
    index = options.index or index_folder(_collection_name(options), options.model)
    if options.heap:
        from learned_sparse.lucene import start_jvm

        start_jvm(heap=options.heap)
    sources = not options.no_sources
    if query := _query(options, index):
        return setup.inspect_pair(query, options.document, index, changes, places, sources=sources)
    return setup.inspect_document(options.document, index, places, sources=sources)


def _show(inspection: Inspection, options: argparse.Namespace) -> None:
    if options.html:
        from learned_sparse.core import atomic_write
        from learned_sparse.inspect.html import to_html

        with atomic_write(options.html) as file:
            file.write(to_html(inspection, terms=options.terms).encode())
    if options.json:
        from learned_sparse.inspect.json_output import to_json

        print(json.dumps(to_json(inspection), indent=2, allow_nan=False))
    elif options.html:
        print(options.html)
    else:
        from learned_sparse.inspect.terminal import to_terminal, wants_colour

        colour = wants_colour(sys.stdout, options.no_color)
        sys.stdout.write(to_terminal(inspection, terms=options.terms, colour=colour))


def _query(options: argparse.Namespace, index: Path) -> Query | None:
    from learned_sparse.collections import read_queries
    from learned_sparse.core import Query

    if options.query is not None:
        return Query("", options.query)
    if options.query_id is None:
        return None
    queries, where = (read_queries(options.topics), str(options.topics)) if options.topics else _split(options, index)
    for query in queries:
        if query.id == options.query_id:
            return query
    raise LearnedSparseError(
        f"{where}: no query {options.query_id!r}{did_you_mean(options.query_id, [query.id for query in queries][:100])}"
    )


def _split(options: argparse.Namespace, index: Path) -> tuple[list[Query], str]:
    from learned_sparse.collections import load_collection
    from learned_sparse.index import IndexNote

    name = options.collection
    if name is None:
        manifests = IndexNote.load(index).manifests
        name = manifests[0].collection if manifests else None
    if name is None:
        raise LearnedSparseError("--query-id: which queries? give --collection NAME and --split, or --topics FILE")
    collection = load_collection(name, data=options.data)
    split = options.split or (next(iter(collection.splits)) if len(collection.splits) == 1 else "test")
    return collection.queries(split), f"{name}, split {split}"


def _collection_name(options: argparse.Namespace) -> str:
    from learned_sparse.collections import load_collection

    return load_collection(options.collection or "pydoc", data=options.data).name


def _default_checkpoint(model: str) -> str:
    from learned_sparse.core import checkpoint_folder

    folder = checkpoint_folder(model)
    if not folder.is_dir():
        raise LearnedSparseError(
            f"{folder}: no checkpoint of {model!r}; `make demo` trains one, --checkpoint names another (DIR or Hub id)"
        )
    return str(folder)


def _check(options: argparse.Namespace) -> None:
    asks = options.query is not None or options.query_id is not None
    if (options.text is None) == (options.document is None):
        raise LearnedSparseError("what to look at? give --text TEXT or --document ID, and one of them")
    if options.text is not None and asks:
        raise LearnedSparseError("--query goes with --document; a query alone is --text TEXT --side query")
    if options.query is not None and options.query_id is not None:
        raise LearnedSparseError("--query is the text itself and --query-id names one: give one of them")
    if options.side and options.text is None:
        raise LearnedSparseError("--side is for --text; documents of an index and queries have theirs")
    if not (options.model or options.index or (options.text is not None and options.checkpoint)):
        more = ", --checkpoint DIR" if options.text is not None else ""
        raise LearnedSparseError(f"of which model? give --model NAME, --index DIR{more}")
    if (options.topics or options.split) and options.query_id is None:
        raise LearnedSparseError("--topics and --split say where --query-id is to be found: give it too")
    if options.set and options.text is None and not asks:
        raise LearnedSparseError("--set is for --text and for queries; an index holds what it holds")
    if options.terms < 1:
        raise LearnedSparseError(f"--terms {options.terms}: give at least 1")


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
