"""Texts through several encoders at once, batch by batch, into the impacts that ``learned_sparse.encode`` gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from encoders.checkpoints import tokenize_texts
from encoders.encoding import BatchSize
from eval.sweep.model import VariantSide
from learned_sparse.core import Document, Quantizer, Query, SparseBatch
from learned_sparse.encode import WINDOW, slice_size, windows


@dataclass(frozen=True)
class Encoded:
    """All texts of one side by one variant."""

    impacts: SparseBatch
    quantizer: Quantizer


def encode_documents(
    variants: Sequence[VariantSide],
    documents: Iterable[Document],
    batch_size: str | int,
    progress: Callable[[int], object],
) -> tuple[list[str], list[Encoded]]:
    """Ids, and the impacts of all documents for each of ``variants``; ``progress`` is told how many more are done.

    As in ``learned_sparse.encode``, batches are formed within slices, and quantisers calibrated on the first slice. The
    impacts of all variants are in memory at once, 5 to 8 bytes each.
    """
    ids: list[str] = []
    quantizers: list[Quantizer] = []
    impacts: list[list[SparseBatch]] = [[] for _ in variants]
    for window in windows(documents, slice_size(variants[0].encoder)):
        expanded = variants[0].encoder.uses_expanded
        texts = [document.with_expanded if expanded else document.text for document in window.documents]
        weights = encode_together(variants, texts, batch_size)
        quantizers = quantizers or _quantizers(variants, weights, window.ids)
        for kept, quantizer, batch in zip(impacts, quantizers, weights, strict=True):
            kept.append(_impacts(quantizer, batch, window.ids))
        ids += window.ids
        progress(len(window.ids))
    found = zip(map(SparseBatch.concatenate, impacts), quantizers, strict=True)
    return ids, [Encoded(batch, quantizer) for batch, quantizer in found]


def encode_queries(variants: Sequence[VariantSide], queries: Sequence[Query], batch_size: str | int) -> list[Encoded]:
    """The impacts of all queries for each of ``variants``."""
    ids, texts = [query.id for query in queries], [query.text for query in queries]
    parts = [
        encode_together(variants, texts[start : start + WINDOW], batch_size) for start in range(0, len(texts), WINDOW)
    ]
    weights = [SparseBatch.concatenate(of_variant) for of_variant in zip(*parts, strict=True)]
    quantizers = _quantizers(variants, weights, ids)
    found = zip(quantizers, weights, strict=True)
    return [Encoded(_impacts(quantizer, batch, ids), quantizer) for quantizer, batch in found]


def encode_together(variants: Sequence[VariantSide], texts: Sequence[str], batch_size: str | int) -> list[SparseBatch]:
    """The weights of ``texts`` for each of ``variants``: every encoder has a batch before any has the next.

    The batches are those that one encoder would form of all ``texts``.
    """
    encoder = variants[0].encoder
    tokens = tokenize_texts(encoder.tokenizer, texts, truncation=True, max_length=encoder.max_length)["input_ids"]
    lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
    order: list[int] = []
    parts: list[list[SparseBatch]] = [[] for _ in variants]
    for places in BatchSize.parse(batch_size).batches(lengths):
        batch = [texts[place] for place in places.tolist()]
        for of_variant, variant in zip(parts, variants, strict=True):
            of_variant.append(variant.encoder.encode(batch))
        order += places.tolist()
    back = np.argsort(np.array(order), kind="stable")
    return [SparseBatch.concatenate(of_variant).take(back) for of_variant in parts]


def _quantizers(variants: Sequence[VariantSide], weights: Sequence[SparseBatch], ids: list[str]) -> list[Quantizer]:
    return [
        variant.quantizer if isinstance(variant.quantizer, Quantizer) else variant.quantizer.find(batch, ids)
        for variant, batch in zip(variants, weights, strict=True)
    ]


def _impacts(quantizer: Quantizer, weights: SparseBatch, ids: list[str]) -> SparseBatch:
    """In the smallest integers that hold them."""
    impacts, _ = quantizer.quantize(weights, ids)
    values = impacts.values.astype(np.min_scalar_type(quantizer.largest))
    return SparseBatch(impacts.indptr, impacts.indices, values, impacts.terms)
