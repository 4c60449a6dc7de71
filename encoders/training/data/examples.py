"""Training examples: a query with a positive and hard negatives, from judgements or from triples."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection as Sized
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from encoders.training.data.texts import TextStore, TextStores, query_key, text_key
from encoders.training.recipe import Negatives, Source
from learned_sparse.collections import Collection, load_collection, named_split, read_qrels, read_queries
from learned_sparse.core import LearnedSparseError, raw_lines

_BYTE_ORDER_MARK = "\ufeff"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Example:
    """One query, one relevant text, and hard negatives, the same number for all examples of a run.

    ``relevant`` holds the ``text_key`` of every text judged relevant to the query.
    """

    query: str
    positive: str
    negatives: tuple[str, ...]
    relevant: frozenset[int]


class Examples(Protocol):
    """A source of examples; ``get`` is a pure function of its arguments."""

    fingerprint: str

    def __len__(self) -> int: ...

    def get(self, index: int, rng: np.random.Generator) -> Example: ...

    def query_keys(self) -> Iterable[int]:
        """A key of each query: ``text_key`` of its id, or where there are no ids ``query_key`` of its text."""

    def judged(self, keys: Container[int]) -> Judged:
        """The queries with these keys: id to the text, and the relevant documents by id, or by text without ids."""

    def without(self, keys: Container[int], texts: Container[int]) -> Examples:
        """The examples without queries that have one of ``keys``, or whose text has one of the keys ``texts``."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Queries by id with their relevant documents, which are ids, or with ``texts`` the documents themselves."""

    queries: Mapping[str, str]
    positives: Mapping[str, Sequence[str]]
    texts: bool = False


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

    def query_keys(self) -> Iterable[int]:
        return map(text_key, self.positives)

    def judged(self, keys: Container[int]) -> Judged:
        positives = {query: documents for query, documents in self.positives.items() if text_key(query) in keys}
        return Judged({query: self.queries[query] for query in positives}, positives)

    def without(self, keys: Container[int], texts: Container[int]) -> JudgedExamples:
        kept = {
            query: documents
            for query, documents in self.positives.items()
            if text_key(query) not in keys and query_key(self.queries[query]) not in texts
        }
        return JudgedExamples(self.queries, kept, self.texts, per_query=self._per_query, short=self._short)

    def get(self, index: int, rng: np.random.Generator) -> Example:
        """Example ``index``; ``rng`` draws its negatives."""
        query, document = self._pairs[index]
        relevant = frozenset(text_key(self.texts[id]) for id in self.positives[query])
        negatives = self._negatives(query, relevant, rng)
        return Example(self.queries[query], self.texts[document], negatives, relevant)

    def _negatives(self, query: str, relevant: frozenset[int], rng: np.random.Generator) -> tuple[str, ...]:
        candidates = self._candidates.get(query, ())
        count = min(self._per_query, len(candidates))
        drawn = rng.choice(len(candidates), size=count, replace=False) if count else ()
        chosen = [self.texts[candidates[int(index)]] for index in drawn]
        while len(chosen) < self._per_query:
            chosen.append(self._random_text(relevant, rng))
        return tuple(chosen)

    def _random_text(self, relevant: frozenset[int], rng: np.random.Generator) -> str:
        for _ in range(100):
            text = self.texts[self.texts.ids[int(rng.integers(len(self.texts)))]]
            if text.strip() and text_key(text) not in relevant:
                return text
        raise LearnedSparseError(
            "100 documents drawn at random are all relevant to a query or empty; nothing to learn from"
        )


