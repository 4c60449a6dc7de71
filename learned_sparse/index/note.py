"""An index folder: whole or absent, with a note beside Lucene's files of what it was made from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learned_sparse.core import LearnedSparseError, new_folder, read_json, write_json
from learned_sparse.jsonvector import Manifest

INDEX_MANIFEST = "learned_sparse.json"
FORMAT = 1
SCORINGS = ("impact", "bm25", "bm25-text")
"""Impacts; encoded terms scored by BM25; plain text scored by BM25."""


@dataclass(frozen=True)
class IndexNote:
    """``INDEX/learned_sparse.json``."""

    scoring: str
    manifests: tuple[Manifest, ...]
    """Of the encoded folders in this index, all by the same encoder; none for plain text or foreign vectors."""
    facts: Mapping[str, Any]
    """Counts that were verified, and how the index was made."""

    def save(self, index: Path) -> None:
        """Write it into the folder of the index."""
        manifests = [manifest.to_json() for manifest in self.manifests]
        content = {
            "format": FORMAT,
            "kind": "index",
            "scoring": self.scoring,
            "manifests": manifests,
            "index": self.facts,
        }
        write_json(index / INDEX_MANIFEST, content)

    @classmethod
    def load(cls, index: Path) -> IndexNote:
        """Read it from the folder of an index."""
        path = index / INDEX_MANIFEST
        if not path.is_file():
            raise LearnedSparseError(
                f"{path}: no such file; make the index with learned_sparse.index, "
                "or search a foreign one with learned_sparse.pyserini search.lucene"
            )
        content = read_json(path)
        if not is_index_note(content) or content.get("format") != FORMAT or content.get("scoring") not in SCORINGS:
            raise LearnedSparseError(
                f"{path}: not the note of an index of format {FORMAT}; index anew with --overwrite"
            )
        manifests = (Manifest.from_json(manifest, str(path)) for manifest in content["manifests"])
        return cls(content["scoring"], tuple(manifests), content["index"])


def is_index_note(content: object) -> bool:
    """Whether a ``learned_sparse.json`` is of an index (a checkpoint has one too)."""
    return isinstance(content, Mapping) and content.get("kind") == "index"


@contextlib.contextmanager
def new_index(index: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder to write the index into, which takes the name ``index`` when the block ends well.

    What stands there already is an error, or with ``overwrite`` replaced then, if it is an index.
    """
    _check_free(index, overwrite)
    with new_folder(index) as folder:
        yield folder


def _check_free(index: Path, overwrite: bool) -> None:
    if not index.exists() or (index.is_dir() and not any(index.iterdir())):
        return
    is_index = index.is_dir() and (next(index.glob("segments_*"), None) or (index / INDEX_MANIFEST).is_file())
    if not is_index:
        raise LearnedSparseError(f"{index}: exists and is no index; name another place with --index")
    if not overwrite:
        raise LearnedSparseError(f"{index}: an index is there already; replace it with --overwrite")
