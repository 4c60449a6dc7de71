"""``python -m eval.dimensions``: how often dimensions are active, in texts of which length, and what they mean."""

from __future__ import annotations

import argparse
from pathlib import Path

from eval.measures import write_texts
from learned_sparse.collections import filed_under
from learned_sparse.core import LearnedSparseError, queries_folder, run_main, vectors_folder, write_json
from learned_sparse.jsonvector import versions

EPILOG = """\
A dimension is a term of the index: a latent one such as b12d61183 (UHD-BERT), or a word piece.

examples:
  python -m eval.dimensions --model uhd-bert --collection scifact --split test --output DIR
  python -m eval.dimensions --vectors VECTORS --queries QUERIES --dimension b12d61183 --dimension b12d476
"""


def main(argv: list[str] | None = None) -> int:
    """Analyse, print, and write what is asked for."""
    options = _parser().parse_args(argv)
    vectors, queries = _folders(options)
    if not 0 <= options.stop_share <= 1:
        raise LearnedSparseError(f"--stop-share {options.stop_share}: give a share of the documents, 0 to 1")
    for name in ("at_least", "lengths_of", "top"):
        if getattr(options, name) < 1:
            raise LearnedSparseError(f"--{name.replace('_', '-')} {getattr(options, name)}: give at least 1")
    from eval.profile import analyse, as_json, density_chart, frequency_chart, page

    found = analyse(
        vectors,
        queries,
        checkpoint=options.checkpoint,
        stop_share=options.stop_share,
        at_least=options.at_least,
        lengths_of=options.lengths_of,
    )
    print(page(found, top=options.top, chosen=options.dimension, markdown=options.markdown))
    if options.output:
        asked = {"stop_share": options.stop_share, "at_least": options.at_least, "lengths_of": options.lengths_of}
        about = {"vectors": str(vectors), "queries": str(queries), "options": asked, "versions": versions()}
        write_json(options.output / "dimensions.json", about | as_json(found))
        files = {
            "dimensions.md": page(found, top=options.top, chosen=options.dimension, markdown=True),
            "dimensions-frequency.svg": frequency_chart(found.documents, found.queries),
            "dimensions-density.svg": density_chart(found.lengths, found.dimensions),
        }
        write_texts(options.output, files)
        print(f"\nwritten to {options.output}: {', '.join([*files, 'dimensions.json'])}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval.dimensions",
        description="Look at the dimensions of an encoded collection and its queries.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--vectors", type=Path, metavar="DIR", help="encoded documents (default: by --model and --collection)")
    add("--queries", type=Path, metavar="DIR", help="encoded queries (default: by --model, --collection and --split)")
    add("--model", metavar="NAME", help="model whose vectors are in the home folder")
    add("--collection", metavar="NAME|PATH", help="of those vectors")
    add("--split", help="of those queries (default: test)", default="test")
    add("--checkpoint", metavar="DIR|HUB_ID", help="where the model is now (default: where it was)")
    add("--stop-share", type=float, default=0.1, metavar="X", help="stop-dimensions are in more documents: %(default)s")
    add(
        "--at-least", type=int, default=5, metavar="N", help="queries that a word must be in: %(default)s (the paper's)"
    )
    add("--lengths-of", type=int, default=100_000, metavar="N", help="documents to count tokens of: %(default)s")
    add("--top", type=int, default=20, metavar="N", help="rows of the long tables: %(default)s")
    add("--dimension", action="append", default=[], metavar="NAME", help="say what this one means; may be repeated")
    add("--output", type=Path, metavar="DIR", help="write dimensions.md, dimensions.json and two charts (SVG) there")
    add("--markdown", action="store_true", help="print a Markdown page")
    return parser


def _folders(options: argparse.Namespace) -> tuple[Path, Path]:
    named = options.model and options.collection
    name = filed_under(options.collection) if named else ""
    vectors = options.vectors or (vectors_folder(name, options.model) if named else None)
    queries = options.queries or (queries_folder(name, options.split, options.model) if named else None)
    if vectors is None or queries is None:
        raise LearnedSparseError("which vectors? give --vectors and --queries, or --model and --collection")
    return vectors, queries


if __name__ == "__main__":
    run_main(main)
