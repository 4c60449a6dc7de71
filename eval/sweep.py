"""``python -m eval.sweep``: measures of a trained model under every combination of settings that can be changed."""

from __future__ import annotations

import argparse
import functools
import itertools
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.costs import TermCounts, count_terms, expected_flops
from eval.measures import evaluate, parse_measure
from eval.runs import add_collection_options, add_expanded_option, check_expanded, load_split
from eval.tables import Cell, Column, format_table
from learned_sparse.collections.collection import Collection
from learned_sparse.collections.documents import add_bad_line_option
from learned_sparse.core.encoder import Encoder, default_checkpoint, load_encoder
from learned_sparse.core.errors import LearnedSparseError, progress_bar, run_main
from learned_sparse.core.files import write_json
from learned_sparse.core.settings import CommandParser, parse_changes, positive
from learned_sparse.encode.pipeline import write_vectors
from learned_sparse.jsonvector.manifest import versions
from learned_sparse.jsonvector.reader import read_vectors
from learned_sparse.search.exact_searcher import ExactSearcher
from learned_sparse.search.query_encoder import QueryEncoder

EPILOG = """\
Impacts, scores and measures are those of learned_sparse.encode --set, index, search and eval.evaluate; the search is
exact and in memory. Documents are encoded once for all combinations that differ only in settings of queries. All
settings are checked before any document is encoded.

examples:
  python -m eval.sweep --model spade --collection pydoc --split dev --set alpha=0,0.25,0.5,0.75,1 --set k=5,10
  python -m eval.sweep --model uhd-bert --collection pydoc --split dev --set query_k=50,100,200,null --output FILE
"""
_DESCRIBED = ("architecture", "settings", "weights_sha256", "max_length", "dtype")
Row = dict[str, Any]
"""Result of one combination: ``settings``, ``scores``, ``costs``, and ``stored``: whether the checkpoint has them."""


def main(argv: list[str] | None = None) -> int:
    """Measure every combination and print a table, stored settings with a star; write JSON if asked for."""
    options = _parser().parse_args(argv)
    all_changes = combinations(read_settings(options.set))
    collection, split = load_split(options)
    measures = tuple(options.measures or collection.split(split).measures)
    for measure in measures:
        parse_measure(measure)
    checkpoint = options.checkpoint or default_checkpoint(options.model)
    described, rows = sweep(
        checkpoint, collection, split, all_changes, measures=measures, hits=options.hits,
        device=options.device, dtype=options.dtype, batch_size=options.batch_size,
    )  # fmt: skip
    columns = [*rows[0]["settings"], *rows[0]["scores"], "FLOPS"]
    columns += [Column("terms/document", 1), Column("terms/query", 1), "stored"]
    cells: list[list[Cell]] = []
    for row in rows:
        measured: list[Cell] = [*row["scores"].values(), *row["costs"].values()]
        cells.append([*map(format_value, row["settings"].values()), *measured, "*" if row["stored"] else ""])
    print(format_table(columns, cells))
    if options.output:
        facts = {"collection": collection.name, "split": split, "hits": options.hits, "versions": versions()}
        content = {"checkpoint": checkpoint, **described, **facts, "rows": rows}
        write_json(options.output, content)
        print(f"written: {options.output}")
    return 0


def sweep(
    checkpoint: str, collection: Collection, split: str, all_changes: Sequence[Mapping[str, Any]], *,
    measures: Sequence[str], hits: int, **encoder_options: Any,
) -> tuple[dict[str, Any], list[Row]]:  # fmt: skip
    """What determines the vectors besides the changed settings, and a row for each combination in the same order.

    Documents are encoded once for all combinations that differ only in settings of queries, and one set of their
    vectors is in memory at a time. ``hits``: documents a query.
    """
    load = functools.partial(load_encoder, checkpoint, "document", **encoder_options)
    stored = load(settings={})
    check_expanded(collection, stored)
    if stored.description.get("scoring", "impact") != "impact":
        raise LearnedSparseError(f"{checkpoint}: scored by BM25; only models scored by impacts can be swept")
    queries, encoded = collection.queries(split), []
    groups: dict[str, tuple[dict[str, Any], list[int]]] = {}
    for number, changes in enumerate(all_changes):
        encoder = QueryEncoder(checkpoint, settings=changes, **encoder_options)  # checks the settings, too
        impacts = encoder.encode_batch([query.text for query in queries])
        encoded.append({query.id: vector for query, vector in zip(queries, impacts, strict=True)})
        of_documents = {key: value for key, value in changes.items() if key not in stored.query_only_settings}
        groups.setdefault(repr(of_documents), (of_documents, []))[1].append(number)
    qrels, remove_query = collection.qrels(split), collection.split(split).remove_query
    settings, rows = stored.description.get("settings", {}), {}
    for of_documents, group in groups.values():
        searcher, documents = _encode(collection, load(settings=of_documents))
        for number in group:
            changes = all_changes[number]
            run = searcher.search_batch(encoded[number], hits)
            asked = count_terms(encoded[number].values())
            rows[number] = {
                "settings": changes,
                "stored": all(settings.get(key) == value for key, value in changes.items()),
                "scores": evaluate(run, qrels, measures, remove_query=remove_query).mean,
                "costs": {
                    "FLOPS": expected_flops(documents, asked),
                    "terms/document": documents.postings / max(1, documents.texts),
                    "terms/query": asked.postings / max(1, asked.texts),
                },
            }
        del searcher  # before the next set of vectors is read
    described = {key: stored.description.get(key) for key in _DESCRIBED}
    return described, [rows[number] for number in range(len(all_changes))]


def _encode(collection: Collection, encoder: Encoder) -> tuple[ExactSearcher, TermCounts]:
    """A searcher in memory of all documents, and the counts of their terms."""
    with tempfile.TemporaryDirectory(prefix="learned-sparse-") as folder:
        with progress_bar(None, collection.name, "documents", collection.description.documents) as progress:
            write_vectors(folder, collection.documents(), encoder, progress=progress.update)
        return ExactSearcher.load(folder), count_terms(vector for _, vector in read_vectors(folder))


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
    """A value as text for tables.

    >>> format_value(0.5), format_value(None), format_value([2, 4]), format_value(True)
    ('0.5', 'none', '2 4', 'true')
    """
    if isinstance(value, list | tuple):
        return " ".join(map(format_value, value)) or "nothing"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return str(value)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="python -m eval.sweep",
        description="Measure a trained model under every combination of settings that can be changed.",
        epilog=EPILOG,
    )
    add = parser.add_argument
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--checkpoint", metavar="DIR|HUB_ID", help="the model")
    model.add_argument("--model", metavar="NAME", help="the model of that name in the home folder, or a published one")
    add_collection_options(parser, required=True)
    add_expanded_option(parser)
    add_bad_line_option(add)
    add("--set", action="append", required=True, metavar="KEY=V,V,...", help="a setting and its values; repeatable")
    add("--measures", nargs="+", metavar="M", help="for instance MRR@10 R@1000 (default: the split's)")
    add("--hits", type=positive, default=1000, metavar="N", help="documents per query (default: %(default)s)")
    add("--device", help="cpu, cuda, ... (default: a GPU if there is one)")
    add("--dtype", help="fp32, bf16 or fp16 (default: $LEARNED_SPARSE_DTYPE, else the fastest; of queries fp32)")
    add("--batch-size", metavar="N|Nt", help="texts (32) or tokens (4096t) per forward pass")
    add("--output", type=Path, metavar="FILE", help="also write everything as JSON")
    return parser


if __name__ == "__main__":
    run_main(main)
