"""The interface between models and the plug-in: what an encoder provides, and how one is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.explanations import Reading
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import SparseBatch

Side = Literal["document", "query"]
"""Which texts an encoder reads."""
Word = tuple[int, int, int]
"""``(start, end, tokens)``: first character, character after the last, and number of tokens of one word."""


class Encoder(Protocol):
    """One side (documents or queries) of a model: texts to sparse weights.

    Subclass it. ``terms``, ``description`` and ``encode`` are required; all other members have defaults. Nothing
    outside this protocol is used, so any subclass can encode, index and search.
    """

    terms: Sequence[str]
    """Spelling of each dimension in Lucene; the ``terms`` of every batch returned."""
    description: Mapping[str, Any]
    """What identifies the vectors (JSON values only): architecture, settings, hashes of weights and tokenizer, maximum
    length, data type. Two encoders with equal descriptions give the same vectors. Keys with a meaning for the plug-in:
    ``architecture`` (a name), ``scoring`` (``"impact"``, the default, or ``"bm25"``), ``max_length`` and ``top_k``.
    """
    quantizer: Quantizer | None = None
    """Converts weights to impacts; None if it has to be calibrated on the first documents."""
    uses_expanded: bool = False
    """Whether documents are passed as ``Document.with_expanded`` instead of ``Document.text``."""
    query_only_settings: frozenset[str] = frozenset()
    """Names of settings that change queries but not documents, so they may differ from those of the index."""
    truncated: int = 0
    """Texts truncated at the maximum length since the encoder was created."""
    dropped: int = 0
    """Weights of terms that Lucene cannot store, left out since the encoder was created."""

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        """Weights of ``texts``, one row each, in order; an empty text has the row that the model gives it."""
        ...

    def prepare(self, texts: Sequence[str]) -> Any:
        """First half of ``encode`` (tokenisation). It may run in another thread and changes no counter."""
        return texts

    def encode_prepared(self, prepared: Any) -> SparseBatch:
        """Second half of ``encode``: weights of the texts given to ``prepare``."""
        return self.encode(prepared)

    def word_spans(self, texts: Sequence[str]) -> list[list[Word]]:  # noqa: ARG002
        """Words of each text, untruncated: the places where a long text may be cut into segments."""
        raise LearnedSparseError("this encoder does not report word positions, so it cannot cut documents")

    def explain(self, text: str) -> Reading:  # noqa: ARG002
        """Tokens and weights of one text, and the contribution of each token to each weight."""
        raise LearnedSparseError("this encoder does not explain its weights")


def load_encoder(checkpoint: str, side: Side = "document", **options: Any) -> Encoder:
    """One side of a checkpoint (folder or Hub id); the options are those of ``encoders.load``.

    This is the only place where the plug-in asks for a model.
    """
    from encoders.encoding import load_encoder as load

    return load(checkpoint, side, **options)
