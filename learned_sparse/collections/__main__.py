"""``python -m learned_sparse.collections``: known collections, their local files, and how to get missing files."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from learned_sparse.collections import catalogue
from learned_sparse.collections.collection import DATA_VARIABLE, Collection, candidates, data_root, load_collection
from learned_sparse.collections.descriptions import Source, collection_folders, descriptions
from learned_sparse.core import CommandParser, LearnedSparseError, home, run_main

WIDTH = 100
MAX_SPLITS = 3
"""Splits of one collection shown in the table."""
MADE = ("vectors", "indexes", "queries", "runs")
"""Folders of the home folder that have a folder for each collection."""

EPILOG = """\
Files that are missing are downloaded at first use: by ir_datasets into IR_DATASETS_HOME (default .ir_datasets in your
home folder), and by Pyserini the topics and judgements registered there. Without a network, put files where the page
about one collection says.

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
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", metavar="NAME|PATH", help="one collection, as --collection takes it")
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"folder with the files (default {DATA_VARIABLE})")
    parser.add_argument(
        "--catalogue", nargs="?", const="", metavar="WORD", help="list the names that ir_datasets knows (with WORD)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    options = parser().parse_args(argv)
    if options.catalogue is not None and options.name:
        raise LearnedSparseError("--catalogue lists names; omit NAME")
    if options.catalogue is not None:
        content: Any = _catalogue(options.catalogue)
        width = max(map(len, content))
        lines: Iterator[str] = (
            f"ir_datasets:{name:<{width}}  {' '.join(kinds)}".rstrip() for name, kinds in content.items()
        )
    elif options.name:
        content = describe(options.name, load_collection(options.name, data=options.data), downloads=True)
        lines = _page(content)
    else:
        content = _overview(options.data or data_root())
        lines = _table(content)
    print(json.dumps(content, indent=2, ensure_ascii=False) if options.json else "\n".join(lines))
    return 0


def describe(spelling: str, collection: Collection, *, downloads: bool = False) -> dict[str, Any]:
    """One collection as JSON: its description, its local files, and the folders made of it; nothing is downloaded.

    ``spelling`` is its name for ``--collection``. With ``downloads``, the files that ir_datasets would download are
    included, if it is installed.
    """
    description = collection.description
    root = collection.root
    content: dict[str, Any] = {
        "collection": spelling,
        **dataclasses.asdict(description),
        "corpus": _source(description.corpus, root),
        "made": [str(home() / kind / description.name) for kind in MADE if (home() / kind / description.name).is_dir()],
    }
    for name, split in description.splits.items():
        content["splits"][name].update(topics=_source(split.topics, root), qrels=_source(split.qrels, root))
    if downloads and _installed():
        needed = [
            (source["ir_datasets"], kind)
            for kind, source in _sources(content)
            if source["ir_datasets"] and not source["here"]
        ]
        files = [file for name, kind in dict.fromkeys(needed) for file in catalogue.missing_downloads(name, kind)]
        content["downloads"] = [dataclasses.asdict(file) for file in dict.fromkeys(files)]
    return content


def _source(source: Source, root: Path) -> dict[str, Any]:
    here = next((path for path in candidates(source, root) if path.exists()), None)
    return {
        **dataclasses.asdict(source),
        "files": [str(root / file) for file in source.files],
        "here": None if here is None else str(here),
    }


def _sources(content: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """``(kind, source)`` of the documents, and of the topics and judgements of all splits."""
    yield "docs", content["corpus"]
    for split in content["splits"].values():
        yield "queries", split["topics"]
        yield "qrels", split["qrels"]


def _overview(data: Path) -> dict[str, Any]:
    collections = [describe(name, load_collection(name, data=data)) for name in descriptions()]
    described = {Path(file).parent for one in collections for _, source in _sources(one) for file in source["files"]}
    return {
        "data": str(data),
        "home": str(home()),
        "ir_datasets": {"installed": _installed(), "cache": str(_cache_folder())},
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
    rows = [("name", "documents", "queries", "measures", "here", "title")]
    for one in overview["collections"]:
        measures = dict.fromkeys(measure for split in one["splits"].values() for measure in split["measures"])
        rows.append(
            (one["name"], _number(one["documents"]), _splits(one), " ".join(measures), _here(one), one["title"])
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    data = overview["data"]
    yield f"\nFiles are read from {data}{'' if Path(data).is_dir() else ', which does not exist'}."
    yield f"Vectors, indexes and runs are in {overview['home']}."
    if overview["ir_datasets"]["installed"]:
        yield "ir_datasets is installed; --collection ir_datasets:ID takes an ID that --catalogue lists."
    else:
        yield "ir_datasets is not installed; pip install 'learned-sparse[data]' for downloads."
    if overview["folders"]:
        yield "\nOther collections in that folder; use --collection FOLDER:"
        yield from (f"  {folder}" for folder in overview["folders"])


def _splits(one: dict[str, Any]) -> str:
    counts = [
        name if split["queries"] is None else f"{name} {split['queries']:,}" for name, split in one["splits"].items()
    ]
    if len(counts) <= MAX_SPLITS:
        return ", ".join(counts)
    return f"{', '.join(counts[: MAX_SPLITS - 1])}, ... ({len(counts)} splits)"


def _here(one: dict[str, Any]) -> str:
    sources = [source for _, source in _sources(one)]
    count = sum(1 for source in sources if source["here"])
    if all(source["embedded"] for source in sources):
        words = ["generated"]
    elif count:
        words = ["files" if count == len(sources) else f"{count} of {len(sources)} files"]
    else:
        words = []
    return ", ".join([*words, *(Path(folder).parent.name for folder in one["made"])]) or "-"


def _page(one: dict[str, Any]) -> Iterator[str]:
    yield f"{one['title']}\n\ndocuments: {_number(one['documents'])}"
    yield from _source_lines(one["corpus"], "  ")
    for name, split in one["splits"].items():
        counts = f"{_number(split['queries'])} queries, {_number(split['judgements'])} judgements"
        yield f"\nsplit {name}: {counts}; {' '.join(split['measures'])}"
        yield from ("  topics", *_source_lines(split["topics"], "    "))
        yield from ("  judgements", *_source_lines(split["qrels"], "    "))
    if not one["splits"]:
        yield "\nno split: no queries with judgements"
    for head in ("license", "citation", "url", "notes"):
        if one[head]:
            text = f"{head}: {one[head]}"
            yield "\n" + textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    if one["made"]:
        yield "\nvectors, indexes and runs of it:"
        yield from (f"  {folder}" for folder in one["made"])
    yield ""
    yield from _way_out(one)


def _source_lines(source: dict[str, Any], indent: str) -> Iterator[str]:
    if source["embedded"]:
        yield f"{indent}generated at first use"
    elif source["here"]:
        yield f"{indent}here: {source['here']}{_size(source['here'])}"
    else:
        yield from (f"{indent}missing: {file}" for file in source["files"])
        if source["ir_datasets"]:
            yield f"{indent}ir_datasets:{source['ir_datasets']}"
        if source["registered"]:
            yield f"{indent}registered in Pyserini as {source['registered']}"


def _way_out(one: dict[str, Any]) -> Iterator[str]:
    """How to get the missing files."""
    missing = [source for _, source in _sources(one) if not source["here"] and not source["embedded"]]
    if not missing:
        yield f"to use it: --collection {one['collection']}"
        return
    yield "how to get the missing files:"
    if any(source["ir_datasets"] for source in missing):
        condition = "" if _installed() else "after pip install 'learned-sparse[data]', "
        yield f"  {condition}ir_datasets downloads them at first use into {_cache_folder()}"
    for file in one.get("downloads", ()):
        size = "" if file["bytes"] is None else f" ({_bytes(file['bytes'])})"
        yield f"    {file['url'] or 'no download; see the instructions'}{size}"
        if file["path"]:
            yield f"      without a network, put it at {file['path']}"
        for text in filter(None, (file["instructions"], file["terms"])):
            yield textwrap.fill(text.strip(), WIDTH, initial_indent="      ", subsequent_indent="      ")
    if any(source["registered"] for source in missing):
        yield "  Pyserini downloads the topics and judgements registered there at first use"
    files = dict.fromkeys(source["files"][0] for source in missing if source["files"])
    if files:
        yield f"  or put your copies here (or in the same folders below another --data or {DATA_VARIABLE}):"
        yield from (f"    {file}" for file in files)


def _installed() -> bool:
    return importlib.util.find_spec("ir_datasets") is not None


def _cache_folder() -> Path:
    """The folder of ir_datasets, without importing it."""
    return Path(os.environ.get("IR_DATASETS_HOME") or Path.home() / ".ir_datasets")


def _number(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def _size(file: str) -> str:
    path = Path(file)
    return f" ({_bytes(path.stat().st_size)})" if path.is_file() else ""


def _bytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


if __name__ == "__main__":
    run_main(main)
