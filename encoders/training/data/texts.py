"""Texts of collections in memory: one compact store for each collection, whatever the number of its readers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import cached_property
from itertools import chain
from pathlib import Path

from accelerate import PartialState

from learned_sparse.collections.collection import Collection
from learned_sparse.collections.documents import OnBadLine
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import Document


def if_main(action: Callable[[], object]) -> None:
    """Do ``action`` in the main process of a training, while the other processes wait."""
    state = PartialState()
    if state.is_main_process:
        action()
    state.wait_for_everyone()


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
