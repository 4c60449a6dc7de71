"""Rows of the export read back: Seismic by its library, Parquet by pyarrow, the others by their formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from learned_sparse.export.exporting import export_vectors
from tests.learned_sparse.encoded_folder import Vectors, dot_products, write_folder
from tests.learned_sparse.export.collection import QUERIES, VECTORS, lines, save

SMALL: Vectors = {"d\\1": {"hives": 3, "##s": 200}, "d2": {}, "é": {"hives": 1}}
SMALL_QUERIES: Vectors = {"q1": {"hives": 2, "nowhere": 1}, "none": {}}
FILES = {
    "qdrant": {
        "vocabulary.txt": "##s\nhives\n",
        "collection.json": '{"vectors":{},"sparse_vectors":{"impacts":{}}}\n',
        "points-00000.json": '{"points":[{"id":0,"vector":{"impacts":{"indices":[0,1],"values":[200,3]}},'
        '"payload":{"id":"d\\\\1"}},{"id":1,"vector":{},"payload":{"id":"d2"}},'
        '{"id":2,"vector":{"impacts":{"indices":[1],"values":[1]}},"payload":{"id":"é"}}]}\n',
        "queries.jsonl": '{"id":"q1","body":{"query":{"indices":[1],"values":[2]},"using":"impacts","limit":1000,'
        '"with_payload":true}}\n{"id":"none","body":{"query":{"indices":[],"values":[]},"using":"impacts","limit":1000,'
        '"with_payload":true}}\n',
    },
    "pgvector": {
        "schema.sql": "CREATE EXTENSION IF NOT EXISTS vector;\n"
        "CREATE TABLE documents (id text PRIMARY KEY, impacts sparsevec(2) NOT NULL);\n",
        "documents-00000.tsv": "d\\\\1\t{1:200,2:3}/2\nd2\t{}/2\né\t{2:1}/2\n",
        "queries.sql": "PREPARE search (sparsevec) AS\n"
        "SELECT id, -(impacts <#> $1) AS score FROM documents WHERE impacts <#> $1 < 0\n"
        'ORDER BY impacts <#> $1, id COLLATE "C" LIMIT 1000;\n'
        "EXECUTE search ('{2:2}/2'); -- q1\nEXECUTE search ('{}/2'); -- none\n",
    },
    "lsr-benchmark": {"doc/doc-ids.txt": "d\\1\nd2\né\n", "query/query-ids.txt": "q1\nnone\n"},
    "parquet": {"vocabulary.txt": "##s\nhives\n"},
}
"""Text files of ``SMALL`` in each format; ``test_engines.py`` loads those of a larger collection."""


@pytest.mark.parametrize("name", FILES)
def test_files_of_a_small_collection(name: str, tmp_path: Path) -> None:
    vectors, queries = save(tmp_path, SMALL, SMALL_QUERIES)
    export_vectors(name, tmp_path / "out", vectors=[vectors], queries=queries)
    assert {file: (tmp_path / "out" / file).read_text("utf-8") for file in FILES[name]} == FILES[name]
    if name == "lsr-benchmark":
        arrays = np.load(tmp_path / "out/doc/doc-embeddings.npz", allow_pickle=False)
        rows = {key: arrays[key].tolist() for key in ("indptr", "indices", "data")}
        assert rows == {"indptr": [0, 2, 2, 3], "indices": [0, 1, 1], "data": [200, 3, 1]}
    elif name == "parquet":
        parquet: Any = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (the extra parquet)")
        columns = parquet.read_table(tmp_path / "out/documents.parquet").to_pydict()
        assert columns == {"id": list(SMALL), "terms": [[0, 1], [], [1]], "impacts": [[200, 3], [], [1]]}
        assert parquet.read_table(tmp_path / "out/queries.parquet").to_pydict()["impacts"] == [[2], []]


def test_queries_alone_by_the_terms_of_their_documents(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    export_vectors("qdrant", tmp_path / "all", vectors=[encoded[0]], queries=encoded[1])
    export_vectors("qdrant", tmp_path / "more", queries=encoded[1], vocabulary=tmp_path / "all/vocabulary.txt")
    assert (tmp_path / "more/queries.jsonl").read_bytes() == (tmp_path / "all/queries.jsonl").read_bytes()


def test_seismic_by_its_library(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    seismic: Any = pytest.importorskip("seismic", reason="pyseismic-lsr is not installed (the extra seismic)")
    record = export_vectors("seismic", tmp_path / "s", vectors=[encoded[0]], queries=encoded[1])
    assert record["index"] == "SeismicIndex"
    index = seismic.SeismicIndex.build(str(tmp_path / "s/documents.jsonl"), num_threads=1)
    ids, query_ids = lines(tmp_path / "s/ids.txt"), lines(tmp_path / "s/query-ids.txt")
    assert (index.len, ids, query_ids) == (len(VECTORS), list(VECTORS), list(QUERIES))
    found = total = 0
    for query in map(json.loads, lines(tmp_path / "s/queries.jsonl")):
        name, vector = query_ids[query["id"]], query["vector"]
        assert vector == QUERIES[name]
        terms, weights = np.array(list(vector), seismic.get_seismic_string()), np.array([*vector.values()], np.float32)
        hits = index.search(name, terms, weights, k=10, query_cut=20, heap_factor=0.7)
        exact = dict(dot_products(vector, VECTORS))
        assert all(exact[ids[int(row)]] == score for _, score, row in hits)
        best = sorted(exact.values(), reverse=True)[:10]
        found += sum(score >= best[-1] for _, score, _ in hits)
        total += len(best)
    assert total > 100
    assert found / total > 0.9  # approximate: measured 0.985


@pytest.mark.parametrize(("count", "indexed"), [(1000, True), (1001, False)])
def test_pgvector_indexes_at_most_a_thousand_terms(count: int, indexed: bool, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "v", {"d1": {f"t{number}": 1 for number in range(count)}})
    export_vectors("pgvector", tmp_path / "p", vectors=[folder])
    assert (tmp_path / "p/index.sql").is_file() == indexed
