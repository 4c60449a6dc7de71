"""Mining on a Ray cluster: the negatives and weights of one process, whichever worker dies."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from encoders.training import distributed
from encoders.training.data import (
    Best,
    EncodeSide,
    Rank,
    TextStore,
    best_documents,
    save_hits,
    search_block,
)
from encoders.training.distributed import ranking_with_ray
from encoders.training.session import Session
from learned_sparse.core import Document, Query, Side
from learned_sparse.distribute import Engine, Workers
from tests.encoders.training.conftest import WORDS, Recipes, Trained
from tests.learned_sparse.distribute.nodes import Nodes

BLOCK, DEPTH = 7, 5
TEXTS = [" ".join(WORDS[(number * step) % 60] for step in (1, 7, 11)) for number in range(50)]
POOL = TextStore(Document(f"d{number}", text) for number, text in enumerate(TEXTS))
QUERIES = [Query(f"q{number}", f"{text} w5") for number, text in enumerate(TEXTS[:9])]


class DeadlyOnce:
    """Encodes in a worker like the model of the training; the first worker that reads the 30th text is killed."""

    def __init__(self, deaths: Path) -> None:
        self._deaths, self._encode_side = deaths, distributed._encode_side

    def __call__(self, *arguments: Any) -> EncodeSide:
        encode = self._encode_side(*arguments)

        def encode_or_die(side: Side, texts: Sequence[str]) -> Any:
            if TEXTS[30] in texts and not self._deaths.exists():
                self._deaths.write_text("x")
                os.kill(os.getpid(), signal.SIGKILL)
            return encode(side, texts)

        return encode_or_die


def search(engine: Engine, session: Session, checkpoint: str | None, folder: Path) -> Rank:
    where = {"folder": folder / "files", "state": folder / "state.npz", "key": "key"}
    return ranking_with_ray(engine, session, session.recipe.stages[0], checkpoint, block=BLOCK, **where)  # type: ignore[arg-type]


def test_weights_are_those_of_one_process(
    nodes: Nodes, tiny_recipe: Recipes, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "_MAX_BLOCKS", 1)
    negatives = {"kind": "self", "every": 5, "last_rank": 10}
    recipe = tiny_recipe({"steps": 10}, negatives=negatives)
    one, several = trained(recipe, "one"), trained(recipe, "several", engine=nodes.engine)
    for run in (one, several):
        assert run.logged("mined queries") == [30, 30]
    mined = [(run.folder / "training" / "mined-0-0.trec").read_bytes() for run in (one, several)]
    assert mined[0] == mined[1]
    assert len(mined[0].splitlines()) > 30
    assert several.moved_since(one) == set()
    assert several.logged("loss") == one.logged("loss")
    assert not (several.folder / ".texts").exists()


def test_a_checkpoint_mines_and_a_worker_dies(
    nodes: Nodes, tiny_recipe: Recipes, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = trained(tiny_recipe({"steps": 3}), "first")
    recipe = tiny_recipe({"steps": 3})
    monkeypatch.setattr(distributed, "_encode_side", DeadlyOnce(tmp_path / "deaths"))
    session = Session(recipe, "cpu")
    expected = best_documents(session.encode_side(str(first.folder)), QUERIES, POOL, DEPTH, block=BLOCK)
    assert search(nodes.engine, session, str(first.folder), tmp_path)(QUERIES, POOL, DEPTH) == expected
    assert (tmp_path / "deaths").read_text() == "x"
    other = best_documents(session.encode_side(None), QUERIES, POOL, DEPTH, block=BLOCK)
    assert other != expected


def test_a_killed_search_goes_on(
    nodes: Nodes, tiny_recipe: Recipes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_recipe({"steps": 3})
    session = Session(recipe, "cpu")
    encode = session.encode_side(None)
    best = Best(len(QUERIES), DEPTH, POOL.ids)
    vectors = encode("query", [query.text for query in QUERIES])
    for number in (0, 3, 6):
        search_block(best, encode, vectors, POOL, number, BLOCK)
    save_hits(tmp_path / "state.npz", "key", best, {0, 3, 6})
    searched: list[int] = []
    give_out = Workers.map

    def counted(workers: Workers, method: str, tasks: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        searched.extend(number for (blocks,) in tasks for number in blocks)
        return give_out(workers, method, tasks)

    monkeypatch.setattr(Workers, "map", counted)
    engine = dataclasses.replace(nodes.engine, workers=1)
    assert search(engine, session, None, tmp_path)(QUERIES, POOL, DEPTH) == best_documents(
        encode, QUERIES, POOL, DEPTH, block=BLOCK
    )
    assert sorted(searched) == [1, 2, 4, 5, 7]
    assert sorted(tmp_path.iterdir()) == []
