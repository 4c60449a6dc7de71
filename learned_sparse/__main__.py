"""``python -m learned_sparse``: a line for each command of this package; ``--check`` checks what they need."""

from __future__ import annotations

from learned_sparse.core.errors import run_main
from learned_sparse.core.settings import CommandParser, print_commands


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    parser = CommandParser(prog="python -m learned_sparse", description="List the commands of learned_sparse.")
    parser.add_argument("--check", action="store_true", help="check Java, Pyserini, packages and PyTorch instead")
    if parser.parse_args(argv).check:
        from learned_sparse.lucene.installation import report

        return report()
    print_commands("learned_sparse")
    return 0


if __name__ == "__main__":
    run_main(main)
