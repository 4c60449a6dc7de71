"""Training examples: a query with a positive and hard negatives, from judgements or from triples."""

from __future__ import annotations

import dataclasses
import hashlib
from array import array
from collections import defaultdict
from collections.abc import Collection as Sized
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from encoders.training.recipe import Negatives, Source
from learned_sparse.collections import Collection, load_collection, named_split, read_qrels, read_queries
from learned_sparse.core import Document, LearnedSparseError


def text_key(text: str) -> int:
    """64 bits of BLAKE2b: equal texts have equal keys, which finds duplicates and known positives."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


class TextStore:
    """Texts of a collection by id, compact enough for millions of passages: one block of UTF-8 bytes with offsets.

    >>> store = TextStore([Document("a", "one"), Document("b", "two")])
    >>> store["b"], store.ids, "c" in store
    ('two', ['a', 'b'], False)
    """

    def __init__(self, documents: Iterable[Document], keep: Set[str] | None = None) -> None:
        """Read ``documents``, or only those with an id in ``keep``."""
        self._rows: dict[str, int] = {}
        self._bytes = bytearray()
        self._ends = array("q", [0])
        for document in documents:
            if keep is None or document.id in keep:
                self._rows[document.id] = len(self._rows)
                self._bytes += document.text.encode("utf-8", "surrogatepass")
                self._ends.append(len(self._bytes))
        self.ids = list(self._rows)

    @classmethod
    def of_collection(
        cls, collection: Collection, *, expanded: bool = False, keep: Set[str] | None = None
    ) -> TextStore:
        """The documents of ``collection``, with their expansion text if ``expanded``."""
        documents = collection.documents()
        return cls((Document(d.id, d.with_expanded if expanded else d.text) for d in documents), keep)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, id: object) -> bool:
        return id in self._rows

    def __getitem__(self, id: str) -> str:
        row = self._rows[id]
        return self._bytes[self._ends[row] : self._ends[row + 1]].decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[Document]:
        return (Document(id, self[id]) for id in self.ids)

    def fingerprint(self) -> str:
        """A hash of all ids and texts in order, which changes with the collection."""
        digest = hashlib.blake2b("\0".join(self.ids).encode("utf-8", "surrogatepass"), digest_size=16)
        digest.update(self._ends.tobytes())
        digest.update(self._bytes)
        return digest.hexdigest()


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
        drawn = rng.choice(len(candidates), size=count, replace=False) if count else ()
        chosen = [self.texts[candidates[int(index)]] for index in drawn]
        while len(chosen) < self._per_query:
            chosen.append(self._random_text(relevant, rng))
        return tuple(chosen)

    def _random_text(self, relevant: frozenset[int], rng: np.random.Generator) -> str:
        for _ in range(100):
            text = self.texts[self.texts.ids[int(rng.integers(len(self.texts)))]]
            if text_key(text) not in relevant:
                return text
        raise LearnedSparseError("100 documents drawn at random are all relevant to a query; nothing to learn from")


class TripleFile:
    """MS MARCO triples, one per line, read by line number: ``query TAB positive TAB negative``.

    Only the offset of each line is held in memory (8 bytes), which suffices for the 27 GB of triples.train.small.tsv.
    With ``queries`` and ``texts`` the columns are ids, otherwise the texts themselves.
    """

    def __init__(
        self, path: Path, *, per_query: int, queries: Mapping[str, str] | None = None, texts: TextStore | None = None
    ) -> None:
        if per_query > 1:
            raise LearnedSparseError(f"{path}: triples have one negative per query; set negatives: per_query: 1")
        self._path, self._per_query, self._queries, self._texts = path, per_query, queries, texts
        self._offsets = array("q")
        offset, digest = 0, hashlib.blake2b(digest_size=16)
        for number, line in enumerate(_lines(path), start=1):
            if line.strip():
                self._offsets.append(offset)
                if line.count(b"\t") != 2:
                    raise LearnedSparseError(f"{path}:{number}: expected query, positive, negative between tabs")
            offset += len(line)
            digest.update(line)
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

    def get(self, index: int, rng: np.random.Generator) -> Example:  # noqa: ARG002
        """Triple ``index``, from 0."""
        self._file.seek(self._offsets[index])
        try:
            columns = self._file.readline().decode("utf-8").split("\t")
        except UnicodeDecodeError as error:
            raise LearnedSparseError(f"{self._path}: triple {index + 1} is not UTF-8 text: {error.reason}") from error
        query, positive, negative = (column.strip() for column in columns)
        if self._texts is not None and self._queries is not None:
            query, positive, negative = self._queries[query], self._texts[positive], self._texts[negative]
        return Example(query, positive, (negative,) * self._per_query, frozenset([text_key(positive)]))


@dataclass(frozen=True, kw_only=True)
class LoadedSource:
    """One source of the recipe as examples; ``name`` is ``COLLECTION/SPLIT`` or the stem of a triples file."""

    source: Source
    name: str
    examples: Examples


def load_source(source: Source, negatives: Negatives, *, expanded: bool = False) -> LoadedSource:
    """Read one source; hard negatives that must be mined are added later.

    ``expanded``: documents of collections are read with their expansion text.
    """
    per_query = 0 if negatives.kind == "none" else negatives.per_query
    if source.triples is not None:
        triples = _triples(source.triples, source, per_query, expanded)
        return LoadedSource(source=source, name=source.triples.stem, examples=triples)
    if source.collection is None:
        raise LearnedSparseError("data: a source needs 'collection' or 'triples'")
    source, collection = _open_collection(source, source.collection)
    queries, qrels = _topics(source, collection)
    texts = TextStore.of_collection(collection, expanded=expanded)
    positives = {
        query: sorted(id for id, relevance in documents.items() if relevance >= source.min_relevance and id in texts)
        for query, documents in sorted(qrels.items())
        if query in queries
    }
    positives = {query: documents for query, documents in positives.items() if documents}
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


def _triples(path: Path, source: Source, per_query: int, expanded: bool) -> TripleFile:
    if source.collection is None:
        return TripleFile(path, per_query=per_query)
    source, collection = _open_collection(source, source.collection)
    query_ids, document_ids = set(), set()
    for query, positive, negative in _triple_ids(path):
        query_ids.add(query)
        document_ids |= {positive, negative}
    topics = read_queries(source.topics) if source.topics is not None else collection.queries(source.split)
    queries = {query.id: query.text for query in topics if query.id in query_ids}
    texts = TextStore.of_collection(collection, expanded=expanded, keep=document_ids)
    _check_known(path, "query", query_ids, queries)
    _check_known(path, "document", document_ids, texts)
    return TripleFile(path, per_query=per_query, queries=queries, texts=texts)


def _triple_ids(path: Path) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(_lines(path), start=1):
        columns = line.decode("utf-8", "replace").split()
        if columns and len(columns) != 3:
            raise LearnedSparseError(f"{path}:{number}: expected three ids, got {len(columns)} columns")
        if columns:
            yield columns[0], columns[1], columns[2]


def _check_known(path: Path, kind: str, ids: Sized[str], known: Container[str]) -> None:
    missing = [id for id in ids if id not in known]
    if missing:
        raise LearnedSparseError(f"{path}: {kind} {missing[0]!r} is not in the collection ({len(missing)} in all)")


def _lines(path: Path) -> Iterator[bytes]:
    if path.suffix == ".gz":
        raise LearnedSparseError(f"{path}: triples are read by line number; unpack the file first (gunzip)")
    try:
        with path.open("rb") as file:
            yield from file
    except FileNotFoundError:
        raise LearnedSparseError(f"{path}: no such file; name your triples with --data FILE.tsv") from None


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
