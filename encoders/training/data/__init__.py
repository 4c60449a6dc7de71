"""Training data: a recipe's sources as examples with hard negatives, and examples as batches of tokens.

Read ``examples`` first, then ``texts``, ``negatives`` and ``batches``.
"""

from __future__ import annotations

from encoders.training.data.batches import Batches, MicroBatch, Sampler, StepBatch, known_positives
from encoders.training.data.examples import (
    Example,
    Judged,
    LoadedSource,
    load_source,
    sample_documents,
    sample_texts,
)
from encoders.training.data.negatives import IfMain, NegativeSampler, Run, bm25_run, call, draw
from encoders.training.data.texts import TextStore, TextStores, query_key, text_key

__all__ = [
    "Batches",
    "Example",
    "IfMain",
    "Judged",
    "LoadedSource",
    "MicroBatch",
    "NegativeSampler",
    "Run",
    "Sampler",
    "StepBatch",
    "TextStore",
    "TextStores",
    "bm25_run",
    "call",
    "draw",
    "known_positives",
    "load_source",
    "query_key",
    "sample_documents",
    "sample_texts",
    "text_key",
]
