"""``python -m learned_sparse.collections``: which collections are known, what of them is here, how to get the rest.

``learned_sparse.collections.collection`` reads them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from learned_sparse.collections import catalogue_names
from learned_sparse.collections.catalogue_cache import cache_folder, installed
from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.description_files import data_root, descriptions
from learned_sparse.collections.folders import known_folders
from learned_sparse.collections.known import Known, known
from learned_sparse.collections.listing import page, table
from learned_sparse.collections.made import made, names
from learned_sparse.core import LearnedSparseError, home, run_main

EPILOG = """\
What is not here is fetched at first use: by ir_datasets into IR_DATASETS_HOME (default .ir_datasets in your folder),
with progress; what a stopped process had of a large file is kept there, and the next one goes on. Whole files stay.
Pyserini fetches the topics and judgements registered there, which are small.

examples:
  python -m learned_sparse.collections                              all that come with the package
  python -m learned_sparse.collections scifact                      everything about one, and how to get it
  python -m learned_sparse.collections ir_datasets:beir/scifact     one of the catalogue
  python -m learned_sparse.collections folder/of/mine               a BEIR or MS MARCO folder, or a YAML file
  python -m learned_sparse.collections --catalogue scifact          names in the catalogue with this word
"""


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m learned_sparse.collections",
        description="Which collections are known, what of them is here, and how to get the rest.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("name", nargs="?", metavar="NAME|PATH", help="one collection, as --collection takes it")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="folder the files are in (default LEARNED_SPARSE_DATA)"
    )
    parser.add_argument(
        "--catalogue", nargs="?", const="", metavar="WORD", help="names that ir_datasets knows, or those with WORD"
    )
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    options = parser().parse_args(argv)
    if options.catalogue is not None and options.name:
        raise LearnedSparseError("--catalogue lists names: give it without a NAME")
    if options.catalogue is not None:
        print(_catalogue(options.catalogue, options.json))
    elif options.name:
        one = known(options.name, load_collection(options.name, data=options.data))
        print(_json(_as_json(one)) if options.json else page(one))
    else:
        print(_all(options.data or data_root(), options.json))
    return 0


def _all(data: Path, as_json: bool) -> str:
    ours = [known(name, load_collection(name, data=data)) for name in descriptions()]
    used = {Path(file).parent for one in ours for place in one.places.values() for file in place.files}
    folders = [folder for folder in known_folders(data) if folder not in used]
    others = sorted(set(names()) - {one.name for one in ours})
    if as_json:
        return _json(
            {
                "data": str(data),
                "home": str(home()),
                "ir_datasets": {"installed": installed(), "cache": str(cache_folder())},
                "collections": [_as_json(one) for one in ours],
                "folders": [str(folder) for folder in folders],
                "others": {name: [dataclasses.asdict(thing) for thing in made(name)] for name in others},
            }
        )
    lines = [table(ours), "", f"Files are looked for in {data}{'' if data.is_dir() else ', which is not there yet'}."]
    lines.append(f"What is made of them is in {home()}.")
    lines.append(
        f"ir_datasets is {'' if installed() else 'not '}installed"
        + ("; --collection ir_datasets:ID, with an ID of --catalogue." if installed() else "; see one NAME.")
    )
    if folders:
        lines += ["", "Folders there that are collections, too; --collection FOLDER:", *map("  {}".format, folders)]
    if others:
        counts = ((name, len(made(name))) for name in others)
        lines += ["", "Of other collections there are:", *(f"  {name}: {n} in {home()}" for name, n in counts)]
    return "\n".join(lines)


def _catalogue(word: str, as_json: bool) -> str:
    os.environ.setdefault("IR_DATASETS_SKIP_DEPRECATED_WARNING", "true")  # a line for each old name
    found = [name for name in catalogue_names.names() if word.lower() in name.lower()]
    if not found:
        raise LearnedSparseError(f"no name in the catalogue has {word!r} in it; --catalogue alone lists all")
    kinds = ("docs", "queries", "qrels")
    has = {name: [kind for kind in kinds if catalogue_names.has(name, kind)] for name in found}
    if as_json:
        return _json(has)
    width = max(map(len, has))
    return "\n".join(f"ir_datasets:{name:<{width}}  {' '.join(what)}".rstrip() for name, what in has.items())


def _as_json(one: Known) -> dict[str, Any]:
    return dataclasses.asdict(one)


def _json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False)


if __name__ == "__main__":
    run_main(main)
