"""Training examples: a query with a positive and hard negatives; those from judgements draw their negatives.

Read ``Example`` first. Texts of collections are in ``TextStore``: one for each collection, whatever the number of its
readers. A teacher's scores of (query, document) pairs are read here too, by id: TREC runs, TSV or Parquet.
"""

from __future__ import annotations

import copy
import hashlib
import math
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from encoders.training.recipe import Negatives, Source
from learned_sparse.collections.collection import Collection, load_collection
from learned_sparse.collections.documents import OnBadLine
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import sha256
from learned_sparse.core.lazy import import_extra
from learned_sparse.core.lines import text_lines
from learned_sparse.core.records import Document

_COLUMNS = (("query_id", "qid", "query-id"), ("doc_id", "docid", "pid", "corpus-id", "passage_id"), ("score",))
_LARGEST = float(np.finfo(np.float32).max)


def text_key(text: str) -> int:
    """64 bits of BLAKE2b: equal texts have equal keys, which finds duplicates and known positives."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def query_key(text: str) -> int:
    """``text_key`` of a query, the same in every spelling of white space, capital and small letters."""
    return text_key(" ".join(text.split()).casefold())


def fingerprint(parts: Iterable[object]) -> str:
    """A hash of ``parts`` in order, each bytes, or what ``str`` makes of it."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        content = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b" % (len(content), content))
    return digest.hexdigest()


class TextStore:
    """Texts of a collection by id, as UTF-8: compact enough for millions of passages.

    >>> store = TextStore([Document("a", "one"), Document("b", "two")])
    >>> store["b"], store.ids, "c" in store
    ('two', ['a', 'b'], False)
    """

    def __init__(self, documents: Iterable[Document], keep: Set[str] | None = None) -> None:
        """Read ``documents``, or only those with an id in ``keep``."""
        chosen = (document for document in documents if keep is None or document.id in keep)
        self._texts = {document.id: document.text.encode("utf-8", "surrogatepass") for document in chosen}
        self.ids: Sequence[str] = list(self._texts)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, id: object) -> bool:
        return id in self._texts

    def __getitem__(self, id: str) -> str:
        return self._texts[id].decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[Document]:
        return (Document(id, self[id]) for id in self.ids)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all ids and texts in order, which changes with the collection."""
        return fingerprint(chain.from_iterable(self._texts.items()))


class TextStores:
    """The documents of collections, each collection read once for all sources and the validation of a recipe."""

    def __init__(self, *, expanded: bool = False, on_bad_line: OnBadLine = "error") -> None:
        """``expanded``: with their expansion text. ``on_bad_line``: see ``DocumentReader``."""
        self.on_bad_line: OnBadLine = on_bad_line
        self._reads_expanded = expanded
        self._stores: dict[tuple[str, str, str], TextStore] = {}

    def texts(self, collection: Collection, expanded: Path | None = None) -> TextStore:
        """All documents of ``collection``; ``expanded``: file with their predicted queries."""
        key = _key(collection, expanded)
        if key not in self._stores:
            self._stores[key] = TextStore(self.documents(collection, expanded))
        return self._stores[key]

    def documents(self, collection: Collection, expanded: Path | None = None) -> Iterator[Document]:
        """All documents of ``collection``, from the store if there is one, else from its files."""
        if expanded is not None and not self._reads_expanded:
            raise LearnedSparseError(f"expanded: {expanded}: this model does not read expanded text; leave it out")
        if store := self._stores.get(_key(collection, expanded)):
            yield from store
        else:
            for document in collection.documents(self.on_bad_line, expanded):
                yield Document(document.id, document.with_expanded if self._reads_expanded else document.text)


def _key(collection: Collection, expanded: Path | None) -> tuple[str, str, str]:
    return collection.name, repr(collection.description.corpus), f"{collection.root} {expanded}"


@dataclass(frozen=True, slots=True)
class Example:
    """One query, one relevant text, and hard negatives, the same number for all examples of a stage.

    ``relevant`` holds the ``text_key`` of every text judged relevant to the query.
    """

    query: str
    positive: str
    negatives: tuple[str, ...]
    relevant: frozenset[int]
    scores: tuple[float, ...] = ()
    """A teacher's scores of the positive and the negatives, NaN for those it has not scored; empty: no teacher."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Documents that hard negatives of a query are drawn from, of one source."""

    of: Mapping[str, Sequence[str]]
    """Query id to document ids; of ``random`` empty."""
    share: float = 1.0
    random: bool = False
    """Any document of the collection."""


