"""Scores of runs as trec_eval computes them."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

from learned_sparse.collections.trec import read_qrels, read_run
from learned_sparse.core.errors import LearnedSparseError, did_you_mean
from learned_sparse.lucene.stock import trec_eval

Qrels = Mapping[str, Mapping[str, int]]
"""Query id → document id → grade."""
Run = Mapping[str, Sequence[tuple[str, float]] | Mapping[str, float]]
"""Query id → (document id, score) pairs, or document id → score; trec_eval orders the pairs itself."""
Hits = Sequence[tuple[str, float]]
PerQuery = Mapping[str, Mapping[str, float]]
"""Measure → query id → value."""
# trec_eval's name of each measure without a cut-off, and with one; None: trec_eval has no such measure.
_TREC_EVAL: dict[str, tuple[str | None, str | None]] = {
    "MRR": ("recip_rank", "recip_rank"),  # recip_rank takes no cut-off: -M 10 truncates the run instead
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
_TRUNCATES_RUN = "MRR"
_GRADED = "nDCG"  # uses the grades themselves, so a relevance level has no meaning
_NOTATION = re.compile(
    r"(?P<name>[A-Za-z]+(?:_[A-Za-z]+)*)(\(rel=(?P<level>[1-9][0-9]*)\))?([@._](?P<cutoff>[1-9][0-9]*))?"
)
_DOCUMENT_ID = re.compile(r"[^ \t\n\v\f\r\0]+")
_MEAN = "all"  # trec_eval's query id of a mean


@dataclass(frozen=True)
class Measure:
    """One measure in trec_eval's words.

    >>> parse_measure("R(rel=2)@1000")
    Measure(text='R(rel=2)@1000', name='recall.1000', options=('-l', '2'), cutoff=1000)
    >>> parse_measure("MRR@10")
    Measure(text='MRR@10', name='recip_rank', options=('-M', '10'), cutoff=10)
    """

    text: str
    name: str
    options: tuple[str, ...] = ()
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
    options: tuple[str, ...] = ("-M", cutoff) if cutoff and name == _TRUNCATES_RUN else ()
    options += ("-l", level) if level else ()
    return Measure(text.strip(), form.format(cutoff), options, int(cutoff) if cutoff else None)


def evaluate(
    run: Run | str | Path, qrels: Qrels | str | Path, measures: Sequence[str], *, remove_query: bool = False
) -> Scores:
    """Measure ``run`` against ``qrels``; each is a file or its content.

    The order of the two is that of ``trec_eval`` reversed, so that judgements whose grades are no integers, such as a
    run given in their place, are refused. ``remove_query`` ignores a hit whose id is that of the query, as BEIR does.
    Values are trec_eval's own, rounded to four decimals as trec_eval prints them; of tied scores, it takes the larger
    document id first, which can differ from the ranks that this package shows.

    >>> evaluate({"q1": [("d9", 2.0), ("d1", 1.0)]}, {"q1": {"d1": 1}, "q2": {"d2": 1}}, ["MRR@10"]).mean
    {'MRR@10': 0.25}
    """
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
    # Numbers replace query ids because trec_eval's Java wrapper corrupts non-ASCII ids in some locales. Zero-padded and
    # in the order of the ids, the numbers keep trec_eval's order of summation.
    numbers = {query: f"{number:09d}" for number, query in enumerate(sorted(judged, key=str.encode))}
    groups: dict[tuple[str, ...], dict[str, dict[str, None]]] = {}
    for measure in parsed:
        stem, _, cutoff = measure.name.partition(".")
        groups.setdefault(measure.options, {}).setdefault(stem, {})[cutoff] = None
    printed: dict[tuple[tuple[str, ...], str], dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="learned-sparse-") as folder:
        files = Path(folder, "qrels.txt"), Path(folder, "run.txt")
        numbered = {numbers[query]: hits[query] or _unjudged_hit(judged[query]) for query in numbers}
        files[0].write_bytes(b"".join(_qrels_lines({numbers[query]: judged[query] for query in numbers})))
        with files[1].open("wb") as file:
            file.writelines(_run_lines(numbered))
        for options, stems in groups.items():  # one call for all measures with these options
            words = ["-q", "-c", *options]
            for stem, cutoffs in stems.items():  # trec_eval silently ignores the second of -m P.5 -m P.10
                words += ["-m", f"{stem}.{','.join(cutoffs)}".removesuffix(".")]
            for key, query, value in trec_eval([*words, *map(str, files)]):
                printed.setdefault((options, key), {})[query] = value
    values = {measure.text: printed[measure.options, measure.name.replace(".", "_")] for measure in parsed}
    return Scores(
        mean={text: of_query[_MEAN] for text, of_query in values.items()},
        per_query={text: {q: of_query[number] for q, number in numbers.items()} for text, of_query in values.items()},
        missing=tuple(query for query, of_query in hits.items() if not of_query),
        unjudged=tuple(query for query in run if query not in judged),
        max_hits=max(len(run.get(query, ())) for query in judged),
    )


def _hits(of_query: Sequence[tuple[str, float]] | Mapping[str, float], removed: str | None) -> Hits:
    """The hits of a query as pairs, each document once, without the document ``removed``."""
    pairs = of_query.items() if isinstance(of_query, Mapping) else of_query
    hits = [(document, score) for document, score in pairs if document != removed]
    if len({document for document, _ in hits}) < len(hits):
        raise LearnedSparseError("a document is given twice for one query; keep one")
    return hits


def _qrels_lines(qrels: Qrels) -> Iterator[bytes]:
    """Lines of judgements, negative grades as 0.

    No measure distinguishes the two, but trec_eval fails on a query whose grades are all negative.
    """
    for query, grades in qrels.items():
        for document, grade in grades.items():
            yield f"{query} 0 {_checked_id(document)} {max(grade, 0)}\n".encode()


def _run_lines(run: Mapping[str, Hits]) -> Iterator[bytes]:
    """Lines of a run with every digit of its scores; trec_eval ignores the ranks and breaks ties by document id."""
    for query, hits in run.items():
        for document, score in hits:
            if not math.isfinite(score):
                raise LearnedSparseError(f"a run with the score {score} cannot be ranked; scores must be finite")
            yield f"{query} Q0 {_checked_id(document)} 0 {float(score)!r} -\n".encode()


def _unjudged_hit(grades: Mapping[str, int]) -> Hits:
    """One unjudged document as the only hit of a judged query without hits.

    trec_eval then scores the query zero in every measure, per query and in the mean, and accepts an empty run. (Its
    option ``-c`` alone corrects the mean only.)
    """
    document = "-"
    while document in grades:
        document += "-"
    return [(document, 0.0)]


def _checked_id(document: str) -> str:
    if _DOCUMENT_ID.fullmatch(document) is None:
        raise LearnedSparseError(f"document id {document!r} is empty or has white space, which no TREC file can hold")
    return document
