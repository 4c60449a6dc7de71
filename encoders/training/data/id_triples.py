"""Training examples in files of three whole-number ids a line, which are held in columns."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from encoders.training.data.examples import Example, Judged
from encoders.training.data.id_columns import IdColumns, Ids, Rows
from encoders.training.data.texts import TextStore, query_key, text_key
from encoders.training.recipe import Negatives
from learned_sparse.core.errors import LearnedSparseError

_logger = logging.getLogger(__name__)


class IdTriples:
    """One example a line: a query, a positive and a hard negative by id. Lines with an empty text are left out."""

    scored = False

    def __init__(
        self, path: Path, settings: Negatives, columns: IdColumns, queries: Mapping[str, str], texts: TextStore
    ) -> None:
        """``queries`` and ``texts`` hold every id of ``columns``."""
        self._path, self._columns, self._queries, self._texts = path, columns, queries, texts
        self._settings = checked(path, settings)
        no_query = _flags(columns.query_ids, lambda id: not queries[id].strip())
        no_text = _flags(columns.document_ids, texts.is_empty)
        usable = ~(no_query[columns.queries] | no_text[columns.positives] | no_text[columns.negatives])
        self.empty = int(len(usable) - usable.sum())
        self._lines = np.flatnonzero(usable) if self.empty else None
        if self.empty:
            _logger.warning("%s: left out %d triples with an empty text", path, self.empty)
        if not len(self):
            raise LearnedSparseError(f"{path}: no triples")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
        digest.update("\n".join(f"{name}\t{text}" for name, text in queries.items()).encode("utf-8", "surrogatepass"))
        digest.update(texts.fingerprint().encode())
        self.fingerprint = digest.hexdigest()

    def __len__(self) -> int:
        return len(self._columns.queries if self._lines is None else self._lines)

    def get(self, index: int, rng: np.random.Generator) -> Example:  # noqa: ARG002 -- nothing is drawn
        """Example ``index``, from 0."""
        columns, line = self._columns, index if self._lines is None else int(self._lines[index])
        ids = columns.document_ids[[columns.positives[line], columns.negatives[line]]].tolist()
        positive, negative = (self._texts[str(id)] for id in ids)
        query = self._queries[str(columns.query_ids[columns.queries[line]])]
        negatives = (negative,) if self._settings.count else ()
        return Example(query, positive, negatives, frozenset({text_key(positive)}))

    def query_keys(self) -> Iterable[int]:
        used = self._columns.query_ids[np.unique(self._of_lines(self._columns.queries))]
        return (text_key(str(id)) for id in used.tolist())

    def judged(self, keys: Container[int]) -> Judged:
        chosen = _flags(self._columns.query_ids, lambda id: text_key(id) in keys)
        lines = np.flatnonzero(chosen[self._of_lines(self._columns.queries)])
        queries = self._columns.query_ids[self._of_lines(self._columns.queries)[lines]]
        documents = self._columns.document_ids[self._of_lines(self._columns.positives)[lines]]
        positives: dict[str, dict[str, None]] = {}
        for query, document in zip(queries.tolist(), documents.tolist(), strict=True):
            positives.setdefault(str(query), {})[str(document)] = None
        relevant = {query: list(ids) for query, ids in positives.items()}
        return Judged({query: self._queries[query] for query in relevant}, relevant)

    def without(self, keys: Container[int], texts: Container[int]) -> IdTriples:
        left_out = _flags(
            self._columns.query_ids, lambda id: text_key(id) in keys or query_key(self._queries[id]) in texts
        )
        kept = ~left_out[self._of_lines(self._columns.queries)]
        digest = hashlib.blake2b(np.packbits(kept).tobytes(), key=self.fingerprint.encode(), digest_size=16)
        new = self._like(_lines=np.flatnonzero(kept) if self._lines is None else self._lines[kept])
        new.fingerprint = digest.hexdigest()
        return new

    def drawing(self, settings: Negatives) -> IdTriples:
        """The same examples with negatives by ``settings``."""
        if settings.margin is not None:
            raise LearnedSparseError(f"{self._path}: negatives: margin needs a teacher's scores; the file has none")
        return self._like(_settings=checked(self._path, settings))

    def _of_lines(self, column: Rows) -> Rows:
        return column if self._lines is None else column[self._lines]

    def _like(self, **changes: object) -> Self:
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__, **changes)
        return new


def checked(path: Path, settings: Negatives) -> Negatives:
    """``settings``; raise if triples cannot give such negatives."""
    if any(source.kind not in ("given", "none") for source in settings.parts):
        raise LearnedSparseError(f"{path}: the file has its own negatives; set negatives: kind: given")
    if settings.count > 1 and path.suffix == ".tsv":
        raise LearnedSparseError(f"{path}: triples have one negative per query; set negatives: per_query: 1")
    return settings


def _flags(ids: Ids, is_so: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    """``is_so`` of every id, ``(ids,)``."""
    return np.fromiter((is_so(str(id)) for id in ids.tolist()), bool, len(ids))
