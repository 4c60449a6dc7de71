"""Very small collections in BEIR's layout, and recipes cut down to a random BERT, for tests of commands."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from encoders.training.recipe import load_recipe, to_mapping
from learned_sparse.collections.pydoc import LIBRARY

_TEXT = "python file opens path garbage collector memory skin rash hives weather rain wing lift drag heat flow"
WORDS = _TEXT.split()
MODULES = (
    "argparse.py", "asyncio", "collections", "concurrent", "email", "http", "json", "logging", "statistics.py",
    "unittest",
)  # fmt: skip
"""The part of the standard library that stands for the whole one in ``pydoc``."""
TEXTS = [" ".join(WORDS[i : i + 5]) for i in range(12)]


def save_collection(folder: Path, splits: Iterable[str]) -> Path:
    """Save twelve documents; the query of each document is its first two words, in every split of ``splits``."""
    queries = {f"q{i}": " ".join(text.split()[:2]) for i, text in enumerate(TEXTS)}
    pairs = [(f"q{i}", f"d{i}", 1) for i in range(len(TEXTS))]
    save_beir(folder, {f"d{i}": text for i, text in enumerate(TEXTS)}, queries, dict.fromkeys(splits, pairs))
    return folder


def save_beir(
    folder: Path,
    documents: Mapping[str, str],
    queries: Mapping[str, str],
    splits: Mapping[str, Iterable[tuple[str, str, int]]],
    expanded: Mapping[str, str] | None = None,
) -> None:
    """Save texts by id, optional expanded text by document, and ``(query, document, grade)`` of each split."""
    (folder / "qrels").mkdir(parents=True)
    corpus = [
        {"_id": id, "title": "", "text": text} | ({"expanded": expanded[id]} if expanded and id in expanded else {})
        for id, text in documents.items()
    ]
    topics = [{"_id": id, "text": text} for id, text in queries.items()]
    for name, lines in (("corpus.jsonl", corpus), ("queries.jsonl", topics)):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    for split, judged in splits.items():
        rows = "".join(f"{query}\t{document}\t{grade}\n" for query, document, grade in judged)
        (folder / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}", encoding="utf-8")


def save_recipes(folder: Path, names: Iterable[str], backbone: Path, output_bias: float | None = None) -> Path:
    """The shipped recipes ``names`` in a new ``folder``, each ``cut_down``; with ``output_bias`` if they have one."""
    folder.mkdir()
    for name in names:
        values = cut_down(to_mapping(load_recipe(name)), backbone)
        if output_bias is not None and values["output_bias"] is not None:
            values["output_bias"] = output_bias
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return folder


def cut_down(values: dict[str, Any], backbone: Path) -> dict[str, Any]:
    """The recipe ``values`` reduced to two steps per stage on a tiny BERT of two layers."""
    values |= {"backbone": str(backbone), "num_hidden_layers": None, "max_length": {"query": 16, "document": 16}}
    if values.get("validation"):
        values["validation"] |= {"queries": 5, "pool": 20}
    if values["architecture"] == "uhd":
        values["settings"] |= {"dimensions": 32, "k": 4, "layers": [1, 2]}
        values["stages"] = [{**values["stages"][0], "name": f"layer {i}", "component": f"b{i}"} for i in (1, 2)]
    for stage in values["stages"]:
        stage |= {"steps": 2, "batch_size": 4}
        if stage["options"].get("cotraining"):
            stage["options"]["cotraining"]["select_from"] = 8
    return values


def save_library(folder: Path, modules: Iterable[str] = MODULES) -> Path:
    """Copy ``modules`` of the standard library."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in modules:
        source = LIBRARY / name
        shutil.copytree(source, folder / name) if source.is_dir() else shutil.copy(source, folder / name)
    return folder
