"""The field's notation for measures (``nDCG@10``, as ir_measures writes it) in trec_eval's words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from learned_sparse.core import LearnedSparseError, did_you_mean

#: Notation: (trec_eval's measure without a cut-off, with one); None where trec_eval has no such measure.
_TREC_EVAL: dict[str, tuple[str | None, str | None]] = {
    "MRR": ("recip_rank", "recip_rank"),  # there is no recip_rank.10: -M 10 cuts the run itself
    "MAP": ("map", "map_cut.{}"),
    "nDCG": ("ndcg", "ndcg_cut.{}"),
    "R": (None, "recall.{}"),
    "P": (None, "P.{}"),
    "Success": (None, "success.{}"),
    "Rprec": ("Rprec", None),
}
_ALIASES = {"RR": "MRR", "AP": "MAP", "Recall": "R"}
_CUT_BY_DEPTH = "MRR"
_GRADED = "nDCG"  # takes the grades as they are, so a level from which they count has no meaning
_FORM = re.compile(r"(?P<name>[A-Za-z]+)(\(rel=(?P<level>[1-9][0-9]*)\))?(@(?P<cutoff>[1-9][0-9]*))?")


@dataclass(frozen=True)
class Measure:
    """One measure in trec_eval's words.

    >>> parse_measure("R(rel=2)@1000").arguments
    ('-c', '-l', '2', '-m', 'recall.1000')
    >>> parse_measure("MRR@10").arguments
    ('-c', '-M', '10', '-m', 'recip_rank')
    """

    text: str
    name: str
    options: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """What stock ``trec_eval`` is given, without the two files."""
        return ("-c", *self.options, "-m", self.name)

    @property
    def key(self) -> str:
        """How trec_eval's output spells the measure: ``recall_1000``."""
        return self.name.replace(".", "_")


def parse_measure(text: str) -> Measure:
    """The measure spelled ``text``; ``LearnedSparseError`` for one that trec_eval does not have.

    ``@k`` looks at the first ``k`` results; ``(rel=2)`` counts a document as relevant from grade 2 on (from 1 without).
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise LearnedSparseError(f"measure {text!r}: expected NAME, NAME@K or NAME(rel=N)@K, for instance nDCG@10")
    name, level, cutoff = match["name"], match["level"], match["cutoff"]
    name = _ALIASES.get(name, name)
    if name not in _TREC_EVAL:
        known = [*_TREC_EVAL, *_ALIASES]
        name = {word.casefold(): word for word in known}.get(name.casefold(), name)
        raise LearnedSparseError(f"measure {text!r}: unknown{did_you_mean(name, known)}")
    form = _TREC_EVAL[name][1 if cutoff else 0]
    if form is None:
        example = f"{name}@100" if cutoff is None else name
        raise LearnedSparseError(f"measure {text!r}: {'takes no' if cutoff else 'needs a'} cut-off; write {example}")
    if level and name == _GRADED:
        raise LearnedSparseError(f"measure {text!r}: {name} weighs the grades themselves; leave (rel={level}) out")
    options: tuple[str, ...] = ("-M", cutoff) if cutoff and name == _CUT_BY_DEPTH else ()
    options += ("-l", level) if level else ()
    return Measure(text.strip(), form.format(cutoff), options)
