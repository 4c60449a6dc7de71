"""Examples of one step as padded tensors, prepared in the background while the last step computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from encoders.checkpoints import tokenize_texts
from encoders.training.data.examples import Example, Examples
from encoders.training.data.sampler import Sampler
from encoders.training.data.texts import text_key
from encoders.training.recipe import MaxLength


@dataclass(frozen=True)
class Tokens:
    """Texts as word pieces, padded to the longest: both (texts, tokens)."""

    input_ids: Tensor
    attention_mask: Tensor

    def to(self, device: torch.device) -> Tokens:
        """The same on ``device``."""
        return Tokens(self.input_ids.to(device), self.attention_mask.to(device))


@dataclass(frozen=True)
class MicroBatch:
    """The texts of one forward pass: ``documents`` are all positives, then the hard negatives query by query."""

    queries: Tokens
    documents: Tokens

    def to(self, device: torch.device) -> MicroBatch:
        """The same on ``device``."""
        return MicroBatch(self.queries.to(device), self.documents.to(device))


@dataclass(frozen=True)
class StepBatch:
    """One optimiser step: every process knows all ``examples``, but has tokens only for its own micro-batches."""

    step: int
    examples: Sequence[Example]
    micro_batches: Sequence[MicroBatch]
    cut: Callable[[Sequence[Example]], Sequence[MicroBatch]]
    """Makes micro-batches of a choice of examples: this process's part of them."""


def known_positives(examples: Sequence[Example]) -> Tensor:
    """Which documents are known to be relevant to which query: boolean (queries, positives + hard negatives).

    Columns are in the order of ``MicroBatch.documents``; the own positive (the diagonal) does not count.

    Relevant is what was judged so, what is a positive of the same query text in the batch, and any copy of such a text.
    """
    texts = [example.positive for example in examples] + [text for example in examples for text in example.negatives]
    columns = np.array([text_key(text) for text in texts], dtype=np.uint64)
    relevant: dict[str, set[int]] = {}
    for example, positive in zip(examples, columns.tolist(), strict=False):
        relevant.setdefault(example.query, set()).update(example.relevant, [positive])
    known = np.stack([np.isin(columns, np.fromiter(relevant[example.query], dtype=np.uint64)) for example in examples])
    np.fill_diagonal(known, False)
    return torch.from_numpy(known)


class Batches:
    """Makes the batch of any step: a pure function of data, seed and step number."""

    def __init__(
        self,
        sources: Sequence[Examples],
        sampler: Sampler,
        tokenizer: Callable[..., Any],
        max_length: MaxLength,
        *,
        batch_size: int,
        micro_batch_size: int,
        seed: Sequence[int],
        process: int = 0,
        processes: int = 1,
    ) -> None:
        self._sources, self._sampler, self._tokenizer, self._max_length = sources, sampler, tokenizer, max_length
        self._batch_size, self._micro, self._seed = batch_size, micro_batch_size, list(seed)
        self._process, self._processes = process, processes

    def examples(self, step: int) -> list[Example]:
        """The examples of ``step``, over all processes."""
        found = []
        for position in range(step * self._batch_size, (step + 1) * self._batch_size):
            source, index = self._sampler.at(position)
            found.append(self._sources[source].get(index, np.random.default_rng([*self._seed, position])))
        return found

    def batch(self, step: int) -> StepBatch:
        """The batch of ``step`` with the tokens of this process."""
        examples = self.examples(step)
        return StepBatch(step, examples, self.cut(examples), self.cut)

    def cut(self, examples: Sequence[Example]) -> list[MicroBatch]:
        """Micro-batches of this process's share of ``examples``; the last may be smaller."""
        share = len(examples) // self._processes
        own = examples[self._process * share : (self._process + 1) * share]
        return [self._micro_batch(own[start : start + self._micro]) for start in range(0, share, self._micro)]

    def stream(self, steps: range) -> Iterator[StepBatch]:
        """The batches of ``steps`` in order, two of them prepared ahead."""
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches") as pool:
            waiting: list[Future[StepBatch]] = [pool.submit(self.batch, step) for step in steps[:2]]
            for place in range(len(steps)):
                batch = waiting.pop(0).result()
                waiting += [pool.submit(self.batch, step) for step in steps[place + 2 : place + 3]]
                yield batch

    def _micro_batch(self, examples: Sequence[Example]) -> MicroBatch:
        positives = [example.positive for example in examples]
        negatives = [text for example in examples for text in example.negatives]
        queries = tokenize(self._tokenizer, [example.query for example in examples], self._max_length.query)
        return MicroBatch(queries, tokenize(self._tokenizer, positives + negatives, self._max_length.document))


def tokenize(tokenizer: Callable[..., Any], texts: Sequence[str], max_length: int) -> Tokens:
    """``texts``, each with what expands it, cut at ``max_length`` word pieces and padded to the longest."""
    found = tokenize_texts(tokenizer, texts, truncation=True, max_length=max_length, padding=True, return_tensors="pt")
    return Tokens(found["input_ids"], found["attention_mask"])


def bag_of_words(tokens: Tokens, dimensions: int, special_ids: Sequence[int]) -> Tensor:
    """The binary bag of words (texts, dimensions), without special tokens: the target T of SparTerm's Eq. 8."""
    bag = torch.zeros(len(tokens.input_ids), dimensions, device=tokens.input_ids.device)
    bag.scatter_(1, tokens.input_ids, 1.0)
    bag[:, list(special_ids)] = 0
    return bag
