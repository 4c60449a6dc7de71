"""Claims of papers: the paper's difference beside ours, its interval, and a verdict on its direction."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from eval.measures import PerQuery
from eval.stats import SIGNIFICANT, Estimate, difference, holm
from learned_sparse.core.errors import LearnedSparseError

SHOWN_COSTS = {
    "FLOPS": ("FLOPS", 3),
    "terms/document": ("terms/doc.", 1),
    "terms/query": ("terms/query", 1),
    "index bytes": ("Lucene index MB", 2),
    "ms/query": ("Lucene ms/query, median", 2),
    "mean ms/query": ("Lucene ms/query, mean", 2),
    "p99 ms/query": ("Lucene ms/query, p99", 2),
    "mean ms/query with encoding": ("ms/query with encoding, mean", 2),
    "documents/s": ("documents/s", 1),
    "PISA ms/query": ("PISA ms/query, mean (published)", 0),
    "PISA index GB": ("PISA index GB (published)", 1),
    "published ms/query with encoding": ("ms/query with encoding (published)", 0),
}
"""Heading and digits of each cost: one number per row instead of one per query.

Index and times are of Lucene, or of the exact searcher in rows with ``backend: exact``. The last three are of published
rows alone: SpaDE's mean times without encoding of queries and index sizes in PISA (Tables 2 and 6), and UHD-BERT's mean
times with it, from engines and machines of several papers (Table 3).
"""
COSTS = tuple(cost for cost, (heading, _) in SHOWN_COSTS.items() if "(published)" not in heading)
"""Costs that a claim can compare, besides measures."""
TIMES = ("ms/query", "mean ms/query", "p99 ms/query", "mean ms/query with encoding", "documents/s")
"""Costs that depend on the machine."""
NON_INFERIORITY = 0.01
"""Loss of a measure that "not lower" tolerates. Ours."""
PAPERS_EXAMPLES = {
    "SparTerm": 12_800_000,  # "batch size of 128", importance predictor "for 100k iterations" (section 4.2)
    "SPLADE": 18_600_000,  # "a batch size of 124", "150k iterations" (section 3.1)
    "SpaDE": 1_740_800,  # "batch size to 32", "54,400 iterations on average" (section 4)
    "UHD-BERT": 9_945_694,  # "25% of MS MARCO train triples", of 39,782,779 (appendix A.1)
}
"""Training examples of each paper's models, of the network that sees most."""
MEANINGS = {
    "agrees": "here, the difference is significant in the direction of the claim, or above minus the tolerated loss.",
    "disagrees": "here, the difference is significant in the opposite direction, or below minus the tolerated loss.",
    "inconclusive": (
        "here, neither; the detectable difference is the smallest one that this data finds in 80 % of cases at the "
        "level that is used."
    ),
}
"""What each verdict means, for the reader of a page: the only definition."""
NOTES = (
    (
        f"Here: with these models and this data, not with the paper's. Significant: p < {SIGNIFICANT} by Student's t "
        "over trainings and queries, after Holm's correction over the claims of one paper. The p-values of the tables "
        "of scores are corrected over their rows instead. The 95 % intervals are of single differences."
    ),
    "The direction is judged, not the size: compare the two differences. Costs are shown, not judged.",
)
"""How the verdicts are decided, for the reader of a page."""
DIGITS = 6
"""Digits of numbers in the files of results; trec_eval gives four."""
Json = Mapping[str, Any]
Trainings = Mapping[tuple[str, str], Sequence[PerQuery]]
"""Scores of each training by row and column."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of a paper: row ``better`` against row ``worse`` in ``quantity``, a measure or one of ``COSTS``.

    ``higher`` and ``less``: ``better`` has more of the quantity, or less. ``not lower``: it has no less. One of the two
    rows may be published: its mean then stands for every query, which makes a test with less power.
    """

    source: str
    """Paper and table, and after a colon the claim in words."""
    better: str
    worse: str
    quantity: str
    kind: Literal["higher", "not lower", "less"] = "higher"
    columns: tuple[str, ...] = ()
    """Columns the claim is about; empty: all."""
    published: tuple[float, float] | None = None
    """The paper's scores of ``better`` and of ``worse``."""
    margin: float = NON_INFERIORITY
    """Loss that ``not lower`` tolerates, in the unit of the measure (0.01: a point of MRR)."""
    unequal: str | None = None
    """Why the two sides are trained on other numbers of examples; the page prints it."""

    def __post_init__(self) -> None:
        if self.margin <= 0 or (self.kind != "not lower" and self.margin != NON_INFERIORITY):
            raise LearnedSparseError(f"margin {self.margin}: the loss, above 0, that kind 'not lower' tolerates")
        if self.published is not None:
            better, worse = self.published
            too_high = not self.relative and max(better, worse) >= 1
            wrong_way = self.kind != "not lower" and (better <= worse) != (self.kind == "less")
            if worse <= 0 or better < 0 or too_high or wrong_way:
                raise LearnedSparseError(
                    f"{self.kind!r}: published {[better, worse]}; give the scores of {self.better!r} and {self.worse!r}"
                )

    @property
    def relative(self) -> bool:
        """Whether differences are fractions of the value of ``worse``: those of costs."""
        return self.quantity in COSTS

    @property
    def paper(self) -> str:
        """The paper: what is before the first comma or colon of ``source``."""
        return re.split("[,:]", self.source, maxsplit=1)[0]

    @property
    def reference(self) -> float:
        """The difference that ours is tested against."""
        return -self.margin if self.kind == "not lower" else 0.0

    def __str__(self) -> str:
        loss = f" by more than {self.margin:.3g}" if self.kind == "not lower" else ""
        return f"{self.better}: {self.quantity} {self.kind} than {self.worse}{loss}"


