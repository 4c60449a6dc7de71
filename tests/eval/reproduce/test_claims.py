"""Verdicts on claims, computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

from eval.measures import PerQuery
from eval.reproduce.claims import MEANINGS, Claim, judged_claims
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.settings import parse

CONTENT = {"source": "A, Table 1", "better": "a", "worse": "b", "quantity": "MRR@10"}
NOISE = np.linspace(-0.1, 0.1, 41)


def claim(kind: str = "higher", quantity: str = "MRR@10", **parts: Any) -> Claim:
    return parse(Claim, {**CONTENT, "quantity": quantity, "kind": kind, **parts}, "here")


def side(*trainings: Any, **cell: Any) -> tuple[dict[str, Any], list[PerQuery]]:
    """A cell and its trainings."""
    runs: list[PerQuery] = [
        {"MRR@10": {f"q{number:02d}": float(value) for number, value in enumerate(of)}} for of in trainings
    ]
    return {"status": "done", "scores": {"MRR@10": 0.0}, "costs": None, "timed_on": ""} | cell, runs


def verdicts(sides: dict[str, tuple[dict[str, Any], list[PerQuery]]], *claims: Claim) -> list[dict[str, Any]]:
    content = {
        "rows": [{"name": row, "kind": "run", "training": None} for row in sides],
        "columns": [{"name": "toy", "average": []}],
        "cells": [cell | {"row": row, "column": "toy"} for row, (cell, _) in sides.items()],
    }
    return judged_claims(content, claims, {(row, "toy"): runs for row, (_, runs) in sides.items()})


@pytest.mark.parametrize(
    ("kind", "gain", "verdict"),
    [
        ("higher", 0.05, "agrees"),
        ("higher", 0.01, "inconclusive"),
        ("higher", -0.05, "disagrees"),
        ("less", -0.05, "agrees"),
        ("less", 0.05, "disagrees"),
        ("not lower", 0.02, "agrees"),
        ("not lower", 0.0, "inconclusive"),
        ("not lower", -0.05, "disagrees"),
    ],
)
def test_the_direction_of_a_significant_difference(kind: str, gain: float, verdict: str) -> None:
    """The standard error is 0.0094, so that 0.019 is significant; "not lower" is tested against minus 0.01."""
    (found,) = verdicts({"a": side(0.5 + gain + NOISE), "b": side(np.full(41, 0.5))}, claim(kind))
    reference = -0.01 if kind == "not lower" else 0.0
    assert found["verdict"] == verdict
    assert found["difference"] == pytest.approx(gain, abs=1e-6)
    assert found["p"] == pytest.approx(scipy.stats.ttest_1samp(gain + NOISE, reference).pvalue, abs=1e-6)
    expected = scipy.stats.ttest_1samp(gain + NOISE, 0).confidence_interval()
    assert found["interval"] == pytest.approx(tuple(expected), abs=1e-6)
    assert verdict in MEANINGS


def test_the_claims_of_a_paper_are_one_family_and_its_level_is_that_of_the_power() -> None:
    sides = {"a": side(0.522 + NOISE), "b": side(np.full(41, 0.5))}
    raw = scipy.stats.ttest_1samp(0.022 + NOISE, 0).pvalue
    alone, other = verdicts(sides, claim(), claim(source="B, Table 1"))
    assert (alone["verdict"], alone["p"]) == ("agrees", pytest.approx(raw, abs=1e-6))
    assert other["p"] == alone["p"]
    first, *_, last = verdicts(sides, *[claim(source=f"A, Table {number}") for number in range(4)])
    assert (first["verdict"], first["p"], last["p"]) == ("inconclusive", *[pytest.approx(4 * raw, abs=1e-6)] * 2)
    assert first["detectable"] > alone["detectable"]


def test_trainings_count_as_well_as_queries() -> None:
    """A difference that one of three trainings makes alone is not significant, however many queries there are."""
    worse = side(np.full(41, 0.5))
    for changes, verdict in (((0.12, 0.12, 0.12), "agrees"), ((0.4, -0.02, -0.02), "inconclusive")):
        better = side(*(0.5 + change + NOISE for change in changes))
        assert verdicts({"a": better, "b": worse}, claim())[0]["verdict"] == verdict


def test_the_tolerated_loss_is_stored_to_judge_again() -> None:
    sides = {"a": side(0.494 + NOISE), "b": side(np.full(41, 0.5))}
    stored = [verdicts(sides, claim("not lower", margin=margin))[0].get("margin") for margin in (0.005, 0.01)]
    assert stored == [0.005, None]  # the default is not stored


def test_costs_are_shown_and_not_judged() -> None:
    sides = {"a": side([0.5], costs={"FLOPS": 1.5}), "b": side([0.5], costs={"FLOPS": 2.0})}
    (found,) = verdicts(sides, claim("less", "FLOPS", published=[0.5, 1.0]))
    assert (found["difference"], found["verdict"], found["interval"], found["p"]) == (-0.25, None, None, None)
    assert verdicts(sides, claim("less", "ms/query"))[0]["reason"] == "not measured"
    sides = {row: side(costs={"ms/query": 2.0}, timed_on=f"processor {row}") for row in "ab"}
    assert (
        verdicts(sides, claim("less", "ms/query"))[0]["reason"]
        == "timed on different machines: processor a and processor b"
    )
    assert verdicts(sides, claim("less", "ms/query"))[0]["difference"] is None


def test_a_published_mean_stands_for_every_query() -> None:
    sides = {"a": side(0.55 + NOISE), "b": side(status="published", scores={"MRR@10": 0.5})}
    assert verdicts(sides, claim())[0]["p"] == pytest.approx(scipy.stats.ttest_1samp(0.05 + NOISE, 0).pvalue, abs=1e-6)


def test_what_cannot_be_judged() -> None:
    (single,) = verdicts({"a": side([1.0]), "b": side([0.0])}, claim())
    assert (single["verdict"], single["interval"], single["detectable"]) == ("inconclusive", None, None)
    (missing,) = verdicts({"a": side([1.0, 0.5]), "b": side(status="absent", scores={})}, claim())
    assert (missing["verdict"], missing["difference"]) == (None, None)


def test_a_claim_is_read_strictly() -> None:
    assert str(claim("not lower", margin=0.005)) == "a: MRR@10 not lower than b by more than 0.005"
    for parts in (
        {"margins": 1}, {"kind": "lower"}, {"kind": "not lower", "margin": 0}, {"margin": 0.1}, {"published": [0.1]},
        {"published": [0.2, 0.3]}, {"kind": "less", "published": [0.3, 0.2]}, {"published": [32.2, 18.4]},
    ):  # fmt: skip
        with pytest.raises(LearnedSparseError):
            parse(Claim, {**CONTENT, **parts}, "here")
