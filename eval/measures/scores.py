"""Scores of runs as trec_eval computes them, and tests of the differences between runs."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from eval.measures.bootstrap import Values, estimate_difference
from learned_sparse.collections import read_qrels, read_run
from learned_sparse.core import LearnedSparseError, atomic_write, did_you_mean
from learned_sparse.lucene import anserini_jar, java_environment

Qrels = Mapping[str, Mapping[str, int]]
"""Query id → document id → grade."""
Run = Mapping[str, Sequence[tuple[str, float]]]
"""Query id → (document id, score) pairs; trec_eval orders the pairs itself."""
PerQuery = Mapping[str, Mapping[str, float]]
"""Measure → query id → value."""
Differences = npt.NDArray[np.float64]
"""One paired difference per query."""
Test = Literal["randomization", "t-test"]

SIGNIFICANT = 0.05
"""Differences with a smaller p-value are called significant."""
_EXACT_PAIRS = 14  # up to 2^14 combinations of signs are tried exactly
_RESAMPLES, _BATCH = 20_000, 500

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

    >>> parse_measure("R(rel=2)@1000").arguments
    ('-c', '-l', '2', '-m', 'recall.1000')
    >>> parse_measure("MRR@10").arguments
    ('-c', '-M', '10', '-m', 'recip_rank')
    """

    text: str
    name: str
    options: tuple[str, ...] = ()
    cutoff: int | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of the stock ``trec_eval`` command, without the two files."""
        return ("-c", *self.options, "-m", self.name)

    @property
    def key(self) -> str:
        """The measure as trec_eval's output spells it: ``recall_1000``."""
        return self.name.replace(".", "_")


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


