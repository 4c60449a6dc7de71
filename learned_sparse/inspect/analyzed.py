"""Plain text for BM25 as an encoder: the weight of a term is how often Lucene's English analyzer finds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from learned_sparse.core import Encoder, Quantizer, Reading, Share, Sources, SparseBatch, Token

if TYPE_CHECKING:
    from learned_sparse.lucene import Bm25Searcher


class AnalyzedText(Encoder):
    """Counts of the terms of a text, as an index of plain text holds them; each comes from its words in the text."""

    description: Mapping[str, Any] = {"architecture": "analyzer", "scoring": "bm25"}
    quantizer: Quantizer = Quantizer(1.0)  # counts are impacts as they are

    def __init__(self, searcher: Bm25Searcher) -> None:
        self._searcher = searcher
        self.terms: Sequence[str] = ()

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        """Counts of the terms of ``texts``, one row each."""
        return SparseBatch.from_dicts([self.explain(text).weights for text in texts])

    def explain(self, text: str) -> Reading:
        """One token for each word that is not a stop word, spelled as its term."""
        pieces = self._searcher.tokens(text)
        tokens = tuple(Token(term, start, end, 0, number) for number, (term, start, end) in enumerate(pieces))
        shares: dict[str, list[Share]] = {}
        for number, token in enumerate(tokens):
            shares.setdefault(token.text, []).append(Share(number, 1.0))
        names = sorted(shares, key=lambda term: (-len(shares[term]), term))
        return Reading(
            tokens=tokens,
            truncated=False,
            spelled=True,
            weights={term: float(len(shares[term])) for term in names},
            sources={term: Sources(shares=tuple(shares[term])) for term in names},
        )
