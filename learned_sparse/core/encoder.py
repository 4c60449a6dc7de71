"""The interface between models and the plug-in: the ``Encoder`` protocol and ``load_encoder``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import SparseBatch

if TYPE_CHECKING:
    from learned_sparse.core.reading import Reading

Side = Literal["document", "query"]
"""Kind of text that an encoder reads."""
QUERY_QUANTIZER = Quantizer(100.0)
"""For queries of a model without a stored quantiser: two decimals of each weight, as in the published SPLADE models."""
WORD_COUNTS = Quantizer(1.0)
"""For BM25, whose weights are word counts: integers already."""
Word = tuple[int, int, int]
"""``(start, end, tokens)`` of one word: character offsets (``end`` is exclusive) and number of tokens."""


class Encoder(ABC):
    """One side (documents or queries) of a model, which turns texts into sparse weights.

    ``terms``, ``description`` and ``encode`` are required. All other members have defaults, and the plug-in uses no
    other member. Any subclass can encode, index and search, and so can a class that inherits from nothing
    (``as_encoder``). Several threads may encode with one encoder of this package.
    """

    terms: Sequence[str]
    """Spelling of each dimension in Lucene; the ``terms`` of every batch of documents."""
    description: Mapping[str, Any]
    """Identity of the vectors as JSON values: settings, hashes of weights and tokenizer, data type, and so on. Two
    encoders with equal descriptions give the same vectors. No key is required. The plug-in reads five keys:
    ``architecture`` (a name), ``scoring`` (``"impact"``, the default, or ``"bm25"``), ``max_length``, ``top_k`` and
    ``dtype``.
    """
    checkpoint: str | None = None
    """Folder or Hub id that the encoder was loaded from, for the manifest; a search loads the query side from there."""
    dense_terms: int | None = None
    """Estimate of the most terms that one text has, which bounds memory; None: all ``terms``."""
    quantizer: Quantizer | None = None
    """Converts weights to impacts; None to calibrate a quantiser on the first documents."""
    uses_expanded: bool = False
    """Whether ``encode`` gets ``Document.with_expanded`` instead of ``Document.text``."""
    query_only_settings: frozenset[str] = frozenset()
    """Settings that affect queries but not documents, so that a search may change them."""
    environment: Mapping[str, Any] = MappingProxyType({})
    """How vectors are computed on this machine, as JSON values for the manifest. It changes no vector. The plug-in
    reads one key: ``longest_input``, the tokens that the model can read.
    """

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> SparseBatch:
        """Weights of ``texts``, one row each, in order; the batch counts truncated texts and dropped weights."""

    def prepare(self, texts: Sequence[str]) -> Any:
        """First half of ``encode`` (tokenisation); may run in another thread."""
        return texts

    def encode_prepared(self, prepared: Any) -> SparseBatch:
        """Second half of ``encode``: weights for the result of ``prepare``."""
        return self.encode(prepared)

    def word_spans(self, texts: Sequence[str]) -> list[list[Word]]:  # noqa: ARG002
        """Words of each text without truncation, between which a long text may be cut into segments."""
        raise LearnedSparseError("this encoder does not report word positions, so it cannot cut documents")

    def explain(self, text: str) -> Reading:  # noqa: ARG002
        """Tokens and weights of one text, with the contribution of each token to each weight."""
        raise LearnedSparseError("this encoder does not explain its weights")


def as_encoder(encoder: Any) -> Encoder:
    """``encoder``, or an object with ``terms``, ``description`` and ``encode`` of another package as an ``Encoder``.

    Members that it lacks have the defaults of ``Encoder``.
    """
    if isinstance(encoder, Encoder):
        return encoder
    for name in ("terms", "description", "encode"):
        if not hasattr(encoder, name):
            raise LearnedSparseError(f"{type(encoder).__name__}: not an encoder: it has no {name!r} (see Encoder)")

    def member(name: str) -> property:
        return property(lambda _: getattr(encoder, name))

    names = {"terms", "description", *dir(Encoder)}
    members = {name: member(name) for name in names if not name.startswith("_") and hasattr(encoder, name)}
    adapted: Encoder = type(type(encoder).__name__, (Encoder,), members)()  # the name is for errors and manifests
    return adapted


def encode_texts(encoder: Encoder, texts: Sequence[str], weights: SparseBatch | None = None) -> SparseBatch:
    """``encoder.encode(texts)``, with an empty row for each text that is empty or white space.

    A model gives weights to such a text because of the special tokens ([CLS], [SEP]) around it. ``weights``: those of
    ``texts``, if they are encoded already.
    """
    batch = encoder.encode(texts) if weights is None else weights
    empty = np.array([not text.strip() for text in texts], dtype=bool)
    if not empty.any():
        return batch
    lengths = np.diff(batch.indptr)
    kept = np.repeat(~empty, lengths)
    indptr = np.concatenate([[0], np.cumsum(np.where(empty, 0, lengths))]).astype(np.int64)
    return replace(batch, indptr=indptr, indices=batch.indices[kept], values=batch.values[kept])


def query_quantizer(encoder: Encoder) -> Quantizer:
    """Quantiser of queries unless another one is requested: ``WORD_COUNTS``, the encoder's, or ``QUERY_QUANTIZER``."""
    if encoder.description.get("scoring", "impact") == "bm25":
        return WORD_COUNTS
    return encoder.quantizer or QUERY_QUANTIZER


def choose_quantizer(
    side: Side, encoder: Encoder, *, factor: float | None = None, bits: int | None = None
) -> Quantizer | None:
    """The first of these that is given: ``factor``, ``bits``, the encoder's quantiser, a default.

    None: it is to be calibrated for ``bits`` on the first texts. The word counts of BM25 are never multiplied.
    """
    if encoder.description.get("scoring", "impact") == "bm25":
        if factor not in {None, 1.0} or bits is not None:
            raise LearnedSparseError(
                "this model is scored by BM25, which counts words: omit --bits and --quantization-factor"
            )
        return WORD_COUNTS
    if factor is not None:
        return Quantizer(factor, bits)
    if bits is None and (side == "query" or encoder.quantizer):
        return query_quantizer(encoder)
    Quantizer(1.0, bits)  # raises before anything is encoded if the bits are out of range
    return None


def load_encoder(checkpoint: str, side: Side = "document", **options: Any) -> Encoder:
    """Load one side of a checkpoint (folder, name or Hub id); the options are those of ``encoders.load``.

    The plug-in loads models only through this function.
    """
    from encoders.encoding.loading import load_encoder

    return load_encoder(checkpoint, side, **options)


def resolve_checkpoint(checkpoint: str) -> str:
    """A folder or Hub id as it is; for a name that of a model in the home folder, or the Hub id of a published one."""
    from encoders.checkpoints.hub import resolve_checkpoint

    return resolve_checkpoint(checkpoint)


def default_checkpoint(model: str) -> str:
    """The checkpoint of a model, in the home folder or else published; the error names the command that trains it."""
    from encoders.checkpoints.hub import default_checkpoint

    return default_checkpoint(model)
