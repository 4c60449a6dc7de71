"""Compare the vectors of two contenders; speeds are comparable only if the vectors are equal."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import orjson

Vectors = dict[str, dict[str, int]]
MIN_COSINE = 0.999
"""Minimum cosine of every text for two float32 results to count as equal."""


def read(folder: Path) -> Vectors:
    """``{id: {term: impact}}`` of the files below ``folder``, without the zeros that Pyserini writes."""
    files = sorted(file for file in folder.rglob("*.jsonl"))
    lines = (orjson.loads(line) for file in files for line in file.read_bytes().splitlines())
    return {line["id"]: {term: value for term, value in line["vector"].items() if value} for line in lines}


def agreement(ours: Vectors, theirs: Vectors) -> dict[str, Any]:
    """Cosines, largest difference of an impact, and share of equal impacts.

    Different documents in the two files are an error.
    """
    if ours.keys() != theirs.keys():
        raise RuntimeError(f"{len(ours)} documents against {len(theirs)}, or different ids: nothing to compare")
    cosines = [cosine(ours[name], theirs[name]) for name in ours]
    differences = [
        abs(ours[name].get(term, 0) - theirs[name].get(term, 0))
        for name in ours
        for term in ours[name].keys() | theirs[name].keys()
    ]
    return {
        "documents": len(ours),
        "cosine_mean": round(statistics.fmean(cosines), 6),
        "cosine_least": round(min(cosines), 6),
        "largest_difference": max(differences, default=0),
        "equal_impacts": round(differences.count(0) / max(len(differences), 1), 5),
        "within_one": round(sum(difference <= 1 for difference in differences) / max(len(differences), 1), 5),
    }


def require_same(name: str, facts: dict[str, Any]) -> None:
    """Raise if float32 contenders differ by more than rounding."""
    if facts["cosine_least"] < MIN_COSINE or facts["largest_difference"] > 1:
        raise RuntimeError(f"{name}: gives other vectors, so its speed is not comparable: {facts}")


def cosine(first: dict[str, int], second: dict[str, int]) -> float:
    """Cosine of two vectors; 1 for two empty ones."""
    product = sum(value * second.get(term, 0) for term, value in first.items())
    lengths = math.hypot(*first.values()) * math.hypot(*second.values())
    return product / lengths if lengths else float(not first and not second)
