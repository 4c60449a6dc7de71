"""Room encoders.training.data."""

from __future__ import annotations

from encoders.training.data.batches import Batches, MicroBatch, StepBatch, bag_of_words, known_positives, tokenize
from encoders.training.data.examples import Example
from encoders.training.data.mining import drawn
from encoders.training.data.sampler import Sampler
from encoders.training.data.sources import load, sample_documents, sample_texts
from encoders.training.data.texts import TextStore, as_read

__all__ = [
    "Batches",
    "Example",
    "MicroBatch",
    "Sampler",
    "StepBatch",
    "TextStore",
    "as_read",
    "bag_of_words",
    "drawn",
    "known_positives",
    "load",
    "sample_documents",
    "sample_texts",
    "tokenize",
]
