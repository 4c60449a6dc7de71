"""``python -m eval.fidelity``: what a model loses when it computes in fewer bits, and whether that may be a default."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eval.fidelity.page import page, verdict
from eval.fidelity.steps import Place, bm25_run, check_data
from eval.measures import write_texts
from eval.reproduce import pooled
from learned_sparse.core import LearnedSparseError, write_json
from learned_sparse.jsonvector import versions

SPLIT = "test"
DEPTH = 10  # of BM25's documents for each query that a pool is made of
HITS = 100  # of BM25
_RESULTS = Path(__file__).parent.parent / "results" / "fidelity"
_EPILOG = """\
The search is exact and in memory, the measures are trec_eval's. Encoded vectors are kept below the home folder; a run
that was interrupted goes on with them.

example:
  python -m eval.fidelity --checkpoint DIR --data DIR --dtypes bf16 --collections scifact
"""


def main(argv: list[str] | None = None) -> int:
    """Encode, search and compare what is asked for; write all numbers and a verdict on each dtype."""
    options = _parser().parse_args(argv)
    _check(options)
    from eval.fidelity.run import Model, compare

    model = Model(checkpoint=options.checkpoint, device=options.device, anew=options.overwrite)
    about = _about(options, model.description())
    compared = [compare(model, _place(options, name), options.dtypes) for name in options.collections]
    verdicts = {dtype: verdict(dtype, compared) for dtype in options.dtypes}
    found = {**about, "verdicts": verdicts, "collections": compared}
    written = page(found)
    write_json(options.output.with_suffix(".json"), found)
    write_texts(options.output.parent, {f"{options.output.name}.md": written})
    print(f"\n{written}\n\nwritten: {options.output.with_suffix('.md')}, {options.output.name}.json")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval.fidelity",
        description=main.__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--checkpoint", required=True, metavar="DIR|HUB_ID", help="a trained model")
    add("--data", type=Path, required=True, metavar="DIR", help="the folder of the collections")
    add("--dtypes", nargs="+", default=["bf16"], metavar="DTYPE", help="compared with fp32: %(default)s")
    add("--collections", nargs="+", default=["scifact", "msmarco-mini"], metavar="NAME", help="default: %(default)s")
    add(
        "--pooled",
        nargs="+",
        default=[],
        metavar="NAME",
        help=f"those to cut down to what is relevant, and BM25's {DEPTH} best documents for each query",
    )
    add("--device", help="cpu, cuda, ...; default: a GPU if there is one")
    add("--overwrite", action="store_true", help="encode anew what an earlier run left in the home folder")
    add("--output", type=Path, default=_RESULTS, metavar="FILE", help="without ending; default: %(default)s")
    return parser


def _check(options: argparse.Namespace) -> None:
    check_data(options.data, options.collections)
    for name in options.pooled:
        if name not in options.collections:
            raise LearnedSparseError(f"--pooled {name}: not one of --collections {' '.join(options.collections)}")
    if "fp32" in options.dtypes:
        raise LearnedSparseError("--dtypes fp32: it is what the others are compared with; leave it out")


def _place(options: argparse.Namespace, name: str) -> Place:
    """The whole collection, or its pool."""
    whole = Place(collection=str(options.data / name), name=name, split=SPLIT)
    if name not in options.pooled:
        return whole
    folder = pooled(whole.collection, name, SPLIT, bm25_run(whole, HITS), DEPTH)
    return Place(collection=str(folder), name=folder.name, split=SPLIT)


def _about(options: argparse.Namespace, model: Mapping[str, Any]) -> dict[str, Any]:
    words = ["--checkpoint", Path(options.checkpoint).name, "--data", "DIR", "--dtypes", *options.dtypes]
    words += ["--collections", *options.collections, *(["--pooled", *options.pooled] if options.pooled else [])]
    return {"command": f"python -m eval.fidelity {' '.join(words)}", **model, "versions": versions()}


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
