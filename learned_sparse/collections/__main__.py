"""``python -m learned_sparse.collections``: known collections, their local files, and how to get missing files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from learned_sparse.collections import catalogue
from learned_sparse.collections.collection import DATA_VARIABLE, Collection, candidates, data_root, load_collection
from learned_sparse.collections.descriptions import Source, collection_folders, descriptions
from learned_sparse.core.errors import run_main
from learned_sparse.core.settings import CommandParser

EPILOG = """\
Missing files are downloaded at first use by ir_datasets (IR_DATASETS_HOME, default ~/.ir_datasets) or by Pyserini.
examples:
  python -m learned_sparse.collections                              all that come with the package
  python -m learned_sparse.collections scifact                      everything about one, and how to get it
  python -m learned_sparse.collections ir_datasets:beir/scifact     one of the catalogue; `ir_datasets list` lists all
  python -m learned_sparse.collections folder/of/mine               a BEIR or MS MARCO folder, or a YAML file
"""


def main(argv: list[str] | None = None) -> int:
    """Print a table of all known collections, or the description of one as YAML and how to get its missing files."""
    parser = CommandParser(
        prog="python -m learned_sparse.collections",
        description="Known collections, their local files, and how to get missing files.",
        epilog=EPILOG,
    )
    parser.add_argument("name", nargs="?", metavar="NAME|PATH", help="one collection, as --collection takes it")
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"folder with the files (default {DATA_VARIABLE})")
    options = parser.parse_args(argv)
    if options.name:
        lines = _page(options.name, load_collection(options.name, data=options.data))
    else:
        lines = _table(options.data or data_root())
    print("\n".join(lines))
    return 0


def _sources(collection: Collection) -> list[Source]:
    """Sources of the documents, and of the topics and judgements of all splits."""
    splits = collection.splits.values()
    return [collection.description.corpus, *(source for split in splits for source in (split.topics, split.qrels))]


def _state(source: Source, root: Path) -> str:
    """Where the files of a source are."""
    here = next((path for path in candidates(source, root) if path.exists()), None)
    return "generated at first use" if source.embedded else f"here: {here}" if here else "missing"


def _table(data: Path) -> Iterator[str]:
    rows, described = [("name", "documents", "files", "splits", "title")], set()
    for name in descriptions():
        collection = load_collection(name, data=data)
        description, sources = collection.description, _sources(collection)
        described |= {(data / file).parent for source in sources for file in source.files}
        states = [_state(source, data).partition(":")[0] for source in sources]
        missing = states.count("missing")
        files = f"{len(states) - missing} of {len(states)} here" if missing else states[0]
        documents = "?" if description.documents is None else f"{description.documents:,}"
        rows.append((name, documents, files, " ".join(description.splits), description.title))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    yield f"\nFiles are read from {data}{'' if data.is_dir() else ', which does not exist'}."
    if others := [folder for folder in collection_folders(data) if folder not in described]:
        yield "\nOther collections in that folder; use --collection FOLDER:"
        yield from (f"  {folder}" for folder in others)


def _page(spelling: str, collection: Collection) -> Iterator[str]:
    """The description as YAML without empty values, and how to get the missing files; nothing is downloaded."""
    description, root, sources = collection.description, collection.root, _sources(collection)
    content: dict[str, Any] = {"collection": spelling, **dataclasses.asdict(description)}
    splits = content["splits"].values()
    entries = [content["corpus"], *(split[kind] for split in splits for kind in ("topics", "qrels"))]
    for source, entry in zip(sources, entries, strict=True):
        entry["state"] = _state(source, root)
    plain = json.loads(json.dumps(content), object_hook=lambda pairs: {k: v for k, v in pairs.items() if v})
    yield yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=110)
    missing = [source for source in sources if _state(source, root) == "missing"]
    if not missing:
        yield f"to use it: --collection {spelling}"
        return
    yield "how to get the missing files:"
    if names := dict.fromkeys(source.ir_datasets for source in missing if source.ir_datasets):
        yield "  ir_datasets (pip install 'learned-sparse[data]') downloads them at first use:"
        yield from (f"    {catalogue.page(name)}" for name in names)
    if any(source.registered for source in missing):
        yield "  Pyserini downloads the topics and judgements registered there at first use"
    if files := dict.fromkeys(root / source.files[0] for source in missing if source.files):
        yield f"  or put your copies here (or in the same folders below another --data or {DATA_VARIABLE}):"
        yield from (f"    {file}" for file in files)


if __name__ == "__main__":
    run_main(main)
