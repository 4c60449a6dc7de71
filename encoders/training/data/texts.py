"""Texts of a collection by id, compact enough for millions of passages."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Set

from learned_sparse.core import Document


def text_key(text: str) -> int:
    """A number that is equal for equal texts (64 bits of BLAKE2b): tells duplicates and known positives."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def as_read(documents: Iterable[Document], *, expanded: bool) -> Iterator[Document]:
    """``documents`` as a model reads them: with the text that expands them in ``text``, or without."""
    return (Document(document.id, document.with_expanded if expanded else document.text) for document in documents)


class TextStore:
    """``store[id]`` is the text; kept as one block of UTF-8 bytes with offsets.

    >>> store = TextStore([Document("a", "one"), Document("b", "two")])
    >>> store["b"], store.ids, "c" in store
    ('two', ['a', 'b'], False)
    """

    def __init__(self, documents: Iterable[Document], keep: Set[str] | None = None) -> None:
        """Read ``documents``; only those with an id in ``keep`` if that is given."""
        self._rows: dict[str, int] = {}
        self._bytes = bytearray()
        self._ends = array("q", [0])
        for document in documents:
            if keep is None or document.id in keep:
                self._rows[document.id] = len(self._rows)
                self._bytes += document.text.encode("utf-8", "surrogatepass")
                self._ends.append(len(self._bytes))
        self.ids = list(self._rows)

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
        """A hash of all ids and texts in order: tells whether a collection has changed since."""
        digest = hashlib.blake2b("\0".join(self.ids).encode("utf-8", "surrogatepass"), digest_size=16)
        digest.update(self._ends.tobytes())
        digest.update(self._bytes)
        return digest.hexdigest()
