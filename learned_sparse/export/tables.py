"""One row for each vector: Seismic's JSON lines, Qdrant points, pgvector's sparsevec, Parquet, lsr-benchmark's CSR."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.lazy import import_extra
from learned_sparse.export.documents import FIELD, HITS, Documents, Vector, json_line, numbered, write_parts

SEISMIC_LARGEST = 2048
"""Seismic holds weights as 16-bit floats, in which integers up to 2**11 are exact."""
SEISMIC_TERM = 100
"""Characters of a term of Seismic (``get_seismic_string()`` is U100); it cuts longer ones."""
SEISMIC_DIMENSIONS = 65_535
"""Distinct terms of ``SeismicIndex``; ``SeismicIndexLV`` takes more."""
PGVECTOR_NONZEROS, PGVECTOR_INDEXED = 16_000, 1_000
"""Non-zeros that a sparsevec takes (SPARSEVEC_MAX_NNZ), and that its HNSW index takes (pgvector's README)."""
PGVECTOR_SEARCH = b"""\
PREPARE search (sparsevec) AS
SELECT id, -(impacts <#> $1) AS score FROM documents WHERE impacts <#> $1 < 0
ORDER BY impacts <#> $1, id COLLATE "C" LIMIT 1000;
"""
ROW_GROUP = 10_000


def export_seismic(documents: Documents, folder: Path) -> dict[str, Any]:
    """Write ``documents.jsonl`` and ``ids.txt``."""
    check_seismic_terms(documents.terms)
    _write_seismic(documents, folder / "documents.jsonl", folder / "ids.txt")
    return {"index": "SeismicIndexLV" if len(documents.terms) > SEISMIC_DIMENSIONS else "SeismicIndex"}


def check_seismic_terms(terms: Iterable[str]) -> None:
    """Raise if Seismic would cut one of ``terms``."""
    if long := next((term for term in terms if len(term) > SEISMIC_TERM), None):
        raise LearnedSparseError(f"the term {long!r} has more than {SEISMIC_TERM} characters; Seismic would cut it")


def seismic_queries(queries: Mapping[str, Vector], folder: Path, terms: Sequence[str]) -> None:  # noqa: ARG001
    """Write ``queries.jsonl`` and ``query-ids.txt``."""
    _write_seismic(queries.items(), folder / "queries.jsonl", folder / "query-ids.txt")


def _write_seismic(vectors: Iterable[tuple[str, Vector]], path: Path, ids_path: Path) -> None:
    with path.open("xb") as lines, ids_path.open("xb") as ids:
        for number, (name, vector) in enumerate(vectors):
            lines.write(json_line({"id": number, "content": "", "vector": vector}))
            ids.write(f"{name}\n".encode())


def export_qdrant(documents: Documents, folder: Path) -> None:
    """Write ``collection.json`` and ``points-*.json``."""
    (folder / "collection.json").write_bytes(json_line({"vectors": {}, "sparse_vectors": {FIELD: {}}}))
    points = (
        orjson.dumps(
            {
                "id": number,
                "vector": {FIELD: {"indices": terms, "values": impacts}} if terms else {},
                "payload": {"id": name},
            }
        )
        for number, (name, terms, impacts) in enumerate(numbered(documents, documents.terms))
    )
    write_parts(folder, "points.json", points, before=b'{"points":[', after=b"]}\n")


def qdrant_queries(queries: Mapping[str, Vector], folder: Path, terms: Sequence[str]) -> None:
    """Write the bodies of Qdrant's universal query interface."""
    with (folder / "queries.jsonl").open("xb") as file:
        for name, numbers, impacts in numbered(queries.items(), terms):
            query = {"indices": numbers, "values": impacts}
            body = {"query": query, "using": FIELD, "limit": HITS, "with_payload": True}
            file.write(json_line({"id": name, "body": body}))


def export_pgvector(documents: Documents, folder: Path) -> None:
    """Write ``schema.sql``, ``documents-*.tsv`` for COPY, and ``index.sql`` if all documents fit into an index."""
    most, dimensions = documents.most_terms, len(documents.terms)
    if most > PGVECTOR_NONZEROS:
        raise LearnedSparseError(
            f"a document has {most:,} terms, a sparsevec at most {PGVECTOR_NONZEROS:,}; encode with --top-k"
        )
    schema = f"CREATE TABLE documents (id text PRIMARY KEY, {FIELD} sparsevec({dimensions}) NOT NULL);\n"
    (folder / "schema.sql").write_bytes(f"CREATE EXTENSION IF NOT EXISTS vector;\n{schema}".encode())
    if most <= PGVECTOR_INDEXED:
        (folder / "index.sql").write_text(f"CREATE INDEX ON documents USING hnsw ({FIELD} sparsevec_ip_ops);\n")
    rows = (  # the text format of COPY; an id has no white space
        "{}\t{}\n".format(name.replace("\\", "\\\\"), sparsevec(numbers, impacts, dimensions)).encode()
        for name, numbers, impacts in numbered(documents, documents.terms)
    )
    write_parts(folder, "documents.tsv", rows)


def pgvector_queries(queries: Mapping[str, Vector], folder: Path, terms: Sequence[str]) -> None:
    """Write ``queries.sql``. ``<#>`` is the negative inner product."""
    with (folder / "queries.sql").open("xb") as file:
        file.write(PGVECTOR_SEARCH)
        for name, numbers, impacts in numbered(queries.items(), terms):
            file.write(f"EXECUTE search ('{sparsevec(numbers, impacts, len(terms))}'); -- {name}\n".encode())


def sparsevec(numbers: Sequence[int], impacts: Sequence[int], dimensions: int) -> str:
    """Text form of a sparsevec: ``{index:value,...}/dimensions``, indices from 1.

    >>> sparsevec([0, 4], [3, 200], 5)
    '{1:3,5:200}/5'
    """
    entries = ",".join(f"{number + 1}:{impact}" for number, impact in zip(numbers, impacts, strict=True))
    return f"{{{entries}}}/{dimensions}"


def export_parquet(documents: Documents, folder: Path) -> None:
    """Write ``documents.parquet``."""
    _write_parquet(folder / "documents.parquet", numbered(documents, documents.terms))


def parquet_queries(queries: Mapping[str, Vector], folder: Path, terms: Sequence[str]) -> None:
    """Write ``queries.parquet``."""
    _write_parquet(folder / "queries.parquet", numbered(queries.items(), terms))


def _write_parquet(path: Path, rows: Iterator[tuple[str, list[int], list[int]]]) -> None:
    pa, parquet = import_extra("pyarrow", "parquet"), import_extra("pyarrow.parquet", "parquet")
    numbers = pa.list_(pa.int32())
    schema = pa.schema([("id", pa.string()), ("terms", numbers), ("impacts", numbers)])
    with parquet.ParquetWriter(path, schema) as file:
        while chunk := list(itertools.islice(rows, ROW_GROUP)):
            file.write_batch(pa.record_batch(list(map(list, zip(*chunk, strict=True))), schema=schema))


def export_arrays(documents: Documents, folder: Path) -> None:
    """Write a matrix in CSR form, ``doc/doc-embeddings.npz``, and ``doc/doc-ids.txt``; 16 bytes of memory per posting.

    The loader of lsr-benchmark reads term numbers as text; ours are those of ``vocabulary.txt``.
    """
    _write_arrays(folder / "doc", numbered(documents, documents.terms))


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
