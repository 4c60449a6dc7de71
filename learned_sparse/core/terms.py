"""Which terms Lucene can hold, and the two reserved ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import SparseBatch

EMPTY_TERM = "[empty-vector]"
"""The only term of a document without any: Anserini would drop the document, and no query ever holds this term."""
NO_TERMS = "[no-terms]"
"""Stands for a query without terms in a topics file, which Pyserini cannot read with an empty line in it; no document
ever holds this term."""
RESERVED = frozenset({EMPTY_TERM, NO_TERMS})

LONGEST_TERM = 254
"""In UTF-16 units, as Java counts: Lucene's whitespace tokenizer splits longer ones."""


def unfit_reason(term: str) -> str | None:
    """Why Lucene, Pyserini or a file cannot hold ``term``; None if they can.

    >>> unfit_reason("new york")
    'it holds white space and would be split'
    >>> unfit_reason("##ing") is None
    True
    """
    if not term:
        return "it is empty"
    # Python's white space includes Java's; Pyserini splits topics by Python's.
    if term.split() != [term]:
        return "it holds white space and would be split"
    if len(term) > LONGEST_TERM // 2 and len(term.encode("utf-16-le", "surrogatepass")) // 2 > LONGEST_TERM:
        return f"it is longer than {LONGEST_TERM} characters and would be split"
    if any("\ud800" <= character <= "\udfff" for character in term):
        return "it holds half a surrogate pair, which no file can hold"
    if term in RESERVED:
        return "this spelling is reserved for empty vectors"
    return None


class LuceneTerms:
    """The term list of an encoder, checked once so that each batch is checked by array operations alone."""

    def __init__(self, terms: Sequence[str]) -> None:
        self.names = np.empty(len(terms), dtype=object)
        self.names[:] = list(terms)
        self.lengths = np.fromiter(map(len, terms), dtype=np.int64, count=len(terms))
        self._reasons: dict[int, str] = {}
        if not _all_fit(terms, self.lengths):
            self._reasons = {number: reason for number, term in enumerate(terms) if (reason := unfit_reason(term))}
            self._reasons.update(_repeated(terms))
        self._unfit = np.zeros(len(terms), dtype=bool)
        self._unfit[list(self._reasons)] = True

    def check(self, batch: SparseBatch, ids: Sequence[str]) -> None:
        """Raise, naming document and term, if a row of ``batch`` has a term that must not be written."""
        wrong = self._unfit[batch.indices]
        if not wrong.any():
            return
        place = int(np.argmax(wrong))
        row = int(np.searchsorted(batch.indptr, place, side="right")) - 1
        number = int(batch.indices[place])
        raise LearnedSparseError(
            f"{ids[row]!r}: Lucene cannot hold the term {self.names[number]!r}: {self._reasons[number]}; "
            "spell this dimension of the model otherwise, or never give it a weight"
        )


def _all_fit(terms: Sequence[str], lengths: npt.NDArray[np.int64]) -> bool:
    """Whether no term is unfit or repeated, as is usual; False also where it must be seen term by term.

    For a vocabulary of 30,522 asking each term takes six times as long.
    """
    joined = "".join(terms)
    return (
        joined.isprintable()  # so no surrogate, and of white space the blank alone
        and " " not in joined
        and lengths.min(initial=1) > 0
        and lengths.max(initial=1) <= LONGEST_TERM // 2
        and len(RESERVED.union(terms)) == len(RESERVED) + len(terms)
    )


def _repeated(terms: Sequence[str]) -> dict[int, str]:
    first: dict[str, int] = {}
    return {
        number: f"dimensions {first[term]} and {number} are both spelled so"
        for number, term in enumerate(terms)
        if first.setdefault(term, number) != number
    }
