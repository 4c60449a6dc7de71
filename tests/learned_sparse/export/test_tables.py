"""Rows of the export read back: Seismic by its library, Parquet by pyarrow, Qdrant and pgvector by their formats."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from learned_sparse.export.exporting import export_vectors
from tests.learned_sparse.encoded_folder import dot_products, write_folder
from tests.learned_sparse.export.collection import KNOWN, QUERIES, VECTORS, lines


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


def test_parquet_by_pyarrow(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    parquet: Any = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (the extra parquet)")
    record = export_vectors("parquet", tmp_path / "p", vectors=[encoded[0]], queries=encoded[1])
    assert record["query_terms_of_no_document"] == 1
    terms = lines(tmp_path / "p/vocabulary.txt")
    for file, vectors in (("documents", VECTORS), ("queries", KNOWN)):
        rows = parquet.read_table(tmp_path / f"p/{file}.parquet").to_pylist()
        assert all(row["terms"] == sorted(row["terms"]) for row in rows)
        read = {row["id"]: dict(zip((terms[n] for n in row["terms"]), row["impacts"], strict=True)) for row in rows}
        assert read == vectors
    more = export_vectors("parquet", tmp_path / "q", queries=encoded[1], vocabulary=tmp_path / "p/vocabulary.txt")
    assert (tmp_path / "q/queries.parquet").read_bytes() == (tmp_path / "p/queries.parquet").read_bytes()
    assert more["query_terms"] == record["query_terms"] == sum(map(len, KNOWN.values()))


def test_qdrant_by_format(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    export_vectors("qdrant", tmp_path / "q", vectors=[encoded[0]], queries=encoded[1], max_bytes=10_000)
    assert json.loads((tmp_path / "q/collection.json").read_bytes()) == {
        "vectors": {},
        "sparse_vectors": {"impacts": {}},
    }
    files = sorted((tmp_path / "q").glob("points-*.json"))
    assert len(files) > 2
    assert max(file.stat().st_size for file in files) <= 10_000
    terms = lines(tmp_path / "q/vocabulary.txt")
    points = [point for file in files for point in json.loads(file.read_bytes())["points"]]
    assert [point["id"] for point in points] == list(range(200))

    def vector_of(sparse: dict[str, Any]) -> dict[str, int]:
        return dict(zip((terms[n] for n in sparse["indices"]), sparse["values"], strict=True))

    read = {
        point["payload"]["id"]: vector_of(point["vector"].get("impacts", {"indices": [], "values": []}))
        for point in points
    }
    assert read == VECTORS
    queries = {line["id"]: line["body"] for line in map(json.loads, lines(tmp_path / "q/queries.jsonl"))}
    assert {name: vector_of(body["query"]) for name, body in queries.items()} == KNOWN
    assert {(body["using"], body["limit"]) for body in queries.values()} == {("impacts", 1000)}


def parse_sparsevec(text: str, terms: list[str]) -> dict[str, int]:
    """The text form of pgvector, whose indices begin at 1."""
    match = re.fullmatch(r"\{([0-9:,]*)\}/(\d+)", text)
    assert match is not None
    assert int(match[2]) == len(terms)
    entries = [entry.split(":") for entry in match[1].split(",") if entry]
    return {terms[int(number) - 1]: int(impact) for number, impact in entries}


def test_pgvector_by_format(encoded: tuple[Path, Path], tmp_path: Path) -> None:
    export_vectors("pgvector", tmp_path / "p", vectors=[encoded[0]], queries=encoded[1], max_bytes=5_000)
    terms = lines(tmp_path / "p/vocabulary.txt")
    assert f"impacts sparsevec({len(terms)})" in (tmp_path / "p/schema.sql").read_text("utf-8")
    files = sorted((tmp_path / "p").glob("documents-*.tsv"))
    assert len(files) > 2
    rows = [line.split("\t") for file in files for line in lines(file)]
    assert {name.replace("\\\\", "\\"): parse_sparsevec(text, terms) for name, text in rows} == VECTORS
    queries = re.findall(r"EXECUTE search \('(.*)'\); -- (.*)\n", (tmp_path / "p/queries.sql").read_text("utf-8"))
    assert {name: parse_sparsevec(text, terms) for text, name in queries} == KNOWN
    assert (tmp_path / "p/index.sql").is_file()


@pytest.mark.parametrize(("count", "indexed"), [(1000, True), (1001, False)])
def test_pgvector_indexes_at_most_a_thousand_terms(count: int, indexed: bool, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "v", {"d1": {f"t{number}": 1 for number in range(count)}})
    export_vectors("pgvector", tmp_path / "p", vectors=[folder])
    assert (tmp_path / "p/index.sql").is_file() == indexed
