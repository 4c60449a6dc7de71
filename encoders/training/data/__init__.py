"""Training data: a recipe's sources as examples with hard negatives, and examples as batches of tokens.

Read ``examples`` first, then ``negatives`` and ``batches``.
"""

from __future__ import annotations

from encoders.training.data.batches import Batches, MicroBatch, Sampler, StepBatch, known_positives
from encoders.training.data.examples import Example, TextStore, load_source, sample_documents, sample_texts
from encoders.training.data.negatives import NegativeSampler, Run, draw

__all__ = [
    "Batches",
    "Example",
    "MicroBatch",
    "NegativeSampler",
    "Run",
    "Sampler",
    "StepBatch",
    "TextStore",
    "draw",
    "known_positives",
    "load_source",
    "sample_documents",
    "sample_texts",
]
