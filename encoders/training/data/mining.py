"""Hard negatives: from a TREC run, from BM25 in Lucene, or from the model being trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from encoders.training.data.examples import JudgedExamples
from encoders.training.data.texts import TextStore, text_key
from encoders.training.recipe import Negatives
from learned_sparse.collections import read_run, write_run
from learned_sparse.core import EXPANDED, Document, LearnedSparseError, Query, read_json, write_json

Ranking = Sequence[tuple[str, float]]


def hard_negatives(
    run: Mapping[str, Ranking], examples: JudgedExamples, negatives: Negatives, *, where: str
) -> dict[str, list[str]]:
    """Candidates per query: ranks ``first_rank`` to ``last_rank`` of the run, counted from 1.

    Positives, and documents with the text of one, are left out. ``where`` opens the message about an unknown document.
    """
    found = {}
    for query, positives in examples.positives.items():
        relevant = {text_key(examples.texts[id]) for id in positives}
        ids = [id for id, _ in run.get(query, ())][negatives.first_rank - 1 : negatives.last_rank]
        for id in ids:
            if id not in examples.texts:
                raise LearnedSparseError(f"{where}: document {id!r} is not in the training collection")
        found[query] = [id for id in ids if text_key(examples.texts[id]) not in relevant]
    return found


def run_of(path: Path) -> Mapping[str, Ranking]:
    """A TREC run as query id → ranking, best first."""
    return read_run(path)


def bm25_run(examples: JudgedExamples, depth: int, *, run: Path, index: Path) -> Mapping[str, Ranking]:
    """The training queries searched by BM25 (Lucene, k1 = 0.9, b = 0.4), written to ``run`` for next time.

    Documents are searched without what expands them, whoever is trained: hard negatives are the same for all models.

    A note beside the run remembers the texts it was made from; another collection under the same name is searched anew.
    """
    note = run.with_suffix(".json")
    made_from = {"examples": examples.fingerprint, "depth": depth}
    if not (run.exists() and note.exists() and read_json(note) == made_from):
        from learned_sparse.index import build_bm25_index
        from learned_sparse.lucene import search_bm25

        own = (Document(id, examples.texts[id].partition(EXPANDED)[0]) for id in examples.texts.ids)
        build_bm25_index(own, index, overwrite=True)
        queries = [Query(id, examples.queries[id]) for id in examples.positives]
        note.unlink(missing_ok=True)
        write_run(run, search_bm25(index, queries, depth), "bm25")
        write_json(note, made_from)
    return read_run(run)


def drawn(ids: Iterable[str], count: int | None, always: Iterable[str], seed: Sequence[int]) -> list[str]:
    """``count`` ids drawn at random (None: all) and those ``always`` wanted, in the order of ``ids``."""
    everything = list(ids)
    if count is None or count >= len(everything):
        return everything
    rng = np.random.default_rng(seed)
    kept = {everything[int(place)] for place in rng.choice(len(everything), size=count, replace=False)} | set(always)
    return [id for id in everything if id in kept]


def search_pool(examples: JudgedExamples, negatives: Negatives, seed: Sequence[int]) -> tuple[list[Query], TextStore]:
    """The queries and documents ``self`` mining searches: drawn anew for every ``seed``."""
    chosen = drawn(examples.positives, negatives.queries, (), seed)
    wanted = [id for query in chosen for id in examples.positives[query]]
    pool = drawn(examples.texts.ids, negatives.pool, wanted, seed)
    return [Query(id, examples.queries[id]) for id in chosen], TextStore(examples.texts, keep=set(pool))