@dataclass(frozen=True)
class Comparison:
    """Two runs compared in one measure, query by query."""

    mean_a: float
    mean_b: float
    difference: float
    """Mean of ``b`` minus ``a``."""
    p_value: float
    """Two-sided; of ``comparisons``, corrected for the number of runs."""
    confidence_interval: tuple[float, float]
    """95 % interval of the difference by Student's t; infinite for a single query."""


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

    ``remove_query`` ignores a hit whose id is that of the query, as BEIR does. Values are trec_eval's own, rounded to
    four decimals as trec_eval prints them.

    >>> evaluate({"q1": [("d9", 2.0), ("d1", 1.0)]}, {"q1": {"d1": 1}, "q2": {"d2": 1}}, ["MRR@10"]).mean
    {'MRR@10': 0.25}
    """
    parsed = [parse_measure(text) for text in dict.fromkeys(measures)]
    qrels = read_qrels(Path(qrels)) if isinstance(qrels, str | Path) else qrels
    run = read_run(Path(run)) if isinstance(run, str | Path) else run
    judged = {query: grades for query, grades in qrels.items() if grades}
    if not judged:
        raise LearnedSparseError("no query has a judgement; there is nothing to measure")
    hits = {query: [hit for hit in run.get(query, ()) if not (remove_query and hit[0] == query)] for query in judged}
    # Numbers replace query ids because trec_eval's Java wrapper corrupts non-ASCII ids in some locales. Zero-padded and
    # in the order of the ids, the numbers keep trec_eval's order of summation.
    numbers = {query: f"{number:09d}" for number, query in enumerate(sorted(judged, key=str.encode))}
    values = _trec_eval_all(
        {number: hits[query] or _unjudged_hit(judged[query]) for query, number in numbers.items()},
        {number: judged[query] for query, number in numbers.items()},
        parsed,
    )
    return Scores(
        mean={text: of_query[_MEAN] for text, of_query in values.items()},
        per_query={text: {q: of_query[number] for q, number in numbers.items()} for text, of_query in values.items()},
        missing=tuple(query for query, of_query in hits.items() if not of_query),
        unjudged=tuple(query for query in run if query not in judged),
        max_hits=max(len(run.get(query, ())) for query in judged),
    )


def compare(
    run_a: Run | str | Path,
    run_b: Run | str | Path,
    qrels: Qrels | str | Path,
    measure: str,
    *,
    test: Test = "randomization",
    remove_query: bool = False,
) -> Comparison:
    """Compare two runs in one measure over all judged queries.

    >>> qrels = {f"q{i}": {"d": 1} for i in range(8)}
    >>> good = {query: [("d", 1.0)] for query in qrels}
    >>> compare({}, good, qrels, "P@1")
    Comparison(mean_a=0.0, mean_b=1.0, difference=1.0, p_value=0.0078125, confidence_interval=(1.0, 1.0))
    """
    a, b = (evaluate(run, qrels, [measure], remove_query=remove_query) for run in (run_a, run_b))
    values = differences(b.per_query[measure], a.per_query[measure])
    return Comparison(
        mean_a=a.mean[measure],
        mean_b=b.mean[measure],
        difference=float(values.mean()),
        p_value=p_value(values, test),
        confidence_interval=confidence_interval(values),
    )


def comparisons(runs: Mapping[str, PerQuery], baseline: str) -> dict[str, dict[str, Comparison]]:
    """``{run: {measure: comparison with the baseline}}`` of all other runs; ``a`` is the baseline.

    All runs have the same measures and queries. The p-values are those of ``p_values``.

    >>> runs = {name: {"P@1": {str(i): value for i in range(8)}} for name, value in {"bm25": 0.25, "tiny": 0.5}.items()}
    >>> comparison = comparisons(runs, "bm25")["tiny"]["P@1"]
    >>> format_comparison("tiny", "bm25", "P@1", comparison)
    'tiny - bm25: P@1 +0.250 (+0.250 to +0.250), p 0.0078'
    """
    p_of = p_values({name: [run] for name, run in runs.items()}, baseline)
    compared: dict[str, dict[str, Comparison]] = {name: {} for name in p_of}
    for name, of_measure in p_of.items():
        for measure, p in of_measure.items():
            reference, values = runs[baseline][measure], runs[name][measure]
            gains = differences(values, reference)
            compared[name][measure] = Comparison(
                mean_a=float(np.mean(list(reference.values()))),
                mean_b=float(np.mean(list(values.values()))),
                difference=float(gains.mean()),
                p_value=p,
                confidence_interval=confidence_interval(gains),
            )
    return compared


def format_comparison(name: str, baseline: str, measure: str, comparison: Comparison) -> str:
    """One line: ``tiny - bm25: nDCG@10 +0.019 (-0.005 to +0.043), p 0.12``."""
    low, high = comparison.confidence_interval
    p = f"{comparison.p_value:.2g}" if comparison.p_value >= 0.001 else "< 0.001"
    return f"{name} - {baseline}: {measure} {comparison.difference:+.3f} ({low:+.3f} to {high:+.3f}), p {p}"


def differences(values: Mapping[str, float], reference: Mapping[str, float]) -> Differences:
    """``values`` minus ``reference``, query by query, in the order of the query ids."""
    return np.array([values[query] - reference[query] for query in sorted(values)])


def values_of(trainings: Sequence[PerQuery], measure: str, queries: Sequence[str]) -> Values:
    """Scores ``(trainings, queries)`` in the order of ``queries``."""
    return np.array([[one[measure][query] for query in queries] for one in trainings])


def p_values(
    systems: Mapping[str, Sequence[PerQuery]], reference: str, test: Test = "randomization"
) -> dict[str, dict[str, float]]:
    """``{system: {measure: p-value}}`` of the differences of all other systems from ``reference``.

    A system is the scores of each of its trainings. The test is paired by query and two-sided: ``test``, or if one of
    the two systems has several trainings, that of ``estimate_difference``. For each measure, ``holm`` corrects for the
    number of systems compared.

    >>> runs = {name: [{"P@1": {str(i): value for i in range(10)}}] for name, value in {"a": 0.0, "b": 1.0}.items()}
    >>> p_values(runs, "a")
    {'b': {'P@1': 0.001953125}}
    """
    others = [name for name in systems if name != reference]

    def raw(name: str, measure: str) -> float:
        queries = sorted(systems[reference][0][measure])
        one, other = (values_of(systems[of], measure, queries) for of in (name, reference))
        if len(one) == len(other) == 1:
            return p_value(one[0] - other[0], test)
        return estimate_difference(one, other).p_value()

    corrected = {measure: holm({name: raw(name, measure) for name in others}) for measure in systems[reference][0]}
    return {name: {measure: of_systems[name] for measure, of_systems in corrected.items()} for name in others}


def p_value(values: Differences, test: Test = "randomization") -> float:
    """Two-sided p-value of the mean paired difference; 1 if all differences are zero or there is only one query.

    ``randomization`` is Fisher's randomisation test: the exact distribution over all signs for up to 14
    non-zero differences, otherwise 20,000 random signs with a fixed seed. ``t-test`` is Student's paired t-test.

    >>> p_value(np.array([1.0, 1.0, 1.0])), round(p_value(np.array([1.0, 2.0, 3.0]), "t-test"), 4)
    (0.25, 0.0742)
    """
    if len(values) < 2 or not values.any():
        return 1.0
    from scipy import stats

    if test == "t-test":
        equal = np.ptp(values) == 0  # SciPy divides by the standard deviation
        return 0.0 if equal else float(stats.ttest_1samp(values, 0.0).pvalue)
    nonzero = values[values != 0]
    if len(nonzero) == 1:  # SciPy needs two; both signs are equally far from zero
        return 1.0
    if len(nonzero) <= _EXACT_PAIRS:
        exact = stats.permutation_test((nonzero,), np.sum, permutation_type="samples", n_resamples=np.inf)
        return float(exact.pvalue)
    rng = np.random.default_rng(0)

    def random_signs(size: tuple[int, ...]) -> Any:
        return nonzero * (2.0 * rng.integers(0, 2, size=size, dtype=np.int8) - 1.0)

    # monte_carlo_test takes 2 s for 7,000 queries, permutation_test with resampling 30 s.
    result = stats.monte_carlo_test(
        nonzero, random_signs, np.sum, n_resamples=_RESAMPLES, batch=_BATCH, vectorized=True
    )
    return float(result.pvalue)


def confidence_interval(values: Differences) -> tuple[float, float]:
    """95 % confidence interval of the mean paired difference by Student's t; infinite for a single query."""
    if len(values) < 2:
        return -math.inf, math.inf
    from scipy import stats

    half_width = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)))
    return float(values.mean()) - half_width, float(values.mean()) + half_width


