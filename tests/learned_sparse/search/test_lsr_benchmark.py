"""Embeddings of lsr-benchmark searched by each backend: scores are the dot products, files those that it evaluates."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from learned_sparse.core import LearnedSparseError
from learned_sparse.export import export_vectors
from learned_sparse.search.lsr_benchmark import main
from tests.learned_sparse.encoded_folder import dot_products
from tests.learned_sparse.export.collection import KNOWN, VECTORS, save

K = 30
MODULES = {"pisa": "pyterrier_pisa", "seismic": "seismic"}


@pytest.fixture(scope="module")
def embedding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("embedding")
    vectors, queries = save(folder)
    export_vectors("lsr-benchmark", folder / "tiny-model", vectors=[vectors], queries=queries)
    return folder / "tiny-model"


def search(embedding: Path, output: Path, *more: str) -> dict[str, list[tuple[str, float]]]:
    words = ["--dataset", "tiny-data", "--embedding", str(embedding), "--output", str(output), "--k", str(K), *more]
    assert main(words) == 0
    hits: dict[str, list[tuple[str, float]]] = {}
    for line in gzip.decompress((output / "run.txt.gz").read_bytes()).decode().splitlines():
        query, _, document, rank, score, _ = line.split()
        hits.setdefault(query, []).append((document, round(float(score))))
        assert int(rank) == len(hits[query])
    return hits


@pytest.mark.parametrize("backend", [pytest.param("lucene", marks=pytest.mark.jvm), "exact", "pisa", "seismic"])
def test_scores_are_dot_products(backend: str, embedding: Path, tmp_path: Path, capsys: Any) -> None:
    if backend in MODULES:
        pytest.importorskip(MODULES[backend], reason=f"the extra {backend} is not installed")
    hits = search(embedding, tmp_path / "out", "--backend", backend, "--threads", "2")
    expected = {name: dot_products(query, VECTORS) for name, query in KNOWN.items() if query}
    assert hits.keys() == expected.keys()
    for name, found in hits.items():
        assert set(found) <= set(expected[name])
        if backend in ("lucene", "exact"):
            assert found == expected[name][:K]
        elif backend == "pisa":
            assert [score for _, score in found] == [score for _, score in expected[name][:K]]
    names = [path.name for path in sorted((tmp_path / "out").iterdir())]
    assert names == ["index-metadata.yml", "retrieval-metadata.yml", "run.txt.gz"]
    metadata = yaml.safe_load((tmp_path / "out" / "retrieval-metadata.yml").read_text())
    assert metadata["tag"] == f"learned-sparse-{backend}-{K}"
    assert metadata["data"]["test collection"]["name"] == "tiny-data"
    assert metadata["data"]["embedding model"]["name"] == "tiny-model"
    milliseconds, unit = metadata["resources"]["runtime"]["wallclock"].split()
    assert (int(milliseconds) >= 0, unit) == (True, "ms")
    assert f"{sum(map(len, hits.values())):,} hits" in capsys.readouterr().out


def test_floats_become_impacts(embedding: Path, tmp_path: Path) -> None:
    for side in ("doc", "query"):
        path = tmp_path / "floats" / side / f"{side}-embeddings.npz"
        path.parent.mkdir(parents=True)
        (path.parent / f"{side}-ids.txt").write_bytes((embedding / side / f"{side}-ids.txt").read_bytes())
        with np.load(embedding / side / path.name) as arrays:
            np.savez(path, data=arrays["data"] / 100, indices=arrays["indices"], indptr=arrays["indptr"])
    with pytest.raises(LearnedSparseError, match=r"floats: its weights are no integers; give --quantization-factor X"):
        search(tmp_path / "floats", tmp_path / "out", "--backend", "exact")
    assert not (tmp_path / "out").exists()
    more = ["--backend", "exact", "--quantization-factor", "100"]
    assert search(tmp_path / "floats", tmp_path / "out", *more) == search(embedding, tmp_path / "as-it-is", *more[:2])


def test_an_output_that_holds_files(embedding: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()  # as a container gives it
    first = search(embedding, tmp_path / "out", "--backend", "exact")
    with pytest.raises(LearnedSparseError, match=r"out: exists and holds files; give --overwrite, or name another"):
        search(embedding, tmp_path / "out", "--backend", "exact")
    run = (tmp_path / "out" / "run.txt.gz").read_bytes()
    assert search(embedding, tmp_path / "out", "--backend", "exact", "--overwrite") == first
    assert (tmp_path / "out" / "run.txt.gz").read_bytes() == run
    with pytest.raises(LearnedSparseError, match="settings of --backend seismic"):
        search(embedding, tmp_path / "other", "--backend", "exact", "--query-cut", "3")
