"""Training examples: a query with a positive and hard negatives, from judgements or from triples."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from encoders.training.data.texts import TextStore, text_key
from learned_sparse.core import LearnedSparseError


@dataclass(frozen=True, slots=True)
class Example:
    """One query, one relevant text, and hard negatives, as many for all examples of a run.

    ``relevant`` holds the ``text_key`` of every text judged relevant to the query.
    """

    query: str
    positive: str
    negatives: tuple[str, ...]
    relevant: frozenset[int]


class Examples(Protocol):
    """What every source of examples offers; ``get`` is a pure function of its arguments."""

    fingerprint: str

    def __len__(self) -> int: ...

    def get(self, index: int, rng: np.random.Generator) -> Example: ...


class JudgedExamples:
    """One example per (query, relevant document) pair; hard negatives drawn from a list of candidates per query."""

    def __init__(
        self,
        queries: Mapping[str, str],
        positives: Mapping[str, Sequence[str]],
        texts: TextStore,
        *,
        per_query: int,
        short: str = "random",
    ) -> None:
        """``queries``: id → text. ``positives``: query id → relevant document ids, all of them in ``texts``."""
        self.queries, self.positives, self.texts = queries, positives, texts
        self._per_query, self._short = per_query, short
        self._candidates: Mapping[str, Sequence[str]] = {}
        self._pairs = [(query, document) for query, documents in positives.items() for document in documents]
        joined = "\n".join(f"{query}\t{document}\t{queries[query]}" for query, document in self._pairs)
        digest = hashlib.blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=16)
        digest.update(texts.fingerprint().encode())
        self.fingerprint = digest.hexdigest()

    def with_candidates(self, candidates: Mapping[str, Sequence[str]]) -> JudgedExamples:
        """The same examples with hard negatives drawn from ``candidates`` (query id → document ids)."""
        new = object.__new__(JudgedExamples)
        new.__dict__.update(self.__dict__)
        new._candidates = candidates
        if self._short == "drop":
            enough = {query for query in self.positives if len(candidates.get(query, ())) >= self._per_query}
            new._pairs = [pair for pair in self._pairs if pair[0] in enough]
        if not new._pairs:
            raise LearnedSparseError("no training query has enough hard negatives; lower negatives: per_query")
        return new

    def __len__(self) -> int:
        return len(self._pairs)

    def get(self, index: int, rng: np.random.Generator) -> Example:
        """Example ``index``; ``rng`` draws its negatives."""
        query, document = self._pairs[index]
        relevant = frozenset(text_key(self.texts[id]) for id in self.positives[query])
        negatives = self._negatives(query, relevant, rng)
        return Example(self.queries[query], self.texts[document], negatives, relevant)

    def _negatives(self, query: str, relevant: frozenset[int], rng: np.random.Generator) -> tuple[str, ...]:
        candidates = self._candidates.get(query, ())
        count = min(self._per_query, len(candidates))
        places = rng.choice(len(candidates), size=count, replace=False) if count else ()
        chosen = [self.texts[candidates[int(place)]] for place in places]
        while len(chosen) < self._per_query:
            chosen.append(self._random_text(relevant, rng))
        return tuple(chosen)

    def _random_text(self, relevant: frozenset[int], rng: np.random.Generator) -> str:
        for _ in range(100):
            text = self.texts[self.texts.ids[int(rng.integers(len(self.texts)))]]
            if text_key(text) not in relevant:
                return text
        raise LearnedSparseError(
            "every document of the training collection is relevant to a query; nothing to learn from"
        )


class TripleFile:
    """MS MARCO triples, one per line, read by line number: ``query TAB positive TAB negative``.

    Only the place of each line is kept in memory (8 bytes), so that the 27 GB of triples.train.small.tsv will do. With
    ``queries`` and ``texts`` the columns are ids, otherwise the texts themselves.
    """

    def __init__(
        self, path: Path, *, per_query: int, queries: Mapping[str, str] | None = None, texts: TextStore | None = None
    ) -> None:
        if per_query > 1:
            raise LearnedSparseError(f"{path}: triples have one negative per query; set negatives: per_query: 1")
        self._path, self._per_query, self._queries, self._texts = path, per_query, queries, texts
        self._starts = array("q")
        start, digest = 0, hashlib.blake2b(digest_size=16)
        for number, line in enumerate(_lines(path), start=1):
            if line.strip():
                self._starts.append(start)
                if line.count(b"\t") != 2:
                    raise LearnedSparseError(f"{path}:{number}: expected query, positive, negative between tabs")
            start += len(line)
            digest.update(line[:64])
        if not self._starts:
            raise LearnedSparseError(f"{path}: no triples")
        self.fingerprint = digest.hexdigest()
        self._file = path.open("rb")

    def __len__(self) -> int:
        return len(self._starts)

    def get(self, index: int, rng: np.random.Generator) -> Example:  # noqa: ARG002
        """The triple of line ``index``."""
        self._file.seek(self._starts[index])
        try:
            columns = self._file.readline().decode("utf-8").split("\t")
        except UnicodeDecodeError as error:
            raise LearnedSparseError(f"{self._path}: triple {index + 1} is not UTF-8 text: {error.reason}") from error
        query, positive, negative = (column.strip() for column in columns)
        if self._texts is not None and self._queries is not None:
            query, positive, negative = self._queries[query], self._texts[positive], self._texts[negative]
        return Example(query, positive, (negative,) * self._per_query, frozenset([text_key(positive)]))


def triple_ids(path: Path) -> Iterator[tuple[str, str, str]]:
    """The three ids of every line of an id triples file."""
    for number, line in enumerate(_lines(path), start=1):
        columns = line.decode("utf-8", "replace").split()
        if columns and len(columns) != 3:
            raise LearnedSparseError(f"{path}:{number}: expected three ids, got {len(columns)} columns")
        if columns:
            yield columns[0], columns[1], columns[2]


def check_known(path: Path, kind: str, ids: Collection[str], known: Container[str]) -> None:
    """An error naming a query or document that a file mentions and the collection lacks."""
    missing = [id for id in ids if id not in known]
    if missing:
        raise LearnedSparseError(f"{path}: {kind} {missing[0]!r} is not in the collection ({len(missing)} such)")


def _lines(path: Path) -> Iterator[bytes]:
    if path.suffix == ".gz":
        raise LearnedSparseError(f"{path}: triples are read by line number; unpack the file first (gunzip)")
    try:
        with path.open("rb") as file:
            yield from file
    except FileNotFoundError:
        raise LearnedSparseError(f"{path}: no such file; name your triples with --data FILE.tsv") from None
