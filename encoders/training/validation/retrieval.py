"""Exact retrieval with a model in training: encode, score, rank, MRR@10. No Java, no files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import nn

from encoders.training.data import tokenize
from encoders.training.objective import evaluating
from learned_sparse.collections import ranked

Vectors = Any  # scipy.sparse.csr_array (texts, dimensions); scipy has no types
Autocast = Callable[[], AbstractContextManager[None]]


def encode(
    weigher: nn.Module,
    tokenizer: Callable[..., Any],
    texts: Sequence[str],
    *,
    max_length: int,
    autocast: Autocast,
    device: torch.device,
    batch_tokens: int = 4096,
) -> Vectors:
    """Weights of ``texts``, one row each, without dropout; batches are of texts of similar length."""
    order = sorted(range(len(texts)), key=lambda place: (len(texts[place]), place))
    rows: list[Any] = []
    with evaluating(weigher), torch.inference_mode():
        for batch in _batches([texts[place] for place in order], max_length, batch_tokens):
            tokens = tokenize(tokenizer, batch, max_length).to(device)
            with autocast():
                weights = weigher(tokens.input_ids, tokens.attention_mask)
            rows.append(scipy.sparse.csr_array(weights.float().cpu().numpy()))
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    return scipy.sparse.vstack(rows, format="csr")[back]


def _batches(texts: Sequence[str], max_length: int, batch_tokens: int) -> list[list[str]]:
    batches: list[list[str]] = []
    longest = 0
    for text in texts:
        longest = max(longest, min(max_length, len(text) // 4 + 3))  # about four characters to a word piece
        if not batches or longest * (len(batches[-1]) + 1) > batch_tokens:
            batches.append([])
            longest = min(max_length, len(text) // 4 + 3)
        batches[-1].append(text)
    return batches


def search(
    queries: Vectors, documents: Vectors, query_ids: Sequence[str], document_ids: Sequence[str], depth: int
) -> dict[str, list[tuple[str, float]]]:
    """The ``depth`` best documents of each query by dot product, in the one order of runs; scores of 0 are no hits."""
    transposed, found = documents.T.tocsr(), {}
    for row, query in enumerate(query_ids):
        scores = (queries[[row]] @ transposed).toarray()[0]
        hits = np.flatnonzero(scores > 0)
        if len(hits) > depth:
            worst = np.partition(scores[hits], len(hits) - depth)[len(hits) - depth]
            hits = hits[scores[hits] >= worst]  # ties at the cut are settled by ranked
        found[query] = ranked((document_ids[hit], float(scores[hit])) for hit in hits.tolist())[:depth]
    return found


def mean_reciprocal_rank(
    run: Mapping[str, Sequence[tuple[str, float]]], positives: Mapping[str, Sequence[str]], depth: int = 10
) -> float:
    """MRR@``depth`` over all of ``positives``; a query without results counts 0.

    >>> mean_reciprocal_rank({"q1": [("a", 2.0), ("b", 1.0)]}, {"q1": ["b"], "q2": ["c"]})
    0.25
    """
    total = 0.0
    for query, relevant in positives.items():
        ids = [id for id, _ in run.get(query, ())][:depth]
        total += next((1 / rank for rank, id in enumerate(ids, start=1) if id in relevant), 0.0)
    return total / len(positives)
