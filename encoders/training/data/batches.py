"""The examples of one step as padded tensors, prepared in the background while the previous step computes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from encoders.checkpoints.tokenizer import tokenize_texts
from encoders.models.objectives import Labels, Tokens
from encoders.training.data.examples import Example, Examples, TextStores, text_key
from encoders.training.data.sources import NegativeSampler, load_source
from encoders.training.recipe import Negatives, Source, Stage
from learned_sparse.collections.documents import OnBadLine

if TYPE_CHECKING:
    from encoders.training.session import Session


class Sampler:
    """An endless shuffled order over several sources: a function of seed and position, so resuming needs no state.

    Each pass is a new permutation of the examples of all sources.
    Position 10,000 is computed without the 9,999 before it.

    >>> sampler = Sampler([3], seed=0)
    >>> sorted(sampler.at(position) for position in range(3))
    [(0, 0), (0, 1), (0, 2)]
    """

    def __init__(self, sizes: Sequence[int], *, seed: int) -> None:
        """``sizes``: examples of each source, at least 1."""
        self._ends, self._seed = list(accumulate(sizes)), seed
        self._permutation = lru_cache(maxsize=3)(self._shuffle)

    def at(self, position: int) -> tuple[int, int]:
        """The (source, index within the source) at ``position``, counted from 0."""
        number, offset = divmod(position, self._ends[-1])
        index = int(self._permutation(number)[offset])
        source = bisect_right(self._ends, index)
        return source, index - [0, *self._ends][source]

    def _shuffle(self, number: int) -> npt.NDArray[Any]:
        size = self._ends[-1]
        dtype = np.int32 if size < 2**31 else np.int64
        return np.random.default_rng([self._seed, 0, number]).permutation(np.arange(size, dtype=dtype))


MicroBatch = tuple[Tokens, Tokens]
"""The texts of one forward pass: queries; and documents, all positives, then the hard negatives query by query."""


class Update(NamedTuple):
    """The examples that are ranked together: every process has all of them, but the tokens of its own share only."""

    examples: Sequence[Example]
    micro_batches: Sequence[MicroBatch]


class Batches:
    """Makes the batch of any step of a stage: a pure function of data, seed and step number."""

    def __init__(self, sources: Sequence[Examples], stage: Stage, session: Session, number: int = 0) -> None:
        """``number`` of the stage, from 0."""
        self._sources, self._stage, self._session, seed = sources, stage, session, session.recipe.seed
        self._sampler, self._seed = Sampler([len(part) for part in sources], seed=seed * 1000 + number), [seed, number]
        cotraining = stage.options.cotraining
        self._step_size = stage.batch_size if cotraining is None else cotraining.select_from

    def batch(self, step: int) -> list[Update]:
        """The examples of ``step``: one update, or in co-training the updates to select examples from."""
        positions = range(step * self._step_size, (step + 1) * self._step_size)
        return self.cut(list(_drawn(self._sources, self._sampler, positions, *self._seed)))

    def cut(self, examples: Sequence[Example]) -> list[Update]:
        """The updates of ``examples``; a last one with less than one example for each process is left out.

        This process has its share of an update, in micro-batches; shares differ by at most one example.
        """
        updates, process, processes = [], self._session.process_index, self._session.num_processes
        for start in range(0, len(examples), self._stage.batch_size):
            part = examples[start : start + self._stage.batch_size]
            first, end = (len(part) * number // processes for number in (process, process + 1))
            size = self._stage.micro_batch_size or end - first
            if len(part) >= processes:
                micro = [self._micro_batch(part[at : min(at + size, end)]) for at in range(first, end, size)]
                updates.append(Update(part, micro))
        return updates

    def stream(self, steps: range) -> Iterator[list[Update]]:
        """The batches of ``steps`` in order, two of them prepared ahead."""
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches") as pool:
            waiting: list[Future[list[Update]]] = [pool.submit(self.batch, step) for step in steps[:2]]
            for number in range(len(steps)):
                batch = waiting.pop(0).result()
                waiting += [pool.submit(self.batch, step) for step in steps[number + 2 : number + 3]]
                yield batch

    def _micro_batch(self, examples: Sequence[Example]) -> MicroBatch:
        documents = [example.positive for example in examples] + [n for example in examples for n in example.negatives]
        lengths = self._session.recipe.max_length
        queries = [example.query for example in examples]
        return self._tokens(queries, lengths.query), self._tokens(documents, lengths.document)

    def _tokens(self, texts: Sequence[str], max_length: int) -> Tokens:
        """``texts``, each with its expansion, truncated to ``max_length`` word pieces and padded to the longest."""
        tokenizer, device = self._session.model.tokenizer, self._session.device
        options: dict[str, Any] = {"truncation": True, "padding": True, "return_tensors": "pt"}
        encoded = tokenize_texts(tokenizer, texts, max_length=max_length, **options)
        return Tokens(encoded["input_ids"].to(device), encoded["attention_mask"].to(device))


def examples_in_order(
    data: Sequence[Source], negatives: Negatives, count: int, seed: int, on_bad_line: OnBadLine = "error"
) -> Iterator[Example]:
    """``count`` examples of the sources ``data``, shuffled; for other trainers. Nothing is mined."""
    stores = TextStores(on_bad_line=on_bad_line)
    sources = [load_source(source, negatives, stores) for source in data]
    examples = NegativeSampler(negatives, sources).examples()
    return _drawn(examples, Sampler([len(part) for part in examples], seed=seed), range(count), seed)


def _drawn(sources: Sequence[Examples], sampler: Sampler, positions: range, *seed: int) -> Iterator[Example]:
    for position in positions:
        number, index = sampler.at(position)
        yield sources[number].get(index, np.random.default_rng([*seed, position]))


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
