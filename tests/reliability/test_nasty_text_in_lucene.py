"""Odd ids and terms through Java and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from learned_sparse.index.build import build_index
from learned_sparse.lucene.searchers import ImpactSearcher, postings_of
from learned_sparse.search.exact_searcher import ExactSearcher
from tests.learned_sparse.encoded_folder import write_folder

TERMS = [
    "\U0001f600", "日" * 254, "\U0001f600" * 127, "x" * 254, "é", "e\u0301", "a\x02b", '"', "\\", ":",
    "a:1", "\ufeffa", "a",
]  # fmt: skip
IDS = ["d1", "D1", "007", "7", "../../x", "/", "é", "e\u0301", "\U0001f600", "a:b", '"', "\\", "d\ufeff", "日" * 500]


@pytest.mark.jvm
def test_odd_ids_and_terms(tmp_path: Path) -> None:
    vectors = {name: {TERMS[row % len(TERMS)]: 3, "common": row + 1} for row, name in enumerate(IDS)}
    folder = write_folder(tmp_path / "encoded", vectors)
    build_index(folder, tmp_path / "index")
    assert postings_of(tmp_path / "index", IDS) == vectors
    queries = {f"q{number}": {term: 2, "common": 1} for number, term in enumerate(TERMS)}
    with ImpactSearcher(tmp_path / "index") as searcher:
        assert searcher.search_batch(queries) == ExactSearcher.load(folder).search_batch(queries)
