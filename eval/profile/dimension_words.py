"""What a dimension means: the words that queries have which activate it, more often than other queries have them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

_WORD = re.compile(r"[^\W_]+")
_BLOCK = 256  # words counted at a time
LIFT = 2.0


@dataclass(frozen=True)
class Word:
    """A word of queries that activate a dimension."""

    word: str
    queries: int
    """That have the word and activate the dimension."""
    lift: float
    """How much more often queries with the word activate the dimension than queries do altogether."""


@dataclass(frozen=True)
class Meaning:
    """A dimension and its words, the most telling first."""

    dimension: str
    queries: int
    """That activate it."""
    words: tuple[Word, ...]


def meanings(texts: Sequence[str], active: Sequence[Iterable[str]], at_least: int = 5) -> list[Meaning]:
    """Of every dimension with such words; ``active`` are the dimensions of each of ``texts`` (queries).

    As in Table 7 of UHD-BERT's paper a word must occur in ``at_least`` queries that activate the dimension. Words such
    as "what" do so everywhere, so it must also do so ``LIFT`` times as often as chance would have it. Words, and
    dimensions by their first word, are ordered by ``queries * log(lift)``.
    """
    words, in_words = _incidence(set(_WORD.findall(text.lower())) for text in texts)
    dimensions, in_dimensions = _incidence(active)
    of_word = np.asarray(in_words.sum(axis=0)).ravel()
    of_dimension = np.asarray(in_dimensions.sum(axis=0)).ravel()
    found: dict[int, list[tuple[float, Word]]] = {}
    frequent = np.flatnonzero(of_word >= at_least)
    by_word = in_words.T.tocsr()
    for start in range(0, len(frequent), _BLOCK):
        block = frequent[start : start + _BLOCK]
        together = (by_word[block] @ in_dimensions).tocoo()
        lifts = together.data * len(texts) / (of_word[block][together.row] * of_dimension[together.col])
        for place in np.flatnonzero((together.data >= at_least) & (lifts >= LIFT)).tolist():
            word = Word(words[block[together.row[place]]], int(together.data[place]), float(lifts[place]))
            score = word.queries * float(np.log(word.lift))
            found.setdefault(int(together.col[place]), []).append((score, word))
    ordered = []
    for dimension, scored in found.items():
        scored.sort(key=lambda pair: (-pair[0], pair[1].word))
        meaning = Meaning(dimensions[dimension], int(of_dimension[dimension]), tuple(word for _, word in scored))
        ordered.append((scored[0][0], meaning))
    return [meaning for _, meaning in sorted(ordered, key=lambda pair: (-pair[0], pair[1].dimension))]


def _incidence(rows: Iterable[Iterable[str]]) -> tuple[list[str], Any]:
    """The names, and a matrix (rows, names) of zeros and ones."""
    numbers: dict[str, int] = {}
    ends, columns = [0], []
    for row in rows:
        columns += [numbers.setdefault(name, len(numbers)) for name in sorted(row)]
        ends.append(len(columns))
    shape = (len(ends) - 1, len(numbers))
    return list(numbers), scipy.sparse.csr_array((np.ones(len(columns), np.int64), columns, ends), shape=shape)
