"""An encoded collection and its queries as an analysis of their dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from encoders.checkpoints import locate, read_notes
from eval.costs import TermCounts, count_terms
from eval.profile.density import LengthGroup, by_length
from eval.profile.dimension_profile import Profile, profile
from eval.profile.dimension_words import Meaning, meanings
from eval.profile.encoded_texts import TokenCounter, read_encoded_documents, read_encoded_queries
from learned_sparse.core import LearnedSparseError
from learned_sparse.jsonvector import TOPICS, Manifest, read_topics

_BATCH = 1024  # texts tokenised at a time

Encoded = tuple[str, Mapping[str, int]]
"""A text and its ``{dimension: impact}``."""


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """What there is to say of the dimensions."""

    documents: TermCounts
    queries: TermCounts
    dimensions: int | None
    """Of the model, active or not; None if its checkpoint does not say."""
    profile: Profile
    lengths: Mapping[str, tuple[LengthGroup, ...]]
    """``{"documents": ..., "queries": ...}``"""
    meanings: tuple[Meaning, ...]


def analyse(
    vectors: Path,
    queries: Path,
    *,
    checkpoint: str | None = None,
    stop_share: float = 0.1,
    at_least: int = 5,
    lengths_of: int = 100_000,
) -> Analysis:
    """``vectors`` and ``queries`` are folders that ``learned_sparse.encode`` wrote.

    ``checkpoint``: where the model is now, if not where it was. The lengths of about ``lengths_of`` documents, evenly
    spread, are counted. For the rest see ``profile`` and ``meanings``.
    """
    of_documents, of_queries = Manifest.load(vectors), Manifest.load(queries)
    step = max(1, of_documents.counts.written // lengths_of)
    sample = _Sample(TokenCounter(of_documents, checkpoint), step)
    documents = count_terms(sample.watch(read_encoded_documents(vectors)))
    asked = count_terms(read_topics(queries / TOPICS).values())
    if not documents.texts or not asked.texts:
        raise LearnedSparseError(f"{queries if documents.texts else vectors}: no vectors in it")
    encoded = read_encoded_queries(queries)
    asked_sample = _Sample(TokenCounter(of_queries, checkpoint), 1)
    active = list(asked_sample.watch(encoded))
    return Analysis(
        documents=documents,
        queries=asked,
        dimensions=all_dimensions(of_documents, checkpoint),
        profile=profile(documents, asked, stop_share),
        lengths={"documents": sample.groups(), "queries": asked_sample.groups()},
        meanings=tuple(meanings([text for text, _ in encoded], active, at_least)),
    )


def all_dimensions(manifest: Manifest, checkpoint: str | None = None) -> int:
    """Of the model that made these vectors: its buckets' if its settings have ``dimensions``, else its vocabulary's."""
    settings = manifest.encoder.get("settings", {})
    if "dimensions" in settings:
        return int(settings["dimensions"]) * len(settings.get("layers", [0]))
    return read_notes(locate(checkpoint or manifest.checkpoint)).vocabulary_size


@dataclass
class _Sample:
    """Lengths and active dimensions of every ``step``-th text that goes by."""

    count_tokens: TokenCounter
    step: int
    lengths: list[int] = field(default_factory=list)
    active: list[int] = field(default_factory=list)
    _waiting: list[str] = field(default_factory=list)

    def watch(self, texts: Iterable[Encoded]) -> Iterator[Mapping[str, int]]:
        """Hand the vectors on."""
        for number, (text, vector) in enumerate(texts):
            if number % self.step == 0:
                self._waiting.append(text)
                self.active.append(len(vector))
            if len(self._waiting) == _BATCH:
                self._count()
            yield vector
        self._count()

    def groups(self) -> tuple[LengthGroup, ...]:
        return tuple(by_length(self.lengths, self.active))

    def _count(self) -> None:
        self.lengths += self.count_tokens(self._waiting)
        self._waiting.clear()