class Examples(ABC):
    """A source of examples; ``get`` is a pure function of its arguments."""

    source: Source
    name: str
    """``COLLECTION/SPLIT``, or the stem of a file of examples."""
    fingerprint: str
    scored: bool
    """Whether a teacher has scored the examples."""
    settings: Negatives
    candidates: tuple[Candidates, ...] = (Candidates({}),)

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def get(self, index: int, rng: np.random.Generator) -> Example:
        """Example ``index``, from 0; ``rng`` draws what can be drawn."""

    @abstractmethod
    def judged(self, index: int) -> tuple[str, list[str]]:
        """The query of example ``index`` and the texts that are relevant to it."""

    @abstractmethod
    def query_keys(self) -> npt.NDArray[np.uint64]:
        """``query_key`` of the query of each example."""

    @property
    def collection(self) -> str | None:
        """Name of the collection of the documents; None for files of texts."""
        return None if self.source.collection is None else load_collection(self.source.collection).name

    def subset(self, chosen: npt.NDArray[np.bool_]) -> Self:
        """The ``chosen`` examples: all or none of a query."""
        new = copy.copy(self)
        new.fingerprint = fingerprint([self.fingerprint, np.packbits(chosen).tobytes()])
        return new

    def drawing(self, settings: Negatives, *candidates: Candidates) -> Self:
        """The same examples with hard negatives by ``settings``, drawn from ``candidates`` by their shares.

        A file has its own negatives and ignores ``candidates``.
        """
        if settings.margin is not None and not self.scored:
            raise LearnedSparseError(
                "negatives: margin needs a teacher's scores; give each source 'scores', or a file that has them"
            )
        new = copy.copy(self)
        new.settings, new.candidates = settings, candidates or Examples.candidates
        return new


class JudgedExamples(Examples):
    """One example per (query, relevant document) pair; hard negatives are drawn from candidates of the query."""

    def __init__(
        self,
        queries: Mapping[str, str],
        positives: Mapping[str, Sequence[str]],
        texts: TextStore,
        teacher: TeacherScores | None = None,
        settings: Negatives = Negatives(per_query=0),  # noqa: B008  (frozen)
    ) -> None:
        """``queries``: id → text. ``positives``: query id → relevant document ids, all of them in ``texts``.

        Hard negatives are drawn at random, as many as ``settings`` say, until ``drawing`` gives better ones.
        """
        self.queries, self.positives, self.texts, self.teacher = queries, positives, texts, teacher
        self.scored, self.settings = teacher is not None, settings
        self.pairs = [(query, document) for query, documents in positives.items() for document in documents]
        pairs = (f"{query}\t{document}\t{queries[query]}" for query, document in self.pairs)
        self.fingerprint = fingerprint([*pairs, texts.fingerprint, None if teacher is None else teacher.fingerprint])

    def __len__(self) -> int:
        return len(self.pairs)

    def query_keys(self) -> npt.NDArray[np.uint64]:
        return np.array([query_key(self.queries[query]) for query, _ in self.pairs], np.uint64)

    def judged(self, index: int) -> tuple[str, list[str]]:
        query, _ = self.pairs[index]
        return self.queries[query], [self.texts[id] for id in self.positives[query]]

    def subset(self, chosen: npt.NDArray[np.bool_]) -> Self:
        new = super().subset(chosen)
        new.pairs = list(compress(self.pairs, chosen))
        queries = {query for query, _ in new.pairs}
        new.positives = {query: ids for query, ids in self.positives.items() if query in queries}
        return new

    def get(self, index: int, rng: np.random.Generator) -> Example:
        query, document = self.pairs[index]
        relevant = frozenset(text_key(self.texts[id]) for id in self.positives[query])
        ids = self._negatives(query, document, relevant, rng)
        scores = () if self.teacher is None else tuple(self.teacher.of(query, [document, *ids]).tolist())
        return Example(self.queries[query], self.texts[document], tuple(self.texts[id] for id in ids), relevant, scores)

    def _negatives(self, query: str, document: str, relevant: frozenset[int], rng: np.random.Generator) -> list[str]:
        """Ids of the hard negatives: of each source its share, then of any source, then of the collection.

        What the shares leave over is drawn at random.
        """
        count, chosen = self.settings.per_query, list[str]()
        parts = [self._below_margin(query, document, source.of.get(query, ())) for source in self.candidates]
        shares = np.array([source.share for source in self.candidates])
        exact = count * shares / shares.sum()
        counts = np.floor(exact + 1e-9).astype(int)
        if (left := count - int(counts.sum())) > 0:
            rest = np.clip(exact - counts, 0.0, None)
            counts += rng.multinomial(left, rest / rest.sum())
        for candidates, share in zip(parts, counts.tolist(), strict=True):
            chosen += _drawn([id for id in candidates if id not in chosen], share, rng)
        if len(parts) > 1 and not any(source.random for source in self.candidates):
            others = dict.fromkeys(id for candidates in parts for id in candidates if id not in chosen)
            chosen += _drawn(list(others), count - len(chosen), rng)
        while len(chosen) < count:
            chosen.append(self._random_id(relevant, rng))
        return chosen

    def _below_margin(self, query: str, document: str, candidates: Sequence[str]) -> Sequence[str]:
        """The candidates that are likely not relevant; those without a score stay."""
        if self.settings.margin is None or self.teacher is None:
            return candidates
        positive, *scores = self.teacher.of(query, [document, *candidates]).tolist()
        limit = positive - self.settings.margin
        return [id for id, score in zip(candidates, scores, strict=True) if math.isnan(limit) or not score > limit]

    def _random_id(self, relevant: Set[int], rng: np.random.Generator) -> str:
        for _ in range(100):
            id = self.texts.ids[int(rng.integers(len(self.texts)))]
            text = self.texts[id]
            if text.strip() and text_key(text) not in relevant:
                return id
        raise LearnedSparseError(
            "100 documents drawn at random are all relevant to a query or empty; nothing to learn from"
        )


