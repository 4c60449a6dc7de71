"""Training examples: a query with a positive and hard negatives, and the order in which they are drawn.

Read ``Example`` first. Hard negatives come from runs, from BM25, or from a model that searches by exact dot products:
block by block, on all processes, in bounded memory. ``sources`` reads what a recipe names, ``files`` examples and a
teacher's scores from files.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import itertools
import math
import shutil
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from accelerate import PartialState
from tqdm import tqdm

from encoders.models.objectives import Labels
from encoders.training.recipe import Negatives, Source
from learned_sparse.collections.documents import Document
from learned_sparse.collections.topics import Query
from learned_sparse.collections.trec import ranked, read_hits, write_run
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import TRAINING_INDEX, index_folder, locked, run_file
from learned_sparse.core.records import EXPANDED

if TYPE_CHECKING:
    from encoders.training.files import TeacherScores

Run = Mapping[str, Sequence[tuple[str, float]]]
"""Query id to ``(document id, score)``, best first."""
Vectors = Any  # scipy.sparse.csr_array (texts, dimensions); scipy has no types
_CELLS = 4_000_000
"""Scores that mining holds at a time."""


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


class Examples(ABC):
    """A source of examples; ``get`` is a pure function of its arguments until ``draw_by`` is called."""

    source: Source
    name: str
    """``COLLECTION/SPLIT``, or the stem of a file of examples."""
    fingerprint: str
    scored: bool
    """Whether a teacher has scored the examples."""
    settings: Negatives
    candidates: Mapping[str, str] = MappingProxyType({})
    """Query id to the ids of documents, with spaces, that its hard negatives are drawn from; files have their own."""

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

    def subset(self, chosen: npt.NDArray[np.bool_]) -> Self:
        """The ``chosen`` examples: all or none of a query."""
        new = copy.copy(self)
        new.fingerprint = fingerprint([self.fingerprint, np.packbits(chosen).tobytes()])
        return new

    def draw_by(self, settings: Negatives) -> None:
        """Draw hard negatives by ``settings`` from now on; those of a run or of BM25 are read here."""
        if settings.margin is not None and not self.scored:
            raise LearnedSparseError(
                "negatives: margin needs a teacher's scores; give each source 'scores', or a file that has them"
            )
        self.settings = settings


class JudgedExamples(Examples):
    """One example per (query, relevant document) pair; hard negatives are drawn from candidates of the query."""

    def __init__(
        self,
        queries: Mapping[str, str],
        positives: Mapping[str, Sequence[str]],
        texts: Mapping[str, str],
        teacher: TeacherScores | None = None,
        settings: Negatives = Negatives(per_query=0),  # noqa: B008  (frozen)
    ) -> None:
        """``queries``: id → text. ``positives``: query id → relevant document ids, all of them in ``texts``.

        Hard negatives are drawn at random, as many as ``settings`` say, until ``draw_by`` finds better ones.
        """
        self.queries, self.positives, self.texts, self.teacher = queries, positives, texts, teacher
        self.scored, self.settings = teacher is not None, settings
        self.mined: Path | None = None  # the run of a model that ``candidates`` are from
        self._ids = list(texts)
        self.pairs = [(query, document) for query, documents in positives.items() for document in documents]
        pairs = (f"{query}\t{document}\t{queries[query]}" for query, document in self.pairs)
        of_texts = fingerprint(itertools.chain.from_iterable(texts.items()))
        self.fingerprint = fingerprint([*pairs, of_texts, None if teacher is None else teacher.fingerprint])

    def __len__(self) -> int:
        return len(self.pairs)

    def query_keys(self) -> npt.NDArray[np.uint64]:
        return np.array([query_key(self.queries[query]) for query, _ in self.pairs], np.uint64)

    def judged(self, index: int) -> tuple[str, list[str]]:
        query, _ = self.pairs[index]
        return self.queries[query], [self.texts[id] for id in self.positives[query]]

    def subset(self, chosen: npt.NDArray[np.bool_]) -> Self:
        new = super().subset(chosen)
        new.pairs = list(itertools.compress(self.pairs, chosen))
        queries = {query for query, _ in new.pairs}
        new.positives = {query: ids for query, ids in self.positives.items() if query in queries}
        return new

    def get(self, index: int, rng: np.random.Generator) -> Example:
        """Example ``index``; hard negatives are candidates in random order, each once, then any other documents.

        Candidates that the teacher scores near the positive are likely relevant; those without a score stay.
        """
        query, document = self.pairs[index]
        relevant = frozenset(text_key(self.texts[id]) for id in self.positives[query])
        candidates = self.candidates.get(query, "").split()
        if self.settings.margin is not None and self.teacher is not None:
            positive, *scores = self.teacher.of(query, [document, *candidates]).tolist()
            limit = positive - self.settings.margin
            scored = zip(candidates, scores, strict=True)
            candidates = [id for id, score in scored if math.isnan(limit) or not score > limit]
        count = self.settings.per_query
        positions = rng.choice(len(candidates), size=min(count, len(candidates)), replace=False)
        ids = [candidates[position] for position in positions.tolist()]
        while len(ids) < count:
            ids.append(self._random_id(relevant, rng))
        scores = () if self.teacher is None else tuple(self.teacher.of(query, [document, *ids]).tolist())
        return Example(self.queries[query], self.texts[document], tuple(self.texts[id] for id in ids), relevant, scores)

    def _random_id(self, relevant: Set[int], rng: np.random.Generator) -> str:
        for _ in range(100):
            id = self._ids[int(rng.integers(len(self._ids)))]
            text = self.texts[id]
            if text.strip() and text_key(text) not in relevant:
                return id
        raise LearnedSparseError(
            "100 documents drawn at random are all relevant to a query or empty; nothing to learn from"
        )

    def draw_by(self, settings: Negatives) -> None:
        super().draw_by(settings)
        self.candidates, self.mined, where = {}, None, self.source.run
        if not settings.per_query or settings.kind in ("random", "checkpoint"):
            return
        if where is None and settings.kind == "self":
            return
        if where is None and settings.kind == "bm25":
            collection, _, split = self.name.partition("/")
            queries = [Query(id, self.queries[id]) for id in self.positives]
            where = bm25_run(queries, self.texts.items, settings.ranks[1], collection=collection, split=split)
        if where is None:
            raise LearnedSparseError(
                f"data: {self.name}: no hard negatives; give the source a 'run' of its queries (--data "
                f"{self.source.collection}:{self.source.split},run=FILE), or --set negatives.kind=bm25, which searches "
                "them; other kinds are self and random, and per_query: 0 needs none"
            )
        self.take_candidates(where)

    def take_candidates(self, run: Path) -> None:
        """Draw hard negatives from the ``ranks`` of ``run``, counted from 1; in memory are their ids, as one text.

        Positives, documents with the text of a positive, and documents without text are left out.
        """
        candidates, (first, last) = dict[str, str](), self.settings.ranks
        for query, scores in read_hits(run):
            if query not in self.positives:
                continue
            if query in candidates:
                raise LearnedSparseError(f"{run}: the lines of query {query!r} are not together; sort the run")
            relevant = {text_key(self.texts[id]) for id in self.positives[query]}
            hits = ranked((id, score) for id, (_, score) in scores.items())
            ids = [id for id, _ in hits[first - 1 : last]]
            for id in ids:
                if id not in self.texts:
                    raise LearnedSparseError(f"{run}: document {id!r} is not in the training collection")
            kept = (id for id in ids if text_key(self.texts[id]) not in relevant and self.texts[id].strip())
            candidates[query] = " ".join(kept)
        if not candidates and run == self.source.run:
            raise LearnedSparseError(f"{run}: no hits for any query of {self.name}; is it the run of another split?")
        self.candidates = candidates


@functools.lru_cache(maxsize=3)
def _permutation(size: int, seed: int, number: int) -> npt.NDArray[Any]:
    dtype = np.int32 if size < 2**31 else np.int64
    return np.random.default_rng([seed, 0, number]).permutation(np.arange(size, dtype=dtype))


def examples_at(sources: Sequence[Examples], positions: Iterable[int], order: int, *seed: int) -> Iterator[Example]:
    """The examples at ``positions``, from 0, of an endless shuffled order over several sources.

    Each pass is a new permutation of the examples of all sources, which the seed ``order`` decides; ``seed`` and the
    position decide what an example draws. Resuming needs no state: position 10,000 is computed without the 9,999
    before it.
    """
    ends = list(itertools.accumulate(map(len, sources)))
    for position in positions:
        number, offset = divmod(position, ends[-1])
        index = int(_permutation(ends[-1], order, number)[offset])
        source = bisect_right(ends, index)
        yield sources[source].get(index - [0, *ends][source], np.random.default_rng([*seed, position]))


def labels_of(examples: Sequence[Example]) -> Labels:
    """What is known about the documents of ``examples``; without scores if no example has any.

    Known to be relevant to a query are judged documents, positives of the same query text in the batch, and documents
    with the same text: boolean (queries, positives + hard negatives), with columns in the order of a ``MicroBatch``.
    The diagonal, each query's own positive, is False.
    """
    texts = [example.positive for example in examples] + [text for example in examples for text in example.negatives]
    columns = np.array([text_key(text) for text in texts], dtype=np.uint64)
    relevant: dict[str, set[int]] = {}
    for example, positive in zip(examples, columns.tolist(), strict=False):
        relevant.setdefault(example.query, set()).update(example.relevant, [positive])
    known = np.stack([np.isin(columns, np.fromiter(relevant[example.query], dtype=np.uint64)) for example in examples])
    np.fill_diagonal(known, False)
    scores = None
    if any(example.scores for example in examples):
        scores = torch.tensor([example.scores or (np.nan,) * (1 + len(example.negatives)) for example in examples])
    return Labels(torch.from_numpy(known), scores)


def sample_texts(sources: Sequence[Examples], negatives: Negatives, count: int, seed: int) -> dict[str, list[str]]:
    """Up to ``count`` distinct training queries and as many documents, for calibration: positives, and hard negatives
    of files or at random from the collection, as many as ``negatives`` say.
    """
    rng = np.random.default_rng([seed, 2**20])
    texts: dict[str, list[str]] = defaultdict(list)
    for part in map(copy.copy, sources):
        part.settings, part.candidates = negatives, {}
        share = -(-count // len(sources))
        indices = rng.permutation(len(part))[:share]
        for index in sorted(indices.tolist()):
            example = part.get(index, rng)
            texts["query"].append(example.query)
            texts["document"] += [example.positive, *example.negatives]
    return {side: list(dict.fromkeys(side_texts))[:count] for side, side_texts in texts.items()}


def sample_documents(sources: Sequence[Examples], count: int, seed: int) -> list[str]:
    """Up to ``count`` documents of each source: of its collection, or positives of a triples file."""
    rng = np.random.default_rng([seed, 2**21])
    documents: list[str] = []
    for part in sources:
        texts = list(part.texts.values()) if isinstance(part, JudgedExamples) else None
        indices = sorted(rng.permutation(len(part if texts is None else texts))[:count].tolist())
        documents += [part.get(i, rng).positive if texts is None else texts[i] for i in indices]
    return documents


def bm25_run(
    queries: Sequence[Query], texts: Callable[[], Iterable[tuple[str, str]]], depth: int, *, collection: str, split: str
) -> Path:
    """``queries`` searched in ``texts`` with BM25 (Lucene, k1 = 0.9, b = 0.4): the run that keeps the hits.

    Documents are indexed without their expansion text, so that all models get the same candidates. The file's name has
    a hash of queries, texts and depth. An existing file with that name is read instead of searching again.
    """
    records = itertools.chain(((query.id, query.text) for query in queries), texts())
    plain = (f"{id}\0{text.partition(EXPANDED)[0]}" for id, text in records)
    digest = fingerprint(itertools.chain([depth], plain))[:16]
    run = run_file(collection, f"{split}-{digest}", "bm25")
    if PartialState().is_main_process and not run.exists():
        from learned_sparse.index.build import build_bm25_index
        from learned_sparse.lucene.searchers import search_bm25

        index = index_folder(collection, TRAINING_INDEX)
        with locked(index.with_name(f"{index.name}.search"), wait=True):  # another training may be searching here
            if not run.exists():
                documents = (Document(id, text.partition(EXPANDED)[0]) for id, text in texts())
                build_bm25_index(documents, index, overwrite=True)
                write_run(run, search_bm25(index, queries, depth), "bm25")
                shutil.rmtree(index)
    PartialState().wait_for_everyone()
    return run


def draw(ids: Iterable[str], count: int | None, always: Iterable[str], seed: Sequence[int]) -> list[str]:
    """``count`` ids drawn at random (None: all) and the ids of ``always``, in the order of ``ids``."""
    all_ids = list(ids)
    if count is None or count >= len(all_ids):
        return all_ids
    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(all_ids), size=count, replace=False)
    kept = {all_ids[int(index)] for index in drawn} | set(always)
    return [id for id in all_ids if id in kept]


def best_documents(
    encode: Callable[[Side, Sequence[str]], Vectors],
    queries: Sequence[Query],
    pool: Mapping[str, str],
    depth: int,
    *,
    process: int = 0,
    processes: int = 1,
    gather: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = lambda array: array,
    device: torch.device | None = None,
    block: int = 8192,
) -> dict[str, list[tuple[str, float]]]:
    """The ``depth`` best documents of ``pool`` for each query by dot product, the same in every process.

    Equal scores are ordered by document id; scores of 0 are no hits. Each process encodes and searches every
    ``processes``-th block of ``block`` documents, on a GPU if ``device`` is one; ``gather`` turns an array ``(1, ...)``
    of this process into that of all, ``(processes, ...)``. Memory: one block of vectors, and 8 bytes for each of
    ``depth`` hits of each query.
    """
    ids = list(pool)
    order = sorted(range(len(pool)), key=ids.__getitem__, reverse=True)
    position = torch.empty(len(pool), dtype=torch.long)
    position[order] = torch.arange(len(pool))
    # a hit is one number: the bits of its score, which for positive floats order as the floats do, then its position
    best, position = torch.zeros(len(queries), depth, dtype=torch.long, device=device), position.to(device)
    vectors, at_once = encode("query", [query.text for query in queries]), max(1, _CELLS // block)
    starts = range(process * block, len(pool), processes * block)
    for start in tqdm(starts, "mining", unit=" blocks", leave=False, disable=process > 0 or None):
        scores_of = _dot_products(encode("document", [pool[id] for id in ids[start : start + block]]), device)
        for first in range(0, len(queries), at_once):
            rows = slice(first, first + at_once)
            scores = scores_of(vectors[rows])
            hits = scores.view(torch.int32).long() << 32 | position[start : start + block]
            both = torch.cat([best[rows], hits.where(scores > 0, 0)], dim=1)
            best[rows] = both.topk(depth, dim=1, sorted=False).values
    found = np.hstack(list(gather(best.cpu().numpy()[None])))
    found = -np.sort(-found, axis=1)[:, :depth]
    scores_found = (found >> 32).astype(np.int32).view(np.float32)
    return {
        query.id: [(ids[order[hit & 0xFFFFFFFF]], score) for hit, score in zip(hits, of_hits, strict=True) if hit]
        for query, hits, of_hits in zip(queries, found.tolist(), scores_found.tolist(), strict=True)
    }


def _dot_products(documents: Vectors, device: torch.device | None) -> Callable[[Vectors], torch.Tensor]:
    """From vectors of queries to scores ``(queries, documents)`` in float32, on ``device``; None: the CPU, by scipy."""
    if device is None:
        transposed = documents.T.tocsr()
        return lambda queries: torch.from_numpy((queries @ transposed).toarray().astype(np.float32))
    starts, columns, values = map(torch.from_numpy, (documents.indptr, documents.indices, documents.data))
    rows = torch.sparse_csr_tensor(
        starts, columns, values.float(), documents.shape, device=device, check_invariants=False
    )
    return lambda queries: (rows @ torch.from_numpy(queries.toarray()).to(rows).T).T.contiguous()
