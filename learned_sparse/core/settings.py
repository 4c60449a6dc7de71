"""Settings checked strictly (mappings and ``--set KEY=VALUE`` become dataclasses), and what commands share."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import math
import re
import shlex
import shutil
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from learned_sparse.core.errors import SIMILAR_NAME, Command, LearnedSparseError, did_you_mean

T = TypeVar("T")


def parse(kind: type[T], value: Any, where: str) -> T:
    """Convert ``value``, as JSON or YAML give it, to ``kind``: a dataclass, or a type that a field of one may have.

    Unknown keys, missing keys and values of a wrong type raise an error that begins with ``where``. An int is accepted
    for a float, a list for a tuple, and text for a path.
    """
    hint: Any = kind
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        failures, fit = [], [each for each in arguments if (each is types.NoneType) == (value is None)]
        for each in sorted(fit or arguments, key=lambda each: type(value) is not each):
            try:
                return parse(each, value, where)  # type: ignore[no-any-return]
            except LearnedSparseError as error:
                failures.append(error)
        raise failures[0]
    result: Any = {}
    number = hint is float and type(value) in (int, float) and math.isfinite(value)
    is_choice = any(value == choice and type(value) is type(choice) for choice in arguments)
    if dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        fields, hints = {field.name: field for field in dataclasses.fields(hint)}, typing.get_type_hints(hint)
        if unknown := [key for key in value if key not in fields]:
            close = did_you_mean(str(unknown[0])[:80], fields)
            raise LearnedSparseError(f"{where}: unknown key {_short(unknown[0])}{close}")
        absent = [field for name, field in fields.items() if name not in value]
        if missing := [field.name for field in absent if field.default is field.default_factory is dataclasses.MISSING]:
            raise LearnedSparseError(f"{where}: {missing[0]!r} is missing")
        for name in (name for name in fields if name in value):
            result[name] = parse(hints[name], value[name], f"{where}: {name}")
        try:
            result = hint(**result)  # type: ignore[operator]
        except LearnedSparseError as error:  # a dataclass checks its values, and does not know where they come from
            raise LearnedSparseError(f"{where}: {error}") from error
    elif origin in (dict, Mapping) and isinstance(value, Mapping):
        for key, item in value.items():
            result[key] = parse(arguments[1], item, f"{where}: {key}")
    elif origin is tuple and isinstance(value, list):
        kinds = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        if len(kinds) != len(value):
            raise LearnedSparseError(f"{where}: expected {len(kinds)} values, got {_short(value)}")
        result = tuple(map(parse, kinds, value, (f"{where}[{i}]" for i in range(len(value)))))
    elif number or (hint is Path and isinstance(value, str)):
        result = hint(value)
    elif hint is Any or (origin is typing.Literal and is_choice) or (type(value) is hint and hint is not float):
        result = value
    else:
        expected = f"expected {_NAMES.get(origin or hint, 'a mapping')}, got {_short(value)}"
        choices = f"{_short(value)} is not one of {', '.join(map(repr, arguments))}"
        raise LearnedSparseError(f"{where}: {choices if origin is typing.Literal else expected}")
    return result  # type: ignore[no-any-return]


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
        from learned_sparse.core.yaml_files import read_yaml_text

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

    def parse_args(  # type: ignore[override]  # argparse's overloads return the type of ``namespace``
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """As in ``argparse``; a word that looks like an option and is none is reported first."""
        if self.epilog:  # examples keep their lines
            self.formatter_class = argparse.RawDescriptionHelpFormatter
        known = set(self._option_string_actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 -- nothing public names subcommands
                known.update(*(parser._option_string_actions for parser in action.choices.values()))  # noqa: SLF001
        for word in sys.argv[1:] if args is None else args:
            option = word.partition("=")[0]
            if word == "--":
                break
            if re.fullmatch(r"-[^0-9. ][^ ]*", option) and option not in known:
                hint = did_you_mean(option, known, SIMILAR_NAME)
                self.error(f"{option}: unknown option{hint if 'did you mean' in hint else ''}")
        return super().parse_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 2."""
        self.exit(2, f"error: {message}; see {self.prog} --help\n")


def command_line(words: str) -> str:
    """``python -m WORDS``, with the path of this Python if ``python`` on PATH is another one or there is none."""
    path, here, first = Path(sys.executable), Path.cwd(), shutil.which("python")
    if first and Path(first).parent == path.parent:
        return f"python -m {words}"
    return f"{shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))} -m {words}"


def refuse(*problems: tuple[object, str]) -> None:
    """Raise the message of the first ``(problem, message)`` with a problem, such as two options that conflict."""
    for problem, message in problems:
        if problem:
            raise LearnedSparseError(message)


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--engine``, ``--address``, ``--workers`` and ``--gpus-per-worker``, for ``Engine.from_options``."""
    add = parser.add_argument_group("several processes or machines").add_argument
    add(
        "--engine", choices=["process", "ray"], default="process", help="this process (default), or tasks of Ray: on "
        "the processors and GPUs of this machine, or on a cluster",
    )  # fmt: skip
    add("--address", metavar="HOST:PORT", help="a running Ray (or auto); default: one is started for this command")
    add("--workers", type=positive, metavar="N", help="default: one for each GPU, or for each machine without GPUs")
    add("--gpus-per-worker", type=float, metavar="G", help="default: 1 if there are GPUs; 0.5: two workers on a GPU")


def command_list(package: str) -> Command:
    """The ``main`` function of ``python -m PACKAGE``, which prints a line for each command of the package."""

    def main(argv: list[str] | None = None) -> int:
        CommandParser(prog=f"python -m {package}", description=f"List the commands of {package}.").parse_args(argv)
        print_commands(package)
        return 0

    return main


def print_commands(package: str) -> None:
    """Print module and purpose of each command of a package, as the first line of its file says."""
    spec = importlib.util.find_spec(package)
    folder, commands = Path(spec.origin or "").parent if spec else Path(), {}
    for path in sorted(folder.rglob("*.py")):
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        match = re.match(r'"""``python -m (\S+?)(?: .*)?``: (.*?)\.?(?:""")?$', first)
        if match and match[1] != package:
            commands[match[1]] = match[2].replace("``", "")
    width = max(map(len, commands))
    for module, purpose in commands.items():
        print(f"{module:{width}}  {purpose}")
    print(f"\nOptions of a command: {command_line('MODULE --help')}")


_NAMES = {str: "text", int: "int", float: "a finite number", bool: "true or false", tuple: "list", Path: "a path"}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text):,} characters)"
