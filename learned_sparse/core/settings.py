"""Settings checked strictly: YAML and ``--set KEY=VALUE`` become frozen dataclasses."""

from __future__ import annotations

import argparse
import dataclasses
import json
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from learned_sparse.core.errors import LearnedSparseError, did_you_mean

T = TypeVar("T")


def read_yaml(path: Path) -> Mapping[str, Any]:
    """Mapping in a YAML file."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LearnedSparseError(f"{path}: no such file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise LearnedSparseError(f"{path}: not readable as YAML: {error}") from error
    if not isinstance(content, Mapping):
        raise LearnedSparseError(f"{path}: expected a mapping of settings, got {type(content).__name__}")
    return content


def parse(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """Convert ``values`` to the dataclass ``kind``, including nested dataclasses.

    Unknown keys, missing keys and values of a wrong type raise an error that begins with ``where``. An int is accepted
    for a float, and a list for a tuple.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(kind)
    for key in values:
        if key not in fields:
            raise LearnedSparseError(f"{where}: unknown key {key!r}{did_you_mean(str(key), fields)}")
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in values:
            raise LearnedSparseError(f"{where}: {name!r} is missing")
    return kind(**{key: _convert(hints[key], value, f"{where}: {key}") for key, value in values.items()})


def add_set_option(parser: argparse.ArgumentParser | argparse._ArgumentGroup, help_text: str) -> None:
    """Add ``--set KEY=VALUE``, which can be repeated; ``parse_changes`` reads its values."""
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=help_text)


def parse_changes(words: Sequence[str]) -> dict[str, Any]:
    """``{key: value}`` for words ``key=value``, each value read as YAML.

    >>> parse_changes(["alpha=0.3", "layers=[2, 12]", "query_k=null", "components=both"])
    {'alpha': 0.3, 'layers': [2, 12], 'query_k': None, 'components': 'both'}
    """
    changes: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not (key and equals and text):
            raise LearnedSparseError(f"--set {word}: expected KEY=VALUE, for instance alpha=0.3")
        if key in changes:
            raise LearnedSparseError(f"--set {word}: {key} is set twice; keep one of the two")
        try:
            changes[key] = yaml.safe_load(text)
            json.dumps(changes[key], allow_nan=False)  # manifests are JSON; YAML also has dates, sets and .nan
        except (yaml.YAMLError, TypeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise LearnedSparseError(f"--set {word}: not a number, a word or a list of them ({reason})") from None
    return changes


def positive(text: str) -> int:
    """``type`` of an option whose value is at least 1."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number}: give at least 1")
    return number


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _convert_union(arguments, value, where)
    if origin is typing.Literal:
        if value not in arguments:
            raise LearnedSparseError(f"{where}: {value!r} is not one of {', '.join(map(repr, arguments))}")
        return value
    if dataclasses.is_dataclass(hint):
        return parse(typing.cast(type, hint), _expect(Mapping, value, where), where)
    if origin is tuple:
        return tuple(
            _convert(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(_expect(list, value, where))
        )
    if origin in (dict, Mapping, typing.get_origin(Mapping[str, str])):
        items = _expect(Mapping, value, where).items()
        return {key: _convert(arguments[1], item, f"{where}: {key}") for key, item in items}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is float and isinstance(value, str):  # YAML 1.1 reads 1e-3 as text
        try:
            return float(value)
        except ValueError:
            raise LearnedSparseError(f"{where}: expected a number, got {value!r}") from None
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hint is int and isinstance(value, bool):
        raise LearnedSparseError(f"{where}: expected int, got {value!r}")
    return _expect(hint, value, where)


def _convert_union(arguments: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in arguments:
        return None
    errors = []
    for argument in arguments:
        if argument is type(None):
            continue
        try:
            return _convert(argument, value, where)
        except LearnedSparseError as error:
            errors.append(str(error))
    raise LearnedSparseError(errors[0])


def _expect(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, kind):
        raise LearnedSparseError(f"{where}: expected {kind.__name__}, got {value!r}")
    return value
