"""SPLADE by the plain formula over Hugging Face's full logits, and how far our encoder's weights are from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers

from encoders.backbone import quiet
from encoders.checkpoints import locate
from encoders.encoding import CheckpointEncoder, load_encoder, tower_folder
from learned_sparse.core import Quantizer, Side

LARGEST_WEIGHT = 1e-5  # difference of two weights in fp32, relative to weights above 1: sums reach hundreds
LARGEST_INTEGER = 1  # a weight on the edge between two integers
_NEEDED = {"expansion": "full", "pool_special_tokens": True, "block_special_terms": False}


def against_naive(
    checkpoint: str, side: Side, texts: Sequence[str], quantizer: Quantizer, *, device: str | None = None
) -> dict[str, Any] | None:
    """The largest differences between fp32's weights and the naive ones, and between their integers, as JSON values.

    None where no naive formula is written down here: other architectures, some settings, sides that learn nothing.
    """
    encoder = load_encoder(checkpoint, side, dtype="fp32", device=device)
    if not isinstance(encoder, CheckpointEncoder) or not _has_formula(encoder.description):
        return None
    batch, weights, integers = encoder.encode(texts), 0.0, 0.0
    for row, naive in enumerate(_naive_weights(checkpoint, encoder, texts)):
        ours = np.zeros(len(encoder.terms), np.float64)
        there = slice(batch.indptr[row], batch.indptr[row + 1])
        ours[batch.indices[there]] = batch.values[there]
        weights = max(weights, float((np.abs(ours - naive) / naive.clip(1)).max()))
        integers = max(integers, float(np.abs(_integers(ours, quantizer) - _integers(naive, quantizer)).max()))
    holds = weights <= LARGEST_WEIGHT and integers <= LARGEST_INTEGER
    return {"texts": len(texts), "weights": weights, "integers": int(integers), "holds": holds}


def _has_formula(description: Mapping[str, Any]) -> bool:
    settings = description["settings"]
    return description["architecture"] == "splade" and all(settings[key] == value for key, value in _NEEDED.items())


def _naive_weights(
    checkpoint: str, encoder: CheckpointEncoder, texts: Sequence[str]
) -> Iterator[npt.NDArray[np.float64]]:
    """``(vocabulary,)`` for each text, which is alone in its batch: there is no padding and nothing to mask."""
    folder, settings = locate(checkpoint), encoder.description["settings"]
    (tower,) = encoder.description["weights_sha256"]
    with quiet():
        model = transformers.AutoModelForMaskedLM.from_pretrained(tower_folder(folder, tower)).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for text in texts:
        inputs = tokenizer([text], truncation=True, max_length=encoder.max_length, return_tensors="pt")
        with torch.inference_mode():
            scores = model(**inputs).logits.relu()  # (1, tokens, vocabulary)
            scores = scores.log1p() if settings["saturation"] == "log" else scores
            pooled = scores.amax(1) if settings["pooling"] == "max" else scores.sum(1)
        weights = pooled[0].double().numpy()
        weights[encoder.unwritable] = 0  # terms that Lucene cannot hold
        yield weights


def _integers(weights: npt.NDArray[np.float64], quantizer: Quantizer) -> npt.NDArray[np.float64]:
    return np.minimum(np.rint(weights * quantizer.scale), quantizer.largest)
