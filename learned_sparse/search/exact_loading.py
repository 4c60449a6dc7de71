"""Files of vectors straight into arrays, without a batch of dicts in between."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson

from learned_sparse.core import EMPTY_TERM, LONGEST_TERM, RESERVED, LearnedSparseError, SparseBatch, unfit_reason
from learned_sparse.jsonvector import (
    MANIFEST,
    MAX_REPEATED_CHARACTERS,
    LineReader,
    Manifest,
    numbered_lines,
    read_vector_files,
    vector_files,
)

LINES = 256
"""Read before they are made arrays."""
_DOUBTS = (AttributeError, KeyError, TypeError, ValueError, OverflowError)
"""What comes of a line that is not as it should be."""


def load_vectors(paths: Sequence[Path]) -> tuple[list[str], SparseBatch]:
    """The ids and impacts below ``paths``, each a file or a folder, in the order of the files.

    Every line is checked as ``read_vectors`` does, with the same errors. Where there is a manifest,
    its counts must be those that were read.
    """
    files = [vector_files(path) for path in paths]
    reader = _Reader()
    try:
        counts = [[reader.read(file) for file in of_path] for of_path in files]
        ids, impacts = reader.finish()
    except _DOUBTS:
        for _ in read_vector_files(itertools.chain.from_iterable(files)):
            pass  # the strict reader knows the file, the line and the reason
        raise
    for path, of_path, read in zip(paths, files, counts, strict=True):
        if (path / MANIFEST).is_file():
            _compare(path, dict(zip(of_path, read, strict=True)))
    return ids, impacts


class _Numbers(dict[str, int]):
    """Terms numbered as they come; ``longest`` is the length of the longest."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0
        self._new: list[str] = []

    def __missing__(self, term: str) -> int:
        self._new.append(term)
        number = self[term] = len(self)
        return number

    def check_new(self) -> None:
        """Raise if one of those that came since the last time is unfit."""
        self.longest = max(self.longest, *map(len, self._new), 0)
        # All at once as far as it goes: nothing empty, no white space, no half of a surrogate pair, none too long.
        plain = " ".join(self._new).split() == self._new and " ".join(self._new).isascii()
        if not plain or self.longest > LONGEST_TERM or not RESERVED.isdisjoint(self._new):
            for reason in filter(None, map(unfit_reason, self._new)):
                raise ValueError(reason)
        self._new = []


class _Reader:
    """Files into growing arrays; stops at whatever looks wrong, for the strict reader to name it."""

    def __init__(self) -> None:
        self._strict = LineReader()
        self._numbers = _Numbers()
        self._ids: list[str] = []
        self._postings = 0
        self._lengths: list[npt.NDArray[np.int64]] = [np.zeros(1, np.int64)]
        self._indices = [np.empty(0, np.int32)]
        self._impacts: list[npt.NDArray[np.integer]] = [np.empty(0, np.uint8)]

    def read(self, file: Path) -> tuple[int, int]:
        """Add what is in ``file``: how many documents, and how many postings."""
        documents, postings = len(self._ids), self._postings
        lines = (line for _, line in numbered_lines(file))
        while some := list(itertools.islice(lines, LINES)):
            self._add(some)
        return len(self._ids) - documents, self._postings - postings

    def _add(self, lines: Sequence[bytes]) -> None:
        names: list[str | int] = []
        terms: list[str] = []
        impacts: list[int] = []
        lengths = []
        for line in lines:
            content = orjson.loads(line)
            vector = content["vector"]
            if not vector or EMPTY_TERM in vector or b"true" in line:  # true would pass for 1
                _, vector = self._strict.parse(line)
            names.append(content["id"])
            terms.extend(vector)
            impacts.extend(vector.values())
            lengths.append(len(vector))
        self._ids += _checked(names)
        indices = np.fromiter(map(self._numbers.__getitem__, terms), np.int32, len(terms))
        self._numbers.check_new()
        # An array of C integers takes neither 2.9 nor "3", nor what is too large for it.
        values = np.frombuffer(array("i", impacts), np.int32)
        if values.min(initial=1) < 1:
            raise ValueError("an impact below 1")
        self._check_lengths(indices, values, np.array(lengths))
        self._postings += len(values)
        self._lengths.append(np.array(lengths, np.int64))
        self._indices.append(indices)
        self._impacts.append(values.astype(np.min_scalar_type(values.max(initial=0))))

    def _check_lengths(
        self, indices: npt.NDArray[np.int32], values: npt.NDArray[np.int32], lengths: npt.NDArray[np.int64]
    ) -> None:
        if int(values.max(initial=0)) * int(lengths.max()) * (self._numbers.longest + 1) <= MAX_REPEATED_CHARACTERS:
            return
        characters = np.fromiter(map(len, self._numbers), np.int64, len(self._numbers)) + 1
        so_far = np.concatenate([[0], np.cumsum(values * characters[indices])])
        ends = np.cumsum(lengths)
        if (so_far[ends] - so_far[ends - lengths]).max() > MAX_REPEATED_CHARACTERS:
            raise ValueError("too long for Anserini")

    def finish(self) -> tuple[list[str], SparseBatch]:
        """All that was read."""
        if len(set(self._ids)) != len(self._ids):
            raise ValueError("an id that occurs twice")
        bounds = np.cumsum(np.concatenate(self._lengths))
        impacts = np.concatenate(self._impacts)
        return self._ids, SparseBatch(bounds, np.concatenate(self._indices), impacts, list(self._numbers))


def _checked(names: Sequence[str | int]) -> list[str]:
    texts = list(map(str, names))
    if not set(map(type, names)) <= {str, int} or " ".join(texts).split() != texts:
        raise ValueError("an id that is no string, is empty or holds white space")
    return texts


def _compare(folder: Path, read: dict[Path, tuple[int, int]]) -> None:
    """Raise if the manifest of ``folder`` tells of other files, documents or postings than were ``read``."""
    manifest = Manifest.load(folder)
    where = folder / MANIFEST
    if manifest.kind != "documents":
        raise LearnedSparseError(f"{folder}: encoded {manifest.kind}, not documents; only documents can be searched")
    if not manifest.complete:
        raise LearnedSparseError(f"{where}: not complete; run learned_sparse.encode with --resume")
    if manifest.scoring != "impact":
        raise LearnedSparseError(f"{where}: scored by BM25, which is no sum of impacts; index it, and search the index")
    recorded = {folder / part.file: part.documents for part in manifest.parts}
    for path in sorted(recorded.keys() ^ read.keys()):
        what = "missing" if path in recorded else "not in the manifest"
        raise LearnedSparseError(f"{path}: {what}; encode anew, or search the files without the manifest")
    for path, (documents, _) in read.items():
        if documents != recorded[path]:
            raise LearnedSparseError(
                f"{path}: {recorded[path]:,} documents in the manifest, {documents:,} read; encode anew"
            )
    postings = sum(count for _, count in read.values())
    if postings != manifest.counts.postings:
        raise LearnedSparseError(
            f"{where}: {manifest.counts.postings:,} impacts in the manifest, {postings:,} read; encode anew"
        )
