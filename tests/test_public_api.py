"""The public names, and a user's encoder of twenty lines that encodes, indexes and searches."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import encoders
import eval as evaluation
import learned_sparse
from learned_sparse import (
    Document,
    Encoder,
    ExactSearcher,
    ImpactSearcher,
    QueryEncoder,
    SparseBatch,
    build_index,
    read_vectors,
    write_vectors,
)

DOCUMENTS = [
    Document("d1", "read a file line by line"),
    Document("d2", "write a file"),
    Document("d3", "lift and drag of a wing"),
    Document("empty", ""),
]


class Bm25Weights(Encoder):
    """BM25's document weights (k1 = 0.9, b = 0.4) over lower-case words; a query has weight 1 for each word."""

    def __init__(self, texts: Sequence[str], side: str) -> None:
        words = [Counter(text.lower().split()) for text in texts]
        self.terms = sorted(set().union(*words))
        self.description = {"architecture": "bm25-weights", "side": side}
        self._mean = sum(count.total() for count in words) / len(words)
        frequencies = Counter(term for count in words for term in count)
        self._idf = {term: math.log(1 + (len(words) - n + 0.5) / (n + 0.5)) for term, n in frequencies.items()}
        self._query = side == "query"

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        rows = [self._weights(Counter(word for word in text.lower().split() if word in self._idf)) for text in texts]
        return SparseBatch.from_dicts(rows, terms=self.terms)

    def _weights(self, counts: Counter[str]) -> dict[str, float]:
        length = 0.9 * (0.6 + 0.4 * counts.total() / self._mean)
        return {t: 1.0 if self._query else self._idf[t] * n * 1.9 / (n + length) for t, n in counts.items()}


@pytest.mark.jvm
def test_a_user_defined_encoder_encodes_indexes_and_searches(tmp_path: Path) -> None:
    texts = [document.text for document in DOCUMENTS]
    manifest = write_vectors(tmp_path / "vectors", DOCUMENTS, Bm25Weights(texts, "document"))
    assert (manifest.counts.written, manifest.counts.empty_vectors) == (4, 1)
    vectors = dict(read_vectors(tmp_path / "vectors"))
    assert list(vectors) == [document.id for document in DOCUMENTS]
    queries = QueryEncoder(Bm25Weights(texts, "query"))
    query = queries.encode("how do I read a file")
    assert query.keys() == {"read", "a", "file"}
    build_index(tmp_path / "vectors", tmp_path / "index")
    with ImpactSearcher(tmp_path / "index") as searcher:
        hits = searcher.search(query, 10)
    assert [name for name, _ in hits] == ["d1", "d2", "d3"]
    assert hits == ExactSearcher.load(tmp_path / "vectors").search(query, 10)
    for name, score in hits:
        assert score == sum(impact * vectors[name].get(term, 0) for term, impact in query.items())


def test_public_names() -> None:
    for package in (learned_sparse, encoders, evaluation):
        assert package.__doc__
        assert sorted(package.__all__) == list(package.__all__)
        for name in {*package.__all__} - {"LuceneImpactSearcher"}:  # which starts Java; test_jvm.py has it
            assert getattr(package, name) is not None
        assert set(package.__all__) <= set(dir(package))
    assert {"evaluate", "compare"} <= set(evaluation.__all__)
    assert {"ARCHITECTURES", "load", "train"} <= set(encoders.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Documents'"):
        _ = learned_sparse.Documents


def test_functions_named_like_commands_stay_functions(python: Any) -> None:
    program = (
        "import sys, encoders, eval; print('torch' in sys.modules); import encoders.train, eval.evaluate; "
        "from encoders import train; from eval import evaluate; print(callable(train), callable(evaluate))"
    )
    assert python("-c", program).stdout == "False\nTrue True\n"
