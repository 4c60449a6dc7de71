"""Odd ids, terms and texts through Java and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from learned_sparse.core.records import Document, Query
from learned_sparse.index.build import build_bm25_index, build_index
from learned_sparse.lucene.searchers import ImpactSearcher, postings_of, search_bm25
from learned_sparse.search.exact_searcher import ExactSearcher
from tests.learned_sparse.encoded_folder import write_folder
from tests.learned_sparse.lucene.stock_searcher import index_collection

TERMS = [
    "\U0001f600", "日" * 254, "\U0001f600" * 127, "x" * 254, "é", "e\u0301", "a\x02b", '"', "\\", ":",
    "a:1", "\ufeffa", "a",
]  # fmt: skip
IDS = ["d1", "D1", "007", "7", "../../x", "/", "é", "e\u0301", "\U0001f600", "a:b", '"', "\\", "d\ufeff", "日" * 500]


@pytest.mark.jvm
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "anserini"])
def test_odd_ids_and_terms(tmp_path: Path, direct: bool) -> None:
    vectors = {name: {TERMS[row % len(TERMS)]: 3, "common": row + 1} for row, name in enumerate(IDS)}
    folder = write_folder(tmp_path / "encoded", vectors)
    if direct:
        build_index(folder, tmp_path / "index")
    else:
        index_collection(folder / "vectors", tmp_path / "index", "-impact", "-pretokenized")
    assert postings_of(tmp_path / "index", IDS) == vectors
    queries = {f"q{number}": {term: 2, "common": 1} for number, term in enumerate(TERMS)}
    with ImpactSearcher(tmp_path / "index") as searcher:
        assert searcher.search_batch(queries) == ExactSearcher.load(folder).search_batch(queries)


@pytest.mark.jvm
def test_odd_texts_in_bm25(tmp_path: Path) -> None:
    texts = {
        "nul": "hives\0 rash", "separator": "hives\u2028rash", "next line": "wing\x85lift", "emoji": "\U0001f600 drag",
        "nfc": "caf\u00e9", "nfd": "cafe\u0301", "long": "x" * 300 + " flow", "tags": "<b>snow</b>",
    }  # fmt: skip
    names = {name: name.replace(" ", "-") for name in texts}
    build_bm25_index((Document(names[name], text) for name, text in texts.items()), tmp_path / "index")
    queries = {
        "hives": "hives\0", "rash": "\0rash", "lift": "lift\u2028", "drag": "drag \U0001f600", "flow": "flow\x01",
        "snow": "</b>snow",
    }  # fmt: skip
    hits = search_bm25(tmp_path / "index", [Query(name, text) for name, text in queries.items()])
    found = {name: {document for document, _ in of_query} for name, of_query in hits.items()}
    assert found == {
        "hives": {"nul", "separator"}, "rash": {"nul", "separator"}, "lift": {"next-line"}, "drag": {"emoji"},
        "flow": {"long"}, "snow": {"tags"},
    }  # fmt: skip
