"""Settings checked strictly: YAML and ``--set KEY=VALUE`` become frozen dataclasses.

The YAML is a subset: one document, keys that are text and given once, plain values (text, finite numbers, true, false,
null), no tags. ``yaml.safe_load`` alone keeps the last of two equal keys, reads ``010`` as 8 and ``12:30`` as 750.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import re
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import yaml

from learned_sparse.core.errors import SIMILAR_NAME, LearnedSparseError, did_you_mean, not_found

T = TypeVar("T")

MAX_BYTES = 2**18
"""Bytes of a YAML file."""
MAX_NODES = 20_000
"""Values in a YAML file, those behind aliases counted at each use, so that an alias bomb is refused."""
MAX_DEPTH = 64
"""Levels of lists and mappings in a YAML file."""

_INT = re.compile(r"[-+]?(0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")
_NEWLINE = "\n"
_TAG = "tag:yaml.org,2002:"


def read_yaml(path: Path) -> Mapping[str, Any]:
    """Mapping in a YAML file of at most ``MAX_BYTES`` bytes; an error names the file and the line."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise LearnedSparseError(f"{path}: more than {MAX_BYTES:,} bytes; this is no file of settings")
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise not_found(path) from None
    except IsADirectoryError:
        raise LearnedSparseError(f"{path}: a folder; name a .yaml file") from None
    except UnicodeDecodeError as error:
        raise LearnedSparseError(f"{path}: not readable as YAML: not UTF-8 at byte {error.start}") from None
    except (OSError, ValueError) as error:  # ValueError: NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise LearnedSparseError(f"{path}: cannot be read ({reason})") from error
    values = read_yaml_text(text, str(path))
    if not isinstance(values, Mapping):
        kind = "nothing" if values is None else type(values).__name__
        raise LearnedSparseError(f"{path}: expected a mapping of settings, got {kind}")
    return values


def read_yaml_text(text: str, where: str) -> Any:
    """The value of a YAML text; errors begin with ``where``, and the line if there are several.

    >>> read_yaml_text("{alpha: 0.3, layers: [2, 12], date: 2026-01-01, last: null}", "example")
    {'alpha': 0.3, 'layers': [2, 12], 'date': '2026-01-01', 'last': None}
    """
    try:
        loader = _StrictLoader(text)
        return loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position, reason = (mark.index if mark else 0), error.problem or error.context
    except yaml.reader.ReaderError as error:
        position, reason = int(error.position), f"the character {error.character!r} is not allowed"
    line = f":{text.count(_NEWLINE, 0, position) + 1}" if _NEWLINE in text.rstrip() else ""
    raise LearnedSparseError(f"{where}{line}: not readable as YAML: {' '.join(str(reason).split())}")


