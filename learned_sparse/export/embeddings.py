"""Embeddings of lsr-benchmark (its step 2): arrays of a matrix in CSR form and a file of ids, written and read.

The folder has ``doc/doc-embeddings.npz`` with ``data``, ``indices`` and ``indptr``, ``doc/doc-ids.txt``, and the same
for ``query``. Its loader, ``lsr_benchmark.irds.embeddings``, reads term numbers as text; ours are those of
``vocabulary.txt``.
"""

from __future__ import annotations

import zipfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from learned_sparse.core import LearnedSparseError, SparseBatch, unfit_id_reason
from learned_sparse.export.documents import VOCABULARY, Documents, Vector, numbered


def export_arrays(documents: Documents, folder: Path, max_bytes: int) -> None:  # noqa: ARG001
    """Write ``doc/doc-embeddings.npz`` and ``doc/doc-ids.txt``. Memory: 16 bytes per posting."""
    _write_arrays(folder / "doc", documents.numbered())


def array_queries(queries: Mapping[str, Vector], folder: Path, terms: Sequence[str]) -> None:
    """Write ``query/query-embeddings.npz`` and ``query/query-ids.txt``."""
    _write_arrays(folder / "query", numbered(queries.items(), terms))


def read_embeddings(folder: Path, side: Literal["doc", "query"]) -> tuple[list[str], SparseBatch]:
    """Ids and weights of one side of an embedding, ours or another model's.

    Terms are those of ``vocabulary.txt`` in the folder; without that file, the numbers of the terms as text.
    """
    path, ids_path = folder / side / f"{side}-embeddings.npz", folder / side / f"{side}-ids.txt"
    for file in (path, ids_path):
        if not file.is_file():
            raise LearnedSparseError(f"{file}: no such file; give the folder of an embedding of lsr-benchmark")
    try:
        ids = ids_path.read_text(encoding="utf-8").strip().split("\n")
        with np.load(path, allow_pickle=False) as arrays:
            data, indices, indptr = (arrays[name] for name in ("data", "indices", "indptr"))
        terms = _terms(folder / VOCABULARY, int(indices.max(initial=-1)) + 1)
        batch = _checked(data, indices, indptr, len(ids), terms)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise LearnedSparseError(
            f"{path}: not the arrays of an embedding ({error}); write or download it again"
        ) from error
    first: dict[str, int] = {}
    for number, name in enumerate(ids, start=1):
        if reason := unfit_id_reason(name):
            raise LearnedSparseError(f"{ids_path}:{number}: {reason}; rename it")
        if first.setdefault(name, number) != number:
            raise LearnedSparseError(f"{ids_path}:{number}: the id {name!r} is also in line {first[name]}; rename one")
    return ids, batch


def _terms(vocabulary: Path, count: int) -> list[str]:
    if not vocabulary.is_file():
        return [str(number) for number in range(count)]
    terms = vocabulary.read_text(encoding="utf-8").split("\n")[:-1]
    if len(terms) < count:
        raise ValueError(f"term {count - 1} is not in {vocabulary.name}")
    return terms


def _checked(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, rows: int, terms: list[str]
) -> SparseBatch:  # fmt: skip
    """The arrays with the terms of each row in order; ``ValueError`` if they are no matrix with ``rows`` rows."""
    from scipy.sparse import csr_array

    if len(indptr) != rows + 1:
        raise ValueError(f"{len(indptr) - 1} rows for {rows} ids")
    matrix = csr_array((data, indices, indptr), shape=(rows, len(terms)))
    matrix.check_format(full_check=True)
    matrix.sum_duplicates()  # sorts each row
    if matrix.nnz != len(data):
        raise ValueError("a row has a term twice")
    return SparseBatch(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data, terms)


def _write_arrays(folder: Path, rows: Iterator[tuple[str, list[int], list[int]]]) -> None:
    ids: list[str] = []
    columns, values, bounds = array("i"), array("f"), array("q", [0])
    for name, numbers, impacts in rows:
        ids.append(name)
        columns.extend(numbers)
        values.extend(impacts)
        bounds.append(len(values))
    folder.mkdir()
    path = folder / f"{folder.name}-embeddings.npz"
    np.savez_compressed(path, data=np.array(values), indices=np.array(columns), indptr=np.array(bounds))
    (folder / f"{folder.name}-ids.txt").write_bytes("".join(f"{name}\n" for name in ids).encode())
