"""Rows of the export read back: Seismic by its library, Parquet by pyarrow, the others by their formats."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from learned_sparse.export import documents
from learned_sparse.export.exporting import export_vectors
from tests.learned_sparse.encoded_folder import Vectors, dot_products, write_folder
from tests.learned_sparse.export.collection import KNOWN, QUERIES, VECTORS, lines

Rows = Iterable[tuple[str, Any, Any]]
"""Id, term numbers and impacts."""


def parquet_rows(folder: Path) -> Sequence[Rows]:
    parquet: Any = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (the extra parquet)")
    tables = [parquet.read_table(folder / f"{name}.parquet").to_pylist() for name in ("documents", "queries")]
    return [[(row["id"], row["terms"], row["impacts"]) for row in table] for table in tables]


def array_rows(folder: Path) -> Sequence[Rows]:
    sides = []
    for side in ("doc", "query"):
        arrays = np.load(folder / side / f"{side}-embeddings.npz", allow_pickle=False)
        matrix = csr_array((arrays["data"], arrays["indices"], arrays["indptr"]))
        rows = [matrix[[number]].tocoo() for number in range(matrix.shape[0])]
        ids = lines(folder / side / f"{side}-ids.txt")
        sides.append([(name, row.col, row.data) for name, row in zip(ids, rows, strict=True)])
    return sides


def qdrant_rows(folder: Path) -> Sequence[Rows]:
    collection = json.loads((folder / "collection.json").read_bytes())
    assert collection == {"vectors": {}, "sparse_vectors": {"impacts": {}}}
    points = [point for file in parts(folder, "points-*.json") for point in json.loads(file.read_bytes())["points"]]
    assert [point["id"] for point in points] == list(range(200))
    empty: dict[str, list[int]] = {"indices": [], "values": []}
    vectors = [(point["payload"]["id"], point["vector"].get("impacts", empty)) for point in points]
    bodies = [(line["id"], line["body"]) for line in map(json.loads, lines(folder / "queries.jsonl"))]
    assert {(body["using"], body["limit"]) for _, body in bodies} == {("impacts", 1000)}
    sides = (vectors, [(name, body["query"]) for name, body in bodies])
    return [[(name, vector["indices"], vector["values"]) for name, vector in side] for side in sides]


def pgvector_rows(folder: Path) -> Sequence[Rows]:
    """Indices of a sparsevec begin at 1."""
    size = len(lines(folder / "vocabulary.txt"))
    assert f"impacts sparsevec({size})" in (folder / "schema.sql").read_text("utf-8")
    rows = [line.split("\t") for file in parts(folder, "documents-*.tsv") for line in lines(file)]
    queries = re.findall(r"EXECUTE search \('(.*)'\); -- (.*)\n", (folder / "queries.sql").read_text("utf-8"))
    sides = [(name.replace("\\\\", "\\"), text) for name, text in rows], [(name, text) for text, name in queries]

    def parse(name: str, text: str) -> tuple[str, list[int], list[int]]:
        match = re.fullmatch(rf"\{{([0-9:,]*)\}}/{size}", text)
        assert match is not None
        entries = [entry.split(":") for entry in match[1].split(",") if entry]
        return name, [int(number) - 1 for number, _ in entries], [int(impact) for _, impact in entries]

    return [[parse(*pair) for pair in side] for side in sides]


def parts(folder: Path, pattern: str) -> list[Path]:
    """Files of a request each."""
    files = sorted(folder.glob(pattern))
    assert len(files) > 2
    assert max(file.stat().st_size for file in files) <= documents.MAX_BYTES
    return files


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("parquet", parquet_rows), ("qdrant", qdrant_rows), ("pgvector", pgvector_rows), ("lsr-benchmark", array_rows),
    ],
)  # fmt: skip
def test_rows_by_format(
    name: str,
    rows: Callable[[Path], Sequence[Rows]],
    encoded: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(documents, "MAX_BYTES", 5_000)
    record = export_vectors(name, tmp_path / "out", vectors=[encoded[0]], queries=encoded[1])
    terms = lines(tmp_path / "out/vocabulary.txt")
    sides: tuple[Vectors, Vectors] = (VECTORS, KNOWN)
    for read, vectors in zip(rows(tmp_path / "out"), sides, strict=True):
        read = list(read)
        assert all(list(numbers) == sorted(numbers) for _, numbers, _ in read)
        assert {id: dict(zip((terms[n] for n in numbers), i, strict=True)) for id, numbers, i in read} == vectors
    assert record["query_terms"] == sum(map(len, KNOWN.values()))


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
