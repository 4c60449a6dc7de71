"""The records of the JSON API: what requests hold, what answers hold, and explanations as the page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from learned_sparse.core import Share as TokenShare
from learned_sparse.inspect import Inspection, TextView, word_contributions

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

    model_config = ConfigDict(extra="forbid")


class SearchRequest(Request):
    """A query for one or more systems."""

    query: QueryText
    systems: Systems
    hits: int = Field(10, ge=1, le=MAX_HITS, description="documents of each system")
    query_id: Name | None = Field(None, description="judged query of this text: hits get their grades")


class EncodeRequest(Request):
    """A text for the encoder of a system."""

    text: Annotated[Text, AfterValidator(_not_blank)]
    system: Name
    side: Literal["query", "document"] = "document"


class ExplainRequest(Request):
    """A document of an index and a query."""

    query: QueryText
    system: Name
    document: Name = Field(description="id of the document")


class MeasureRequest(Request):
    """A judged query, or all of them, for one or more systems."""

    systems: Systems
    query_id: Name | None = Field(None, description="None: the mean over all judged queries")


class SystemInfo(BaseModel):
    """One index."""

    name: str
    model: str
    scoring: str = Field(description="impact, bm25 (of encoded terms) or bm25-text")
    documents: int


class Overview(BaseModel):
    """What the page is over."""

    systems: list[SystemInfo]
    notes: list[str] = Field(description="what is missing, and why")
    collection: str | None = None
    split: str | None = None
    measures: list[str] = []
    queries: int = Field(0, description="judged queries of the split")


class Hit(BaseModel):
    """One document in the ranking of a system."""

    rank: int
    id: str
    score: float
    text: str | None = Field(description="beginning of the text; None if the text is not available")
    cut: bool = Field(description="whether the text goes on")
    grade: int | None = Field(description="of the judged query; None if unjudged")
    ranks: dict[str, int | None] = Field(description="rank in each other system; None: not among the first 100")


class Ranked(BaseModel):
    """The hits of one system."""

    system: str
    encode_ms: float | None = Field(description="milliseconds; None for plain text, which Lucene analyses")
    search_ms: float
    hits: list[Hit]


class Relevant(BaseModel):
    """A relevant document of the judged query."""

    id: str
    grade: int
    ranks: dict[str, int | None] = Field(description="rank in each system; None: not among the first 100")


class SearchResponse(BaseModel):
    """The rankings in the order of the requested systems."""

    rankings: list[Ranked]
    relevant: list[Relevant] = Field(description="relevant documents of the judged query, highest grade first")


class Share(BaseModel):
    """What a word contributes."""

    word: str
    part: str = Field(description="part of the model, such as b4; empty if there is one")
    weight: float


class WeighedTerm(BaseModel):
    """A term of a text."""

    term: str
    weight: float | None = Field(description="from the encoder")
    impact: int | None = Field(description="as indexed or searched")
    literal: bool | None = Field(description="whether it is a token of the text; None if dimensions are no tokens")
    words: list[Share] = Field(description="words that the weight comes from, heaviest first")
    gate: list[Share] = Field(description="words that opened the gate of the term (SparTerm)")


class WordOfText(BaseModel):
    """A word of the text."""

    start: int
    end: int = Field(description="code points; end is exclusive")
    sequence: int = Field(description="0: in the text, 1: in the text that expands it")
    weight: float
    score: float = Field(description="its part of the score of a document; 0 without a query")


class WeighedText(BaseModel):
    """A text with its terms."""

    id: str | None
    text: str | None
    expanded: str
    notes: list[str]
    words: list[WordOfText]
    terms: list[WeighedTerm] = Field(description="the heaviest first")

    @classmethod
    def of(cls, view: TextView, parts: Sequence[float] | None = None) -> WeighedText:
        """``view`` with the ``parts`` of a score that its words give."""
        scores = parts or [0.0] * len(view.words)
        words = [WordOfText(**vars(word), score=score) for word, score in zip(view.words, scores, strict=True)]
        terms = [
            WeighedTerm(
                **vars(term),
                words=_shares(view, term.sources.shares if term.sources else ()),
                gate=_shares(view, term.sources.gate if term.sources else ()),
            )
            for term in view.terms
        ]
        return cls(**vars(view) | {"words": words, "terms": terms})


class SharedTerm(BaseModel):
    """A term of the query and of the document."""

    term: str
    query: int
    document: int = Field(description="impacts; under BM25, how often the term occurs")
    product: float = Field(description="what the term adds to the score")
    share: float = Field(description="of the score, from 0 to 1")
    word_in_query: str | None
    word_in_document: str | None
    literal: bool | None = Field(description="whether it is a token of the document's text")


class Explanation(BaseModel):
    """Why a document has its score."""

    score: float = Field(description="sum over the terms")
    lucene: float = Field(description="the score that Lucene computes")
    signals: dict[str, float] = Field(description="share of the model and of BM25 where an index holds both")
    terms: list[SharedTerm] = Field(description="largest product first")
    only_in_query: dict[str, int]
    query: WeighedText
    document: WeighedText

    @classmethod
    def of(cls, inspection: Inspection) -> Explanation:
        """The explanation of an inspection of a query and a document."""
        query, document, score = inspection.query, inspection.document, inspection.score
        if query is None or document is None or score is None:
            raise ValueError("not an inspection of a query and a document")
        literal = {term.term: term.literal for term in document.terms}
        return cls(
            score=score.total,
            lucene=score.lucene,
            signals=score.signals,
            terms=[
                SharedTerm(
                    **term.to_json(),
                    share=term.product / score.total if score.total else 0.0,
                    literal=literal[term.term],
                )
                for term in score.terms
            ],
            only_in_query=dict(score.only_in_query),
            query=WeighedText.of(query),
            document=WeighedText.of(document, word_contributions(document, score)),
        )


class Measured(BaseModel):
    """The measures of one system."""

    system: str
    values: dict[str, float]


class MeasureResponse(BaseModel):
    """Measures as trec_eval computes them, from 1,000 hits."""

    queries: int = Field(description="queries that are averaged")
    systems: list[Measured]


class JudgedQuery(BaseModel):
    """A judged query."""

    id: str
    text: str
    relevant: int = Field(description="number of relevant documents")


class QueriesResponse(BaseModel):
    """Judged queries."""

    total: int
    queries: list[JudgedQuery]


class Problem(BaseModel):
    """Why a request was refused, in one line."""

    error: str
    error_type: str = Field("Validation", description="as in text-embeddings-inference")


def _shares(view: TextView, shares: Sequence[TokenShare]) -> list[Share]:
    rows = view.heaviest_words(shares)
    return [Share(word=word, part=part, weight=weight) for word, part, weight in rows]
