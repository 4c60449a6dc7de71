"""Mining: exact search in blocks, on several processes; and the negatives of stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
import torch

from encoders.training.examples import JudgedExamples, best_documents
from encoders.training.files import TeacherScores
from encoders.training.recipe import Negatives
from learned_sparse.collections.topics import Query
from learned_sparse.collections.trec import ranked
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError
from tests.encoders.training.conftest import Recipes, Trained

QUERIES = [Query(f"q{number}", f"query {number}") for number in range(7)]


class Texts:
    """Texts with sparse vectors of small whole numbers, so that many scores are equal."""

    def __init__(self, documents: int) -> None:
        generator = np.random.default_rng(5)
        ids = [f"d{number}" for number in generator.permutation(documents)]
        self.pool = {id: f"text of {id}" for id in ids}
        sizes = {"query": len(QUERIES), "document": documents}
        self._vectors = {
            side: generator.integers(0, 3, (size, 12)) * (generator.random((size, 12)) < 0.4)
            for side, size in sizes.items()
        }
        self._rows = {text: row for row, text in enumerate(self.pool[id] for id in ids)}
        self._rows |= {query.text: row for row, query in enumerate(QUERIES)}
        self.encoded: list[str] = []

    def encode(self, side: Side, texts: Any) -> Any:
        self.encoded += texts if side == "document" else []
        rows = self._vectors[side][[self._rows[text] for text in texts]]
        return scipy.sparse.csr_array(rows.astype(np.float32))

    def expected(self, depth: int) -> dict[str, list[tuple[str, float]]]:
        """All dot products, sorted."""
        scores = (self._vectors["query"] @ self._vectors["document"].T).tolist()
        return {
            query.id: ranked([hit for hit in zip(self.pool, row, strict=True) if hit[1] > 0])[:depth]
            for query, row in zip(QUERIES, scores, strict=True)
        }


@pytest.mark.parametrize("block", [1, 7, 100])
@pytest.mark.parametrize("depth", [1, 5, 60])
@pytest.mark.parametrize("device", [None, torch.device("cpu")])  # by scipy, and as on a GPU
def test_hits_are_those_of_all_dot_products(block: int, depth: int, device: torch.device | None) -> None:
    texts = Texts(50)
    hits = best_documents(texts.encode, QUERIES, texts.pool, depth, block=block, device=device)
    assert hits == texts.expected(depth)


def test_several_processes_find_the_same() -> None:
    texts, parts = Texts(50), list[npt.NDArray[Any]]()

    def search(process: int, gather: Any) -> Any:
        return best_documents(
            texts.encode, QUERIES, texts.pool, 6, process=process, processes=3, gather=gather, block=4
        )

    def collected(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        parts.append(array.copy())
        return array

    for process in range(3):
        search(process, collected)
    assert len(texts.encoded) == 50  # each document once
    assert all(search(process, lambda _: np.concatenate(parts)) == texts.expected(6) for process in range(3))


TEXTS = {f"d{number}": f"text {number}" for number in range(40)}
FIRST = [f"d{number}" for number in range(1, 11)]


def test_negatives_near_the_positive_are_left_out(tmp_path: Path) -> None:
    lines = ["q d0 10", *(f"q {id} {10 - number}" for number, id in enumerate(FIRST))]
    (tmp_path / "scores.tsv").write_text("\n".join(lines), encoding="utf-8")
    examples = JudgedExamples({"q": "query"}, {"q": ["d0"]}, TEXTS, TeacherScores(tmp_path / "scores.tsv"))
    examples.settings, examples.candidates = Negatives(per_query=7, margin=3.0), {"q": " ".join(FIRST)}
    example = examples.get(0, np.random.default_rng(0))
    assert sorted(example.scores[1:]) == [1, 2, 3, 4, 5, 6, 7]
    with pytest.raises(LearnedSparseError, match="margin needs a teacher's scores"):
        JudgedExamples({"q": "query"}, {"q": ["d0"]}, TEXTS).draw_by(Negatives(margin=1.0))


def test_another_checkpoint_can_search_the_negatives(
    tiny_recipe: Recipes, tiny_collection: Path, trained: Trained
) -> None:
    first = trained(tiny_recipe({"steps": 3}), "first")
    negatives = {"kind": "checkpoint", "checkpoint": str(first.folder), "ranks": [1, 5]}
    run = trained(tiny_recipe({"steps": 3}, data=[{"collection": str(tiny_collection)}], negatives=negatives), "second")
    (mined,) = (run.folder / "training").glob("mined-*")
    assert len(mined.read_text(encoding="utf-8").splitlines()) == 30 * 6
    assert run.logged("mined queries") == [30]
