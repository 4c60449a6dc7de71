"""Terms that too many documents have weight in, and so have none any more (SpaDE, section 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from encoders.checkpoints import Vocabulary
from learned_sparse.core import LearnedSparseError, did_you_mean

RECORDED_FROM = 0.05
"""Rarer terms are not written down, so no smaller gamma can be chosen later; the paper tries 0.1 to 0.9."""
_MILLION = 1_000_000  # whole numbers: exact in JSON and untouched by a cast to bfloat16


class TermPruning(nn.Module):
    """Each term's share of documents, and the largest share that is kept (``gamma``; 1: all terms)."""

    def __init__(self, vocabulary: Vocabulary, allowed: Tensor, frequencies: Mapping[str, float], gamma: float) -> None:
        """``allowed`` ``(vocabulary,)`` of bool: terms that may have weight, however frequent they are."""
        super().__init__()
        self._allowed: Tensor
        self.register_buffer("_allowed", allowed, persistent=False)
        self._spellings = vocabulary.terms
        self._shares: Tensor
        self._gamma: Tensor
        self.register_buffer("_shares", torch.zeros(len(vocabulary), dtype=torch.long))
        self.register_buffer("_gamma", torch.tensor(_millionths(gamma)))
        places = {term: place for place, term in enumerate(vocabulary.terms)} if frequencies else {}
        for term, share in frequencies.items():
            if term not in places:
                raise LearnedSparseError(f"frequencies: no term {term!r} in the vocabulary{did_you_mean(term, places)}")
            self._shares[places[term]] = _millionths(share)

    @property
    def kept(self) -> Tensor:
        """Which terms may have weight, ``(vocabulary,)`` of bool: the allowed ones with a share of at most gamma."""
        return self._allowed & (self._shares <= self._gamma)

    def update(self, shares: Tensor, gamma: float) -> None:
        """``shares`` ``(vocabulary,)``: in how large a part of the documents each term has weight, 0 to 1."""
        self._shares.copy_((shares.double() * _MILLION).round().long())
        self._gamma.fill_(_millionths(gamma))

    def learned(self) -> dict[str, Any]:
        """``gamma``, and ``frequencies`` of the terms that a gamma down to 0.05 may prune, the most frequent first."""
        shares = self._shares.tolist()
        recorded = [place for place in self._frequent().tolist() if self._spellings[place]]
        recorded.sort(key=lambda place: (-shares[place], place))
        return {
            "gamma": self._gamma.item() / _MILLION,
            "frequencies": {self._spellings[place]: shares[place] / _MILLION for place in recorded},
        }

    def _frequent(self) -> Tensor:
        return (self._shares >= _millionths(RECORDED_FROM)).nonzero().flatten()


def _millionths(share: float) -> int:
    if not RECORDED_FROM <= share <= 1:
        raise LearnedSparseError(f"gamma or frequency {share}: give a share of documents, {RECORDED_FROM} to 1")
    return round(share * _MILLION)
