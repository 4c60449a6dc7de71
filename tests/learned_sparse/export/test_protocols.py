"""Exports sent through the clients of OpenSearch and Elasticsearch to servers that re-implement their protocols.

osmem-server and noida-db are neither OpenSearch nor Elasticsearch: these tests show that mappings, bulk files and
queries have the form that the clients send. Neither is in the extra dev.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.export import export_vectors
from tests.learned_sparse.encoded_folder import dot_products
from tests.learned_sparse.export.collection import QUERIES, VECTORS


def load(client: Any, folder: Path, mapping: dict[str, Any]) -> None:
    client.indices.create(index="documents", body=mapping)
    for file in sorted(folder.glob("bulk-*.ndjson")):
        assert not client.bulk(index="documents", body=file.read_text("utf-8"))["errors"]
    client.indices.refresh(index="documents")
    assert client.count(index="documents")["count"] == len(VECTORS)


def check_hits(client: Any, path: Path) -> None:
    bodies = {line["id"]: line["body"] for line in map(json.loads, path.read_bytes().splitlines())}
    assert list(bodies) == list(QUERIES)
    for name, body in bodies.items():
        hits = client.search(index="documents", body=body)["hits"]["hits"]
        assert [(hit["_source"]["id"], hit["_score"]) for hit in hits] == dot_products(QUERIES[name], VECTORS)


def test_opensearch_client(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    """The queries without a plug-in; osmem-server has no neural_sparse."""
    osmem: Any = pytest.importorskip("osmem_server", reason="osmem-server is not installed")
    opensearch: Any = pytest.importorskip("opensearchpy", reason="opensearch-py is not installed")
    export_vectors("opensearch", tmp_path / "o", vectors=[encoded[0]], queries=encoded[1], max_bytes=9_000)
    with osmem.OsmemServer.start() as server, server.clone() as clone:
        client = opensearch.OpenSearch(hosts=[clone.url])
        load(client, tmp_path / "o", json.loads((tmp_path / "o/mapping.json").read_bytes()))
        check_hits(client, tmp_path / "o/queries-rank-feature.jsonl")


def test_elasticsearch_client(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    """noida-db speaks for Elasticsearch 8.15, which refuses "index_options"; USAGE.txt says to delete it there."""
    noida: Any = pytest.importorskip("noida_db", reason="noida-db is not installed")
    elasticsearch: Any = pytest.importorskip("elasticsearch", reason="elasticsearch is not installed")
    export_vectors("elasticsearch", tmp_path / "e", vectors=[encoded[0]], queries=encoded[1], max_bytes=9_000)
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
        load(client, tmp_path / "e", mapping)
        check_hits(client, tmp_path / "e/queries.jsonl")
    finally:
        server.terminate()
        server.wait(30)
