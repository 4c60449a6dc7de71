"""Indexes written directly and by Anserini have equal values of everything that a search uses."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from learned_sparse.core.records import Document
from learned_sparse.index.build import build_bm25_index, build_index
from learned_sparse.index.vectors import encoded_files
from learned_sparse.lucene.reader import open_reader
from tests.learned_sparse.encoded_folder import Vectors, write_folder
from tests.learned_sparse.index.lucene_statistics import statistics
from tests.learned_sparse.lucene.stock_searcher import index_collection

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


def both_ways(vectors: Vectors, folder: Path, *, scoring: str = "impact") -> tuple[Path, Path]:
    """Paths of the index written directly and of the index written by Anserini."""
    files = encoded_files([write_folder(folder / "in", vectors, parts=3, scoring=scoring)])
    build_index(files, folder / "direct")
    words = ["-pretokenized", *["-impact"] * (scoring == "impact")]
    index_collection(folder / "in" / "vectors", folder / "anserini", *words)
    return folder / "direct", folder / "anserini"


@pytest.mark.jvm
def test_every_number_of_the_index_is_equal(tmp_path: Path) -> None:
    direct, stock = (statistics(index) for index in both_ways({**random_vectors(1), **UNUSUAL}, tmp_path))
    for statistic, expected in stock.items():
        assert direct[statistic] == expected, statistic
    assert direct["terms"]["x" * 254] == (1, 20_000, {"longest": 20_000})
    assert direct["terms"]["|"][2] == {"marks": 3}


@pytest.mark.jvm
def test_terms_scored_by_bm25_keep_their_lengths(tmp_path: Path) -> None:
    pair = both_ways(random_vectors(2), tmp_path, scoring="bm25")
    direct, stock = (statistics(index) for index in pair)
    assert direct == stock
    assert len(set(direct["norms"].values())) > 10


@pytest.mark.jvm
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
    direct, stock = (statistics(tmp_path / name) for name in ("direct", "anserini"))
    assert direct == stock
    assert {"flow", "wing", "naïv"} < direct["terms"].keys()


@pytest.mark.jvm
def test_one_thread_keeps_the_order_of_the_files(tmp_path: Path) -> None:
    vectors = random_vectors(3, 250)
    build_index(encoded_files([write_folder(tmp_path / "in", vectors)]), tmp_path / "index", threads=1)
    reader = open_reader(tmp_path / "index")
    names = [reader.storedFields().document(number).get("id") for number in range(reader.maxDoc())]
    reader.close()
    assert names == list(vectors)
