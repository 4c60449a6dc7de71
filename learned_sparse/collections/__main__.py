"""``python -m learned_sparse.collections``: known collections, their local files, and how to get missing files."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from learned_sparse.collections import catalogue
from learned_sparse.collections.collection import DATA_VARIABLE, Collection, candidates, data_root, load_collection
from learned_sparse.collections.descriptions import Source, collection_folders, descriptions
from learned_sparse.core.errors import LearnedSparseError, run_main
from learned_sparse.core.settings import CommandParser

EPILOG = """\
Missing files are downloaded at first use by ir_datasets (IR_DATASETS_HOME, default ~/.ir_datasets) or by Pyserini.
examples:
  python -m learned_sparse.collections                              all that come with the package
  python -m learned_sparse.collections scifact                      everything about one, and how to get it
  python -m learned_sparse.collections ir_datasets:beir/scifact     one of the catalogue
  python -m learned_sparse.collections folder/of/mine               a BEIR or MS MARCO folder, or a YAML file
  python -m learned_sparse.collections --catalogue scifact          names in the catalogue with this word
"""


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = CommandParser(
        prog="python -m learned_sparse.collections",
        description="Known collections, their local files, and how to get missing files.",
        epilog=EPILOG,
    )
    about = parser.add_mutually_exclusive_group()
    about.add_argument("name", nargs="?", metavar="NAME|PATH", help="one collection, as --collection takes it")
    about.add_argument(
        "--catalogue", nargs="?", const="", metavar="WORD", help="list the names that ir_datasets knows (with WORD)"
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"folder with the files (default {DATA_VARIABLE})")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    options = parser().parse_args(argv)
    if options.catalogue is not None:
        content: Any = _catalogue(options.catalogue)
        lines: Iterator[str] = (f"ir_datasets:{name}  {' '.join(kinds)}".rstrip() for name, kinds in content.items())
    elif options.name:
        content = describe(options.name, load_collection(options.name, data=options.data))
        lines = _page(content)
    else:
        content = _overview(options.data or data_root())
        lines = _table(content)
    print(json.dumps(content, indent=2, ensure_ascii=False) if options.json else "\n".join(lines))
    return 0


def describe(spelling: str, collection: Collection) -> dict[str, Any]:
    """One collection as JSON: its description and its local files; nothing is downloaded.

    ``spelling`` is its name for ``--collection``.
    """
    description, root = collection.description, collection.root
    content = {"collection": spelling, **dataclasses.asdict(description), "corpus": _source(description.corpus, root)}
    for name, split in description.splits.items():
        content["splits"][name].update(topics=_source(split.topics, root), qrels=_source(split.qrels, root))
    return content


def _source(source: Source, root: Path) -> dict[str, Any]:
    """The source with all paths and addresses, and the ``state`` of its files."""
    here = next((path for path in candidates(source, root) if path.exists()), None)
    return {
        **dataclasses.asdict(source),
        "files": [str(root / file) for file in source.files],
        "page": source.ir_datasets and catalogue.page(source.ir_datasets),
        "state": "generated at first use" if source.embedded else f"here: {here}" if here else "missing",
    }


def _sources(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The sources of the documents, and of the topics and judgements of all splits."""
    splits = content["splits"].values()
    return [content["corpus"], *(split[kind] for split in splits for kind in ("topics", "qrels"))]


def _overview(data: Path) -> dict[str, Any]:
    collections = [describe(name, load_collection(name, data=data)) for name in descriptions()]
    described = {Path(file).parent for one in collections for source in _sources(one) for file in source["files"]}
    return {
        "data": str(data),
        "collections": collections,
        "folders": [str(folder) for folder in collection_folders(data) if folder not in described],
    }


def _catalogue(word: str) -> dict[str, list[str]]:
    os.environ.setdefault("IR_DATASETS_SKIP_DEPRECATED_WARNING", "true")  # one line for each old name
    names = [name for name in catalogue.names() if word.lower() in name.lower()]
    if not names:
        raise LearnedSparseError(f"no name in the catalogue contains {word!r}; --catalogue alone lists all")
    return {name: [kind for kind in catalogue.KINDS if catalogue.has(name, kind)] for name in names}


def _table(overview: dict[str, Any]) -> Iterator[str]:
    rows = [("name", "documents", "files", "splits", "title")]
    for one in overview["collections"]:
        documents = "?" if one["documents"] is None else f"{one['documents']:,}"
        missing, sources = _missing(one), _sources(one)
        files = (
            f"{len(sources) - len(missing)} of {len(sources)} here" if missing else sources[0]["state"].split(":")[0]
        )
        rows.append((one["collection"], documents, files, " ".join(one["splits"]), one["title"]))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    data = overview["data"]
    yield f"\nFiles are read from {data}{'' if Path(data).is_dir() else ', which does not exist'}."
    if overview["folders"]:
        yield "\nOther collections in that folder; use --collection FOLDER:"
        yield from (f"  {folder}" for folder in overview["folders"])


def _missing(content: dict[str, Any]) -> list[dict[str, Any]]:
    return [source for source in _sources(content) if source["state"] == "missing"]


def _page(content: dict[str, Any]) -> Iterator[str]:
    """The description as YAML without empty values, and how to get the missing files."""
    plain = json.loads(json.dumps(content), object_hook=lambda pairs: {k: v for k, v in pairs.items() if v})
    yield yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=110)
    missing = _missing(content)
    if not missing:
        yield f"to use it: --collection {content['collection']}"
        return
    yield "how to get the missing files:"
    if pages := dict.fromkeys(source["page"] for source in missing if source["page"]):
        yield "  ir_datasets (pip install 'learned-sparse[data]') downloads them at first use:"
        yield from (f"    {page}" for page in pages)
    if any(source["registered"] for source in missing):
        yield "  Pyserini downloads the topics and judgements registered there at first use"
    if files := dict.fromkeys(source["files"][0] for source in missing if source["files"]):
        yield f"  or put your copies here (or in the same folders below another --data or {DATA_VARIABLE}):"
        yield from (f"    {file}" for file in files)


if __name__ == "__main__":
    run_main(main)
