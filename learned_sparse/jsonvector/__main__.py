"""``python -m learned_sparse.jsonvector``: check vectors for what Anserini would change, or read a CIFF file."""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from learned_sparse.core import CommandParser, LearnedSparseError, print_next
from learned_sparse.jsonvector.ciff import convert_ciff
from learned_sparse.jsonvector.manifest import MANIFEST, UNVERIFIED, Manifest
from learned_sparse.jsonvector.reader import BadLineError, LineReader, numbered_lines, vector_files
from learned_sparse.jsonvector.weights import WeightReader


def find_problems(path: Path, counts: Counter[str], *, weights: bool = False) -> Iterator[str]:
    """One ``FILE:LINE: problem`` for each bad line, then differences from the manifest, if there is one.

    ``weights``: lines may hold what ``learned_sparse.index --quantize`` takes (floats, zeros, empty vectors). Adds the
    valid documents to ``counts["documents"]``, and those with an empty vector also to ``counts["empty"]``.
    """
    first_lines: dict[str, str] = {}
    reader = WeightReader() if weights else LineReader()
    for file in vector_files(path):
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
                counts.update({"documents": 1, "empty": int(not vector)})
        except LearnedSparseError as error:  # a broken gzip file
            yield str(error)
    if (path / MANIFEST).is_file():
        yield from Manifest.load(path).problems(path)


def main(argv: list[str] | None = None) -> int:
    """Check files for Anserini's JsonVectorCollection (exit status 1 if there are problems), or convert a CIFF file."""
    parser = CommandParser(prog="python -m learned_sparse.jsonvector", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="check every line, and compare with the manifest if there is one")
    check.add_argument("path", type=Path, metavar="DIR", help="folder (or one file) of .jsonl, .json or .gz files")
    check.add_argument(
        "--quantize", action="store_true", help="accept weights that learned_sparse.index --quantize turns into impacts"
    )
    check.add_argument("--show", type=int, default=20, help="maximum number of problems to print (default: 20)")
    ciff = commands.add_parser("ciff", help="write a CIFF file as JsonVectorCollection files")
    ciff.add_argument("path", type=Path, metavar="FILE", help="CIFF file, gzipped or not; frequencies are impacts")
    ciff.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of the vectors")
    options = parser.parse_args(argv)
    return _check(options) if options.command == "check" else _convert(options)


def _convert(options: argparse.Namespace) -> int:
    documents, postings = convert_ciff(options.path, options.output)
    print(f"{options.output}: {documents:,} documents, {postings:,} postings")
    output = str(options.output)
    print_next(f"learned_sparse.index {shlex.join(['--input', output, '--index', f'{output}-index'])}")
    return 0


def _check(options: argparse.Namespace) -> int:
    counts: Counter[str] = Counter()
    count = 0
    for count, problem in enumerate(find_problems(options.path, counts, weights=options.quantize), start=1):
        if count <= options.show:
            print(problem)
    if not (options.path / MANIFEST).is_file():
        print(f"{options.path}: {UNVERIFIED}")
    print(f"{options.path}: {counts['documents']} documents ({counts['empty']} with an empty vector), {count} problems")
    return 1 if count else 0


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
