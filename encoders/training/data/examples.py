"""Training examples: a query with a positive and hard negatives; those from judgements draw their negatives.

Read ``Example`` first. Texts of collections are in ``TextStore``: one for each collection, whatever the number of its
readers. ``files`` reads examples and a teacher's scores from files.
"""

from __future__ import annotations

import copy
import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from encoders.training.recipe import Negatives, Source
from learned_sparse.collections.collection import Collection, load_collection
from learned_sparse.collections.documents import OnBadLine
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import Document

if TYPE_CHECKING:
    from encoders.training.data.files import TeacherScores


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


Candidates = Mapping[str, Sequence[str]]
"""Query id to the ids of documents that its hard negatives are drawn from."""


class Examples(ABC):
    """A source of examples; ``get`` is a pure function of its arguments."""

    source: Source
    name: str
    """``COLLECTION/SPLIT``, or the stem of a file of examples."""
    fingerprint: str
    scored: bool
    """Whether a teacher has scored the examples."""
    settings: Negatives
    candidates: Candidates = MappingProxyType({})

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

    def drawing(self, settings: Negatives, candidates: Candidates) -> Self:
        """The same examples with hard negatives by ``settings``, drawn from ``candidates``.

        A file has its own negatives and ignores ``candidates``.
        """
        if settings.margin is not None and not self.scored:
            raise LearnedSparseError(
                "negatives: margin needs a teacher's scores; give each source 'scores', or a file that has them"
            )
        new = copy.copy(self)
        new.settings, new.candidates = settings, candidates
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
        """Ids of the hard negatives: candidates in random order, each once, then documents of the collection.

        Candidates that the teacher scores near the positive are likely relevant; those without a score stay.
        """
        candidates = self.candidates.get(query, ())
        if self.settings.margin is not None and self.teacher is not None:
            positive, *scores = self.teacher.of(query, [document, *candidates]).tolist()
            limit = positive - self.settings.margin
            scored = zip(candidates, scores, strict=True)
            candidates = [id for id, score in scored if math.isnan(limit) or not score > limit]
        count = self.settings.per_query
        positions = rng.choice(len(candidates), size=min(count, len(candidates)), replace=False)
        chosen = [candidates[position] for position in positions.tolist()]
        while len(chosen) < count:
            chosen.append(self._random_id(relevant, rng))
        return chosen

    def _random_id(self, relevant: Set[int], rng: np.random.Generator) -> str:
        for _ in range(100):
            id = self.texts.ids[int(rng.integers(len(self.texts)))]
            text = self.texts[id]
            if text.strip() and text_key(text) not in relevant:
                return id
        raise LearnedSparseError(
            "100 documents drawn at random are all relevant to a query or empty; nothing to learn from"
        )
