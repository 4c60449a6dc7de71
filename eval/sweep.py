"""``python -m eval.sweep``: measures of a trained model under every combination of settings that can be changed."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.costs import Sparsity, count_terms, sparsity_of
from eval.measures import evaluate, parse_measure
from eval.runs import add_collection_options, add_expanded_option, check_expanded, load_split
from eval.tables import Cell, Column, format_table
from learned_sparse.collections.collection import Collection
from learned_sparse.collections.documents import add_bad_line_option
from learned_sparse.collections.trec import write_run
from learned_sparse.core.encoder import Encoder, default_checkpoint, load_encoder
from learned_sparse.core.errors import LearnedSparseError, progress_bar, run_main
from learned_sparse.core.files import write_json
from learned_sparse.core.records import Query
from learned_sparse.core.settings import CommandParser, positive, read_yaml_text
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
Changes = Mapping[str, Any]
"""Setting → value."""
Impacts = Mapping[str, Mapping[str, int]]
"""Query id → ``{term: impact}``."""
_DESCRIBED = ("architecture", "settings", "weights_sha256", "max_length", "dtype")


@dataclass(frozen=True, kw_only=True)
class Row:
    """Result of one combination of settings."""

    settings: Changes
    stored: bool
    """Whether these settings are those stored in the checkpoint."""
    scores: Mapping[str, float]
    sparsity: Sparsity


def main(argv: list[str] | None = None) -> int:
    """Measure every combination and print a table; write runs and JSON if asked for."""
    options = _parser().parse_args(argv)
    settings = read_settings(options.set)
    collection, split = load_split(options)
    measures = tuple(options.measures or collection.split(split).measures)
    for measure in measures:
        parse_measure(measure)
    sweep = Sweep(
        checkpoint=options.checkpoint or default_checkpoint(options.model),
        collection=collection,
        split=split,
        measures=measures,
        hits=options.hits,
        runs=options.runs,
        encoder_options={"device": options.device, "dtype": options.dtype, "batch_size": options.batch_size},
    )
    rows = sweep.run(combinations(settings))
    print(sweep_table(rows, markdown=options.markdown))
    if options.output:
        facts = {"collection": collection.name, "split": split, "hits": options.hits, "versions": versions()}
        content = {**sweep.description(), **facts, "rows": [dataclasses.asdict(row) for row in rows]}
        write_json(options.output, content)
        print(f"written: {options.output}")
    return 0


@dataclass(kw_only=True)
class Sweep:
    """A model, and the split of a collection on which it is measured."""

    checkpoint: str
    collection: Collection
    split: str
    measures: tuple[str, ...]
    hits: int
    """Documents per query."""
    runs: Path | None = None
    """Folder for the run of each combination."""
    encoder_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Options of ``load_encoder``: ``device``, ``dtype``, ``batch_size``."""

    def __post_init__(self) -> None:
        self._document_encoder = self._load({})
        check_expanded(self.collection, self._document_encoder)
        if self._document_encoder.description.get("scoring", "impact") != "impact":
            raise LearnedSparseError(f"{self.checkpoint}: scored by BM25; only models scored by impacts can be swept")

    def description(self) -> dict[str, Any]:
        """What determines the vectors besides the changed settings, as JSON values."""
        description = self._document_encoder.description
        return {"checkpoint": self.checkpoint, **{key: description.get(key) for key in _DESCRIBED}}

    def run(self, all_changes: Sequence[Changes]) -> list[Row]:
        """One row per combination, in the same order; one set of document vectors is in memory at a time."""
        queries = self.collection.queries(self.split)
        encoded = [self._encode_queries(changes, queries) for changes in all_changes]
        groups: dict[str, list[int]] = {}
        for number, changes in enumerate(all_changes):
            groups.setdefault(repr(self._document_changes(changes)), []).append(number)
        rows: dict[int, Row] = {}
        for group in groups.values():
            rows |= zip(group, self._measure([(all_changes[number], encoded[number]) for number in group]), strict=True)
        return [rows[number] for number in range(len(all_changes))]

    def _measure(self, group: Sequence[tuple[Changes, Impacts]]) -> list[Row]:
        """Rows of combinations with equal document vectors, from their settings and encoded queries."""
        encoder = self._load(self._document_changes(group[0][0]))
        with tempfile.TemporaryDirectory(prefix="learned-sparse-") as folder:
            total = self.collection.description.documents
            with progress_bar(None, self.collection.name, "documents", total) as progress:
                write_vectors(folder, self.collection.documents(), encoder, progress=progress.update)
            searcher = ExactSearcher.load(folder)
            documents = count_terms(vector for _, vector in read_vectors(folder))
        settings = self._document_encoder.description.get("settings", {})
        rows = []
        split = self.collection.split(self.split)
        for changes, queries in group:
            run = searcher.search_batch(queries, self.hits)
            self._write_run(changes, run)
            scores = evaluate(run, self.collection.qrels(self.split), self.measures, remove_query=split.remove_query)
            rows.append(
                Row(
                    settings=changes,
                    stored=all(settings.get(key) == value for key, value in changes.items()),
                    scores=scores.mean,
                    sparsity=sparsity_of(documents, count_terms(queries.values())),
                )
            )
        return rows

    def _write_run(self, changes: Changes, run: Mapping[str, Sequence[tuple[str, float]]]) -> None:
        if self.runs:
            name = ",".join(f"{key}={format_value(value)}" for key, value in changes.items()).replace(" ", "-")
            write_run(self.runs / f"{name}.txt", run, name)

    def _encode_queries(self, changes: Changes, queries: Sequence[Query]) -> Impacts:
        """Loading the encoder also checks the settings."""
        encoder = QueryEncoder(self.checkpoint, settings=changes, **self.encoder_options)
        impacts = encoder.encode_batch([query.text for query in queries])
        return {query.id: vector for query, vector in zip(queries, impacts, strict=True)}

    def _document_changes(self, changes: Changes) -> dict[str, Any]:
        query_only = self._document_encoder.query_only_settings
        return {key: value for key, value in changes.items() if key not in query_only}

    def _load(self, changes: Changes) -> Encoder:
        return load_encoder(self.checkpoint, "document", settings=changes, **self.encoder_options)


