"""Finds a recipe by name or file, completes it from its base, and changes single values."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from encoders.checkpoints.notes import as_json
from encoders.training.recipe import Recipe, Source, StageOptions
from learned_sparse.collections.collection import load_collection, split_names
from learned_sparse.core.errors import LearnedSparseError, did_you_mean, wrong_path
from learned_sparse.core.settings import parse, read_yaml, read_yaml_text

RECIPES = Path(__file__).parent.parent / "recipes"
_TRIPLES = re.compile(r"\.tsv(\.gz)?$")

Changes = Sequence[str] | Mapping[str, Any]
"""``["stages.0.steps=100"]``, values in YAML, or ``{"stages.0.steps": 100}``."""


def recipe_names() -> list[str]:
    """The recipes of the package; files that begin with ``_`` are only bases of others."""
    return sorted(path.stem for path in RECIPES.glob("*.yaml") if not path.name.startswith("_"))


def load_recipe(name: str | Path, *, changes: Changes = (), data: Sequence[str] = ()) -> Recipe:
    """The recipe ``name`` (one of ``recipe_names()``, or a YAML file), completed by ``resolved``.

    ``changes`` set single values of the completed recipe, with dots between levels and numbers for list entries.
    ``data`` replaces the recipe's data: collections ``NAME[:SPLIT][,run=FILE]`` or text triples ``FILE.tsv``.
    """
    values = recipe_values(name, changes=changes, data=data)
    _refuse_old_keys(values, str(name))
    return parse(Recipe, values, str(_path(str(name), Path())))


_ONE_VALUE = "it has one value now; leave it out"
_OLD_KEYS = {
    "scope": "a step has the same gradient in any micro-batches, and its regulariser is that of all its texts; "
    "rank: {negatives_from: N} takes in-batch negatives from N queries",
    "validate": "write validate_every: 0",
    "head_learning_rate": "write learning_rates: {head: RATE}",
    **dict.fromkeys(("first_rank", "last_rank"), "write ranks: [FIRST, LAST]"),
    "quantization": "write bits: BITS; --quantization-factor of learned_sparse.encode sets a factor",
    "revision": "give the folder of that revision as backbone (hf download ID --revision REVISION)",
    "components": "cotraining is of SpaDE's two components; leave it out",
    **dict.fromkeys(("mask_known_positives", "temperature", "begin", "min_relevance"), _ONE_VALUE),
    **{key: f"write options: {{{key}: ...}}" for key in ("joint", "pointwise", "cotraining", "pruning")},
}
"""Keys of earlier versions, and what replaces them."""


def _refuse_old_keys(values: Any, where: str, options: Any = None) -> None:
    """Raise if a mapping below ``values`` has a key of an earlier version; ``options`` have some of the same names."""
    children = values.items() if isinstance(values, Mapping) else enumerate(values) if isinstance(values, list) else ()
    for key, value in children:
        if key in _OLD_KEYS and values is not options:
            raise LearnedSparseError(f"{where}: {key!r} is gone: {_OLD_KEYS[key]}")
        if key != "settings":
            _refuse_old_keys(value, where, value if key == "options" else None)


def recipe_values(name: str | Path, *, changes: Changes = (), data: Sequence[str] = ()) -> dict[str, Any]:
    """The values of ``load_recipe``, unchecked: other kinds of recipes have other fields."""
    values = resolved(_path(str(name), Path()))
    if data:
        values["data"] = [data_source(spelling) for spelling in data]
    for change in changes if not isinstance(changes, Mapping) else ():
        key, equals, text = change.partition("=")
        if not equals:
            raise LearnedSparseError(f"--set {change}: expected key=value, for instance seed=1 or stages.0.steps=100")
        _change(values, key, read_yaml_text(text, f"--set {change}"))
    for key, value in changes.items() if isinstance(changes, Mapping) else ():
        _change(values, key, value)
    return values


def resolved(path: Path) -> dict[str, Any]:
    """The values of a recipe file, with those of its base and of ``stage`` filled in.

    * ``base:`` names another recipe, or a YAML file beside this one. The recipe is merged into its base: mappings key
      by key, at every level; any other value, a list too, replaces that of the base.
    * ``stage:`` holds what all stages share. At the end, each entry of ``stages`` is merged into it the same way.
    """
    values = _with_base(path, ())
    shared = values.pop("stage", {})
    if not isinstance(shared, Mapping):
        raise LearnedSparseError(f"{path}: stage: expected a mapping of what all stages share, got {shared!r:.80}")
    if isinstance(values.get("stages"), list):
        values["stages"] = [_merged(shared, stage) for stage in values["stages"]]
    return values


def _with_base(path: Path, users: tuple[Path, ...]) -> dict[str, Any]:
    if path.resolve() in [user.resolve() for user in users]:
        raise LearnedSparseError(f"{path}: is its own base, through {' and '.join(map(str, users))}")
    values = dict(read_yaml(path))
    base = values.pop("base", None)
    if base is None:
        return values
    if not isinstance(base, str):
        raise LearnedSparseError(f"{path}: base: expected the name of a recipe or a YAML file, got {base!r:.80}")
    merged: dict[str, Any] = _merged(_with_base(_path(base, path.parent), (*users, path)), values)
    return merged


def _merged(base: Any, values: Any) -> Any:
    """``values`` merged into ``base`` by the rule of ``resolved``; neither is changed, nor shared with the result."""
    if isinstance(values, Mapping):
        known = base if isinstance(base, Mapping) else {}
        return {key: _merged(known.get(key), values.get(key, known.get(key))) for key in {**known, **values}}
    return [_merged(None, item) for item in values] if isinstance(values, list) else values


def _path(name: str, folder: Path) -> Path:
    """The file of a recipe; files are relative to ``folder``."""
    if name.endswith((".yaml", ".yml")):
        return folder / name
    if name not in {path.stem for path in RECIPES.glob("*.yaml")}:
        if Path(name).name != name or os.path.lexists(name):
            raise wrong_path(Path(name), "a recipe", "name a recipe of the package, or a .yaml file", "recipe")
        raise LearnedSparseError(f"no recipe {name!r}{did_you_mean(name, recipe_names())} (files end in .yaml)")
    return RECIPES / f"{name}.yaml"


def data_source(spelling: str) -> dict[str, Any]:
    """One ``--data``: ``FILE.tsv`` are text triples, ``FILE.jsonl`` examples, anything else ``COLLECTION[:SPLIT]``.

    A collection may be followed by ``,run=FILE``, the run that hard negatives come from.

    >>> data_source("pydoc"), data_source("scifact:train"), data_source("triples.train.small.tsv")
    ({'collection': 'pydoc'}, {'collection': 'scifact', 'split': 'train'}, {'triples': 'triples.train.small.tsv'})
    >>> data_source("scifact:train,run=bm25.txt")
    {'collection': 'scifact', 'split': 'train', 'run': 'bm25.txt'}
    """
    named, with_run, run = spelling.rpartition(",run=")
    if with_run:
        return {**data_source(named), "run": run}
    if _TRIPLES.search(spelling):
        return {"triples": spelling}
    if spelling.endswith(".jsonl"):
        return {"examples": spelling}
    name, colon, split = spelling.rpartition(":")
    if not colon or name == "ir_datasets" or "/" in split:
        return {"collection": spelling}
    return {"collection": name, "split": split}


def recipe_splits(recipe: Recipe) -> dict[str, dict[str, tuple[str, ...]]]:
    """The splits that a recipe learns from: ``trained``, and ``selected``, those that choose its weights and settings.

    Each maps ``COLLECTION:SPLIT`` to the splits that some of its queries are taken from (``split_names``). Triples
    without a collection go by their file name. Only descriptions are read: the data need not exist.
    """
    trained = dict(_source_split(source) for source in recipe.data)
    validation = recipe.validation
    if validation is None:
        return {"trained": trained, "selected": {}}
    if validation.holdout is not None:
        return {"trained": trained, "selected": trained}
    name, *parents = split_names(validation.collection, validation.split or "dev")
    return {"trained": trained, "selected": {name: tuple(parents)}}


def _source_split(source: Source) -> tuple[str, tuple[str, ...]]:
    """The split of ``source`` and those that its queries are taken from; topics and qrels are known by file name."""
    if source.collection is None:
        file = source.triples or source.examples
        return str(file and file.name), ()
    split, file = source.split, source.qrels or source.topics
    if file is not None:
        try:
            splits = load_collection(source.collection).splits
        except LearnedSparseError:  # a folder that is elsewhere
            splits = {}
        files = {name: (its.topics if source.qrels is None else its.qrels).files for name, its in splits.items()}
        matching = [name for name, paths in files.items() if file.name in {Path(path).name for path in paths}]
        split = matching[0] if len(matching) == 1 else split
    name, *parents = split_names(source.collection, split)
    return name, tuple(parents)


def to_mapping(recipe: Recipe) -> dict[str, Any]:
    """The recipe in JSON values, every default spelled out; ``parse`` reads it back."""
    return as_json(recipe)


def stated(settings: Any) -> dict[str, Any]:
    """The values of a settings dataclass that differ from its defaults, in JSON values; ``parse`` reads them back.

    A new field with a default changes nothing here, so that two versions compare recipes by their meaning.
    """
    found: dict[str, Any] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        plain = _stated_value(value)
        if value != default and not (isinstance(default, StageOptions) and not plain):
            found[field.name] = plain
    return found


def _stated_value(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return stated(value)
    if isinstance(value, Mapping):
        return {key: _stated_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_stated_value(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The differences of two mappings, as ``key: old -> new``."""
    before, after = _leaves(old, ""), _leaves(new, "")
    pairs = [(key, before.get(key), after.get(key)) for key in sorted({*before, *after})]
    return [f"{key}: {first!r} -> {second!r}" for key, first, second in pairs if first != second]


def _leaves(value: Any, prefix: str) -> dict[str, Any]:
    """Values by their key, with dots between levels and numbers for list entries."""
    children = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else None
    if children is None:
        return {prefix[1:]: value}
    return {key: leaf for name, child in children for key, leaf in _leaves(child, f"{prefix}.{name}").items()}


def _change(values: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    inner: Any = values
    for parent in parents:
        inner = inner[_index(inner, parent, key)] if isinstance(inner, list) else inner.setdefault(parent, {})
        if not isinstance(inner, dict | list):
            raise LearnedSparseError(f"--set {key}: {parent!r} holds {inner!r}, nothing to set inside")
    inner[_index(inner, last, key) if isinstance(inner, list) else last] = value


def _index(values: list[Any], name: str, key: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", name) or int(name) >= len(values):
        raise LearnedSparseError(f"--set {key}: {name!r} is not an index of a list of {len(values)} (from 0)")
    return int(name)
