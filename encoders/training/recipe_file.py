"""Finds a recipe by name or file, with single values changed on the command line."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from encoders.training.recipe import RECIPES, Recipe
from learned_sparse.core import LearnedSparseError, did_you_mean, parse, read_yaml

_TRIPLES = re.compile(r"\.tsv(\.gz)?$")


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(path.stem for path in RECIPES.glob("*.yaml"))


def load_recipe(name: str, *, changes: Sequence[str] = (), data: Sequence[str] = ()) -> Recipe:
    """The recipe ``name`` (one of ``recipe_names()``, or a YAML file).

    ``changes`` are ``key=value`` with dots between levels and numbers for list entries (``stages.0.steps=100``), the
    value in YAML. ``data`` replaces the recipe's data: collections ``NAME[:SPLIT]`` or text triples ``FILE.tsv``.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else RECIPES / f"{name}.yaml"
    if path.parent == RECIPES and not path.exists():
        raise LearnedSparseError(f"no recipe {name!r}{did_you_mean(name, recipe_names())}")
    values = copy.deepcopy(dict(read_yaml(path)))
    if data:
        values["data"] = [source(spelling) for spelling in data]
    for change in changes:
        _change(values, change)
    return parse(Recipe, values, str(path))


def source(spelling: str) -> dict[str, Any]:
    """One ``--data``: ``FILE.tsv`` are text triples, anything else is ``COLLECTION[:SPLIT]``.

    >>> source("pydoc"), source("scifact:train"), source("triples.train.small.tsv")
    ({'collection': 'pydoc'}, {'collection': 'scifact', 'split': 'train'}, {'triples': 'triples.train.small.tsv'})
    """
    if _TRIPLES.search(spelling):
        return {"triples": spelling}
    name, colon, split = spelling.rpartition(":")
    if not colon or name == "ir_datasets" or "/" in split:
        return {"collection": spelling}
    return {"collection": name, "split": split}


def to_mapping(recipe: Recipe) -> dict[str, Any]:
    """The recipe in JSON values, every default spelled out; ``parse`` reads it back."""
    return {key: _plain(value) for key, value in dataclasses.asdict(recipe).items()}


def differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Where two mappings differ, as ``key: old -> new``."""
    found = []
    for key in sorted({*old, *new}):
        before, after = _numbered(old.get(key)), _numbered(new.get(key))
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            found += differences(before, after, f"{prefix}{key}.")
        elif before != after:
            found.append(f"{prefix}{key}: {before!r} -> {after!r}")
    return found


def _numbered(value: Any) -> Any:
    """A list as a mapping by place."""
    return {str(place): item for place, item in enumerate(value)} if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _change(values: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    if not equals:
        raise LearnedSparseError(f"--set {change}: expected key=value, for instance seed=1 or stages.0.steps=100")
    *parents, last = key.split(".")
    place: Any = values
    for parent in parents:
        place = _step_into(place, parent, change)
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise LearnedSparseError(f"--set {change}: not readable as YAML: {error}") from error
    if isinstance(place, list):
        place[_index(place, last, change)] = value
    else:
        place[last] = value


def _step_into(place: Any, name: str, change: str) -> Any:
    inner = place[_index(place, name, change)] if isinstance(place, list) else place.setdefault(name, {})
    if not isinstance(inner, dict | list):
        raise LearnedSparseError(f"--set {change}: {name!r} holds {inner!r}, nothing to set inside")
    return inner


def _index(place: list[Any], name: str, change: str) -> int:
    if not name.isdigit() or int(name) >= len(place):
        raise LearnedSparseError(f"--set {change}: {name!r} is not a place in a list of {len(place)} (from 0)")
    return int(name)