def parse(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """Convert ``values`` to the dataclass ``kind``, including nested dataclasses.

    Unknown keys, missing keys and values of a wrong type raise an error that begins with ``where``. An int is accepted
    for a float, and a list for a tuple.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(kind)
    for key in values:
        if key not in fields:
            raise LearnedSparseError(f"{where}: unknown key {_short(key)}{did_you_mean(str(key)[:80], fields)}")
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in values:
            raise LearnedSparseError(f"{where}: {name!r} is missing")
    converted = {key: _convert(hints[key], value, f"{where}: {key}") for key, value in values.items()}
    try:
        return kind(**converted)
    except LearnedSparseError as error:  # a dataclass checks its values, and does not know where they come from
        raise LearnedSparseError(f"{where}: {error}") from error


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
        changes[key] = read_yaml_text(text, f"--set {word}")
    return changes


def positive(text: str) -> int:
    """``type`` of an option whose value is at least 1."""
    if not re.fullmatch(r"[-+]?[0-9]+", text.strip()) or (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text}: give at least 1, a whole number")
    return number


class CommandParser(argparse.ArgumentParser):
    """Parser of a command: options are spelled in full, and an error is one line, with the nearest option.

    ``argparse`` prints the whole usage before an error, and reports a missing option before a misspelt one.
    """

    def __init__(self, **options: Any) -> None:
        """``options`` are those of ``argparse.ArgumentParser``."""
        super().__init__(**{"allow_abbrev": False, **options})

    def parse_args(  # type: ignore[override]  # argparse's overloads return the type of ``namespace``
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """As in ``argparse``; a word that looks like an option and is none is reported first."""
        known = self.known_options()
        for word in sys.argv[1:] if args is None else args:
            option = word.partition("=")[0]
            if word == "--":
                break
            if re.fullmatch(r"-[^0-9. ][^ ]*", option) and option not in known:
                self.error(f"{option}: unknown option{self.nearest(option)}")
        return super().parse_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 2."""
        self.exit(2, f"error: {message}; see {self.prog} --help\n")

    def nearest(self, option: str) -> str:
        """End of the message about an unknown option: the nearest one; empty if none is near."""
        hint = did_you_mean(option, self.known_options(), SIMILAR_NAME)
        return hint if "did you mean" in hint else ""

    def known_options(self) -> set[str]:
        """All options, those of subcommands too."""
        known = set(self._option_string_actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 -- nothing public names subcommands
                for parser in action.choices.values():
                    known |= parser.known_options()
        return known


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise LearnedSparseError(f"{where}: {_short(value)} has more than 64 bits")
    if origin in (typing.Union, types.UnionType):
        return _convert_union(arguments, value, where)
    if origin is typing.Literal:
        if value not in arguments:
            raise LearnedSparseError(f"{where}: {_short(value)} is not one of {', '.join(map(repr, arguments))}")
        return value
    if dataclasses.is_dataclass(hint):
        return parse(typing.cast(type, hint), _expect(Mapping, value, where), where)
    if origin is tuple:
        return _convert_tuple(arguments, _expect(list, value, where), where)
    if origin in (dict, Mapping, typing.get_origin(Mapping[str, str])):
        items = _expect(Mapping, value, where).items()
        return {key: _convert(arguments[1], item, f"{where}: {key}") for key, item in items}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is float and isinstance(value, str):  # YAML 1.1 reads 1e-3 as text
        try:
            value = float(value)
        except ValueError:
            raise LearnedSparseError(f"{where}: expected a number, got {_short(value)}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise LearnedSparseError(f"{where}: {value} is not a finite number")
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hint is int and isinstance(value, bool):
        raise LearnedSparseError(f"{where}: expected int, got {_short(value)}")
    return _expect(hint, value, where)


def _convert_tuple(arguments: tuple[Any, ...], items: list[Any], where: str) -> tuple[Any, ...]:
    if arguments[-1] is not Ellipsis and len(items) != len(arguments):
        raise LearnedSparseError(f"{where}: expected {len(arguments)} values, got {_short(items)}")
    return tuple(_convert(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(items))


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
        raise LearnedSparseError(f"{where}: expected {kind.__name__}, got {_short(value)}")
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text):,} characters)"


class _StrictLoader(yaml.SafeLoader):
    """YAML's safe loader for the subset that this module describes."""

    # a date stays text: JSON, which manifests are, has none
    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_TAG}timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = self._depth = 0
        self._sizes: dict[str, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The next node, checked and counted."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        before, alias = self._nodes, isinstance(event, yaml.AliasEvent)
        if alias and event.anchor not in self._sizes:
            raise _problem(f"the alias *{event.anchor} stands for no finished value", event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise _problem(f"the tag {event.tag} is not read; write a plain value", event.start_mark)
        self._nodes += self._sizes[event.anchor] if alias else 1
        self._depth += 1
        if self._nodes > MAX_NODES or self._depth > MAX_DEPTH:
            limits = f"more than {MAX_NODES:,} values, or more than {MAX_DEPTH} levels"
            raise _problem(f"{limits}; this is no file of settings", event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if event.anchor and not alias:
            self._sizes[event.anchor] = self._nodes - before
        if isinstance(node, yaml.MappingNode) and not alias:
            _check_keys(node)
        return node

    def construct_yaml_str(self, node: Any) -> str:
        """Text that can be printed and written to files."""
        text: str = node.value
        if _CONTROL.search(text):
            raise _problem(f"{_short(text)} holds a control character or half a character", node.start_mark)
        return text

    def construct_yaml_int(self, node: Any) -> int:
        """Whole numbers in decimal or hexadecimal digits."""
        if not _INT.fullmatch(node.value):
            raise _problem(
                f"{node.value} is an octal or sexagesimal number in YAML; put text in quotes", node.start_mark
            )
        if len(node.value) > 40 or not -(2**63) <= (number := int(super().construct_yaml_int(node))) < 2**63:
            raise _problem("a whole number of more than 64 bits", node.start_mark)
        return number

    def construct_yaml_float(self, node: Any) -> float:
        """Finite numbers."""
        number = float(super().construct_yaml_float(node))
        if ":" in node.value or not math.isfinite(number):
            raise _problem(f"{node.value} is not a finite decimal number; put text in quotes", node.start_mark)
        return number


_StrictLoader.add_constructor(f"{_TAG}str", _StrictLoader.construct_yaml_str)
_StrictLoader.add_constructor(f"{_TAG}int", _StrictLoader.construct_yaml_int)
_StrictLoader.add_constructor(f"{_TAG}float", _StrictLoader.construct_yaml_float)


def _problem(problem: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def _check_keys(node: yaml.MappingNode) -> None:
    """Raise if a key is not text, or is given twice."""
    seen: set[str] = set()
    for key, _ in node.value:
        if key.tag not in {f"{_TAG}str", f"{_TAG}merge"}:
            name = key.value if isinstance(key, yaml.ScalarNode) else "a list or mapping"
            raise _problem(f"the key {name} is not text for YAML; put it in quotes", key.start_mark)
        if key.value in seen:
            raise _problem(f"the key {key.value!r} is given twice; keep one", key.start_mark)
        seen.add(key.value)