class TripleFile:
    """MS MARCO triples, one per line, read by line number: ``query TAB positive TAB negative``.

    Only offset and query key of each line are held in memory (16 bytes): 640 MB for the 27 GB of
    triples.train.small.tsv.
    With ``queries`` and ``texts`` the columns are ids, otherwise the texts themselves. A triple with an empty text is
    left out and counted in ``empty``: there is nothing to learn from it.
    """

    def __init__(
        self, path: Path, *, per_query: int, queries: Mapping[str, str] | None = None, texts: TextStore | None = None
    ) -> None:
        if per_query > 1:
            raise LearnedSparseError(f"{path}: triples have one negative per query; set negatives: per_query: 1")
        self._path, self._per_query, self._queries, self._texts = path, per_query, queries, texts
        self.empty = 0
        self._offsets, self._keys = array("q"), array("Q")
        offset, digest = 0, hashlib.blake2b(digest_size=16)
        for number, line in _lines(path):
            if line.strip():
                columns = _columns(line, f"{path}:{number}")
                if self._has_texts(columns):
                    self._offsets.append(offset)
                    self._keys.append(query_key(columns[0]) if queries is None else text_key(columns[0]))
                else:
                    self.empty += 1
            offset += len(line)
            digest.update(line)
        if self.empty:
            _logger.warning("%s: left out %d triples with an empty text", path, self.empty)
        if not self._offsets:
            raise LearnedSparseError(f"{path}: no triples")
        if queries is not None and texts is not None:
            digest.update(
                "\n".join(f"{name}\t{text}" for name, text in queries.items()).encode("utf-8", "surrogatepass")
            )
            digest.update(texts.fingerprint().encode())
        self.fingerprint = digest.hexdigest()
        self._file = path.open("rb")

    def __len__(self) -> int:
        return len(self._offsets)

    def query_keys(self) -> Iterable[int]:
        keys: list[int] = np.unique(np.frombuffer(self._keys, np.uint64)).tolist()
        return keys

    def judged(self, keys: Container[int]) -> Judged:
        queries: dict[str, str] = {}
        positives: dict[str, dict[str, None]] = {}
        for index, key in enumerate(self._keys):
            if key in keys:
                query, positive, _ = self._line(index)
                id = f"{key:016x}" if self._queries is None else query
                queries.setdefault(id, query if self._queries is None else self._queries[query])
                positives.setdefault(id, {})[positive] = None
        relevant = {id: list(documents) for id, documents in positives.items()}
        return Judged(queries, relevant, texts=self._queries is None)

    def without(self, keys: Container[int], texts: Container[int]) -> TripleFile:
        by_text = {text_key(id) for id, text in (self._queries or {}).items() if query_key(text) in texts}
        new: TripleFile = object.__new__(TripleFile)
        new.__dict__.update(self.__dict__)
        new._offsets, new._keys = array("q"), array("Q")
        for offset, key in zip(self._offsets, self._keys, strict=True):
            if not (key in keys or key in by_text or (self._queries is None and key in texts)):
                new._offsets.append(offset)
                new._keys.append(key)
        new.fingerprint = hashlib.blake2b(new._offsets, key=self.fingerprint.encode(), digest_size=16).hexdigest()
        return new

    def _line(self, index: int) -> tuple[str, str, str]:
        self._file.seek(self._offsets[index])
        return _columns(self._file.readline(), f"{self._path}: triple {index + 1}")

    def get(self, index: int, rng: np.random.Generator) -> Example:  # noqa: ARG002
        """Triple ``index``, from 0."""
        query, positive, negative = self._line(index)
        if self._texts is not None and self._queries is not None:
            query, positive, negative = self._queries[query], self._texts[positive], self._texts[negative]
        return Example(query, positive, (negative,) * self._per_query, frozenset([text_key(positive)]))

    def _has_texts(self, columns: tuple[str, str, str]) -> bool:
        """Whether none of the three texts is empty; unknown ids raise ``KeyError``."""
        query, *documents = columns
        if self._texts is not None and self._queries is not None:
            return bool(self._queries[query].strip()) and not any(map(self._texts.is_empty, documents))
        return all(columns)


@dataclass(frozen=True, kw_only=True)
class LoadedSource:
    """One source of the recipe as examples; ``name`` is ``COLLECTION/SPLIT`` or the stem of a triples file."""

    source: Source
    name: str
    examples: Examples

    @property
    def collection(self) -> str | None:
        """Name of the collection of the documents; None for triples of texts."""
        return None if self.source.collection is None else load_collection(self.source.collection).name


def load_source(source: Source, negatives: Negatives, stores: TextStores | None = None) -> LoadedSource:
    """Read one source, its documents from ``stores``; hard negatives that must be mined are added later."""
    stores = stores or TextStores()
    per_query = 0 if negatives.kind == "none" else negatives.per_query
    if source.triples is not None:
        triples = _triples(source.triples, source, per_query, stores)
        return LoadedSource(source=source, name=source.triples.stem, examples=triples)
    if source.collection is None:
        raise LearnedSparseError("data: a source needs 'collection' or 'triples'")
    source, collection = _open_collection(source, source.collection)
    queries, qrels = _topics(source, collection)
    texts = stores.texts(collection, expanded=source.expanded)
    positives = _positives(queries, qrels, texts, source.min_relevance, f"data: {source.collection}:{source.split}")
    if not positives:
        raise LearnedSparseError(f"data: {source.collection}:{source.split}: no query has a relevant document here")
    examples = JudgedExamples(queries, positives, texts, per_query=per_query, short=negatives.short)
    return LoadedSource(source=source, name=f"{collection.name}/{source.split}", examples=examples)


def _open_collection(source: Source, name: str) -> tuple[Source, Collection]:
    """The collection ``name``, and ``source`` with the split of that collection that the default stands for."""
    collection = load_collection(name)
    if source.split != Source.split:
        return source, collection
    return dataclasses.replace(source, split=named_split(name, collection, source.split)), collection


