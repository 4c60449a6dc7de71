"""Files of three whole-number ids a line, such as MS MARCO's triples: held in columns, because 400 million lines."""

from __future__ import annotations

import copy
import hashlib
import logging
import re
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from encoders.training.data.examples import Candidates, Example, Judged
from encoders.training.data.texts import TextStore, query_key, text_key
from encoders.training.recipe import Negatives
from learned_sparse.core.errors import LearnedSparseError

_logger = logging.getLogger(__name__)

Ids = npt.NDArray[np.int32]
_FIRST_LINE = re.compile(rb"\d+\t\d+\t\d+\n")
_CHUNK_LINES = 2_000_000
_MAX_ID = 2**30
"""Ids must be smaller: one byte for each possible id is held."""


def read_ids(path: Path) -> Ids | None:
    """Query, positive and negative ``(3, lines)`` of a file of three whole numbers a line; None for any other file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        if not _FIRST_LINE.fullmatch(file.readline(100)):
            return None
    import pandas as pd

    options: dict[str, Any] = {"sep": "\t", "header": None, "index_col": False, "dtype": np.int64}
    options |= {"na_filter": False, "skip_blank_lines": False, "chunksize": _CHUNK_LINES}
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


class IdTriples:
    """One example a line: a query, a positive and a hard negative by id. Lines with an empty text are left out."""

    scored = False

    def __init__(
        self, path: Path, settings: Negatives, columns: Ids, queries: Mapping[str, str], texts: TextStore
    ) -> None:
        """``columns``: see ``read_ids``. Raises if ``queries`` or ``texts`` do not hold one of the ids."""
        self._path, self._queries, self._texts = path, queries, texts
        self._settings = checked(path, settings)
        check_known(str(path), "query", _distinct(columns[0]), queries)
        check_known(str(path), "document", _distinct(columns[1:]), texts)
        no_query = _flags(columns[0], lambda id: not queries[id].strip())
        no_text = _flags(columns[1:], texts.is_empty)
        empty = no_query[columns[0]] | no_text[columns[1:]].any(axis=0)
        self._columns = columns
        if empty.any():
            _logger.warning("%s: left out %d triples with an empty text", path, empty.sum())
            self._columns = columns[:, ~empty]
        if not len(self):
            raise LearnedSparseError(f"{path}: no triples")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
        digest.update("\n".join(f"{name}\t{text}" for name, text in queries.items()).encode("utf-8", "surrogatepass"))
        digest.update(texts.fingerprint().encode())
        self.fingerprint = digest.hexdigest()

    def __len__(self) -> int:
        return int(self._columns.shape[1])

    def get(self, index: int, rng: np.random.Generator) -> Example:  # noqa: ARG002 -- nothing is drawn
        """Example ``index``, from 0."""
        query, positive, negative = map(str, self._columns[:, index].tolist())
        text = self._texts[positive]
        negatives = (self._texts[negative],) if self._settings.count else ()
        return Example(self._queries[query], text, negatives, frozenset({text_key(text)}))

    def query_keys(self) -> Iterable[int]:
        return map(text_key, _distinct(self._columns[0]))

    def judged(self, keys: Container[int]) -> Judged:
        chosen = _flags(self._columns[0], lambda id: text_key(id) in keys)[self._columns[0]]
        positives: dict[str, dict[str, None]] = {}
        for query, document in self._columns[:2, chosen].T.tolist():
            positives.setdefault(str(query), {})[str(document)] = None
        relevant = {query: list(ids) for query, ids in positives.items()}
        return Judged({query: self._queries[query] for query in relevant}, relevant)

    def without(self, keys: Container[int], texts: Container[int]) -> IdTriples:
        left_out = _flags(self._columns[0], lambda id: text_key(id) in keys or query_key(self._queries[id]) in texts)
        kept = ~left_out[self._columns[0]]
        new: IdTriples = copy.copy(self)
        digest = hashlib.blake2b(np.packbits(kept).tobytes(), key=self.fingerprint.encode(), digest_size=16)
        new._columns, new.fingerprint = self._columns[:, kept], digest.hexdigest()
        return new

    def drawing(self, settings: Negatives, *_: Candidates) -> IdTriples:
        if settings.margin is not None:
            raise LearnedSparseError(f"{self._path}: negatives: margin needs a teacher's scores; the file has none")
        new: IdTriples = copy.copy(self)
        new._settings = checked(self._path, settings)
        return new


def checked(path: Path, settings: Negatives) -> Negatives:
    """``settings``; raise if triples cannot give such negatives."""
    if path.suffix == ".gz":
        raise LearnedSparseError(f"{path}: triples are read by line number; unpack the file first (gunzip)")
    if any(source.kind not in ("given", "none") for source in settings.parts):
        raise LearnedSparseError(f"{path}: the file has its own negatives; set negatives: kind: given")
    if settings.count > 1 and path.suffix == ".tsv":
        raise LearnedSparseError(f"{path}: triples have one negative per query; set negatives: per_query: 1")
    return settings


def check_known(where: str, kind: str, ids: Iterable[str], known: Container[str]) -> None:
    """Raise if one of ``ids`` is not in ``known``."""
    if missing := next((id for id in ids if id not in known), None):
        raise LearnedSparseError(f"{where}: {kind} {missing!r} is not in the collection")


def _distinct(ids: Ids) -> list[str]:
    """The ids in ascending order, each once."""
    seen = np.zeros(int(ids.max(initial=0)) + 1, bool)
    seen[ids] = True
    return list(map(str, np.flatnonzero(seen).tolist()))


def _flags(ids: Ids, is_so: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    """``is_so`` by id, for each of ``ids``: ``(largest id + 1,)``."""
    flags = np.zeros(int(ids.max(initial=0)) + 1, bool)
    for id in _distinct(ids):
        flags[int(id)] = is_so(id)
    return flags
