"""Every combination of settings encoded, searched and measured."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval.costs import Sparsity, TermCounts, count_terms, sparsity_of
from eval.measures import evaluate
from eval.sweep.block_search import BlockSearcher
from eval.sweep.encoding import encode_documents, encode_queries
from eval.sweep.model import SweepModel
from eval.sweep.report import Row
from eval.sweep.variants import combinations
from learned_sparse.collections import Collection, Run

Changes = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is searched, and how it is measured."""

    collection: Collection
    split: str
    measures: tuple[str, ...]
    hits: int
    """Documents of each query."""


def run_sweep(
    model: SweepModel, settings: Mapping[str, Sequence[Any]], task: Task, keep: Callable[[Changes, Run], object]
) -> list[Row]:
    """One row for each combination of ``settings``; ``keep`` is handed every run.

    Documents are encoded once for all combinations that differ in queries only.
    """
    wanted = combinations(settings)
    for changes in wanted:
        model.changed(changes)  # refuses what cannot be, before anything is encoded
    queries = task.collection.queries(task.split)
    asked = encode_queries(model.sides("query", wanted), queries, model.batch_size)
    groups: dict[str, list[int]] = {}
    for place, changes in enumerate(wanted):
        groups.setdefault(repr(model.document_changes(changes)), []).append(place)
    sides = model.sides("document", [model.document_changes(wanted[group[0]]) for group in groups.values()])
    with _progress(task.collection.name) as progress:
        ids, documents = encode_documents(sides, task.collection.documents(), model.batch_size, progress.update)
    rows: dict[int, Row] = {}
    for group, encoded in zip(groups.values(), documents, strict=True):
        searcher, counts = BlockSearcher(ids, encoded.impacts), count_terms(encoded.impacts)
        for place in group:
            run = searcher.search([query.id for query in queries], asked[place].impacts, task.hits)
            keep(wanted[place], run)
            rows[place] = Row(
                changes=wanted[place],
                own=not model.changed(wanted[place])[1],
                scores=_scores(task, run),
                sparsity=_sparsity(counts, count_terms(asked[place].impacts)),
                quantizers={"document": encoded.quantizer.to_json(), "query": asked[place].quantizer.to_json()},
            )
    return [rows[place] for place in sorted(rows)]


def _scores(task: Task, run: Run) -> Mapping[str, float]:
    split = task.collection.split(task.split)
    return evaluate(run, task.collection.qrels(task.split), task.measures, remove_query=split.remove_query).mean


def _sparsity(documents: TermCounts, queries: TermCounts) -> Sparsity:
    return sparsity_of(documents, queries)


def _progress(name: str) -> contextlib.AbstractContextManager[Any]:
    from tqdm import tqdm

    bar: contextlib.AbstractContextManager[Any] = tqdm(desc=name, unit=" documents", disable=None)
    return bar
