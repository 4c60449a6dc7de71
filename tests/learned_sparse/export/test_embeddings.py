"""Embeddings of lsr-benchmark: what is read is what was exported, by numpy and by its own loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from learned_sparse.export.exporting import export_vectors
from tests.learned_sparse.encoded_folder import Vectors
from tests.learned_sparse.export.collection import KNOWN, VECTORS, lines

SIDES: tuple[tuple[str, Vectors], ...] = (("doc", VECTORS), ("query", KNOWN))


@pytest.fixture
def embedding(encoded: tuple[Path, Path], tmp_path: Path) -> Path:
    export_vectors("lsr-benchmark", tmp_path / "l", vectors=[encoded[0]], queries=encoded[1])
    return tmp_path / "l"


@pytest.mark.parametrize(("side", "vectors"), SIDES)
def test_arrays_and_ids(side: str, vectors: Vectors, embedding: Path) -> None:
    terms, ids = lines(embedding / "vocabulary.txt"), lines(embedding / side / f"{side}-ids.txt")
    arrays = np.load(embedding / side / f"{side}-embeddings.npz", allow_pickle=False)
    matrix = csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(len(ids), len(terms)))
    rows = [matrix[[row]].tocoo() for row in range(len(ids))]
    read = [{terms[t]: int(i) for t, i in zip(row.col, row.data, strict=True)} for row in rows]
    assert dict(zip(ids, read, strict=True)) == vectors


def test_its_own_loader(embedding: Path) -> None:
    irds: Any = pytest.importorskip("lsr_benchmark.irds", reason="lsr-benchmark is not installed")
    terms = lines(embedding / "vocabulary.txt")
    for side, vectors in SIDES:
        rows = irds.embeddings("local", str(embedding), side)  # id, term numbers as text, impacts
        read = {name: {terms[int(t)]: int(i) for t, i in zip(*row, strict=True)} for name, *row in rows}
        assert read == vectors
