"""Texts of collections in memory: one compact store for each collection, whatever the number of its readers."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from encoders.training.data.id_columns import IdColumns, read_columns
from learned_sparse.collections.collection import Collection
from learned_sparse.collections.documents import OnBadLine
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import new_folder
from learned_sparse.core.records import Document

_ARRAYS = ("texts", "ends", "ids", "id_ends", "keys", "rows")
_FINGERPRINT = "fingerprint"


IfMain = Callable[[Callable[[], object]], None]
"""Calls its argument in the main process while the other processes wait."""


def call(action: Callable[[], object]) -> None:
    """``IfMain`` of a single process."""
    action()


def text_key(text: str) -> int:
    """64 bits of BLAKE2b: equal texts have equal keys, which finds duplicates and known positives."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def query_key(text: str) -> int:
    """``text_key`` of a query, the same in every spelling of white space, capital and small letters."""
    return text_key(" ".join(text.split()).casefold())


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
        self.ids: Sequence[str] = list(self._rows)
        self._fingerprint = ""

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, id: object) -> bool:
        return id in self._rows

    def __getitem__(self, id: str) -> str:
        row = self._rows[id]
        return self._bytes[self._ends[row] : self._ends[row + 1]].decode("utf-8", "surrogatepass")

    def is_empty(self, id: str) -> bool:
        """Whether the text is empty or white space."""
        return not self[id].strip()

    def __iter__(self) -> Iterator[Document]:
        return (Document(id, self[id]) for id in self.ids)

    def save(self, folder: Path) -> None:
        """Write the texts as arrays for ``MappedTexts``."""
        keys = np.fromiter(map(text_key, self.ids), np.uint64, len(self))
        order = np.argsort(keys, kind="stable")
        ids = [id.encode("utf-8", "surrogatepass") for id in self.ids]
        arrays: dict[str, npt.NDArray[Any]] = {
            "texts": np.frombuffer(self._bytes, np.uint8), "ends": np.frombuffer(self._ends, np.int64),
            "ids": np.frombuffer(b"".join(ids), np.uint8), "id_ends": np.cumsum([0, *map(len, ids)], dtype=np.int64),
            "keys": keys[order], "rows": order,
        }  # fmt: skip
        with new_folder(folder) as written:
            for name, values in arrays.items():
                np.save(written / f"{name}.npy", values)
            (written / _FINGERPRINT).write_text(self.fingerprint(), encoding="ascii", newline="")

    def fingerprint(self) -> str:
        """A hash of all ids and texts in order, which changes with the collection; computed once."""
        if self._fingerprint:
            return self._fingerprint
        digest = hashlib.blake2b("\0".join(self.ids).encode("utf-8", "surrogatepass"), digest_size=16)
        digest.update(self._ends.tobytes())
        digest.update(self._bytes)
        self._fingerprint = digest.hexdigest()
        return self._fingerprint


class MappedTexts(TextStore):
    """A saved ``TextStore`` whose arrays are mapped into memory: processes of one machine share them."""

    def __init__(self, folder: Path) -> None:
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS}
        self._texts, self._text_ends = arrays["texts"], arrays["ends"]
        self._keys, self._sorted_rows = arrays["keys"], arrays["rows"]
        self.ids: Sequence[str] = _Ids(arrays["ids"], arrays["id_ends"])
        self._fingerprint = (folder / _FINGERPRINT).read_text(encoding="ascii")

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self._row(id) is not None

    def __getitem__(self, id: str) -> str:
        row = self._row(id)
        if row is None:
            raise KeyError(id)
        return _text_at(self._texts, self._text_ends, row)

    def _row(self, id: str) -> int | None:
        key = np.uint64(text_key(id))
        first, last = (int(np.searchsorted(self._keys, key, side)) for side in ("left", "right"))
        return next((int(row) for row in self._sorted_rows[first:last] if self.ids[int(row)] == id), None)


class _Ids(Sequence[str]):
    """Ids in a mapped array."""

    def __init__(self, content: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> None:
        self._content, self._ends = content, ends

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return _text_at(self._content, self._ends, index % len(self))


def _text_at(content: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64], row: int) -> str:
    return content[ends[row] : ends[row + 1]].tobytes().decode("utf-8", "surrogatepass")


class TextStores:
    """The documents of collections, each collection read once for all sources and the validation of a recipe."""

    def __init__(
        self,
        *,
        expanded: bool = False,
        on_bad_line: OnBadLine = "error",
        shared: Path | None = None,
        if_main: IfMain | None = None,
    ) -> None:
        """``expanded``: with their expansion text. ``on_bad_line``: see ``DocumentReader``.

        ``shared``: a folder for copies that the processes of a run map into memory; ``if_main`` does its argument in
        the main process, while the others wait.
        """
        self.on_bad_line: OnBadLine = on_bad_line
        self._reads_expanded, self._shared, self._if_main = expanded, shared, if_main or call
        self._stores: dict[tuple[str, str, str], TextStore] = {}

    def texts(self, collection: Collection, keep: Set[str] | None = None, *, expanded: Path | None = None) -> TextStore:
        """All documents of ``collection``; those with an id in ``keep`` if nothing else has read the others.

        ``expanded``: file with their predicted queries.
        """
        documents = self.documents(collection, expanded=expanded)
        if isinstance(documents, TextStore):
            return documents
        store = self._stored(documents, keep, _key(collection, expanded))
        if keep is None:
            self._stores[_key(collection, expanded)] = store
        return store

    def _stored(self, documents: Iterable[Document], keep: Set[str] | None, key: tuple[str, str, str]) -> TextStore:
        if self._shared is None:
            return TextStore(documents, keep)
        digest = hashlib.blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=8)
        for id in sorted(keep or ()):
            digest.update(f"\0{id}".encode("utf-8", "surrogatepass"))
        folder = self._shared / digest.hexdigest()

        def build() -> None:
            if not folder.exists():
                TextStore(documents, keep).save(folder)

        self._if_main(build)
        return MappedTexts(folder)

    def id_columns(self, path: Path) -> IdColumns | None:
        """``read_columns``; the processes of a run share the result, which only the main process reads."""
        if self._shared is None:
            return read_columns(path)
        folder = self._shared / f"columns-{text_key(str(path)):016x}"

        def build() -> None:
            with new_folder(folder) as written:
                for name, values in (((columns := read_columns(path)) and columns._asdict()) or {}).items():
                    np.save(written / f"{name}.npy", values)

        self._if_main(build)
        if not any(folder.iterdir()):
            return None
        return IdColumns(*(np.load(folder / f"{name}.npy", mmap_mode="r") for name in IdColumns._fields))

    def documents(self, collection: Collection, *, expanded: Path | None = None) -> Iterable[Document]:
        """All documents of ``collection``, from the store if there is one, else read again in each iteration."""
        if expanded is not None and not self._reads_expanded:
            raise LearnedSparseError(f"expanded: {expanded}: this model does not read expanded text; leave it out")
        return self._stores.get(_key(collection, expanded)) or _Reading(
            lambda: collection.documents(self.on_bad_line, expanded), self._reads_expanded
        )


class _Reading(Iterable[Document]):
    def __init__(self, read: Callable[[], Iterable[Document]], expanded: bool) -> None:
        self._read, self._expanded = read, expanded

    def __iter__(self) -> Iterator[Document]:
        return (Document(d.id, d.with_expanded if self._expanded else d.text) for d in self._read())


def _key(collection: Collection, expanded: Path | None) -> tuple[str, str, str]:
    return collection.name, repr(collection.description.corpus), f"{collection.root} {expanded}"
