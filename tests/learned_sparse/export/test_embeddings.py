"""Embeddings of lsr-benchmark: what is read is what was exported, by our reader, by numpy and by its own loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from scipy.sparse import csr_array

from learned_sparse.core import LearnedSparseError
from learned_sparse.export import export_vectors, read_embeddings
from tests.learned_sparse.encoded_folder import Vectors
from tests.learned_sparse.export.collection import KNOWN, VECTORS, lines

SIDES: tuple[tuple[Literal["doc", "query"], Vectors], ...] = (("doc", VECTORS), ("query", KNOWN))


@pytest.fixture
def embedding(encoded: tuple[Path, Path], tmp_path: Path) -> Path:
    export_vectors("lsr-benchmark", tmp_path / "l", vectors=[encoded[0]], queries=encoded[1])
    return tmp_path / "l"


@pytest.mark.parametrize(("side", "vectors"), SIDES)
def test_it_is_read_back(side: Literal["doc", "query"], vectors: Vectors, embedding: Path) -> None:
    ids, batch = read_embeddings(embedding, side)
    assert {name: batch.row(row) for row, name in enumerate(ids)} == vectors
    assert ids == list(vectors)
    (embedding / "vocabulary.txt").rename(embedding / "terms.txt")  # as in embeddings of other models
    _, numbered = read_embeddings(embedding, side)
    terms = lines(embedding / "terms.txt")
    named = [{terms[int(number)]: weight for number, weight in numbered.row(row).items()} for row in range(len(ids))]
    assert named == list(vectors.values())


def test_its_own_loader(embedding: Path) -> None:
    irds: Any = pytest.importorskip("lsr_benchmark.irds", reason="lsr-benchmark is not installed")
    terms = lines(embedding / "vocabulary.txt")
    for side, vectors in SIDES:
        rows = irds.embeddings("local", str(embedding), side)  # id, term numbers as text, impacts
        read = {name: {terms[int(t)]: int(i) for t, i in zip(*row, strict=True)} for name, *row in rows}
        assert read == vectors


def save(folder: Path, ids: str = "d1\nd2\n", **changes: Any) -> Path:
    """An embedding of two documents, whose terms are not in order."""
    arrays: dict[str, Any] = {"data": [0.5, 1.5, 2.5], "indices": [7, 3, 3], "indptr": [0, 2, 3], **changes}
    (folder / "doc").mkdir(parents=True)
    np.savez(folder / "doc/doc-embeddings.npz", **arrays)
    (folder / "doc/doc-ids.txt").write_text(ids)
    return folder


def test_rows_are_put_in_order(tmp_path: Path) -> None:
    _, batch = read_embeddings(save(tmp_path / "l"), "doc")
    assert batch.indices.tolist() == [3, 7, 3]
    assert batch.row(0) == {"3": 1.5, "7": 0.5}
    expected = csr_array([[0, 0, 0, 1.5, 0, 0, 0, 0.5], [0, 0, 0, 2.5, 0, 0, 0, 0]])
    assert (batch.to_scipy() != expected).nnz == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indices": [3, 3, 3]}, r"doc-embeddings.npz: not the arrays of an embedding \(a row has a term twice\)"),
        ({"indptr": [0, 1, 2, 3]}, "3 rows for 2 ids"),
        ({"indptr": [0, 2, 9]}, "not the arrays of an embedding"),
        ({"indices": [-1, 3, 3]}, "not the arrays of an embedding"),
        ({"data": [[0.5]]}, "not the arrays of an embedding"),
        ({"ids": "d1\nd1\n"}, r"doc-ids.txt:2: the id 'd1' is also in line 1; rename one"),
        ({"ids": "d1\nd 2\n"}, r"doc-ids.txt:2: the id 'd 2' is empty or holds white space"),
    ],
)
def test_damaged_embeddings(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        read_embeddings(save(tmp_path / "l", **changes), "doc")


def test_missing_parts_of_embeddings(tmp_path: Path) -> None:
    folder = save(tmp_path / "l")
    with pytest.raises(
        LearnedSparseError, match=r"query-embeddings.npz: no such file; give the folder of an embedding"
    ):
        read_embeddings(folder, "query")
    (folder / "vocabulary.txt").write_text("one\n")
    with pytest.raises(LearnedSparseError, match=r"term 7 is not in vocabulary.txt"):
        read_embeddings(folder, "doc")
    (folder / "doc/doc-embeddings.npz").write_bytes(b"PK no zip file")
    with pytest.raises(LearnedSparseError, match=r"doc-embeddings.npz: not the arrays of an embedding"):
        read_embeddings(folder, "doc")
