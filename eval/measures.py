"""Scores of runs as trec_eval computes them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

import numpy as np

from learned_sparse.collections.trec import read_qrels, read_run
from learned_sparse.core.errors import LearnedSparseError, did_you_mean

Qrels = Mapping[str, Mapping[str, int]]
"""Query id → document id → grade."""
Run = Mapping[str, Sequence[tuple[str, float]] | Mapping[str, float]]
"""Query id → (document id, score) pairs, or document id → score; trec_eval orders the pairs itself."""
PerQuery = Mapping[str, Mapping[str, float]]
"""Measure → query id → value."""
# trec_eval's name of each measure without a cut-off, and with one; None: trec_eval has no such measure.
_TREC_EVAL: dict[str, tuple[str | None, str | None]] = {
    "MRR": ("recip_rank", "recip_rank"),  # recip_rank takes no cut-off: a lower value than 1 / 10 counts as 0 at 10
    "MAP": ("map", "map_cut.{}"),
    "nDCG": ("ndcg", "ndcg_cut.{}"),
    "R": (None, "recall.{}"),
    "P": (None, "P.{}"),
    "Success": (None, "success.{}"),
    "Rprec": ("Rprec", None),
}
_ALIASES = {
    "RR": "MRR", "AP": "MAP", "Recall": "R", "recip_rank": "MRR", "map_cut": "MAP", "ndcg_cut": "nDCG",
}  # fmt: skip
_GRADED = "nDCG"  # uses the grades themselves, so a relevance level has no meaning
_NOTATION = re.compile(
    r"(?P<name>[A-Za-z]+(?:_[A-Za-z]+)*)(\(rel=(?P<level>[1-9][0-9]*)\))?([@._](?P<cutoff>[1-9][0-9]*))?"
)
_DIGITS = 4  # that trec_eval prints


@dataclass(frozen=True)
class Measure:
    """One measure in trec_eval's words."""

    text: str
    name: str
    """With the cut-off: ``recall.1000``."""
    level: int = 1
    """Grade from which a document is relevant."""
    cutoff: int | None = None


@dataclass(frozen=True)
class Scores:
    """The measures of one run.

    ``mean`` is over all judged queries; ``per_query[measure]`` has exactly the judged queries.
    """

    mean: Mapping[str, float]
    per_query: PerQuery
    missing: tuple[str, ...] = ()
    """Judged queries without a hit; each scores zero."""
    unjudged: tuple[str, ...] = ()
    """Queries of the run without judgements; they affect no measure."""
    max_hits: int = 0
    """Largest number of hits of a judged query in the run."""


def parse_measure(text: str) -> Measure:
    """Parse the notation of ir_measures, ``nDCG@10`` or ``R(rel=2)@1000``, or of trec_eval, ``ndcg_cut.10``.

    ``@k`` considers the first ``k`` hits; ``(rel=2)`` counts documents of grade 2 or higher as relevant (default: 1).
    Upper and lower case are the same. ``LearnedSparseError`` if trec_eval has no such measure.

    >>> [parse_measure(text).name for text in ("ndcg@10", "ndcg_cut_10", "recall.100", "map")]
    ['ndcg_cut.10', 'ndcg_cut.10', 'recall.100', 'map']
    """
    match = _NOTATION.fullmatch(text.strip())
    if match is None:
        raise LearnedSparseError(f"measure {text!r}: expected NAME, NAME@K or NAME(rel=N)@K, for instance nDCG@10")
    level, cutoff = match["level"], match["cutoff"]
    known = {word.casefold(): word for word in (*_TREC_EVAL, *_ALIASES)}
    given = known.get(match["name"].casefold())
    if given is None:
        raise LearnedSparseError(f"measure {text!r}: unknown{did_you_mean(match['name'], known.values())}")
    name = _ALIASES.get(given, given)
    form = _TREC_EVAL[name][1 if cutoff else 0]
    if form is None or (given.endswith("_cut") and cutoff is None):
        example = f"{name}@100" if cutoff is None else name
        raise LearnedSparseError(f"measure {text!r}: {'takes no' if cutoff else 'needs a'} cut-off; write {example}")
    if level and name == _GRADED:
        raise LearnedSparseError(f"measure {text!r}: {name} uses the grades themselves; omit (rel={level})")
    return Measure(text.strip(), form.format(cutoff), int(level or 1), int(cutoff) if cutoff else None)


