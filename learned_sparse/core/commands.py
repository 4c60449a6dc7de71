"""How commands are written for the person at the keyboard: the list of a package's commands, and this Python."""

from __future__ import annotations

import argparse
import importlib.util
import re
import shlex
import shutil
import sys
from pathlib import Path

from learned_sparse.core.errors import Command, LearnedSparseError
from learned_sparse.core.settings import CommandParser, positive


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
