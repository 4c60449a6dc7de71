"""A data set with parts, made of texts in memory and registered in the real ir_datasets catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.toy_data import TEXTS

PARENT = "learned-sparse-test/tiny"
PARTS = ("train", "test", "dev/small")


@contextmanager
def catalogued() -> Iterator[str]:
    """Register ``PARENT`` and yield its name: twelve documents, and ``PARTS`` with a query for each document.

    A query is the first two words of its document, as in ``toy_data.save_collection``. ``PARENT/v2`` is a name below
    ``PARENT`` with other documents.
    """
    ir_datasets = pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed")
    formats, text, dataset = ir_datasets.formats, ir_datasets.util.StringFile, ir_datasets.datasets.base.Dataset
    documents = formats.TsvDocs(text("".join(f"d{i}\t{words}\n" for i, words in enumerate(TEXTS))))
    queries = "".join(f"q{i}\t{' '.join(words.split()[:2])}\n" for i, words in enumerate(TEXTS))
    judgements = "".join(f"q{i} 0 d{i} 1\n" for i in range(len(TEXTS)))
    registry = ir_datasets.registry
    registry.register(PARENT, dataset(documents))
    for part in (*PARTS, "v2"):
        topics, qrels = formats.TsvQueries(text(queries)), formats.TrecQrels(text(judgements), {})
        texts = formats.TsvDocs(text("d0\tanother text\n")) if part == "v2" else documents
        registry.register(f"{PARENT}/{part}", dataset(texts, topics, qrels))
    try:
        yield PARENT
    finally:
        for name in [name for name in registry if name.startswith(PARENT)]:
            del registry._registered[name]
