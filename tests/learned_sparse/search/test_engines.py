"""PISA has the scores of the exact searcher, Seismic those of the documents that it finds; both print nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import SparseBatch
from learned_sparse.search.engines import PisaSearcher, SeismicSearcher, load_backend
from tests.learned_sparse.encoded_folder import dot_products, write_folder
from tests.learned_sparse.export.collection import QUERIES, VECTORS

MORE_QUERIES: dict[str, dict[str, int]] = {**QUERIES, "capital": {"[CLS]": 1}, "tied": {"t1": 0, "t2": 0}}
MODULES = {"pisa": "pyterrier_pisa", "seismic": "seismic"}


@pytest.fixture(scope="module", params=MODULES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any]:
    """The name and the searcher of an engine."""
    pytest.importorskip(MODULES[request.param], reason=f"the extra {request.param} is not installed")
    return request.param, load_backend(request.param, [write_folder(tmp_path_factory.mktemp("in"), VECTORS)])


@pytest.mark.parametrize("threads", [1, 2])
def test_scores_are_exact(engine: tuple[str, Any], threads: int, capfd: pytest.CaptureFixture[str]) -> None:
    name, searcher = engine
    for k in (10, 1000):
        results = searcher.search_batch(MORE_QUERIES, k, threads)
        assert list(results) == list(MORE_QUERIES)
        assert results["none"] == []
        for query, hits in results.items():
            expected = dot_products(MORE_QUERIES[query], VECTORS)
            assert set(hits) <= set(expected)
            assert hits == sorted(hits, key=lambda hit: (-hit[1], hit[0]))
            if name == "pisa":  # Seismic is approximate; at rank k, PISA may have another document of the same score
                assert [score for _, score in hits] == [score for _, score in expected[:k]]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "vector", "query", "message"),
    [
        ("seismic", {"a": 2049}, {}, "encode with --bits 11"),
        ("seismic", {"x" * 101: 1}, {}, "more than 100 characters"),
        ("pisa", {}, {}, "without any impact"),
        ("pisa", {"a": 1}, {"a": 2**31 - 1, "b": 1}, "query 'q': its impacts add up to 2,147,483,648, and PISA takes"),
    ],
)
def test_what_an_engine_cannot_hold_is_refused(
    name: str, vector: dict[str, int], query: dict[str, int], message: str, tmp_path: Path
) -> None:
    pytest.importorskip(MODULES[name], reason=f"the extra {name} is not installed")
    with pytest.raises(LearnedSparseError, match=message):
        load_backend(name, [write_folder(tmp_path, {"d1": vector})]).search_batch({"q": query})


def test_a_missing_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr("importlib.import_module", missing)
    for searcher, extra in ((PisaSearcher, "pisa"), (SeismicSearcher, "seismic")):
        with pytest.raises(LearnedSparseError, match=rf"pip install 'learned-sparse\[{extra}\]'"):
            searcher(["d1"], SparseBatch.from_dicts([{"a": 1}], dtype="int32"))
