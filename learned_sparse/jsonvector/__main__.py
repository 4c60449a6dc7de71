"""``python -m learned_sparse.jsonvector check DIR``: report lines that Anserini would drop, split or change."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path

from learned_sparse.core import LearnedSparseError
from learned_sparse.jsonvector.manifest import MANIFEST, Manifest
from learned_sparse.jsonvector.reader import BadLineError, LineReader, numbered_lines, vector_files


class Checker:
    """Reads every line below a folder and continues after a problem."""

    def __init__(self) -> None:
        self.documents = 0
        """Valid documents so far."""
        self.empty = 0
        """Valid documents with an empty vector so far."""

    def problems(self, path: Path) -> Iterator[str]:
        """One ``FILE:LINE: problem`` for each bad line, then differences from the manifest, if there is one."""
        first_lines: dict[str, str] = {}
        for file in vector_files(path):
            yield from self._problems_in(file, first_lines)
        if (path / MANIFEST).is_file():
            yield from Manifest.load(path).problems(path)

    def _problems_in(self, file: Path, first_lines: dict[str, str]) -> Iterator[str]:
        """``first_lines`` has the file and line of each id read so far."""
        reader = LineReader()
        try:
            for number, line in numbered_lines(file):
                try:
                    name, vector = reader.parse(line)
                except BadLineError as error:
                    yield f"{file}:{number}: {error}"
                    continue
                if name in first_lines:
                    yield f"{file}:{number}: the id {name!r} is also at {first_lines[name]}; Anserini would keep both"
                    continue
                first_lines[name] = f"{file.name}:{number}"
                self.documents += 1
                self.empty += not vector
        except LearnedSparseError as error:  # a broken gzip file
            yield str(error)


def main(argv: list[str] | None = None) -> int:
    """Check files for Anserini's JsonVectorCollection; the exit status is 1 if there are problems."""
    parser = argparse.ArgumentParser(prog="python -m learned_sparse.jsonvector", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="check every line, and compare with the manifest if there is one")
    check.add_argument("path", type=Path, metavar="DIR", help="folder (or one file) of .jsonl, .json or .gz files")
    check.add_argument("--show", type=int, default=20, help="maximum number of problems to print (default: 20)")
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


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
