"""Transformers of PyTerrier give our impacts; indexed and searched in PISA, the scores are exact dot products."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.search.exact_searcher import ExactSearcher
from learned_sparse.search.pyterrier import document_transformer, query_transformer
from learned_sparse.search.query_encoder import QueryEncoder
from tests.learned_sparse.encoded_folder import WordCounts

TEXTS = {"d1": "hives are a rash rash rash", "d2": "a wing and a rash", "d3": "", "d4": "lift and drag"}
QUERIES = {"q1": "rash of hives", "q2": "a a wing"}


def test_impacts_and_scores(tmp_path: Path) -> None:
    pandas: Any = pytest.importorskip("pandas")
    pytest.importorskip("pyterrier", reason="needs the extra pyterrier")
    documents = pandas.DataFrame(TEXTS.items(), columns=["docno", "text"])
    queries = pandas.DataFrame(QUERIES.items(), columns=["qid", "query"])
    encode_documents = document_transformer(WordCounts(), Quantizer(10))
    encode_queries = query_transformer(QueryEncoder(WordCounts(), Quantizer(1)))
    encoded = encode_documents(documents)
    vectors = dict(zip(encoded["docno"], encoded["toks"], strict=True))
    assert vectors["d1"] == {"hives": 10, "are": 10, "a": 10, "rash": 30}
    assert vectors["d3"] == {}
    weighted = dict(zip(encode_queries(queries)["qid"], encode_queries(queries)["query_toks"], strict=True))
    assert weighted == {"q1": {"rash": 1, "of": 1, "hives": 1}, "q2": {"a": 2, "wing": 1}}
    with pytest.raises(LearnedSparseError, match="stores no quantiser for documents; give one"):
        document_transformer(WordCounts())
    pisa: Any = pytest.importorskip("pyterrier_pisa", reason="needs pyterrier-pisa")
    index = pisa.PisaIndex(str(tmp_path / "index"), stemmer="none")
    (encode_documents >> index.toks_indexer(scale=1)).index(documents.to_dict("records"))
    run = (encode_queries >> index.quantized(toks_scale=1, num_results=10))(queries)
    exact = ExactSearcher.from_vectors(vectors.items())
    for name, query in weighted.items():
        rows = run[run["qid"] == name]
        hits = dict(zip(rows["docno"], rows["score"], strict=True))
        assert {document: score for document, score in hits.items() if score} == dict(exact.search(query))
