"""Files of whole-number ids, such as MS MARCO's triples: read in columns, because they have 400 million lines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
_FIRST_LINE = re.compile(rb"\d+\t\d+\t\d+\n")
_AT_ONCE = 2_000_000  # lines
_LARGEST = 2**30
"""Ids must be smaller: one byte for each possible id is held while a file is read."""


class IdColumns(NamedTuple):
    """The lines of a file: positions in the ascending ids of its queries and documents; 12 bytes a line."""

    query_ids: Ids
    document_ids: Ids
    queries: Rows
    positives: Rows
    negatives: Rows


def read_columns(path: Path) -> IdColumns | None:
    """The columns of a file of three plain whole numbers a line; None if a line has anything else.

    Plain are numbers as Python writes them, so that an id is the same text as in the file.
    """
    with path.open("rb") as file:
        if not _FIRST_LINE.fullmatch(file.readline(100)):
            return None
    import pandas as pd

    options: dict[str, Any] = {"sep": "\t", "header": None, "index_col": False, "dtype": np.int64}
    options |= {"na_filter": False, "skip_blank_lines": False, "chunksize": _AT_ONCE}
    parts: list[Rows] = []
    seen, length, powers = [np.zeros(0, bool)] * 2, 0, 10 ** np.arange(1, 10)
    try:
        for frame in pd.read_csv(path, names=list(range(3)), **options):
            ids = frame.to_numpy()
            if ids.min() < 0 or ids.max() >= _LARGEST:
                return None
            length += 6 * len(ids) + int(np.searchsorted(powers, ids, side="right").sum())  # digits and separators
            parts.append(ids.astype(np.int32).T)
            for side, columns in enumerate((parts[-1][:1], parts[-1][1:])):
                missing = int(columns.max()) + 1 - len(seen[side])
                seen[side] = np.pad(seen[side], (0, max(0, missing)))
                seen[side][columns.ravel()] = True
    except ValueError:  # pandas' ParserError too
        return None
    if length != path.stat().st_size:  # spaces, leading zeros, or more columns
        return None
    rows = [np.cumsum(flags, dtype=np.int32) - 1 for flags in seen]
    for columns in parts:
        columns[0] = rows[0][columns[0]]
        columns[1:] = rows[1][columns[1:]]
    query_ids, document_ids = (np.flatnonzero(flags) for flags in seen)
    queries, positives, negatives = (np.concatenate([columns[number] for columns in parts]) for number in range(3))
    return IdColumns(query_ids, document_ids, queries, positives, negatives)
