"""Training data: a recipe's sources as examples with hard negatives, and examples as batches of tokens.

Read ``examples`` first, then ``files`` and ``sources``, ``negatives`` and ``mining``, and ``batches``.
"""

from __future__ import annotations

from encoders.training.data.batches import Batches, MicroBatch, Sampler, StepBatch, Update, examples_in_order, labels_of
from encoders.training.data.examples import Example, Judged
from encoders.training.data.mining import (
    BLOCK,
    SAVE_EVERY,
    Best,
    EncodeSide,
    Run,
    Vectors,
    best_documents,
    number_of_blocks,
    restore_hits,
    save_hits,
    search_block,
)
from encoders.training.data.negatives import MINED, NegativeSampler, Rank, bm25_run, draw
from encoders.training.data.scores import TeacherScores
from encoders.training.data.sources import LoadedSource, load_source, sample_documents, sample_texts
from encoders.training.data.texts import IfMain, MappedTexts, TextStore, TextStores, call, query_key, text_key

__all__ = [
    "BLOCK",
    "MINED",
    "SAVE_EVERY",
    "Batches",
    "Best",
    "EncodeSide",
    "Example",
    "IfMain",
    "Judged",
    "LoadedSource",
    "MappedTexts",
    "MicroBatch",
    "NegativeSampler",
    "Rank",
    "Run",
    "Sampler",
    "StepBatch",
    "TeacherScores",
    "TextStore",
    "TextStores",
    "Update",
    "Vectors",
    "best_documents",
    "bm25_run",
    "call",
    "draw",
    "examples_in_order",
    "labels_of",
    "load_source",
    "number_of_blocks",
    "query_key",
    "restore_hits",
    "sample_documents",
    "sample_texts",
    "save_hits",
    "search_block",
    "text_key",
]
