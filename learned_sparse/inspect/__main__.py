"""``python -m learned_sparse.inspect``: term weights of a text, a document or a query, and a score term by term."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from learned_sparse.core.encoder import default_checkpoint
from learned_sparse.core.errors import run_main
from learned_sparse.core.files import index_folder
from learned_sparse.core.settings import CommandParser, add_set_option, parse_changes, positive, refuse

if TYPE_CHECKING:
    from learned_sparse.core.encoder import Side
    from learned_sparse.inspect.explanation import Inspection

EPILOG = """\
--text shows a text as a model reads it, --document a document as an index holds it. With --query, a
document also has its score, the sum of query impact times document impact, compared with Lucene's own score.
Each word is followed by the weight of the term it spells, or, where dimensions are not words (UHD-BERT), by the sum of
what it contributes. Each term is followed by the words that its weight comes from.

examples:
  python -m learned_sparse.inspect --model splade --text "can hives be a sign of pregnancy" --side query
  python -m learned_sparse.inspect --model splade --document pathlib.Path.read_text
  python -m learned_sparse.inspect --model splade --query "how do I read a file" --document pathlib.Path.read_text
  python -m learned_sparse.inspect --index INDEX --document 7187158 --json
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    options = _parser().parse_args(argv)
    inspection = _inspect(options)
    if options.json:
        print(json.dumps(asdict(inspection), indent=2, allow_nan=False))
    else:
        from learned_sparse.inspect.rendering import to_text

        print(to_text(inspection, terms=options.terms), end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="python -m learned_sparse.inspect", description=__doc__, epilog=EPILOG)
    what = parser.add_argument_group("what to inspect")
    text = what.add_mutually_exclusive_group(required=True)
    text.add_argument("--text", help="a text of your own")
    text.add_argument("--document", metavar="ID", help="a document of the index")
    what.add_argument("--side", choices=["query", "document"], help="side that encodes --text (default document)")
    what.add_argument("--query", metavar="TEXT", help="a query, with --document")
    where = parser.add_argument_group("model, index and collection")
    where.add_argument("--model", help="a model by name: its checkpoint, or its index of --collection")
    where.add_argument("--index", type=Path, metavar="DIR", help="index (default: by --collection and --model)")
    where.add_argument("--checkpoint", help="for --text: DIR or Hub id; else: where the index's encoder is now")
    where.add_argument("--collection", help="collection (default pydoc, or the one recorded in the index)")
    where.add_argument("--data", type=Path, metavar="DIR", help="folder with the files of --collection")
    where.add_argument("--device", help="device to encode on, such as cpu or cuda:0")
    add_set_option(where, "change a setting for --text or for the query, for instance query_k=100; may be repeated")
    how = parser.add_argument_group("output")
    how.add_argument(
        "--terms", type=positive, default=25, metavar="N", help="terms shown per text (default %(default)s)"
    )
    how.add_argument("--json", action="store_true", help="print JSON with all terms, words and sources")
    return parser


def _inspect(options: argparse.Namespace) -> Inspection:
    from learned_sparse.collections.collection import load_collection
    from learned_sparse.inspect.inspection import IndexInspector, inspect_text

    text, settings = options.text is not None, parse_changes(options.set)
    refuse(
        (text and options.query, "--query is only for --document"),
        (text and options.index, "--index is only for --document"),
        (not text and options.side, "--side is only for --text"),
        (
            not (options.model or (options.checkpoint if text else options.index)),
            f"no model is named: give --model NAME or {'--checkpoint' if text else '--index'} DIR",
        ),
        (
            settings and not text and options.query is None,
            "--set is for --text and for queries; documents are encoded already",
        ),
    )
    if text:
        side: Side = options.side or "document"
        checkpoint = options.checkpoint or default_checkpoint(options.model)
        changes = {"settings": settings} if settings else {}
        name = options.model or options.checkpoint
        return inspect_text(options.text, side, name, checkpoint, device=options.device, **changes)
    index = options.index or index_folder(
        load_collection(options.collection or "pydoc", data=options.data).name, options.model
    )
    inspector = IndexInspector(
        index, checkpoint=options.checkpoint, device=options.device, collection=options.collection,
        data=options.data,
    )  # fmt: skip
    if options.query is None:
        return inspector.document(options.document)
    return inspector.pair(options.query, options.document, settings)


if __name__ == "__main__":
    run_main(main)