def _drawn(candidates: Sequence[str], count: int, rng: np.random.Generator) -> list[str]:
    """Up to ``count`` of ``candidates`` in random order, each once."""
    positions = rng.choice(len(candidates), size=min(count, len(candidates)), replace=False)
    return [candidates[position] for position in positions.tolist()]


class TeacherScores:
    """The scores in a file, or in all files of a folder; 12 bytes a pair in memory.

    Lines hold ``query document score``, or the six columns of a TREC run; ``*.gz`` is read too. Parquet has columns
    named like ``qid``, ``pid``, ``score``. A pair that has two different scores is an error.
    """

    def __init__(self, path: Path) -> None:
        keys, scores = array("Q"), array("f")
        files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
        for file in files:
            for query, document, score in (_of_parquet if file.suffix == ".parquet" else _of_lines)(file):
                keys.append(_pair_key(query, document))
                scores.append(score)
        if not keys:
            raise LearnedSparseError(f"{path}: no scores")
        order = np.argsort(np.frombuffer(keys, np.uint64), kind="stable")
        self._keys, self._scores = np.frombuffer(keys, np.uint64)[order], np.frombuffer(scores, np.float32)[order]
        same = (self._keys[1:] == self._keys[:-1]) & (self._scores[1:] != self._scores[:-1])
        if same.any():
            raise LearnedSparseError(f"{path}: a query and a document have two scores; keep one of them")
        self.fingerprint = fingerprint(map(sha256, files))

    def __len__(self) -> int:
        return len(self._keys)

    def of(self, query: str, documents: Sequence[str]) -> npt.NDArray[np.float64]:
        """The scores of ``documents`` for ``query``, (documents,); NaN where there is none."""
        keys = np.fromiter((_pair_key(query, document) for document in documents), np.uint64, len(documents))
        rows = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[rows] == keys, self._scores[rows].astype(np.float64), math.nan)


def finite(value: object, where: str) -> float:
    """A score; ``LearnedSparseError`` if it is no finite number, also in fp32."""
    try:
        score = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not abs(score) <= _LARGEST:
        raise LearnedSparseError(f"{where}: score {str(value)[:40]!r} is not a finite number (of fp32)")
    return score


def _pair_key(query: str, document: str) -> int:
    return text_key(f"{query}\t{document}")


def _of_lines(file: Path) -> Iterator[tuple[str, str, float]]:
    for number, line in text_lines(file):
        columns = line.split()
        if len(columns) not in (3, 6):
            raise LearnedSparseError(
                f"{file}:{number}: {len(columns)} columns; expected query, document, score, or the six columns of a "
                "TREC run"
            )
        query, document, score = columns if len(columns) == 3 else (columns[0], columns[2], columns[4])
        yield query, document, finite(score, f"{file}:{number}")


def _of_parquet(file: Path) -> Iterator[tuple[str, str, float]]:
    pyarrow, parquet = (import_extra(name, "parquet") for name in ("pyarrow", "pyarrow.parquet"))
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
