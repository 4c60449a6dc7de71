"""Indexes written directly and by Anserini are equal to every reader and searcher."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core.records import Document
from learned_sparse.core.terms import EMPTY_TERM
from learned_sparse.index.build import build_bm25_index, build_index
from learned_sparse.lucene.searchers import (
    ImpactSearcher,
    document_frequencies,
    open_reader,
    postings_of,
    read_contents,
)
from tests.learned_sparse.encoded_folder import Vectors, write_folder
from tests.learned_sparse.lucene.stock_searcher import index_collection

pytestmark = pytest.mark.jvm
UNUSUAL = {
    "longest": {"x" * 254: 20_000, "y" * 253: 1, "𝔘" * 127: 3},
    "marks": {
        mark: 3 + n for n, mark in enumerate(["|", "##ing", ":", ",", '"', "\\", ":,", ',":', "{", "\ue000", "\uffff"])
    },
    "scripts": {"日本": 1, "é": 2, "e\u0301": 3, "𝔘𝔫𝔦": 4, "\ufeff": 6, "👩‍🔬": 7},
    "large": {"all": 400_000, "large": 1},
    "empty": {},
    "ünï-𝔡": {"all": 1},
}


def random_vectors(seed: int, documents: int = 60) -> dict[str, dict[str, int]]:
    """Random vectors of few terms, which give many ties, with impacts of all magnitudes."""
    rng = random.Random(seed)
    return {
        f"d{number}": {
            "all": 1 + number % 3,
            **{f"t{min(40, int(rng.paretovariate(0.7)))}": int(10 ** rng.uniform(0, 4)) for _ in range(9)},
        }
        for number in rng.sample(range(1_000), documents)
    }


def both_ways(vectors: Vectors, folder: Path, scoring: str) -> tuple[Path, Path]:
    """Paths of the index written directly and of the index written by Anserini."""
    build_index(write_folder(folder / "in", vectors, parts=3, scoring=scoring), folder / "direct", threads=1)
    words = ["-pretokenized", *["-impact"] * (scoring == "impact")]
    index_collection(folder / "in" / "vectors", folder / "anserini", *words)
    return folder / "direct", folder / "anserini"


def statistics(index: Path, ids: Iterable[str]) -> dict[str, Any]:
    """Totals, postings, and the hits of each term in their order; BM25's scores show the lengths of documents."""
    terms = document_frequencies(index)
    with ImpactSearcher(index) as impacts, ImpactSearcher(index, "bm25") as bm25:
        hits = {term: (impacts.search({term: 1}), bm25.search({term: 1})) for term in terms}
    return {"totals": read_contents(index), "terms": terms, "postings": postings_of(index, ids), "hits": hits}


@pytest.mark.parametrize("scoring", ["impact", "bm25"])
def test_vectors(scoring: str, tmp_path: Path) -> None:
    vectors = {**random_vectors(1), **UNUSUAL}
    indexes = both_ways(vectors, tmp_path, scoring)
    direct, stock = (statistics(index, vectors) for index in indexes)
    assert direct == stock
    with contextlib.closing(open_reader(indexes[0])) as reader:  # one thread keeps the order of the files
        names = [reader.storedFields().document(number).get("id") for number in range(reader.maxDoc())]
    assert names == list(vectors)
    assert direct["postings"] == {name: vector or {EMPTY_TERM: 1} for name, vector in vectors.items()}
    assert len({score for _, score in direct["hits"]["all"][1]}) > (10 if scoring == "bm25" else 1)


def test_text_is_analysed_as_by_anserini(tmp_path: Path) -> None:
    texts = {f"d{n}": " ".join(vector) for n, vector in enumerate(random_vectors(4, 250).values())}
    texts |= {
        "odd": "The naïve\0 wings' <b>snow</b>\u2028日本語 \U0001f600",
        "long": "x" * 300 + " flow",
        "empty": " \n",
    }
    assert build_bm25_index([Document(*pair) for pair in texts.items()], tmp_path / "direct", threads=2) == 252
    (tmp_path / "in").mkdir()
    lines = [json.dumps({"id": name, "contents": text}) for name, text in texts.items()]
    (tmp_path / "in" / "texts.jsonl").write_text("\n".join(lines))
    index_collection(tmp_path / "in", tmp_path / "anserini", kind="JsonCollection")
    direct, stock = (statistics(tmp_path / name, texts) for name in ("direct", "anserini"))
    assert direct == stock
    assert {"flow", "wing", "naïv"} < direct["terms"].keys()
