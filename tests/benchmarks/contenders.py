"""Encoding of texts to a JsonVector file by this package and by other toolkits, in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from learned_sparse.collections.documents import read_documents
from learned_sparse.core.encoder import load_encoder
from learned_sparse.core.quantize import Quantizer
from learned_sparse.encode.pipeline import write_vectors
from learned_sparse.lucene.jvm import start_jvm
from tests.benchmarks.engines import BATCH, SCALE

PYSERINI_BATCH = 64
"""Texts per batch, the default of ``pyserini.encode``; smaller batches are faster on a CPU."""

Contender = Callable[[], object]


def ours(folder: Path, corpus: Path, output: Path, *, dtype: str, max_length: int, scale: float = SCALE) -> Contender:
    """``write_vectors``, the work of ``python -m learned_sparse.encode`` without loading the model."""
    encoder = load_encoder(str(folder), dtype=dtype, max_length=max_length, device="cpu")
    return lambda: write_vectors(output, read_documents(corpus), encoder, quantizer=Quantizer(scale), overwrite=True)


def pyserini(folder: Path, corpus: Path, output: Path, *, max_length: int, batch: int = PYSERINI_BATCH) -> Contender:
    """The loop of ``python -m pyserini.encode --encoder-class splade``."""
    start_jvm()
    from pyserini.encode import JsonlCollectionIterator, JsonlRepresentationWriter, SpladeDocumentEncoder

    encoder = SpladeDocumentEncoder(str(folder), device="cpu")
    writer = JsonlRepresentationWriter(str(output))
    collection = JsonlCollectionIterator(str(corpus), ["text"])

    def encode() -> None:
        with writer:
            for record in collection(batch):
                record["vector"] = encoder.encode(texts=record["text"], max_length=max_length)
                writer.write(record, ["text"])

    return encode


def sentence_transformers(
    folder: Path, corpus: Path, output: Path, *, max_length: int, dtype: str = "fp32"
) -> Contender:
    """``SparseEncoder.encode`` and ``decode`` in ``dtype`` (fp32 or bf16), and one JSON line per text."""
    from sentence_transformers import SparseEncoder

    numbers = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]
    encoder = SparseEncoder(str(folder), device="cpu", model_kwargs={"dtype": numbers})
    encoder.max_seq_length = max_length

    def encode() -> None:
        ids, texts = _read(corpus)
        embeddings = encoder.encode(texts, batch_size=BATCH, show_progress_bar=False)
        decoded: Any = encoder.decode(embeddings)
        _write(output, ids, texts, decoded)

    return encode


def _read(corpus: Path) -> tuple[list[str], list[str]]:
    documents = [json.loads(line) for line in corpus.read_text("utf-8").splitlines()]
    return [document["_id"] for document in documents], [document["text"] for document in documents]


def _write(output: Path, ids: list[str], texts: list[str], vectors: Iterable[list[tuple[str, float]]]) -> None:
    output.mkdir(parents=True, exist_ok=True)
    with (output / "vectors.jsonl").open("w", encoding="utf-8") as file:
        for name, text, weights in zip(ids, texts, vectors, strict=True):
            vector = {term: impact for term, weight in weights if (impact := round(weight * SCALE)) > 0}
            file.write(json.dumps({"id": name, "contents": text, "vector": vector}) + "\n")
