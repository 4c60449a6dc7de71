"""Training data: a recipe's sources as examples with hard negatives, and examples as batches of tokens.

Read ``examples`` first, then ``files`` and ``sources``, ``negatives`` and ``mining``, and ``batches``.
"""

from __future__ import annotations

from encoders.training.data.batches import Batches, MicroBatch, Sampler, StepBatch, Update, examples_in_order, labels_of
from encoders.training.data.examples import Example, Judged
from encoders.training.data.mining import EncodeSide, best_documents
from encoders.training.data.negatives import NegativeSampler, Rank, bm25_run, draw
from encoders.training.data.scores import TeacherScores
from encoders.training.data.sources import LoadedSource, load_source, sample_documents, sample_texts
from encoders.training.data.texts import IfMain, TextStore, TextStores, call, query_key, text_key

__all__ = [
    "Batches",
    "EncodeSide",
    "Example",
    "IfMain",
    "Judged",
    "LoadedSource",
    "MicroBatch",
    "NegativeSampler",
    "Rank",
    "Sampler",
    "StepBatch",
    "TeacherScores",
    "TextStore",
    "TextStores",
    "Update",
    "best_documents",
    "bm25_run",
    "call",
    "draw",
    "examples_in_order",
    "labels_of",
    "load_source",
    "query_key",
    "sample_documents",
    "sample_texts",
    "text_key",
]
