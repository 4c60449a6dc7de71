"""``python -m eval.sweep``: what settings of a trained model do to its results, from one pass over the texts."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eval.measures import chosen_split, parse_measure, write_texts
from eval.sweep.variants import read_settings, spelled
from learned_sparse.collections import Run, load_collection, write_run
from learned_sparse.core import LearnedSparseError, checkpoint_folder, run_main, write_json
from learned_sparse.jsonvector import versions

EPILOG = """\
Impacts, scores and measures are those of learned_sparse.encode --set, index, search and eval.evaluate; the search is
exact and in memory, and so are the impacts of all combinations: up to 8 bytes a term of a document.

examples:
  python -m eval.sweep --model spade --collection scifact --split test --set alpha=0,0.25,0.5,0.75,1 --set k=5,10
  python -m eval.sweep --model uhd-bert --collection scifact --split test --set query_k=50,100,200,null --output DIR
"""


def main(argv: list[str] | None = None) -> int:
    """Run every combination; print a table and write what is asked for."""
    options = _parser().parse_args(argv)
    settings = read_settings(options.set)
    collection = load_collection(options.collection, data=options.data)
    split = chosen_split(collection, options.split)
    measures = tuple(options.measures or collection.split(split).measures)
    for measure in measures:
        parse_measure(measure)
    if options.hits < 1:
        raise LearnedSparseError(f"--hits {options.hits}: give at least 1")
    from eval.sweep.model import SweepModel
    from eval.sweep.report import row_as_json, sweep_charts, sweep_table
    from eval.sweep.run import Task, run_sweep

    model = SweepModel(
        options.checkpoint or str(checkpoint_folder(options.model)),
        device=options.device,
        dtype=options.dtype,
        **({} if options.batch_size is None else {"batch_size": options.batch_size}),
    )

    def keep(changes: Mapping[str, Any], run: Run) -> None:
        if options.runs:
            name = ",".join(f"{key}={spelled(value)}" for key, value in changes.items()).replace(" ", "-")
            write_run(options.runs / f"{name}.txt", run, name)

    task = Task(collection=collection, split=split, measures=measures, hits=options.hits)
    rows = run_sweep(model, settings, task, keep)
    print(sweep_table(rows, markdown=options.markdown))
    if options.output:
        about = {"collection": collection.name, "split": split, "hits": options.hits, "versions": versions()}
        found = {**model.description(), **about, "rows": [row_as_json(row) for row in rows]}
        write_json(options.output / "sweep.json", found)
        charts = {f"sweep-{_plain(measure)}.svg": chart for measure, chart in sweep_charts(rows).items()}
        write_texts(options.output, {"sweep.md": sweep_table(rows, markdown=True), **charts})
        print(f"\nwritten to {options.output}: {', '.join(['sweep.md', 'sweep.json', *charts])}")
    return 0


def _plain(measure: str) -> str:
    """As part of a file's name.

    >>> _plain("R(rel=2)@1000")
    'R-rel-2-1000'
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", measure).strip("-")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval.sweep",
        description="Search a collection with a trained model under every combination of settings that can be changed.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--checkpoint", metavar="DIR|HUB_ID", help="the model")
    which.add_argument("--model", metavar="NAME", help="the model of that name in the home folder")
    add("--collection", required=True, metavar="NAME|PATH", help="what is searched")
    add("--data", type=Path, metavar="DIR", help="folder the files of --collection are in")
    add("--split", help="whose queries; default: the only one")
    add("--set", action="append", required=True, metavar="KEY=V,V,...", help="a setting and its values; repeat it")
    add("--measures", nargs="+", metavar="M", help="for instance MRR@10 R@1000; default: the split's")
    add("--hits", type=int, default=1000, metavar="N", help="documents a query: %(default)s")
    add("--device", help="cpu, cuda, ...; default: a GPU if there is one")
    add("--dtype", help="fp32, bf16 or fp16; default: what the device does fastest")
    add("--batch-size", metavar="N|Nt", help="texts (32) or tokens (4096t) of one forward pass")
    add("--runs", type=Path, metavar="DIR", help="keep every run there, as k=5,alpha=0.1.txt")
    add("--output", type=Path, metavar="DIR", help="write sweep.md, sweep.json and charts (SVG) there")
    add("--markdown", action="store_true", help="print a Markdown table, the best in bold")
    return parser


if __name__ == "__main__":
    run_main(main)
