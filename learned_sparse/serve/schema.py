"""The records of the JSON API: requests and their limits, answers. Explanations are those of ``inspect``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from learned_sparse.core import Side

MAX_QUERY, MAX_TEXT, MAX_NAME = 10_000, 200_000, 1_000
"""Characters of a query, of a text, and of the name of a system, a query or a document."""
MAX_HITS = 100


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("the text is empty")
    return text


Name = Annotated[str, Field(max_length=MAX_NAME)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
QueryText = Annotated[str, Field(max_length=MAX_QUERY), AfterValidator(_not_blank)]
Systems = Annotated[list[Name], Field(min_length=1, max_length=4, description="names of systems")]


class Request(BaseModel):
    """Base of all requests: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class SearchRequest(Request):
    """A query for one or more systems."""

    query: QueryText
    systems: Systems
    hits: Annotated[int, Field(ge=1, le=MAX_HITS)] = 10
    """Documents of each system."""
    query_id: Name | None = None
    """The judged query of this text, whose grades the hits get."""


class EncodeRequest(Request):
    """A text for the encoder of a system."""

    text: Annotated[Text, AfterValidator(_not_blank)]
    system: Name
    side: Side = "document"


class ExplainRequest(Request):
    """A query and a document of an index."""

    query: QueryText
    system: Name
    document: Name


class MeasureRequest(Request):
    """A judged query, or all of them, for one or more systems."""

    systems: Systems
    query_id: Name | None = None
    """None: the mean over all judged queries."""


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A document in the ranking of a system."""

    rank: int
    id: str
    score: float
    text: str | None
    """Beginning of the text; None if the text is not available."""
    cut: bool
    """Whether the text goes on."""
    grade: int | None
    """Of the judged query; None if unjudged."""
    ranks: Mapping[str, int | None]
    """Rank in each other system; None: not among the first 100."""


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The hits of one system."""

    system: str
    encode_ms: float | None
    """Milliseconds; None for plain text, which Lucene analyses."""
    search_ms: float
    hits: Sequence[Hit]


@dataclass(frozen=True, kw_only=True)
class Relevant:
    """A relevant document of the judged query."""

    id: str
    grade: int
    ranks: Mapping[str, int | None]
    """Rank in each system; None: not among the first 100."""


@dataclass(frozen=True, kw_only=True)
class SearchResponse:
    """The rankings in the order of the requested systems."""

    rankings: Sequence[Ranking]
    relevant: Sequence[Relevant]
    """Relevant documents of the judged query, highest grade first."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Why a request was refused, in one line."""

    error: str
    error_type: str
    """As in text-embeddings-inference."""
