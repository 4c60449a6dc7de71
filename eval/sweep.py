"""``python -m eval.sweep``: a leaderboard of one model under every combination of settings that can be changed."""

from __future__ import annotations

import argparse
import itertools
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.measures import parse_measure
from eval.reproduce import __main__ as reproduce
from eval.reproduce.matrix import Column, Matrix, Row
from eval.runs import add_expanded_option, load_split
from learned_sparse.collections.collection import data_root
from learned_sparse.collections.documents import add_bad_line_option
from learned_sparse.core.encoder import default_checkpoint, load_encoder
from learned_sparse.core.errors import run_main
from learned_sparse.core.settings import CommandParser, parse_changes, positive

EPILOG = """\
Each combination is a row of a leaderboard (eval.reproduce), so the same command goes on after it was ended. Documents
are encoded and indexed once for all combinations that differ only in settings of queries. All settings are checked
before any document is encoded. Settings that the checkpoint has itself are marked by a star.

examples:
  python -m eval.sweep --model spade --collection pydoc --split dev --set alpha=0,0.25,0.5,0.75,1 --set k=5,10
  python -m eval.sweep --model uhd-bert --collection pydoc --split dev --set query_k=50,100,200,null --output DIR
"""


def main(argv: list[str] | None = None) -> int:
    """Measure every combination, and write and print the leaderboard."""
    options = _parser().parse_args(argv)
    collection, split = load_split(options)
    for measure in options.measures:
        parse_measure(measure)
    checkpoint = options.checkpoint or default_checkpoint(options.model)
    encoder = load_encoder(checkpoint, "document", device=options.device, weights=False)
    stored, words, rows = encoder.description.get("settings", {}), list[str](), dict[str, Row]()
    for option in ("device", "batch_size"):
        words += [f"--{option.replace('_', '-')}", value] if (value := getattr(options, option)) else []
    for changes in combinations(read_settings(options.set)):
        load_encoder(checkpoint, "query", settings=changes, weights=False)  # refuses settings that cannot be changed
        of_queries = {key: value for key, value in changes.items() if key in encoder.query_only_settings}
        of_both = {key: value for key, value in changes.items() if key not in of_queries}
        name = ", ".join(f"{key}={format_value(value)}" for key, value in changes.items())
        star = " *" if all(stored.get(key) == value for key, value in changes.items()) else ""
        rows[name + star] = Row(
            checkpoint=checkpoint, encode=of_both, queries=of_queries, options=tuple(words),
            expanded=str(options.expanded or ""), expansion="queries" if options.expanded else None,
        )  # fmt: skip
    column = Column(collection=options.collection, split=split, measures=tuple(options.measures))
    matrix = Matrix(
        title=f"Settings of {options.model or checkpoint}", columns={collection.name: column}, rows=rows,
        hits=options.hits, dtype=options.dtype, on_bad_line=options.on_bad_line,
    )  # fmt: skip
    how = reproduce.parser().parse_args(["--matrix", "sweep", "--in-process", *(["--drop"] if options.drop else [])])
    typed = [word for change in options.set for word in ("--set", change)]
    command = f"python -m eval.sweep {shlex.join(typed)}"
    return reproduce.run_matrix(matrix, "sweep", data_root(), options.output, how, command=command)


def read_settings(arguments: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """``{setting: values}`` of arguments ``KEY=VALUE,VALUE,...``; values are YAML, so lists have brackets.

    >>> read_settings(["k=2,5,null", "layers=[2, 4],[12]", "normalize=bucket,none"])
    {'k': (2, 5, None), 'layers': ([2, 4], [12]), 'normalize': ('bucket', 'none')}
    """
    parts = ((key.strip(), text.strip()) for key, _, text in (argument.partition("=") for argument in arguments))
    changes = parse_changes([f"{key}={text and f'[{text}]'}" for key, text in parts])
    return {key: tuple(values) for key, values in changes.items()}


def combinations(settings: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All combinations of one value per setting; the last setting changes fastest.

    >>> combinations({"alpha": (0, 1), "k": (2, 5)})
    [{'alpha': 0, 'k': 2}, {'alpha': 0, 'k': 5}, {'alpha': 1, 'k': 2}, {'alpha': 1, 'k': 5}]
    """
    return [dict(zip(settings, values, strict=True)) for values in itertools.product(*settings.values())]


def format_value(value: Any) -> str:
    """A value as text for names of rows.

    >>> format_value(0.5), format_value(None), format_value([2, 4]), format_value(True)
    ('0.5', 'none', '2 4', 'true')
    """
    if isinstance(value, list | tuple):
        return " ".join(map(format_value, value)) or "nothing"
    return str(value).lower()


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="python -m eval.sweep", description=main.__doc__, epilog=EPILOG)
    add = parser.add_argument
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--checkpoint", metavar="DIR|HUB_ID", help="the model")
    model.add_argument("--model", metavar="NAME", help="the model of that name in the home folder, or a published one")
    add("--collection", required=True, metavar="NAME|PATH", help="a collection by name, folder or YAML file")
    add("--split", help="split of the queries (default: the only one)")
    add_expanded_option(parser)
    add_bad_line_option(add)
    add("--set", action="append", required=True, metavar="KEY=V,V,...", help="a setting and its values; repeatable")
    add("--measures", nargs="+", default=[], metavar="M", help="for instance MRR@10 R@1000 (default: the split's)")
    add("--hits", type=positive, default=1000, metavar="N", help="documents per query (default: %(default)s)")
    add("--device", help="cpu, cuda, ... (default: a GPU if there is one)")
    add("--dtype", help="fp32, bf16 or fp16 (default: $LEARNED_SPARSE_DTYPE, else the fastest; of queries fp32)")
    add("--batch-size", metavar="N|Nt", help="texts (32) or tokens (4096t) per forward pass")
    add("--output", type=Path, default=Path("results", "sweep"), metavar="DIR", help="default: %(default)s")
    add("--drop", action="store_true", help="lose the combinations that an earlier sweep wrote to the folder")
    parser.set_defaults(data=None)  # load_split reads it
    return parser


if __name__ == "__main__":
    run_main(main, "the same command goes on with the steps that are left")
