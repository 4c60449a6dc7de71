"""Compare the vectors of two contenders; speeds are comparable only if the vectors are equal."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import orjson

Vectors = dict[str, dict[str, int]]
SAME = 0.999
"""Minimum cosine of every text for two float32 results to count as equal."""


def read(folder: Path) -> Vectors:
    """``{id: {term: impact}}`` of the files below ``folder``, without the zeros that Pyserini writes."""
    files = sorted(file for file in folder.rglob("*.jsonl"))
    lines = (orjson.loads(line) for file in files for line in file.read_bytes().splitlines())
    return {line["id"]: {term: value for term, value in line["vector"].items() if value} for line in lines}


def agreement(ours: Vectors, theirs: Vectors) -> dict[str, Any]:
    """Cosines, largest difference of an impact, and share of equal impacts.

    Two files that do not hold the same documents are an error.
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


def require_same(name: str, found: dict[str, Any]) -> None:
    """Raise if float32 contenders differ by more than rounding."""
    if found["cosine_least"] < SAME or found["largest_difference"] > 1:
        raise RuntimeError(f"{name}: gives other vectors, so its speed is not comparable: {found}")


def spread(vectors: Vectors) -> float:
    """Mean cosine of neighbouring vectors; it must be far from 1 for the agreement to mean anything."""
    rows = list(vectors.values())
    return round(statistics.fmean(cosine(one, other) for one, other in zip(rows, rows[1:] + rows[:1], strict=True)), 4)


def cosine(one: dict[str, int], other: dict[str, int]) -> float:
    """Cosine of two vectors; 1 for two empty ones."""
    product = sum(value * other.get(term, 0) for term, value in one.items())
    lengths = math.hypot(*one.values()) * math.hypot(*other.values())
    return product / lengths if lengths else float(not one and not other)
