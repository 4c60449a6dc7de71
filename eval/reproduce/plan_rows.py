"""The steps of one row on one column, by the kind of the row."""

from __future__ import annotations

from pathlib import Path

from eval.reproduce.matrix import Row
from eval.reproduce.matrix_file import slug
from eval.reproduce.plan import CellPlan, Step, ordered
from eval.reproduce.plan_steps import BM25, Builder, Weights, set_words
from eval.reproduce.plan_target import Target
from eval.reproduce.plan_weights import folder_name, weights_of
from learned_sparse.core import (
    LearnedSparseError,
    checkpoint_folder,
    index_folder,
    queries_folder,
    run_file,
    vectors_folder,
)

_OF_QUERIES = ("--dtype", "--device", "--revision")
"""Options of learned_sparse.encode that the query side of an index takes over from its documents."""


def cell_plan(builder: Builder, name: str, column: str, on: Target, seed: int | None) -> CellPlan:
    """Row ``name`` of the matrix on one column."""
    row = builder.matrix.rows[name]
    if row.run is not None:
        run = Path(row.run.replace("{collection}", on.name).replace("{split}", on.split))
        evaluated = builder.evaluate(slug(name), on, run, ())
        return _cell(name, column, seed, on, run, evaluated, None, None)
    if row.bm25 in {"text", "expanded"}:
        return _bm25(builder, name, column, on)
    return _learned(builder, name, column, on, seed)


def _bm25(builder: Builder, name: str, column: str, on: Target) -> CellPlan:
    row = builder.matrix.rows[name]
    if row.backend == "exact":
        raise LearnedSparseError(f"row {name!r}: BM25 over text needs Lucene; leave 'backend: exact' out")
    if row.bm25 == "text":
        called, found = BM25, builder.bm25_search(on, builder.matrix.hits)
    else:
        called = slug(name)
        file = Path(str(row.expanded).replace("{collection}", on.name))
        index = builder.expanded_index(called, on, file)
        found = builder.search(called, on, ("--index", str(index.writes[0]), "--output", _run(on, called)), (index,))
    evaluated = builder.evaluate(called, on, found.writes[0], (found,))
    costs = builder.costs(called, on, ("--index", index_folder(on.name, called)), (found,))
    return _cell(name, column, None, on, found.writes[0], evaluated, costs, None)


def _learned(builder: Builder, name: str, column: str, on: Target, seed: int | None) -> CellPlan:
    row, called = builder.matrix.rows[name], folder_name(name, seed)
    indexed = folder_name(row.index_of or name, seed)
    weights = weights_of(builder, name, seed)
    encoded = _encoded(builder, row.index_of or name, on, seed)
    searched = encoded if row.backend == "exact" else builder.index(indexed, on, encoded)
    queries = builder.encode_queries(
        called, on, _encoding(called, weights, builder, row, queries=True), weights.needs, weights.reads
    )
    words = ["--model", indexed, *set_words(row.queries)]
    words += ["--backend", "exact"] if row.backend == "exact" else []
    words += ["--output", _run(on, called)] if indexed != called else []
    found = builder.search(called, on, words, (searched,))
    evaluated = builder.evaluate(called, on, found.writes[0], (found,))
    known: list[str | Path] = ["--vectors", vectors_folder(on.name, indexed)]
    known += ["--queries", queries_folder(on.name, on.split, called)]
    known += [] if row.backend == "exact" else ["--index", index_folder(on.name, indexed)]
    costs = builder.costs(called, on, known, (found, queries))
    return _cell(name, column, seed, on, found.writes[0], evaluated, costs, weights.checkpoint)


def _encoded(builder: Builder, name: str, on: Target, seed: int | None) -> Step:
    row, called = builder.matrix.rows[name], folder_name(name, seed)
    weights = weights_of(builder, name, seed)
    words = _encoding(called, weights, builder, row, queries=False)
    return builder.encode(called, on, words, weights.needs, weights.reads, terms=weights.terms)


def _encoding(called: str, weights: Weights, builder: Builder, row: Row, *, queries: bool) -> list[str]:
    """Options of learned_sparse.encode."""
    words: list[str] = []
    if weights.checkpoint != str(checkpoint_folder(called)):
        words += ["--checkpoint", weights.checkpoint]
    if builder.matrix.dtype and "--dtype" not in row.options:
        words += ["--dtype", builder.matrix.dtype]
    if queries:
        pairs = zip(row.options, row.options[1:], strict=False)
        words += [word for pair in pairs if pair[0] in _OF_QUERIES for word in pair]
        return [*words, *set_words(row.encode | row.queries)]
    return [*words, *row.options, *set_words(row.encode)]


def _run(on: Target, called: str) -> str:
    return str(run_file(on.name, on.split, called))


def _cell(
    row: str, column: str, seed: int | None, on: Target, run: Path, evaluated: Step, costs: Step | None,
    checkpoint: str | None,
) -> CellPlan:  # fmt: skip
    last = [evaluated, *([costs] if costs else [])]
    return CellPlan(
        row=row, column=column, seed=seed, steps=tuple(ordered(last)), run=run, evaluated=evaluated.writes[0],
        costs=costs.writes[0] if costs else None, collection=on.collection, checkpoint=checkpoint,
    )  # fmt: skip
