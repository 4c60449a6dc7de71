"""The documents of a collection by id, in a temporary SQLite file: few bytes of memory for any number of documents."""

from __future__ import annotations

import sqlite3
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

from learned_sparse.core import Document, LearnedSparseError


class Texts:
    """Documents by id; several threads may look them up. ``close`` removes the file."""

    def __init__(self, documents: Iterable[Document]) -> None:
        """Copy ``documents``; of documents with the same id, the first is kept."""
        self._folder = tempfile.TemporaryDirectory(prefix="learned-sparse-")
        self._lock = threading.Lock()
        self._database = sqlite3.connect(Path(self._folder.name) / "texts.sqlite", check_same_thread=False)
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute("CREATE TABLE texts (id TEXT PRIMARY KEY, text TEXT, expanded TEXT)")
        rows = ((document.id, document.text, document.expanded) for document in documents)
        try:
            self._database.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?, ?)", rows)
            self._database.commit()
        except sqlite3.Error as error:
            self.close()
            folder = self._folder.name
            raise LearnedSparseError(
                f"{folder}: cannot hold the texts ({error}); free disk space, or set TMPDIR"
            ) from None
        except BaseException:
            self.close()
            raise

    def get(self, id: str) -> Document | None:
        """The document ``id``, or None."""
        with self._lock:
            row = self._database.execute("SELECT id, text, expanded FROM texts WHERE id = ?", (id,)).fetchone()
        return Document(*row) if row else None

    def close(self) -> None:
        """Remove the file."""
        self._database.close()
        self._folder.cleanup()
