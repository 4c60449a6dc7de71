"""Embeddings of lsr-benchmark (its step 2): arrays of a matrix in CSR form and a file of ids.

The folder has ``doc/doc-embeddings.npz`` with ``data``, ``indices`` and ``indptr``, ``doc/doc-ids.txt``, and the same
for ``query``. Its loader, ``lsr_benchmark.irds.embeddings``, reads term numbers as text; ours are those of
``vocabulary.txt``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from learned_sparse.export.documents import Documents, Vector, numbered


def export_arrays(documents: Documents, folder: Path, max_bytes: int) -> None:  # noqa: ARG001
    """Write ``doc/doc-embeddings.npz`` and ``doc/doc-ids.txt``. Memory: 16 bytes per posting."""
    _write_arrays(folder / "doc", documents.numbered())


def array_queries(queries: Mapping[str, Vector], folder: Path, terms: Sequence[str]) -> None:
    """Write ``query/query-embeddings.npz`` and ``query/query-ids.txt``."""
    _write_arrays(folder / "query", numbered(queries.items(), terms))


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
