"""Documents on their way to the model: read, cut into slices that fit into memory, tokenised one slice ahead."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from learned_sparse.core import Document, Encoder, SparseBatch
from learned_sparse.encode.parts import Note, Window

MOST_WEIGHTS = 2**21
"""Of one slice, about: 16 MB, and three times as much while one is written and the next is made."""
PROBED = 16
"""Documents that say how many weights one has."""

T = TypeVar("T")


@dataclass(frozen=True)
class Slice:
    """The documents ``start`` to before ``end`` of a window, which go through the model in one call."""

    window: Window
    start: int
    end: int
    prepared: Any
    """For ``Halves.encode``."""

    @property
    def documents(self) -> Sequence[Document]:
        """All of them, in order."""
        return self.window.documents[self.start : self.end]

    @property
    def last(self) -> bool:
        """Whether the window ends with it."""
        return self.end == len(self.window.documents)


@dataclass(frozen=True)
class Finished:
    """A window whose part an earlier run wrote."""

    window: Window
    note: Note


class Halves:
    """The two halves of an encoder: ``prepare`` may run beside ``encode``. Without them all is done in ``encode``."""

    def __init__(self, encoder: Encoder) -> None:
        """``encoder`` may have ``prepare`` and ``encode_prepared``, and say ``uses_expanded``."""
        self.reads_expanded = encoder.uses_expanded
        """Whether a document is encoded together with what expands it."""
        self._prepare = encoder.prepare
        self.encode: Callable[[Any], SparseBatch] = encoder.encode_prepared
        """Weights of what ``prepare`` gave."""

    def prepare(self, documents: Sequence[Document]) -> Any:
        """All that can be done for ``documents`` without the model."""
        texts = [document.with_expanded if self.reads_expanded else document.text for document in documents]
        return self._prepare(texts)


def slice_size(encoder: Encoder, terms_of: Callable[[int], npt.NDArray[np.int64]], part_size: int) -> int:
    """How many documents may go through the model at once; the same in every run over a collection.

    A model that is not trained yet can give all its terms to every document. So if a whole part could have more than
    ``MOST_WEIGHTS``, the first documents are tried: ``terms_of(n)`` has the terms of each of n. It is a power of two,
    so that one term more or less, by another order of summation, makes no difference.
    """
    most = min(encoder.description.get("top_k") or len(encoder.terms), len(encoder.terms))
    if part_size * most <= MOST_WEIGHTS:
        return part_size
    fitting = MOST_WEIGHTS // max(int(terms_of(PROBED).max()), 1)
    return min(part_size, max(1 << (fitting.bit_length() - 1), 1)) if fitting else 1


def slices(window: Window, size: int, prepare: Callable[[Sequence[Document]], Any], start: int = 0) -> Iterator[Slice]:
    """A window from ``start`` on in slices of ``size`` documents."""
    for first in range(start, len(window.documents), size):
        end = min(first + size, len(window.documents))
        yield Slice(window, first, end, prepare(window.documents[first:end]))


def one_ahead(items: Iterable[T]) -> Generator[T, None, None]:
    """``items``, each made in a background thread while the one before is worked on; their errors are raised here."""
    end: Any = object()
    iterator = iter(items)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="reader") as reader:
        coming = reader.submit(next, iterator, end)
        while (item := coming.result()) is not end:
            coming = reader.submit(next, iterator, end)
            yield item