def _topics(source: Source, collection: Collection) -> tuple[dict[str, str], Mapping[str, Mapping[str, int]]]:
    if (source.topics is None) != (source.qrels is None):
        raise LearnedSparseError(f"data: {source.collection}: 'topics' and 'qrels' go together")
    if source.topics is not None and source.qrels is not None:
        queries, qrels = read_queries(source.topics), read_qrels(source.qrels)
    else:
        queries, qrels = collection.queries(source.split), collection.qrels(source.split)
    return {query.id: query.text for query in queries}, qrels


def _positives(
    queries: Mapping[str, str], qrels: Mapping[str, Mapping[str, int]], texts: TextStore, level: int, where: str
) -> dict[str, list[str]]:
    """The documents of grade ``level`` or higher of each query; judgements without a text to learn from are logged."""
    positives: dict[str, list[str]] = {}
    unusable: Counter[str] = Counter()
    for query, grades in sorted(qrels.items()):
        for document in sorted(id for id, grade in grades.items() if grade >= level):
            if query not in queries:
                unusable["whose query is not among the topics"] += 1
            elif document not in texts:
                unusable["whose document is not in the collection"] += 1
            elif not queries[query].strip() or texts.is_empty(document):
                unusable["whose query or document has no text"] += 1
            else:
                positives.setdefault(query, []).append(document)
    for reason, count in unusable.items():
        _logger.warning("%s: left out %d judgements %s", where, count, reason)
    return positives


def _triples(path: Path, source: Source, per_query: int, stores: TextStores) -> TripleFile:
    if source.collection is None:
        if source.expanded is not None:
            raise LearnedSparseError(f"data: {path}: texts have no ids to join 'expanded' by; train on triples of ids")
        return TripleFile(path, per_query=per_query)
    source, collection = _open_collection(source, source.collection)
    query_ids, document_ids = set(), set()
    for query, positive, negative in _triple_ids(path):
        query_ids.add(query)
        document_ids |= {positive, negative}
    topics = read_queries(source.topics) if source.topics is not None else collection.queries(source.split)
    queries = {query.id: query.text for query in topics if query.id in query_ids}
    texts = stores.texts(collection, document_ids, expanded=source.expanded)
    _check_known(path, "query", query_ids, queries)
    _check_known(path, "document", document_ids, texts)
    return TripleFile(path, per_query=per_query, queries=queries, texts=texts)


def _triple_ids(path: Path) -> Iterator[tuple[str, str, str]]:
    for number, line in _lines(path):
        if line.strip():
            yield _columns(line, f"{path}:{number}")


def _check_known(path: Path, kind: str, ids: Sized[str], known: Container[str]) -> None:
    missing = [id for id in ids if id not in known]
    if missing:
        raise LearnedSparseError(f"{path}: {kind} {missing[0]!r} is not in the collection ({len(missing)} in all)")


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    if path.suffix == ".gz":
        raise LearnedSparseError(f"{path}: triples are read by line number; unpack the file first (gunzip)")
    if not path.exists():
        raise LearnedSparseError(f"{path}: no such file; name your triples with --data FILE.tsv")
    return raw_lines(path)


def _columns(line: bytes, where: str) -> tuple[str, str, str]:
    """Query, positive and negative of a line, without white space at their ends; ``where`` opens error messages."""
    try:
        columns = line.decode("utf-8").lstrip(_BYTE_ORDER_MARK).split("\t")
    except UnicodeDecodeError as error:
        raise LearnedSparseError(f"{where}: not UTF-8 ({error.reason}); convert the file to UTF-8") from None
    if len(columns) != 3:
        raise LearnedSparseError(f"{where}: {len(columns)} columns; expected query, positive, negative between tabs")
    query, positive, negative = (column.strip() for column in columns)
    return query, positive, negative


def sample_texts(sources: Sequence[LoadedSource], count: int, seed: int) -> dict[str, list[str]]:
    """Up to ``count`` distinct training queries and as many documents, for calibration."""
    rng = np.random.default_rng([seed, 2**20])
    texts: dict[str, list[str]] = defaultdict(list)
    for part in sources:
        share = -(-count // len(sources))
        indices = rng.permutation(len(part.examples))[:share]
        for index in sorted(indices.tolist()):
            example = part.examples.get(index, rng)
            texts["query"].append(example.query)
            texts["document"] += [example.positive, *example.negatives]
    return {side: list(dict.fromkeys(side_texts))[:count] for side, side_texts in texts.items()}


def sample_documents(sources: Sequence[LoadedSource], count: int, seed: int) -> list[str]:
    """Up to ``count`` documents of each source: of its collection, or positives of a triples file."""
    rng = np.random.default_rng([seed, 2**21])
    documents: list[str] = []
    for part in sources:
        store = part.examples.texts if isinstance(part.examples, JudgedExamples) else None
        indices = sorted(rng.permutation(len(part.examples if store is None else store))[:count].tolist())
        documents += [part.examples.get(i, rng).positive if store is None else store[store.ids[i]] for i in indices]
    return documents
