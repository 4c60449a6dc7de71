"""A small encoded collection whose terms, ids and empty vectors are difficult for engines."""

from __future__ import annotations

import random
from pathlib import Path

from tests.learned_sparse.encoded_folder import Vectors, save_queries, write_folder

DRAW = random.Random(7)
TERMS = ["##ing", "[CLS]", "u.s", "...", "日本", "😀", '"', "\\", ":", *(f"t{number}" for number in range(60))]


VECTORS: Vectors = {
    f"d\\é{number}": {
        term: DRAW.randint(1, 255) for term in DRAW.sample(TERMS, 0 if number % 10 == 3 else DRAW.randint(1, 25))
    }
    for number in range(200)
}
"""Ids sort differently as text and by position; every tenth vector is empty."""
QUERIES: dict[str, dict[str, int]] = {
    **{f"q{number}": {term: DRAW.randint(1, 255) for term in DRAW.sample(TERMS, 9)} for number in range(12)},
    "unknown": {"nowhere": 3, "t1": 7},
    "none": {},
}


KNOWN = {name: {t: i for t, i in query.items() if t in TERMS} for name, query in QUERIES.items()}
"""Queries without the one term that no document has."""


def lines(path: Path) -> list[str]:
    """Lines of a text file."""
    return path.read_text("utf-8").split("\n")[:-1]


def save(folder: Path, vectors: Vectors = VECTORS, queries: Vectors = QUERIES) -> tuple[Path, Path]:
    """Folders of encoded documents, in two files, and of encoded queries."""
    write_folder(folder / "vectors", vectors)
    (folder / "queries").mkdir()
    save_queries(folder / "queries", queries)
    return folder / "vectors", folder / "queries"
