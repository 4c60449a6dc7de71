"""BM25 as an encoder gives the scores of Lucene's own BM25."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from learned_sparse.collections.collection import load_collection
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import Document, Query
from learned_sparse.encode.bm25 import AnalyzedText, Bm25Documents, Bm25Statistics
from learned_sparse.encode.pipeline import write_vectors
from learned_sparse.index.build import build_bm25_index, build_index
from learned_sparse.lucene.searchers import search_bm25, search_impacts
from learned_sparse.search.query_encoder import QueryEncoder

pytestmark = pytest.mark.jvm
SENTENCES = [
    "Hives are caused by allergic reactions of the skin.",
    "The garbage collector frees the memory of cycles; cycles of cycles, too.",
    "Snow ☃ in April, in the mountains of naïve Zürich",
    "a",
    "x" * 300,
]


def library() -> list[Document]:
    """Documents of 0 to some 700 words, so that lengths are rounded in Lucene."""
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice(SENTENCES, number // 4 + 1)) for number in range(0, 300, 3)]
    return [Document(f"d{number}", text) for number, text in enumerate([*SENTENCES, "", *texts])]


def test_scores_are_those_of_lucene_within_the_rounding_of_impacts(tmp_path: Path) -> None:
    documents = library()
    queries = [Query("q1", "cycles of memory, memory"), Query("q2", "Allergic SKIN reactions"), Query("q3", "zürich ☃")]
    build_bm25_index(documents, tmp_path / "text")
    expected = search_bm25(tmp_path / "text", queries)
    encoder = Bm25Documents(Bm25Statistics.count(document.text for document in documents))
    quantizer = Quantizer(encoder.quantizer.scale * (2**16 - 1) / 255, 16)
    write_vectors(tmp_path / "vectors", documents, encoder, quantizer=quantizer)
    build_index(tmp_path / "vectors", tmp_path / "impacts")
    impacts = QueryEncoder(AnalyzedText()).encode_batch([query.text for query in queries])
    found = search_impacts(tmp_path / "impacts", {q.id: row for q, row in zip(queries, impacts, strict=True)})
    for query, row in zip(queries, impacts, strict=True):
        scores, bound = dict(found[query.id]), 0.5 * sum(row.values()) / quantizer.scale
        assert scores.keys() == dict(expected[query.id]).keys()
        assert len(scores) > 20
        for name, score in expected[query.id]:
            assert scores[name] / quantizer.scale == pytest.approx(score, abs=bound, rel=1e-6)


def test_eight_bits_keep_the_top_ten_of_pydoc_but_for_a_hundredth(tmp_path: Path, tmp_home: Path) -> None:
    collection = load_collection("pydoc")
    documents, queries = list(collection.documents()), collection.queries("test")
    build_bm25_index(documents, tmp_path / "text")
    expected = search_bm25(tmp_path / "text", queries, 10)
    encoder = Bm25Documents(Bm25Statistics.count(document.text for document in documents))
    impacts = QueryEncoder(AnalyzedText()).encode_batch([query.text for query in queries])
    rows = {query.id: row for query, row in zip(queries, impacts, strict=True)}
    for bits, lost in ((8, 0.015), (10, 0.002)):
        quantizer = Quantizer(encoder.quantizer.scale * (2**bits - 1) / 255, bits)
        write_vectors(tmp_path / f"{bits}", documents, encoder, quantizer=quantizer)
        build_index(tmp_path / f"{bits}", tmp_path / f"index-{bits}")
        found = search_impacts(tmp_path / f"index-{bits}", rows, 10)
        kept = sum(len(dict(found[name]).keys() & dict(hits).keys()) for name, hits in expected.items())
        assert 1 - lost <= kept / sum(map(len, expected.values())) < 1


def test_queries_count_words() -> None:
    batch = AnalyzedText().encode(["The cats' cat", "", "dogs and cats"])
    assert [batch.row(row) for row in range(3)] == [{"cat": 2.0}, {}, {"dog": 1.0, "cat": 1.0}]


def test_a_word_of_no_document_has_no_weight_in_documents() -> None:
    encoder = Bm25Documents(Bm25Statistics.count(["cat", "cat dog"]))
    batch = encoder.encode(["cat mouse"])
    assert (set(batch.row(0)), batch.dropped) == ({"cat"}, 1)


def test_occurrences_share_the_weight() -> None:
    encoder = Bm25Documents(Bm25Statistics.count(["cat", "cat dog cats"]))
    reading = encoder.explain("cat dog cats")
    weights = encoder.encode(["cat dog cats"]).row(0)
    assert reading.weights == weights
    assert [(share.token, share.weight) for share in reading.sources["cat"].shares] == [
        (0, weights["cat"] / 2),
        (2, weights["cat"] / 2),
    ]
