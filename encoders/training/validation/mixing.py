"""How the components of a model are best weighed against each other: every mixture tried on validation queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from encoders.models import Mixture
from encoders.training.validation.retrieval import Vectors
from learned_sparse.core import LearnedSparseError

_CELLS = 4_000_000  # numbers held at once

Floats = npt.NDArray[np.float64]


def mixture_scores(
    mixtures: Sequence[Mixture],
    vectors: Mapping[str, tuple[Vectors, Vectors]],
    query_ids: Sequence[str],
    document_ids: Sequence[str],
    positives: Mapping[str, Sequence[str]],
    depth: int = 10,
) -> Floats:
    """MRR@``depth`` of each mixture, (mixtures,): what ranking by ``sum_c factor_c * (query_c . document_c)`` gives.

    ``vectors``: query and document weights of each component. Every component is scored once; which documents stand
    above a relevant one is then worked out for all mixtures together. Factors are never negative.
    """
    factors = _factors(mixtures, list(vectors))
    places = {id: place for place, id in enumerate(document_ids)}
    order = np.empty(len(document_ids), dtype=np.int64)
    order[np.argsort(np.array(document_ids))] = np.arange(len(document_ids))  # of equal scores the smaller id first
    total = np.zeros(len(mixtures))
    for query, scores in zip(query_ids, _by_query(vectors), strict=True):
        relevant = [places[id] for id in positives[query] if id in places]
        found = [_reciprocal_ranks(factors, scores, place, order, depth) for place in relevant]
        total += np.max(found, axis=0) if found else 0.0
    return total / len(query_ids)


def _factors(mixtures: Sequence[Mixture], components: Sequence[str]) -> Floats:
    """(mixtures, components)"""
    found = np.array([[mixture.factors.get(name, 0.0) for name in components] for mixture in mixtures])
    if (found < 0).any():
        raise LearnedSparseError("mixtures: a component cannot count against a document; give factors of at least 0")
    return found


def _by_query(vectors: Mapping[str, tuple[Vectors, Vectors]]) -> Iterator[Floats]:
    """Of each query the scores (components, documents)."""
    transposed = [(queries, documents.T.tocsr()) for queries, documents in vectors.values()]
    for row in range(transposed[0][0].shape[0]):
        yield np.stack([(queries[[row]] @ documents).toarray()[0] for queries, documents in transposed]).astype(float)


def _reciprocal_ranks(
    factors: Floats, scores: Floats, relevant: int, order: npt.NDArray[np.int64], depth: int
) -> Floats:
    """Of one relevant document, (mixtures,); 0 where it is not among the first ``depth`` or has no score."""
    own = scores[:, [relevant]]
    if int((scores > own).all(axis=0).sum()) >= depth:
        return np.zeros(len(factors))  # beaten by too many whatever the mixture
    # nothing else can come before it: a score of 0 in a component is no tie that counts
    rivals = np.flatnonzero(((scores > own) | ((scores == own) & (own > 0))).any(axis=0))
    rivals = np.append(rivals[rivals != relevant], relevant)
    found, rows = np.zeros(len(factors)), max(1, _CELLS // len(rivals))
    for start in range(0, len(factors), rows):
        some = factors[start : start + rows]
        # added up one by one, so that equal scores come out equal
        mixed = sum(some[:, [part]] * scores[part, rivals] for part in range(len(scores)))
        mine = mixed[:, -1:]
        earlier = (mixed > mine) | ((mixed == mine) & (order[rivals] < order[relevant]))
        ranks = 1 + earlier.sum(axis=1)
        found[start : start + rows] = np.where((ranks <= depth) & (mine[:, 0] > 0), 1 / ranks, 0.0)
    return found
