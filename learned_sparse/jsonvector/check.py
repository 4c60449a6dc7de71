"""``python -m learned_sparse.jsonvector.vector_files check``: what Anserini would drop, split or mangle in silence."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path

from learned_sparse.core import LearnedSparseError
from learned_sparse.jsonvector.manifest import MANIFEST, Manifest
from learned_sparse.jsonvector.vector_files import BadLineError, LineReader, numbered_lines, vector_files


class Checker:
    """Reads every line below a folder and goes on after a problem; ``documents`` and ``empty`` count the good lines."""

    def __init__(self) -> None:
        self.documents = 0
        self.empty = 0

    def problems(self, path: Path) -> Iterator[str]:
        """One ``FILE:LINE: what`` for each bad line, then what the manifest, if there is one, says otherwise."""
        seen: dict[str, str] = {}
        for file in vector_files(path):
            yield from self._problems_in(file, seen)
        if (path / MANIFEST).is_file():
            yield from Manifest.load(path).problems(path)

    def _problems_in(self, file: Path, seen: dict[str, str]) -> Iterator[str]:
        reader = LineReader()
        try:
            for number, line in numbered_lines(file):
                try:
                    name, vector = reader.parse(line)
                except BadLineError as error:
                    yield f"{file}:{number}: {error}"
                    continue
                if name in seen:
                    yield f"{file}:{number}: the id {name!r} is already at {seen[name]}; Anserini would keep both"
                    continue
                seen[name] = f"{file.name}:{number}"
                self.documents += 1
                self.empty += not vector
        except LearnedSparseError as error:  # a broken gzip file
            yield str(error)


def main(argv: list[str] | None = None) -> int:
    """Check files that Anserini's JsonVectorCollection is to index; status 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m learned_sparse.jsonvector.vector_files", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="read every line strictly, and compare with the manifest if there is one")
    check.add_argument("path", type=Path, metavar="DIR", help="folder (or one file) of .jsonl, .json or .gz files")
    check.add_argument("--show", type=int, default=20, help="print at most so many problems (default: 20)")
    options = parser.parse_args(argv)
    checker = Checker()
    problems = checker.problems(options.path)
    count = 0
    for problem in itertools.islice(problems, max(options.show, 0)):
        count += 1
        print(problem)
    count += sum(1 for _ in problems)
    print(f"{options.path}: {checker.documents} documents ({checker.empty} with an empty vector), {count} problems")
    return 1 if count else 0
