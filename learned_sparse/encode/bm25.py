"""BM25 as an encoder: the impacts of documents hold everything but the counts of query words.

A document's weight of a term is ``idf * tf / (tf + k1 * (1 - b + b * length / average))``, a query's weight is how
often the term occurs. Terms are those of Lucene's English analyzer, and scores are those of its ``BM25Similarity``.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from learned_sparse.core.encoder import Encoder
from learned_sparse.core.lines import unfit_reason
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.reading import Reading, Share, Sources, Token
from learned_sparse.core.records import SparseBatch

BITS = 8
"""Bits of the impacts unless others are requested."""


@dataclass(frozen=True)
class Bm25Statistics:
    """What BM25 knows of a collection, and its two parameters (defaults: Anserini's)."""

    documents: int
    """Documents that have a term; Lucene counts no others."""
    tokens: int
    """Sum of the lengths of all documents, in terms after the analyzer."""
    frequencies: dict[str, int] = field(repr=False)
    """Number of documents that have a term, by term."""
    k1: float = 0.9
    b: float = 0.4

    @classmethod
    def count(cls, texts: Iterable[str]) -> Bm25Statistics:
        """Statistics of all documents of a collection. Starts Java."""
        from learned_sparse.lucene.searchers import english_tokens

        frequencies, documents, tokens = Counter[str](), 0, 0
        for text in texts:
            terms = [term for term, _, _ in english_tokens(text)]
            frequencies.update(set(terms))
            documents += bool(terms)
            tokens += len(terms)
        return cls(documents, tokens, dict(sorted(frequencies.items())))

    def idf(self, frequencies: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Lucene's inverse document frequency: ``log(1 + (N - n + 0.5) / (n + 0.5))``; never below 0."""
        result: npt.NDArray[np.float64] = np.log1p((self.documents - frequencies + 0.5) / (frequencies + 0.5))
        return result

    def saturation(self, length: int) -> float:
        """``k1 * (1 - b + b * length / average)`` of a document with ``length`` terms."""
        return self.k1 * (1 - self.b + self.b * length_in_lucene(length) * self.documents / max(self.tokens, 1))


def length_in_lucene(length: int) -> int:
    """A document's length as one byte of Lucene holds it (``SmallFloat.intToByte4``): four significant bits.

    >>> [length_in_lucene(length) for length in (39, 40, 41, 42, 100, 1000)]
    [39, 40, 40, 42, 96, 984]
    """
    shift = max(0, (length - 24).bit_length() - 4)
    return length if length < 24 else 24 + ((length - 24) >> shift << shift)


class AnalyzedText(Encoder):
    """Queries of BM25: the weight of a term is how often Lucene's English analyzer finds it. ``encode`` starts Java."""

    terms: Sequence[str] = ()
    """Terms known before any text: none. Each batch has the terms of its texts."""
    description: Mapping[str, Any] = {"architecture": "analyzer", "scoring": "bm25"}
    quantizer: Quantizer = Quantizer(1.0)  # counts are impacts as they are
    dense_terms = 1024

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        """Weights of ``texts``, one row each, without terms that Lucene cannot store."""
        rows = ({term: n for term, n in counts.items() if not unfit_reason(term)} for counts in map(_counted, texts))
        return SparseBatch.from_dicts(rows)

    def explain(self, text: str) -> Reading:
        """One token for each word that is not a stop word, spelled as its term; occurrences share the weight."""
        from learned_sparse.lucene.searchers import english_tokens

        pieces = english_tokens(text)
        tokens = tuple(Token(term, start, end, 0, number) for number, (term, start, end) in enumerate(pieces))
        places: dict[str, list[int]] = {}
        for number, token in enumerate(tokens):
            places.setdefault(token.text, []).append(number)
        row = self.encode([text]).row(0)
        weights = {term: row[term] for term in sorted(row, key=lambda term: (-row[term], term))}
        sources = {
            term: Sources(shares=tuple(Share(number, weight / len(places[term])) for number in places[term]))
            for term, weight in weights.items()
        }
        return Reading(tokens=tokens, truncated=False, spelled=True, weights=weights, sources=sources)


class Bm25Documents(AnalyzedText):
    """Documents of BM25, whose statistics are known; a term that no document has gets no weight.

    The default quantiser maps the weight that no term can exceed, the idf of a term of one document, to 255.
    """

    def __init__(self, statistics: Bm25Statistics) -> None:
        self.terms = [term for term in statistics.frequencies if not unfit_reason(term)]
        self.statistics = statistics
        self._numbers = {term: number for number, term in enumerate(self.terms)}
        self._idf = statistics.idf(np.array([statistics.frequencies[term] for term in self.terms], np.int64))
        frequencies = json.dumps(statistics.frequencies, sort_keys=True)
        self.description = {
            "architecture": "bm25", **asdict(statistics),
            "frequencies": len(statistics.frequencies),
            "frequencies_sha256": hashlib.sha256(frequencies.encode()).hexdigest(),
        }  # fmt: skip
        self.quantizer = Quantizer((2**BITS - 1) / float(statistics.idf(np.ones(1, np.int64))[0]), BITS)

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        """Weights of ``texts``, one row each."""
        empty = SparseBatch.from_dicts([])
        indptr, indices, values, dropped = [0], [empty.indices], [empty.values], 0
        for counts in map(_counted, texts):
            known = {self._numbers[term]: count for term, count in counts.items() if term in self._numbers}
            dropped += len(counts) - len(known)
            numbers = np.array(sorted(known), np.int32)
            frequencies = np.array([known[number] for number in numbers.tolist()], np.float64)
            saturation = self.statistics.saturation(counts.total())
            values.append((self._idf[numbers] * frequencies / (frequencies + saturation)).astype(np.float32))
            indices.append(numbers)
            indptr.append(indptr[-1] + len(numbers))
        columns, weights = np.concatenate(indices), np.concatenate(values)
        return SparseBatch(np.array(indptr, np.int64), columns, weights, self.terms, dropped=dropped)


def _counted(text: str) -> Counter[str]:
    """How often a text has each term of Lucene's English analyzer."""
    from learned_sparse.lucene.searchers import english_tokens

    return Counter(term for term, _, _ in english_tokens(text))
