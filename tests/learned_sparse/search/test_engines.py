"""PISA has the scores of the exact searcher, Seismic those of the documents that it finds; both print nothing."""

from __future__ import annotations

import random

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import SparseBatch
from learned_sparse.search.engines import PisaSearcher, SeismicSearcher
from tests.learned_sparse.encoded_folder import dot_products

DRAW = random.Random(9)
TERMS = ["T1", "[CLS]", "##ing", "日本", *(f"t{number}" for number in range(80))]
VECTORS = {
    f"d{number}": {term: DRAW.randint(1, 255) for term in DRAW.sample(TERMS, 0 if number == 5 else DRAW.randint(2, 30))}
    for number in range(300)
}
QUERIES: dict[str, dict[str, int]] = {
    **{f"q{number}": {term: DRAW.randint(1, 255) for term in DRAW.sample(TERMS, 8)} for number in range(20)},
    "capital": {"T1": 1},
    "tied": {"t1": 0, "t2": 0},
    "unknown": {"nowhere": 1},
    "none": {},
}
BATCH = SparseBatch.from_dicts(list(VECTORS.values()), dtype="int32")


@pytest.fixture(scope="module")
def pisa() -> PisaSearcher:
    pytest.importorskip("pyterrier_pisa", reason="pyterrier-pisa is not installed (the extra pisa)")
    return PisaSearcher(list(VECTORS), BATCH)


@pytest.fixture(scope="module")
def seismic() -> SeismicSearcher:
    pytest.importorskip("seismic", reason="pyseismic-lsr is not installed (the extra seismic)")
    return SeismicSearcher(list(VECTORS), BATCH)


@pytest.mark.parametrize("threads", [1, 2])
def test_pisa_is_exact(pisa: PisaSearcher, threads: int) -> None:
    results = pisa.search_batch(QUERIES, 1000, threads)
    assert list(results) == list(QUERIES)
    for name, hits in results.items():
        assert hits == dot_products(QUERIES[name], VECTORS)  # ties too
    for name, hits in pisa.search_batch(QUERIES, 10, threads).items():
        expected = dot_products(QUERIES[name], VECTORS)
        assert [score for _, score in hits] == [score for _, score in expected[:10]]
        assert set(hits) <= set(expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_seismic_scores_what_it_finds_exactly(seismic: SeismicSearcher, threads: int) -> None:
    results = seismic.search_batch(QUERIES, 10, threads)
    assert list(results) == list(QUERIES)
    for name, hits in results.items():
        expected = dot_products(QUERIES[name], VECTORS)
        assert set(hits) <= set(expected)
        assert hits == sorted(hits, key=lambda hit: (-hit[1], hit[0]))
    assert results["none"] == results["unknown"] == []


def test_what_an_engine_cannot_hold_is_refused() -> None:
    pytest.importorskip("seismic", reason="pyseismic-lsr is not installed (the extra seismic)")
    for vector, message in (({"a": 2049}, "encode with --bits 11"), ({"x" * 101: 1}, "more than 100 characters")):
        with pytest.raises(LearnedSparseError, match=message):
            SeismicSearcher(["d1"], SparseBatch.from_dicts([vector], dtype="int32"))


def test_what_pisa_refuses(pisa: PisaSearcher) -> None:
    with pytest.raises(LearnedSparseError, match="query 'q': its impacts add up to 2,147,483,648, and PISA takes memo"):
        pisa.search_batch({"q": {"t1": 2**31 - 1, "t2": 1}})
    with pytest.raises(LearnedSparseError, match="without any impact"):
        PisaSearcher(["d1"], SparseBatch.from_dicts([{}], dtype="int32"))


def test_a_missing_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr("importlib.import_module", missing)
    for searcher, extra in ((PisaSearcher, "pisa"), (SeismicSearcher, "seismic")):
        with pytest.raises(LearnedSparseError, match=rf"pip install 'learned-sparse\[{extra}\]'"):
            searcher(list(VECTORS), BATCH)
