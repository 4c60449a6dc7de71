"""A model and BM25 in one index: their weighted sum is one dot product of vectors with terms in two name spaces.

A document holds the impacts of the model under ``m:TERM`` and those of BM25 under ``b:TERM``. A query weighs the terms
of the model by ``alpha / unit`` and its words by ``(1 - alpha) / unit``, with the unit of each part. Alpha is chosen
for each search: one index serves all. Read ``hybrid_sides`` first.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from learned_sparse.core.encoder import Encoder, Side, Word, encode_texts
from learned_sparse.core.encoder import load_encoder as load_model
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import read_json
from learned_sparse.core.lines import BM25_PREFIX
from learned_sparse.core.quantize import Quantizer, calibrate_on
from learned_sparse.core.reading import Reading, Sources, Token
from learned_sparse.core.records import EXPANDED, SparseBatch
from learned_sparse.core.settings import parse
from learned_sparse.encode.bm25 import BITS, AnalyzedText, Bm25Documents, Bm25Statistics
from learned_sparse.jsonvector.manifest import STATISTICS, Manifest

MODEL, WORDS = "m:", BM25_PREFIX
PARTS = {MODEL: "model", WORDS: "BM25"}
"""Prefix of the terms of each part, and its name."""
ALPHA = "hybrid_alpha"
"""Setting of queries: the share of the model, from 0 (BM25 alone) to 1 (the model alone)."""
DEFAULT_ALPHA = 0.5
INDEX_NOTE = "learned_sparse.json"
"""File of an index that holds the manifests of its vectors."""
QUERY_RESOLUTION = Quantizer(1000.0)
"""Of query weights: with alpha 0, a word that occurs once has the impact 1000."""
SAMPLE, PSEUDO_QUERIES, SPAN_WORDS = 1024, 256, 8
_SAMPLE_STEP = 128
"""Documents of the sample that are encoded at once; models with many terms need much memory for each."""


@dataclass(frozen=True, kw_only=True)
class Signal:
    """How one part enters the sum."""

    scale: float
    """Impact of the weight 1 in documents, at 8 bits."""
    unit: float
    """Typical best score of a query: impacts of documents times weights of queries."""


@dataclass(frozen=True, kw_only=True)
class HybridRecord:
    """``hybrid`` in the descriptions of both encoders, and so in manifests."""

    model: Signal
    bm25: Signal
    statistics: dict[str, Any]
    """Description of ``Bm25Documents``."""


class Hybrid(Encoder):
    """One side of a model and of BM25, each with its weights times a factor."""

    quantizer: Quantizer
    statistics: Bm25Statistics | None = None
    """Those of BM25, for documents."""

    def __init__(
        self, model: Encoder, words: AnalyzedText, record: HybridRecord, factors: tuple[float, float], **described: Any
    ) -> None:
        """``factors``: of the model and of BM25. ``described`` replaces entries of the description of ``model``."""
        architecture = f"{model.description.get('architecture', type(model).__name__)}+bm25"
        self.description = {
            **model.description, "architecture": architecture, "hybrid": asdict(record), **described,
        }  # fmt: skip
        self.terms = [MODEL + term for term in model.terms] + [WORDS + term for term in words.terms]
        self.checkpoint, self.environment, self.uses_expanded = model.checkpoint, model.environment, model.uses_expanded
        self.query_only_settings = model.query_only_settings | {ALPHA}
        self.dense_terms = (model.dense_terms or len(model.terms)) + words.dense_terms
        self._model, self._words, self._factors = model, words, factors

    @classmethod
    def documents(cls, model: Encoder, words: Bm25Documents, record: HybridRecord, bits: int = BITS) -> Hybrid:
        """Documents: the weights are impacts of 8 bits, not rounded yet; the quantiser has ``bits``."""
        hybrid = cls(model, words, record, (record.model.scale, record.bm25.scale))
        hybrid.statistics = words.statistics
        hybrid.quantizer = Quantizer((2**bits - 1) / (2**BITS - 1), bits)
        return hybrid

    @classmethod
    def queries(cls, model: Encoder, record: HybridRecord, alpha: float = DEFAULT_ALPHA) -> Hybrid:
        """Queries, in units of BM25: with ``alpha`` 0 the weights are counts of words."""
        if not 0 <= alpha <= 1:
            raise LearnedSparseError(f"alpha {alpha}: give the share of the model, from 0 to 1")
        factors = (alpha * record.bm25.unit / record.model.unit, 1 - alpha)
        settings = {**model.description.get("settings", {}), ALPHA: alpha}
        hybrid = cls(model, AnalyzedText(), record, factors, settings=settings)
        hybrid.quantizer = QUERY_RESOLUTION
        return hybrid

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        """Weights of ``texts``, one row each."""
        return self.encode_prepared(self.prepare(texts))

    def prepare(self, texts: Sequence[str]) -> Any:
        """What the model prepares, and the texts."""
        return self._model.prepare(texts), texts

    def encode_prepared(self, prepared: Any) -> SparseBatch:
        """Both parts side by side."""
        from scipy.sparse import hstack

        tokens, texts = prepared
        words, weights = self._words, (self._model.encode_prepared(tokens), self._words.encode(texts))
        scaled = [batch.to_scipy() * factor for batch, factor in zip(weights, self._factors, strict=True)]
        rows = hstack(scaled, format="csr", dtype=np.float32)
        terms = self.terms
        if weights[1].terms is not words.terms:  # queries: the words of these texts alone
            terms = [*terms, *(WORDS + term for term in weights[1].terms)]
        indptr, indices = rows.indptr.astype(np.int64), rows.indices.astype(np.int32)
        truncated, dropped = weights[0].truncated, weights[0].dropped + weights[1].dropped
        return SparseBatch(indptr, indices, rows.data, terms, truncated, dropped)

    def word_spans(self, texts: Sequence[str]) -> list[list[Word]]:
        """Words of the model."""
        return self._model.word_spans(texts)

    def explain(self, text: str) -> Reading:
        """Both explanations in one. A token of the analyzer belongs to the word of the model at the same place."""
        model, words = self._model.explain(text), self._words.explain(text)
        words_at = {(token.sequence, at): token.word for token in model.tokens for at in range(token.start, token.end)}
        tokens = [
            token._replace(text=MODEL + token.text) if model.spelled and token.sequence is not None else token
            for token in model.tokens
        ]
        end_of_text = len(text.partition(EXPANDED)[0])
        for token in words.tokens:
            sequence, before = (1, end_of_text + 1) if token.start > end_of_text else (0, 0)
            start, end = token.start - before, token.end - before
            tokens.append(Token(WORDS + token.text, start, end, sequence, words_at.get((sequence, start))))
        weights, sources = dict[str, float](), dict[str, Sources]()
        readings = ((model, MODEL, 0), (words, WORDS, len(model.tokens)))
        for (reading, prefix, first), factor in zip(readings, self._factors, strict=True):
            for term, weight in reading.weights.items():
                weights[prefix + term] = weight * factor
                origin = reading.sources[term]
                shares = tuple(
                    share._replace(token=share.token + first, weight=share.weight * factor) for share in origin.shares
                )
                sources[prefix + term] = replace(origin, shares=shares)
        heaviest_first = sorted(weights, key=lambda term: (-weights[term], term))
        return Reading(
            tokens=tuple(tokens),
            truncated=model.truncated,
            spelled=model.spelled,
            weights={term: weights[term] for term in heaviest_first},
            sources=sources,
        )


def hybrid_sides(
    documents: Encoder,
    queries: Encoder,
    texts: Iterable[str],
    *,
    bits: int = BITS,
    percentile: float = 100.0,
    record: HybridRecord | None = None,
) -> tuple[Hybrid, Hybrid]:
    """Sides of documents and queries of a model and BM25 for a collection, after one pass over its ``texts``.

    The scale of the model (its own, or calibrated for ``percentile``) and both units are measured on a random sample,
    without judgements: queries are spans of documents. ``record``: that of an earlier run, which measures nothing.
    """
    if documents.description.get("scoring", "impact") != "impact":
        raise LearnedSparseError("this model is scored by BM25 already; encode without --with")
    sample = list[str]()
    statistics = Bm25Statistics.count(_sampled(texts, sample))
    if not statistics.documents:
        raise LearnedSparseError("no document has a word, so that BM25 has no statistics; encode without --with")
    words = Bm25Documents(statistics)
    if record is None:
        record = _measured(documents, queries, words, [text for text in sample if text.strip()], percentile)
    return Hybrid.documents(documents, words, record, bits), Hybrid.queries(queries, record)


def load_encoder(
    checkpoint: str,
    side: Side = "document",
    *,
    hybrid: Mapping[str, Any] | None = None,
    statistics: str | None = None,
    **options: Any,
) -> Encoder:
    """``learned_sparse.core.load_encoder``, also for a side whose description in a manifest has ``hybrid``.

    ``statistics``: folder with BM25's statistics; only documents need it.
    """
    if hybrid is None:
        return load_model(checkpoint, side, **options)
    record = parse(HybridRecord, hybrid, "hybrid")
    settings = dict(options.pop("settings", None) or {})
    alpha = settings.pop(ALPHA, DEFAULT_ALPHA)
    model = load_model(checkpoint, side, **options, **({"settings": settings} if settings else {}))
    if side == "query":
        return Hybrid.queries(model, record, alpha)
    path = Path(statistics or ".", STATISTICS)
    words = Bm25Documents(parse(Bm25Statistics, read_json(path, record=True), str(path)))
    if words.description != record.statistics:
        raise LearnedSparseError(f"{statistics}/{STATISTICS}: not the statistics of these vectors; encode them again")
    return Hybrid.documents(model, words, record)


def recorded_hybrid(folder: Path) -> HybridRecord:
    """``hybrid`` of the descriptions in the manifest of encoded documents, or of an index of them."""
    note = folder / INDEX_NOTE
    manifests = read_json(note, record=True).get("manifests", []) if note.is_file() else [asdict(Manifest.load(folder))]
    recorded = manifests[0]["encoder"].get("hybrid") if manifests else None
    if not isinstance(recorded, Mapping):
        raise LearnedSparseError(f"{folder}: documents without BM25; name those of learned_sparse.encode --with bm25")
    return parse(HybridRecord, recorded, str(folder))


def _sampled(texts: Iterable[str], sample: list[str]) -> Iterator[str]:
    """``texts``, of which ``sample`` holds ``SAMPLE`` random ones at the end (reservoir sampling)."""
    rng = random.Random(0)  # noqa: S311  (no cryptography)
    for number, text in enumerate(texts):
        if number < SAMPLE:
            sample.append(text)
        elif (place := rng.randrange(number + 1)) < SAMPLE:
            sample[place] = text
        yield text


def _measured(
    documents: Encoder, queries: Encoder, words: Bm25Documents, sample: Sequence[str], percentile: float
) -> HybridRecord:
    steps = range(0, len(sample), _SAMPLE_STEP)
    weights = SparseBatch.concatenate([encode_texts(documents, sample[at : at + _SAMPLE_STEP]) for at in steps])
    Quantizer(1.0).quantize(weights, [text[:60] for text in sample])  # raises for weights that no quantiser takes
    own = documents.quantizer
    quantizer = own if own and own.bits else calibrate_on(weights, BITS, percentile)
    scale = _rounded(quantizer.scale * (2**BITS - 1) / (2 ** (quantizer.bits or BITS) - 1))
    spans = [_span(text) for text in sample[:PSEUDO_QUERIES]]
    bm25_score = _typical_score(AnalyzedText().encode(spans), words.encode(sample))
    return HybridRecord(
        model=Signal(scale=scale, unit=_rounded(scale * _typical_score(encode_texts(queries, spans), weights))),
        bm25=Signal(scale=words.quantizer.scale, unit=_rounded(words.quantizer.scale * bm25_score)),
        statistics=dict(words.description),
    )


def _rounded(number: float) -> float:
    """Four digits, which are the same on all machines that encode a shard."""
    return float(f"{number:.4g}")


def _span(text: str) -> str:
    """``SPAN_WORDS`` words in the middle of a text."""
    words = text.split()
    start = max(0, len(words) - SPAN_WORDS) // 2
    return " ".join(words[start : start + SPAN_WORDS])


def _typical_score(queries: SparseBatch, documents: SparseBatch) -> float:
    """Median of the best scores of ``queries``, each a span of the document in its row, which is left out."""
    numbers = {term: number for number, term in enumerate(documents.terms)}
    columns = np.array([numbers.get(term, -1) for term in queries.terms], np.int64)
    shared = columns >= 0
    scores = (queries.to_scipy()[:, shared] @ documents.to_scipy()[:, columns[shared]].T).toarray()
    np.fill_diagonal(scores, 0)
    best = scores.max(axis=1, initial=0)
    if not best.any():
        raise LearnedSparseError(
            "too few documents to weigh the model and BM25: none has a word of another; encode without --with"
        )
    return float(np.median(best[best > 0]))
