"""``python -m learned_sparse.prune``: an encoded collection without the dimensions that too many documents have."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from learned_sparse.collections import filed_under
from learned_sparse.core import LearnedSparseError, encoded_folders, vectors_folder
from learned_sparse.jsonvector import Rule
from learned_sparse.prune_vectors import Pruned, prune

EPILOG = """\
A dimension that nearly every document has costs the most time and tells documents apart the least. SpaDE learns without
them (its gamma is 0.7); this does it to the vectors of any model, without encoding anything again. What it takes away,
no query can find: measure again. `python -m eval.profile` shows what each share would remove.

examples:
  python -m learned_sparse.prune --model splade --collection scifact --as splade-70 --max-document-frequency 0.7
  python -m learned_sparse.prune --vectors VECTORS --output PRUNED --top-dimensions 50
  python -m learned_sparse.prune --vectors SHARD-0 SHARD-1 --output PRUNED --max-document-frequency 0.5
"""
SHOWN = 10
"""Dimensions that are named."""


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m learned_sparse.prune",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--model", help="name of the model whose vectors of --collection are in the home folder")
    add("--collection", metavar="NAME|PATH", help="name of the collection (default pydoc)")
    add("--vectors", type=Path, nargs="+", metavar="DIR", help="encoded folder, or all shards of one, instead")
    add("--as", dest="name", metavar="NAME", help="name of what is left, beside the model in the home folder")
    add("--output", type=Path, metavar="DIR", help="folder of what is left, instead; shards get names of their own")
    rule = parser.add_mutually_exclusive_group(required=True)
    rule.add_argument(
        "--max-document-frequency", type=float, metavar="SHARE", help="remove dimensions of more documents (gamma)"
    )
    rule.add_argument("--top-dimensions", type=int, metavar="N", help="remove the N most frequent dimensions")
    add("--overwrite", action="store_true", help="replace encoded vectors that are there already")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Prune, and say what is left."""
    options = parser().parse_args(argv)
    rule = Rule(max_document_frequency=options.max_document_frequency, top_dimensions=options.top_dimensions)
    if not (options.vectors or options.model):
        raise LearnedSparseError("which vectors? give --model NAME or --vectors DIR")
    if not (options.output or options.name):
        raise LearnedSparseError("where to? give --as NAME or --output DIR")
    collection = filed_under(options.collection or "pydoc")
    sources = options.vectors or encoded_folders(collection, options.model, "--vectors", options.collection)
    target = options.output or vectors_folder(collection, options.name)
    targets = _targets(target, sources)
    pruned = prune(sources, targets, rule, overwrite=options.overwrite, say=print)
    print("\n".join(_report(target, pruned)))
    where = f"--index DIR --input {' '.join(map(str, targets))}"
    print(f"next: python -m learned_sparse.index {where if options.output else _named(options)}")
    return 0


def _targets(target: Path, sources: Sequence[Path]) -> list[Path]:
    """Of several shards each gets a folder, called as ``learned_sparse.encode`` does it."""
    if len(sources) == 1:
        return [target]
    names = [source.name.rpartition("-shard-")[2] for source in sources]
    if names == [source.name for source in sources] or len(set(names)) < len(sources):
        names = [f"{number}-of-{len(sources)}" for number in range(len(sources))]
    return [target.with_name(f"{target.name}-shard-{name}") for name in names]


def _named(options: argparse.Namespace) -> str:
    return f"--model {options.name}" + (f" --collection {options.collection}" if options.collection else "")


def _report(target: Path, pruned: Pruned) -> list[str]:
    before = pruned.postings + pruned.postings_removed
    share = pruned.postings_removed / before if before else 0.0
    left = f"{target}: {pruned.documents:,} documents, {pruned.postings:,} of {before:,} postings"
    lines = [f"{left}; {len(pruned.removed):,} dimensions held the other {share:.1%}"]
    most_frequent = list(pruned.removed.items())[:SHOWN]
    lines += [f"  {term}: in {count / pruned.documents:.1%} of the documents" for term, count in most_frequent]
    if len(pruned.removed) > SHOWN:
        lines.append(f"  ... and {len(pruned.removed) - SHOWN:,} more, which the manifest names")
    if pruned.emptied:
        lines.append(f"  {pruned.emptied:,} documents have an empty vector now (kept)")
    return lines


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
