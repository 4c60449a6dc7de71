"""Files of three whole-number ids a line, such as MS MARCO's triples: indexed in columns, because 400 million lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from encoders.training.data.texts import TextStore, text_key
from learned_sparse.core.errors import LearnedSparseError

Ids = npt.NDArray[np.int32]
_FIRST_LINE = re.compile(rb"\d+\t\d+\t\d+\n")
_CHUNK_LINES = 2_000_000
_CHUNK_BYTES = 1 << 24
_MAX_ID = 2**30
"""Ids must be smaller: 8 bytes for each possible id are held."""


def index_of(path: Path, queries: Mapping[str, str], texts: TextStore) -> tuple[list[Any], int] | None:
    """Offsets and ``text_key`` of the query, of each line without an empty text; and the number of other lines.

    None for a file of anything but whole numbers. Raises if ``queries`` or ``texts`` do not hold one of the ids.
    """
    columns = _read_ids(path)
    if columns is None:
        return None
    check_known(str(path), "query", _distinct(columns[0]), queries)
    check_known(str(path), "document", _distinct(columns[1:]), texts)
    ends, size = [np.zeros(1, np.int64)], 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            ends.append(np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + (size + 1))
            size += len(chunk)
    offsets = np.concatenate(ends)[: columns.shape[1]]
    usable = _by_id(columns[0], lambda id: bool(queries[id].strip())).astype(bool)[columns[0]]
    usable &= _by_id(columns[1:], lambda id: not texts.is_empty(id)).astype(bool)[columns[1:]].all(axis=0)
    keys = _by_id(columns[0], text_key)[columns[0]]
    return [offsets[usable], keys[usable]], int((~usable).sum())


def check_known(where: str, kind: str, ids: Iterable[str], known: Container[str]) -> None:
    """Raise if one of ``ids`` is not in ``known``."""
    if missing := next((id for id in ids if id not in known), None):
        raise LearnedSparseError(f"{where}: {kind} {missing!r} is not in the collection")


def _read_ids(path: Path) -> Ids | None:
    """Query, positive and negative ``(3, lines)``."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        if not _FIRST_LINE.fullmatch(file.readline(100)):
            return None
    import pandas as pd

    options: dict[str, Any] = {"sep": "\t", "header": None, "index_col": False, "dtype": np.int64}
    options |= {"na_filter": False, "skip_blank_lines": False, "chunksize": _CHUNK_LINES, "lineterminator": "\n"}
    parts = []
    try:
        for frame in pd.read_csv(path, **options):
            ids = frame.to_numpy()
            if ids.shape[1] != 3 or ids.min() < 0 or ids.max() >= _MAX_ID:
                return None
            parts.append(ids.astype(np.int32).T)
    except ValueError:  # pandas' ParserError too
        return None
    return np.concatenate(parts, axis=1)


def _distinct(ids: Ids) -> list[str]:
    """The ids in ascending order, each once."""
    seen = np.zeros(int(ids.max()) + 1, bool)
    seen[ids] = True
    return list(map(str, np.flatnonzero(seen).tolist()))


def _by_id(ids: Ids, value: Callable[[str], int]) -> npt.NDArray[np.uint64]:
    """``value`` by id, for each of ``ids``: ``(largest id + 1,)``."""
    values = np.zeros(int(ids.max()) + 1, np.uint64)
    for id in _distinct(ids):
        values[int(id)] = value(id)
    return values
