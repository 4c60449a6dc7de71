"""Measures of a run: one mean and one value per judged query, as trec_eval computes them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.measures.notation import Measure, parse_measure
from eval.measures.trec_eval import MEAN, Qrels, Run, Values, trec_eval, write_qrels, write_run
from learned_sparse.collections import read_qrels, read_run
from learned_sparse.core import LearnedSparseError


@dataclass(frozen=True)
class Scores:
    """What ``evaluate`` found.

    ``mean`` is over every judged query; ``per_query[measure]`` has exactly the judged queries.
    """

    mean: Mapping[str, float]
    per_query: Mapping[str, Mapping[str, float]]
    missing: tuple[str, ...] = ()
    """Judged queries without a result: each counts as zero."""
    unjudged: tuple[str, ...] = ()
    """Queries of the run without judgements: they count nowhere."""


def evaluate(
    qrels: Qrels | str | Path, run: Run | str | Path, measures: Sequence[str], *, remove_query: bool = False
) -> Scores:
    """The ``measures`` of ``run`` (each a file or what was read from it).

    ``remove_query`` ignores a result whose id is the query's own, as BEIR asks. The mean is trec_eval's own, rounded to
    four decimals as it prints them.

    >>> evaluate({"q1": {"d1": 1}, "q2": {"d2": 1}}, {"q1": [("d9", 2.0), ("d1", 1.0)]}, ["MRR@10"]).mean
    {'MRR@10': 0.25}
    """
    wanted = [parse_measure(text) for text in dict.fromkeys(measures)]
    qrels = read_qrels(Path(qrels)) if isinstance(qrels, str | Path) else qrels
    run = read_run(Path(run)) if isinstance(run, str | Path) else run
    judged = {query: grades for query, grades in qrels.items() if grades}
    if not judged:
        raise LearnedSparseError("no query has a judgement; there is nothing to measure")
    results = {query: _results(query, run, remove_query) for query in judged}
    # Numbers for names: the Java around trec_eval garbles ids outside ASCII in some locales. Zero-padded and in the
    # order of the names, they keep trec_eval's order of summation.
    names = {f"{number:09d}": query for number, query in enumerate(sorted(judged, key=str.encode))}
    values = _measure(
        {number: judged[query] for number, query in names.items()},
        {number: results[query] or _nothing(judged[query]) for number, query in names.items()},
        wanted,
    )
    return Scores(
        mean={text: of_query[MEAN] for text, of_query in values.items()},
        per_query={text: {q: of_query[number] for number, q in names.items()} for text, of_query in values.items()},
        missing=tuple(query for query, hits in results.items() if not hits),
        unjudged=tuple(query for query in run if query not in judged),
    )


def _results(query: str, run: Run, remove_query: bool) -> Sequence[tuple[str, float]]:
    hits = run.get(query, ())
    return [hit for hit in hits if hit[0] != query] if remove_query else hits


def _nothing(grades: Mapping[str, int]) -> Sequence[tuple[str, float]]:
    """The forgotten case, here and nowhere else: a judged query without results is given one unjudged document.

    So trec_eval itself scores it zero in every measure, per query and in the mean, and a run may be empty altogether.
    (``-c`` alone mends only the mean.)
    """
    document = "-"
    while document in grades:
        document += "-"
    return [(document, 0.0)]


def _measure(qrels: Qrels, run: Run, measures: Sequence[Measure]) -> Values:
    """``{notation: {query or "all": value}}``, from one call of trec_eval for all measures of equal options."""
    values: Values = {}
    with tempfile.TemporaryDirectory(prefix="learned-sparse-") as folder:
        files = Path(folder, "qrels.txt"), Path(folder, "run.txt")
        write_qrels(files[0], qrels)
        write_run(files[1], run)
        for options in dict.fromkeys(measure.options for measure in measures):
            together = [measure for measure in measures if measure.options == options]
            names = _join(measure.name for measure in together)
            found = trec_eval(["-q", "-c", *options, *(word for name in names for word in ("-m", name))], *files)
            values |= {measure.text: found[measure.key] for measure in together}
    return {measure.text: values[measure.text] for measure in measures}


def _join(names: Iterable[str]) -> list[str]:
    """trec_eval answers only the first of ``-m P.5 -m P.10``, without a word; it wants ``-m P.5,10``.

    >>> _join(["P.5", "recip_rank", "P.10", "recip_rank"])
    ['P.5,10', 'recip_rank']
    """
    cutoffs: dict[str, dict[str, None]] = {}
    for name in names:
        stem, _, cutoff = name.partition(".")
        cutoffs.setdefault(stem, {})[cutoff] = None
    return [f"{stem}.{','.join(of_stem)}".removesuffix(".") for stem, of_stem in cutoffs.items()]