def evaluate(
    run: Run | str | Path, qrels: Qrels | str | Path, measures: Sequence[str], *, remove_query: bool = False
) -> Scores:
    """Measure ``run`` against ``qrels``; each is a file or its content.

    The order of the two is that of ``trec_eval`` reversed, so that judgements whose grades are no integers, such as a
    run given in their place, are refused. ``remove_query`` ignores a hit whose id is that of the query, as BEIR does.
    Values are those of trec_eval's own code (the package pytrec_eval), rounded to four decimals as trec_eval prints
    them. Of tied scores, it takes the larger document id first, which can differ from the ranks shown elsewhere.

    >>> evaluate({"q1": [("d9", 2.0), ("d1", 1.0)]}, {"q1": {"d1": 1}, "q2": {"d2": 1}}, ["MRR@10"]).mean
    {'MRR@10': 0.25}
    """
    from pytrec_eval import RelevanceEvaluator

    parsed = [parse_measure(text) for text in dict.fromkeys(measures)]
    qrels = read_qrels(Path(qrels)) if isinstance(qrels, str | Path) else qrels
    run = read_run(Path(run)) if isinstance(run, str | Path) else run
    judged = {query: grades for query, grades in qrels.items() if grades}
    if not judged:
        raise LearnedSparseError("no query has a judgement; there is nothing to measure")
    if not all(
        isinstance(of, Mapping) and all(isinstance(grade, Integral) for grade in of.values()) for of in judged.values()
    ):
        raise LearnedSparseError("judgements: grades must be integers; the order is evaluate(run, qrels, measures)")
    hits = {query: _hits(run.get(query, ()), query if remove_query else None) for query in judged}
    # No measure distinguishes negative grades from 0, but trec_eval fails on a query whose grades are all negative.
    grades = {query: {document: max(int(grade), 0) for document, grade in of.items()} for query, of in judged.items()}
    found: dict[int, Mapping[str, Mapping[str, float]]] = {}
    for level in {measure.level for measure in parsed}:
        names = {measure.name for measure in parsed if measure.level == level}
        found[level] = RelevanceEvaluator(grades, names, relevance_level=level).evaluate(hits)
    mean, per_query = dict[str, float](), dict[str, dict[str, float]]()
    for measure in parsed:
        least = 1 / measure.cutoff if measure.cutoff and measure.name == "recip_rank" else 0.0
        key, of_level = measure.name.replace(".", "_"), found[measure.level]
        values = {query: of_level[query][key] if query in of_level else 0.0 for query in judged}
        values = {query: value if value >= least else 0.0 for query, value in values.items()}
        total = np.cumsum([values[query] for query in sorted(judged, key=str.encode)])[-1]  # in trec_eval's order
        mean[measure.text] = round(float(total) / len(judged), _DIGITS)
        per_query[measure.text] = {query: round(value, _DIGITS) for query, value in values.items()}
    return Scores(
        mean=mean,
        per_query=per_query,
        missing=tuple(query for query, of_query in hits.items() if not of_query),
        unjudged=tuple(query for query in run if query not in judged),
        max_hits=max(len(run.get(query, ())) for query in judged),
    )


def _hits(of_query: Sequence[tuple[str, float]] | Mapping[str, float], removed: str | None) -> dict[str, float]:
    """The hits of a query by document id, without the document ``removed``."""
    pairs = list(of_query.items() if isinstance(of_query, Mapping) else of_query)
    hits = {document: float(score) for document, score in pairs}
    if len(hits) < len(pairs):
        raise LearnedSparseError("a document is given twice for one query; keep one")
    if not all(map(math.isfinite, hits.values())):
        raise LearnedSparseError("a run with a score that is not finite cannot be ranked; scores must be finite")
    return {document: score for document, score in hits.items() if document != removed}
