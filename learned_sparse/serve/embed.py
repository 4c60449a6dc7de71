"""Encoders in the wire format of Hugging Face's text-embeddings-inference, which clients of that server call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

import anyio
import orjson
from fastapi import FastAPI, HTTPException, Query, Response
from pydantic import BaseModel, Field

from learned_sparse import __version__
from learned_sparse.core.encoder import Encoder, Side, encode_texts
from learned_sparse.core.errors import LearnedSparseError, did_you_mean
from learned_sparse.serve.content import Load
from learned_sparse.serve.guard import MAX_CONNECTIONS, Name, Text

SystemName = Annotated[Name | None, Query(description="None: the first with an encoder")]
MAX_BATCH = 256
"""Texts of one request."""
ERROR_TYPES = {400: "Empty", 424: "Backend"}
"""Types of errors of text-embeddings-inference by status; "Validation" for all others."""
THREADS = 4
"""Requests that are encoded at a time; the threads of all other requests stay free."""


class EmbedRequest(BaseModel):
    """Texts to encode. Other keys are ignored, as text-embeddings-inference does."""

    inputs: Text | list[Text]
    truncate: bool | None = Field(None, description="false: a text longer than the model reads is an error")
    truncation_direction: Literal["Right", "right"] = "Right"
    prompt_name: None = None


class SparseValue(BaseModel):
    """A weight of a text."""

    index: int = Field(description="id of the token in the encoder's vocabulary, or number of the latent dimension")
    value: float = Field(description="weight before quantisation")


def add_embedding(app: FastAPI, encoders: Mapping[str, Load]) -> None:
    """Add the routes to ``app``; ``encoders`` by the name of their system, the first is the default."""
    limiter = anyio.CapacityLimiter(THREADS)

    @app.post("/{side}/embed_sparse")
    @app.post("/embed_sparse")
    async def embed_sparse(
        request: EmbedRequest, side: Side = "document", system: SystemName = None
    ) -> list[list[SparseValue]]:
        """Weights of texts as a system reads documents or queries, in the format of text-embeddings-inference."""
        texts = [request.inputs] if isinstance(request.inputs, str) else request.inputs
        if not texts:
            raise HTTPException(400, "inputs: no text")
        if len(texts) > MAX_BATCH:
            raise HTTPException(413, f"inputs: {len(texts)} texts; at most {MAX_BATCH} in one request")
        load = _chosen(encoders, system)[1]
        rows = await anyio.to_thread.run_sync(_embed, load, side, texts, request.truncate is False, limiter=limiter)
        return Response(rows, media_type="application/json")  # type: ignore[return-value]  # FastAPI sends it as it is

    @app.get("/{side}/info")
    @app.get("/info")
    def info(side: Side = "document", system: SystemName = None) -> dict[str, Any]:
        """What text-embeddings-inference tells about its model and its limits."""
        name, load = _chosen(encoders, system)
        described = _loaded(load, side).description
        return {
            "model_id": name, "model_sha": None, "model_dtype": described.get("dtype", "float32"),
            "model_type": {"embedding": {"pooling": "splade"}},  # its word for sparse vectors of any model
            "max_input_length": described.get("max_length"), "auto_truncate": True,
            "max_client_batch_size": MAX_BATCH, "max_batch_requests": MAX_BATCH, "max_batch_tokens": None,
            "max_concurrent_requests": MAX_CONNECTIONS, "tokenization_workers": THREADS,
            "version": __version__, "sha": None, "docker_label": None,
        }  # fmt: skip


def _chosen(encoders: Mapping[str, Load], name: str | None) -> tuple[str, Load]:
    if not encoders:
        raise HTTPException(424, "no system here has an encoder")
    name = next(iter(encoders)) if name is None else name
    if name not in encoders:
        raise HTTPException(404, f"no system {name!r} with an encoder{did_you_mean(name, encoders)}")
    return name, encoders[name]


def _loaded(load: Load, side: Side) -> Encoder:
    try:
        encoder = load(side)
    except LearnedSparseError as error:
        raise HTTPException(424, str(error)) from error
    if "hybrid" in encoder.description:
        raise HTTPException(424, "words of BM25 have no fixed numbers; name the system of the model alone")
    return encoder


def _embed(load: Load, side: Side, texts: Sequence[str], whole: bool) -> bytes:
    """The answer as JSON. ``whole``: raise if a text is truncated."""
    encoder = _loaded(load, side)
    batch = encode_texts(encoder, texts)
    if whole and (count := batch.truncated):
        length = encoder.description.get("max_length")
        raise HTTPException(413, f"inputs: {count} of {len(texts)} longer than {length} tokens, and truncate is false")
    pairs = list(zip(batch.indices.tolist(), batch.values.tolist(), strict=True))
    rows = [pairs[start:end] for start, end in pairwise(batch.indptr.tolist())]
    return orjson.dumps([[{"index": index, "value": value} for index, value in row] for row in rows])