def read_settings(arguments: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """``{setting: values}`` of arguments ``KEY=VALUE,VALUE,...``; values are YAML, so lists have brackets.

    >>> read_settings(["k=2,5,null", "layers=[2, 4],[12]", "normalize=bucket,none"])
    {'k': (2, 5, None), 'layers': ([2, 4], [12]), 'normalize': ('bucket', 'none')}
    """
    settings: dict[str, tuple[Any, ...]] = {}
    for argument in arguments:
        key, equals, text = argument.partition("=")
        key = key.strip()
        if not (equals and key and text.strip()):
            raise LearnedSparseError(f"--set {argument}: expected KEY=VALUE,VALUE,..., for instance k=2,5,10")
        values = read_yaml_text(f"[{text}]", f"--set {argument}")
        if key in settings:
            raise LearnedSparseError(f"--set {key}: given twice; give all its values in one --set")
        settings[key] = tuple(values)
    return settings


def combinations(settings: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All combinations of one value per setting; the last setting changes fastest.

    >>> combinations({"alpha": (0, 1), "k": (2, 5)})
    [{'alpha': 0, 'k': 2}, {'alpha': 0, 'k': 5}, {'alpha': 1, 'k': 2}, {'alpha': 1, 'k': 5}]
    """
    return [dict(zip(settings, values, strict=True)) for values in itertools.product(*settings.values())]


def format_value(value: Any) -> str:
    """A value as text for tables and file names.

    >>> format_value(0.5), format_value(None), format_value([2, 4]), format_value(True)
    ('0.5', 'none', '2 4', 'true')
    """
    if isinstance(value, list | tuple):
        return " ".join(map(format_value, value)) or "nothing"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return str(value)


def sweep_table(rows: Sequence[Row], *, markdown: bool = False) -> str:
    """Settings, measures, FLOPS and terms per text; a star marks the settings stored in the checkpoint."""
    keys = list(rows[0].settings)
    columns = [
        *(Column(key) for key in keys),
        *(Column(measure, best="highest") for measure in rows[0].scores),
        *(Column("FLOPS", best="lowest"), Column("terms/document", 1), Column("terms/query", 1), Column("stored")),
    ]
    cells: list[list[Cell]] = []
    for row in rows:
        sparsity = row.sparsity
        measured: list[Cell] = [*row.scores.values(), sparsity.flops, sparsity.documents.mean, sparsity.queries.mean]
        cells.append([*(format_value(row.settings[key]) for key in keys), *measured, "*" if row.stored else ""])
    return format_table(columns, cells, markdown=markdown)


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
    add("--runs", type=Path, metavar="DIR", help="write each run there, as k=5,alpha=0.1.txt")
    add("--output", type=Path, metavar="FILE", help="also write everything as JSON")
    add("--markdown", action="store_true", help="print a Markdown table, the best value in bold")
    return parser


if __name__ == "__main__":
    run_main(main)
