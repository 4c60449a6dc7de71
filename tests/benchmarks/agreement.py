"""Whether two contenders wrote the same vectors: a race between different results says nothing."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import orjson

Vectors = dict[str, dict[str, int]]
SAME = 0.999
"""The least cosine, of every text, that counts as the same result in float32."""


def read(folder: Path) -> Vectors:
    """``{id: {term: impact}}`` of the files below ``folder``, without zeros, which Pyserini writes and Lucene drops."""
    files = sorted(file for file in folder.rglob("*.jsonl"))
    lines = (orjson.loads(line) for file in files for line in file.read_bytes().splitlines())
    return {line["id"]: {term: value for term, value in line["vector"].items() if value} for line in lines}


def agreement(ours: Vectors, theirs: Vectors) -> dict[str, Any]:
    """How alike: cosines, the largest difference of an impact, the share of impacts that are equal.

    Two files that do not hold the same documents are an error.
    """
    if ours.keys() != theirs.keys():
        raise RuntimeError(f"{len(ours)} documents against {len(theirs)}, or others: nothing to compare")
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
    """Raise where float32 contenders differ by more than rounding."""
    if found["cosine_least"] < SAME or found["largest_difference"] > 1:
        raise RuntimeError(f"{name}: does not give our vectors, so its speed says nothing: {found}")


def spread(vectors: Vectors) -> float:
    """The mean cosine of each vector and the next one: far from 1, or agreement would be no news."""
    rows = list(vectors.values())
    return round(statistics.fmean(cosine(one, other) for one, other in zip(rows, rows[1:] + rows[:1], strict=True)), 4)


def cosine(one: dict[str, int], other: dict[str, int]) -> float:
    """Of two vectors; two empty ones are alike."""
    product = sum(value * other.get(term, 0) for term, value in one.items())
    lengths = math.hypot(*one.values()) * math.hypot(*other.values())
    return product / lengths if lengths else float(not one and not other)
