"""A checkpoint of ours as a re-ranker: exact dot products of the weights of both sides, nothing quantised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from encoders.encoding import load_encoder
from eval.rerank.reranking import Done, Pair
from learned_sparse.core import Document, LearnedSparseError, SparseBatch

_AT_ONCE = 1024  # documents that are encoded, and held, together


class DotProducts:
    """Scores as the paper of a model writes them: the sum over terms of query weight times document weight."""

    def __init__(self, checkpoint: str, **options: Any) -> None:
        """``options`` are those of ``encoders.encoding.loading.load_encoder``, for both sides."""
        self._queries = load_encoder(checkpoint, "query", **options)
        self._documents = load_encoder(checkpoint, "document", **options)
        if self._queries.description["scoring"] != "impact":
            raise LearnedSparseError(f"{checkpoint}: scored by BM25; only models scored by impacts have dot products")
        self.description = {
            "checkpoint": checkpoint,
            "query_encoder": dict(self._queries.description),
            "document_encoder": dict(self._documents.description),
        }

    def scores(
        self, queries: Mapping[str, str], documents: Mapping[str, Document], pairs: Sequence[Pair], done: Done
    ) -> npt.NDArray[np.float64]:
        """One score for each of ``pairs``; each text is encoded once, in float64 the products are summed."""
        rows = {query: row for row, query in enumerate(dict.fromkeys(query for query, _ in pairs))}
        of_queries = _matrix(self._queries.encode([queries[query] for query in rows]))
        places: dict[str, list[int]] = {}
        for place, (_, document) in enumerate(pairs):
            places.setdefault(document, []).append(place)
        found, ids = np.empty(len(pairs), np.float64), list(places)
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            of_documents = _matrix(self._documents.encode([self._text(documents[name]) for name in some]))
            there = np.array([place for name in some for place in places[name]])
            right = np.repeat(np.arange(len(some)), [len(places[name]) for name in some])
            left = [rows[pairs[place][0]] for place in there]
            found[there] = (of_queries[left] * of_documents[right]).sum(axis=1)
            done(len(there))
        return found

    def _text(self, document: Document) -> str:
        return document.with_expanded if self._documents.uses_expanded else document.text


def _matrix(batch: SparseBatch) -> csr_array:
    """``(texts, terms)`` in float64."""
    shape = len(batch), len(batch.terms)
    return csr_array((batch.values.astype(np.float64), batch.indices, batch.indptr), shape=shape)