def judged_claims(content: Json, claims: Iterable[Claim], trainings: Trainings) -> list[dict[str, Any]]:
    """The verdicts on the claims of a leaderboard as JSON values, one for each column that measures the quantity.

    ``content`` has the rows, columns and cells of ``results.json``; a published row has no ``trainings``. The verdict
    is one of ``MEANINGS``, or None with a ``reason``: a cost, or a row without results.
    """
    cells = {(cell["row"], cell["column"]): cell for cell in content["cells"]}
    columns = [column["name"] for column in content["columns"] if not column["average"]]
    trained = {row["name"]: (row["training"] or {}).get("examples") for row in content["rows"]}
    trained |= {row["name"]: trained.get(row["source"]) for row in content["rows"] if row["kind"] == "model"}
    judged: list[dict[str, Any]] = []
    tested: dict[str, dict[int, tuple[Claim, Estimate]]] = {}
    for claim, column in ((one, column) for one in claims for column in one.columns or columns):
        both = [cells[row, column] for row in (claim.better, claim.worse)]
        done = all(cell["status"] in {"done", "published"} for cell in both)
        if done and not claim.relative and not any(claim.quantity in cell["scores"] for cell in both):
            continue  # the column does not measure the quantity
        left_out = {"columns", "margin" if claim.margin == NON_INFERIORITY else ""}
        told = {key: value for key, value in asdict(claim).items() if key not in left_out}
        judged.append(
            {
                **told,
                "claim": str(claim),
                "paper": claim.paper,
                "column": column,
                "relative": claim.relative,
                "published": claim.published and list(claim.published),
                "examples": max(trained[claim.better] or 0, trained[claim.worse] or 0) or None,
                "paper_examples": PAPERS_EXAMPLES.get(claim.paper),
            }
        )
        if done and not claim.relative:
            estimate = _estimate(claim, both, [trainings.get((cell["row"], column), ()) for cell in both])
            tested.setdefault(claim.paper, {})[len(judged) - 1] = claim, estimate
        else:
            judged[-1] |= _untested(claim, both)
    for family in tested.values():
        p_of = holm({number: estimate.p_value(claim.reference) for number, (claim, estimate) in family.items()})
        for number, (claim, estimate) in family.items():
            judged[number] |= _tested(claim, estimate, p_of[number], len(family))
    return judged


def _estimate(claim: Claim, cells: Sequence[Json], trainings: Sequence[Sequence[PerQuery]]) -> Estimate:
    """Our difference in a measure; the mean of a published row stands for every query."""
    queries = [each[claim.quantity] for each in next(filter(None, trainings))]
    better, worse = (
        of_cell or [{claim.quantity: dict.fromkeys(of, cell["scores"][claim.quantity])} for of in queries]
        for cell, of_cell in zip(cells, trainings, strict=True)
    )
    return difference(better, worse, claim.quantity)


def _tested(claim: Claim, estimate: Estimate, p: float, family: int) -> dict[str, Any]:
    """Numbers and verdict; ``p`` is corrected for the ``family`` of claims."""
    verdict = "inconclusive"
    if p < SIGNIFICANT:
        gain = (estimate.value - claim.reference) * (-1 if claim.kind == "less" else 1)
        verdict = "agrees" if gain > 0 else "disagrees"
    known = math.isfinite(estimate.error)
    return {
        "difference": round(estimate.value, DIGITS),
        "interval": [round(end, DIGITS) for end in estimate.interval] if known else None,
        "detectable": round(estimate.detectable(SIGNIFICANT / family), DIGITS) if known else None,
        "p": round(p, DIGITS),
        "verdict": verdict,
        "reason": "" if known else "one query has no interval",
    }


def _untested(claim: Claim, cells: Sequence[Json]) -> dict[str, Any]:
    """Our difference in a cost, as a fraction of that of ``worse``, or why there is none."""
    costs = [cell["scores"] if cell["status"] == "published" else cell["costs"] or {} for cell in cells]
    first, second = (of.get(claim.quantity) if claim.relative else None for of in costs)
    machines = sorted({cell["timed_on"] for cell in cells} - {""})
    reason, relative = "not measured", None
    if claim.quantity in TIMES and len(machines) > 1:
        reason = f"timed on different machines: {' and '.join(machines)}"
    elif first is not None and second:
        reason, relative = "a cost", round((first - second) / second, DIGITS)
    unknown = dict.fromkeys(("interval", "detectable", "p", "verdict"))
    return {"difference": relative, **unknown, "reason": reason}
