"""A teacher's scores of (query, document) pairs, by id: TREC runs, TSV or Parquet."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from encoders.training.data.texts import text_key
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import sha256
from learned_sparse.core.lines import raw_lines

Triple = tuple[str, str, float]
_COLUMNS = (("query_id", "qid", "query-id"), ("doc_id", "docid", "pid", "corpus-id", "passage_id"), ("score",))
_LARGEST = float(np.finfo(np.float32).max)
_PICKLES = frozenset({".pkl", ".pickle", ".pt", ".pth"})


class TeacherScores:
    """The scores in a file, or in all files of a folder; 12 bytes a pair in memory.

    Lines hold ``query document score``, or the six columns of a TREC run; ``*.gz`` is read too. Parquet has columns
    named like ``qid``, ``pid``, ``score``. A pair that has two different scores is an error.
    """

    def __init__(self, path: Path) -> None:
        keys, scores = array("Q"), array("f")
        files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
        digest = hashlib.blake2b(digest_size=16)
        for file in files:
            for query, document, score in _triples(file):
                keys.append(_key(query, document))
                scores.append(score)
            digest.update(sha256(file).encode())
        if not keys:
            raise LearnedSparseError(f"{path}: no scores")
        order = np.argsort(np.frombuffer(keys, np.uint64), kind="stable")
        self._keys, self._scores = np.frombuffer(keys, np.uint64)[order], np.frombuffer(scores, np.float32)[order]
        same = (self._keys[1:] == self._keys[:-1]) & (self._scores[1:] != self._scores[:-1])
        if same.any():
            raise LearnedSparseError(f"{path}: a query and a document have two scores; keep one of them")
        self.fingerprint = digest.hexdigest()

    def __len__(self) -> int:
        return len(self._keys)

    def of(self, query: str, documents: Sequence[str]) -> npt.NDArray[np.float64]:
        """The scores of ``documents`` for ``query``, (documents,); NaN where there is none."""
        keys = np.fromiter((_key(query, document) for document in documents), np.uint64, len(documents))
        rows = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[rows] == keys, self._scores[rows].astype(np.float64), math.nan)


def finite(value: object, where: str) -> float:
    """A score; ``LearnedSparseError`` if it is no finite number, also in fp32."""
    try:
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        plain = plain or (isinstance(value, str) and value.isascii() and "_" not in value)
        score = float(value) if plain else math.nan  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        score = math.nan
    if not abs(score) <= _LARGEST:
        raise LearnedSparseError(f"{where}: score {str(value)[:40]!r} is not a finite number (of fp32)")
    return score


def _key(query: str, document: str) -> int:
    return text_key(f"{query}\t{document}")


def _triples(file: Path) -> Iterator[Triple]:
    suffixes = {suffix.lower() for suffix in file.suffixes}
    if suffixes & _PICKLES:
        raise LearnedSparseError(
            f"{file}: loading a pickle can run code, so none is read; where you trust the file, write its scores as "
            "lines of query, tab, document, tab, score"
        )
    return _of_parquet(file) if file.suffix == ".parquet" else _of_lines(file)


def _of_lines(file: Path) -> Iterator[Triple]:
    for number, line in raw_lines(file):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        try:
            columns = line.decode("utf-8-sig").split()
        except UnicodeDecodeError as error:
            raise LearnedSparseError(f"{where}: not UTF-8 ({error.reason}); convert the file to UTF-8") from None
        if len(columns) == 3:
            yield columns[0], columns[1], finite(columns[2], where)
        elif len(columns) == 6:
            yield columns[0], columns[2], finite(columns[4], where)
        else:
            raise LearnedSparseError(
                f"{where}: {len(columns)} columns; expected query, document, score, or the six columns of a TREC run"
            )


def _of_parquet(file: Path) -> Iterator[Triple]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise LearnedSparseError(f"{file}: Parquet is read with pyarrow, which is missing: install pyarrow") from error
    try:
        opened = parquet.ParquetFile(file)
    except (OSError, pyarrow.ArrowException) as error:
        raise LearnedSparseError(f"{file}: not readable as Parquet ({error})") from error
    names = opened.schema_arrow.names
    columns = [next((name for name in known if name in names), "") for known in _COLUMNS]
    if "" in columns:
        expected = "; ".join(" or ".join(known) for known in _COLUMNS)
        raise LearnedSparseError(f"{file}: columns {', '.join(names)}; expected {expected}")
    for batch in opened.iter_batches(columns=columns):
        for query, document, score in zip(*(batch.column(name).to_pylist() for name in columns), strict=True):
            yield str(query), str(document), finite(score, f"{file}: query {query}, document {document}")