def holm(p_of: Mapping[str, float]) -> dict[str, float]:
    """Correct the p-values of several comparisons by the step-down method of Holm (1979).

    The smallest p-value is multiplied by the number of comparisons, the next by one less, and so on. A corrected
    p-value is never smaller than that of a smaller p-value, and at most 1.

    >>> holm({"a": 0.04, "b": 0.25, "c": 0.01})
    {'a': 0.08, 'b': 0.25, 'c': 0.03}
    """
    corrected: dict[str, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_of, key=p_of.__getitem__)):
        largest = max(largest, min(1.0, (len(p_of) - rank) * p_of[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p_of}


def write_qrels(path: Path, qrels: Qrels) -> None:
    """Write judgements as trec_eval reads them.

    Negative grades are written as 0. No measure distinguishes the two, but trec_eval fails on a query whose grades are
    all negative.
    """
    rows = ((query, document, max(grade, 0)) for query, grades in qrels.items() for document, grade in grades.items())
    _write(path, (f"{query} 0 {_checked_id(document)} {grade}\n" for query, document, grade in rows))


def _write_run(path: Path, run: Run) -> None:
    """Write a run with every digit of its scores (trec_eval ignores the ranks and breaks ties by document id)."""
    rows = ((query, document, score) for query, hits in run.items() for document, score in hits)
    _write(path, (f"{query} Q0 {_checked_id(document)} 0 {_finite(score)!r} -\n" for query, document, score in rows))


def _write(path: Path, lines: Iterable[str]) -> None:
    with atomic_write(path) as file:
        file.writelines(line.encode() for line in lines)


def _unjudged_hit(grades: Mapping[str, int]) -> Sequence[tuple[str, float]]:
    """One unjudged document as the only hit of a judged query without hits.

    trec_eval then scores the query zero in every measure, per query and in the mean, and accepts an empty run. (Its
    option ``-c`` alone corrects the mean only.)
    """
    document = "-"
    while document in grades:
        document += "-"
    return [(document, 0.0)]


def _trec_eval_all(run: Run, qrels: Qrels, measures: Sequence[Measure]) -> dict[str, dict[str, float]]:
    """``{notation: {query or "all": value}}``; measures with equal options share one call of trec_eval."""
    values: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="learned-sparse-") as folder:
        files = Path(folder, "qrels.txt"), Path(folder, "run.txt")
        write_qrels(files[0], qrels)
        _write_run(files[1], run)
        for options in dict.fromkeys(measure.options for measure in measures):
            group = [measure for measure in measures if measure.options == options]
            names = _join(measure.name for measure in group)
            printed = _trec_eval(["-q", "-c", *options, *(word for name in names for word in ("-m", name))], *files)
            values |= {measure.text: printed[measure.key] for measure in group}
    return {measure.text: values[measure.text] for measure in measures}


def _trec_eval(arguments: Sequence[str], qrels: Path, run: Path) -> dict[str, dict[str, float]]:
    """``{measure: {query id: value}}`` printed by the trec_eval in Pyserini's jar, to four decimals.

    ``pyserini.eval.trec_eval`` runs the same program (a test compares the output). Its Python function is not
    used because it reads run and judgements with pandas first (8 s and 0.7 GB per million lines, where trec_eval takes
    1.4 s) and returns only the last of several measures.
    """
    environment = java_environment()
    java = shutil.which("java", path=environment["PATH"])
    if java is None:
        raise LearnedSparseError(f"no java in {environment['JAVA_HOME']}; run python -m learned_sparse.lucene.doctor")
    program = [java, "-XX:TieredStopAtLevel=1", "-cp", str(anserini_jar()), "trec_eval"]
    command = [*program, *arguments, str(qrels), str(run)]
    process = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=False)
    values: dict[str, dict[str, float]] = {}
    messages = [process.stderr.strip()]
    for line in process.stdout.splitlines():
        columns = [part.strip() for part in line.split("\t")]
        if len(columns) == 3:
            values.setdefault(columns[0], {})[columns[1]] = float(columns[2])
        else:  # Pyserini 2.3 writes the messages of trec_eval here
            messages.append(line)
    if process.returncode or not values or messages[1:]:  # the exit status is 0 even if trec_eval fails
        reason = " ".join(filter(None, messages))
        raise LearnedSparseError(f"trec_eval {' '.join(arguments)} gave no result: {reason}")
    return values


def _join(names: Iterable[str]) -> list[str]:
    """Join the cut-offs of a measure, because trec_eval silently ignores the second of ``-m P.5 -m P.10``.

    >>> _join(["P.5", "recip_rank", "P.10", "recip_rank"])
    ['P.5,10', 'recip_rank']
    """
    cutoffs: dict[str, dict[str, None]] = {}
    for name in names:
        stem, _, cutoff = name.partition(".")
        cutoffs.setdefault(stem, {})[cutoff] = None
    return [f"{stem}.{','.join(of_stem)}".removesuffix(".") for stem, of_stem in cutoffs.items()]


def _checked_id(document: str) -> str:
    if _DOCUMENT_ID.fullmatch(document) is None:
        raise LearnedSparseError(f"document id {document!r} is empty or has white space, which no TREC file can hold")
    return document


def _finite(score: float) -> float:
    if not math.isfinite(score):
        raise LearnedSparseError(f"a run with the score {score} cannot be ranked; scores must be finite")
    return float(score)
