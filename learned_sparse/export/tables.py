"""One row for each vector: Seismic's JSON lines, Qdrant points, pgvector's sparsevec, Parquet."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from learned_sparse.core import LearnedSparseError
from learned_sparse.export.source import Layout, Parts, Source, Vector, Written

FIELD = "impacts"
VOCABULARY = "vocabulary.txt"
HITS = 1000
SEISMIC_LARGEST = 2048
"""Seismic holds weights as 16-bit floats, in which integers up to 2**11 are exact."""
SEISMIC_TERM = 100
"""Characters of a term of Seismic (``get_seismic_string()`` is U100); it cuts longer ones."""
SEISMIC_DIMENSIONS = 65_535
"""Distinct terms of ``SeismicIndex``; ``SeismicIndexLV`` takes more."""
FLOAT_LARGEST = 2**24
"""Integers up to this one are exact as 32-bit floats."""
PGVECTOR_NONZEROS, PGVECTOR_INDEXED = 16_000, 1_000
"""Non-zeros that a sparsevec takes (SPARSEVEC_MAX_NNZ), and that its HNSW index takes (pgvector's README)."""
PGVECTOR_SEARCH = b"""\
PREPARE search (sparsevec) AS
SELECT id, -(impacts <#> $1) AS score FROM documents WHERE impacts <#> $1 < 0
ORDER BY impacts <#> $1, id COLLATE "C" LIMIT 1000;
"""
ROW_GROUP = 10_000

SEISMIC_USAGE = """\
In Python, with pip install pyseismic-lsr:
  seismic.SeismicIndex.build("documents.jsonl")    SeismicIndexLV if "index" in export.json says so
documents.jsonl, queries.jsonl: {"id", "content", "vector"}. Seismic's ids are integers: line N of ids.txt has the id of
document N, line N of query-ids.txt that of query N (from 0). Seismic is approximate: state its recall with its speed.
"""
QDRANT_USAGE = """\
curl -X PUT SERVER/collections/NAME -H 'Content-Type: application/json' --data-binary @collection.json
for FILE in points-*.json; do
  curl -X PUT "SERVER/collections/NAME/points?wait=true" -H 'Content-Type: application/json' --data-binary @$FILE
done
queries.jsonl: {"id", "body"}; send each body to SERVER/collections/NAME/points/query. The payload has the id of the
document. Indices are line numbers in vocabulary.txt (from 0).
"""
PGVECTOR_USAGE = """\
psql --file schema.sql
for FILE in documents-*.tsv; do
  psql --command "\\\\copy documents FROM '$FILE'"
done
psql --file index.sql    approximate (HNSW); without it, PostgreSQL compares all rows and results are exact
queries.sql: PREPARE search (sparsevec), then EXECUTE search (...) for each query. Indices of a sparsevec are line
numbers in vocabulary.txt, from 1.
"""
PARQUET_USAGE = """\
documents.parquet, queries.parquet: id (string), terms (list of int32, ascending), impacts (list of int32).
A term is its line number in vocabulary.txt (from 0).
"""


def export_seismic(source: Source, folder: Path, layout: Layout) -> Written:  # noqa: ARG001
    """Write ``documents.jsonl`` and ``ids.txt``."""
    if long := [term for term in source.contents.terms if len(term) > SEISMIC_TERM]:
        raise LearnedSparseError(f"the term {long[0]!r} has more than {SEISMIC_TERM} characters; Seismic would cut it")
    large = len(source.contents.terms) > SEISMIC_DIMENSIONS
    written = _write_seismic(source.documents(), folder / "documents.jsonl", folder / "ids.txt")
    return replace(written, facts={"index": "SeismicIndexLV" if large else "SeismicIndex"})


def seismic_queries(source: Source, folder: Path, layout: Layout) -> Written:  # noqa: ARG001
    """Write ``queries.jsonl`` and ``query-ids.txt``."""
    return _write_seismic(source.queries.items(), folder / "queries.jsonl", folder / "query-ids.txt")


def export_qdrant(source: Source, folder: Path, layout: Layout) -> Written:
    """Write ``collection.json`` and ``points-*.json``."""
    collection: dict[str, Any] = {"vectors": {}, "sparse_vectors": {FIELD: {}}}
    (folder / "collection.json").write_bytes(_line(collection))
    parts = Parts(folder, "points.json", layout.max_bytes, before=b'{"points":[', after=b"]}\n")
    documents = postings = 0
    for name, numbers, impacts in numbered(source.documents(), layout.terms):
        vector = {FIELD: {"indices": numbers, "values": impacts}} if numbers else {}
        parts.add(orjson.dumps({"id": documents, "vector": vector, "payload": {"id": name}}))
        documents += 1
        postings += len(numbers)
    parts.close()
    return Written(documents, postings)


def qdrant_queries(source: Source, folder: Path, layout: Layout) -> Written:
    """Write the bodies of Qdrant's universal query interface."""
    known, unknown = known_terms(source.queries, layout.terms)
    with (folder / "queries.jsonl").open("xb") as file:
        for name, numbers, impacts in numbered(known.items(), layout.terms):
            query = {"indices": numbers, "values": impacts}
            body = {"query": query, "using": FIELD, "limit": HITS, "with_payload": True}
            file.write(_line({"id": name, "body": body}))
    return queries_written(known, unknown)


def export_pgvector(source: Source, folder: Path, layout: Layout) -> Written:
    """Write ``schema.sql``, ``documents-*.tsv`` for COPY, and ``index.sql`` if all documents fit into an index."""
    most = source.contents.most_terms
    if most > PGVECTOR_NONZEROS:
        raise LearnedSparseError(
            f"a document has {most:,} terms, a sparsevec at most {PGVECTOR_NONZEROS:,}; encode with --top-k"
        )
    schema = f"CREATE TABLE documents (id text PRIMARY KEY, {FIELD} sparsevec({len(layout.terms)}) NOT NULL);\n"
    (folder / "schema.sql").write_bytes(f"CREATE EXTENSION IF NOT EXISTS vector;\n{schema}".encode())
    if most <= PGVECTOR_INDEXED:
        (folder / "index.sql").write_bytes(
            f"CREATE INDEX ON documents USING hnsw ({FIELD} sparsevec_ip_ops);\n".encode()
        )
    parts = Parts(folder, "documents.tsv", layout.max_bytes)
    documents = postings = 0
    for name, numbers, impacts in numbered(source.documents(), layout.terms):
        escaped = name.replace("\\", "\\\\")  # the text format of COPY; an id has no white space
        parts.add(f"{escaped}\t{sparsevec(numbers, impacts, len(layout.terms))}\n".encode())
        documents += 1
        postings += len(numbers)
    parts.close()
    return Written(documents, postings)


def pgvector_queries(source: Source, folder: Path, layout: Layout) -> Written:
    """Write ``queries.sql``. ``<#>`` is the negative inner product."""
    known, unknown = known_terms(source.queries, layout.terms)
    with (folder / "queries.sql").open("xb") as file:
        file.write(PGVECTOR_SEARCH)
        for name, numbers, impacts in numbered(known.items(), layout.terms):
            file.write(f"EXECUTE search ('{sparsevec(numbers, impacts, len(layout.terms))}'); -- {name}\n".encode())
    return queries_written(known, unknown)


def sparsevec(numbers: Sequence[int], impacts: Sequence[int], dimensions: int) -> str:
    """Text form of a sparsevec: ``{index:value,...}/dimensions``, indices from 1.

    >>> sparsevec([0, 4], [3, 200], 5)
    '{1:3,5:200}/5'
    """
    entries = ",".join(f"{number + 1}:{impact}" for number, impact in zip(numbers, impacts, strict=True))
    return f"{{{entries}}}/{dimensions}"


def export_parquet(source: Source, folder: Path, layout: Layout) -> Written:
    """Write ``documents.parquet``."""
    return _write_parquet(folder / "documents.parquet", numbered(source.documents(), layout.terms))


def parquet_queries(source: Source, folder: Path, layout: Layout) -> Written:
    """Write ``queries.parquet``."""
    known, unknown = known_terms(source.queries, layout.terms)
    _write_parquet(folder / "queries.parquet", numbered(known.items(), layout.terms))
    return queries_written(known, unknown)


def numbered(
    vectors: Iterable[tuple[str, Mapping[str, int]]], terms: Sequence[str]
) -> Iterator[tuple[str, list[int], list[int]]]:
    """``(id, term numbers, impacts)`` of each vector, numbers ascending.

    >>> list(numbered([("d1", {"itch": 2, "hives": 3})], ["hives", "itch"]))
    [('d1', [0, 1], [3, 2])]
    """
    number_of = {term: number for number, term in enumerate(terms)}
    for name, vector in vectors:
        if unknown := vector.keys() - number_of.keys():
            raise LearnedSparseError(f"{name!r}: the term {min(unknown)!r} is not in the vocabulary")
        pairs = sorted((number_of[term], impact) for term, impact in vector.items())
        yield name, [number for number, _ in pairs], [impact for _, impact in pairs]


def known_terms(queries: Mapping[str, Vector], terms: Iterable[str]) -> tuple[dict[str, Vector], int]:
    """The queries without terms that are not in the vocabulary, and the number of these."""
    known = set(terms)
    kept = {name: {t: impact for t, impact in query.items() if t in known} for name, query in queries.items()}
    return kept, sum(map(len, queries.values())) - sum(map(len, kept.values()))


def queries_written(queries: Mapping[str, Vector], unknown: int) -> Written:
    """Counts of ``queries``, from which ``unknown`` terms were left out."""
    return Written(len(queries), sum(map(len, queries.values())), unknown)


def _write_parquet(path: Path, rows: Iterator[tuple[str, list[int], list[int]]]) -> Written:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise LearnedSparseError(
            "Parquet files are written by pyarrow, which is not installed; pip install 'learned-sparse[parquet]'"
        ) from error
    numbers = pa.list_(pa.int32())
    schema = pa.schema([("id", pa.string()), ("terms", numbers), ("impacts", numbers)])
    documents = postings = 0
    with parquet.ParquetWriter(path, schema) as file:
        while chunk := list(itertools.islice(rows, ROW_GROUP)):
            columns = [list(column) for column in zip(*chunk, strict=True)]
            file.write_batch(pa.record_batch(columns, schema=schema))
            documents += len(chunk)
            postings += sum(len(impacts) for _, _, impacts in chunk)
    return Written(documents, postings)


def _write_seismic(vectors: Iterable[tuple[str, Vector]], path: Path, ids_path: Path) -> Written:
    documents = postings = 0
    with path.open("xb") as lines, ids_path.open("xb") as ids:
        for name, vector in vectors:
            lines.write(_line({"id": documents, "content": "", "vector": vector}))
            ids.write(f"{name}\n".encode())
            documents += 1
            postings += len(vector)
    return Written(documents, postings)


def _line(content: object) -> bytes:
    return orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE)
