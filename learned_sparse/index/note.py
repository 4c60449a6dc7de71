"""The folder of an index: written whole or not at all, with a note about its source beside Lucene's files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learned_sparse.core import (
    LearnedSparseError,
    folder_kind,
    new_folder,
    read_record,
    restore_folder,
    write_record,
    wrong_path,
)
from learned_sparse.jsonvector import Manifest

INDEX_MANIFEST = "learned_sparse.json"
FORMAT = 1
SCORINGS = ("impact", "bm25", "bm25-text")
"""Dot products of impacts; BM25 of encoded terms; BM25 of plain text."""


@dataclass(frozen=True)
class IndexNote:
    """Content of ``INDEX/learned_sparse.json``: which encoder queries need, and what was verified."""

    scoring: str
    manifests: tuple[Manifest, ...]
    """Manifests of the encoded folders in this index, all of one encoder; empty for plain text and plain vectors."""
    facts: Mapping[str, Any]
    """Verified counts, and how the index was made."""

    def save(self, index: Path) -> None:
        """Write the note into the folder of an index."""
        manifests = [manifest.to_json() for manifest in self.manifests]
        content = {"format": FORMAT, "kind": "index", "scoring": self.scoring, "manifests": manifests}
        write_record(index / INDEX_MANIFEST, {**content, "index": self.facts})

    @classmethod
    def load(cls, index: Path) -> IndexNote:
        """Read the note. ``LearnedSparseError``: there is none, or it has another format."""
        path = index / INDEX_MANIFEST
        restore_folder(index)
        if not path.is_file():
            if folder_kind(index) == "a Lucene index":
                raise LearnedSparseError(
                    f"{index}: an index of another tool, without {INDEX_MANIFEST}; learned_sparse.search takes it with "
                    "the --checkpoint of its impacts or with --query-vectors; learned_sparse.pyserini search.lucene "
                    "searches plain text"
                )
            raise wrong_path(index, "an index", "make the index with learned_sparse.index")
        content = read_record(path)
        if not is_index_note(content) and folder_kind(index) != "a Lucene index":
            raise wrong_path(index, "an index", "make the index with learned_sparse.index")
        if not is_index_note(content) or content.get("format") != FORMAT or content.get("scoring") not in SCORINGS:
            raise LearnedSparseError(
                f"{path}: not the note of an index of format {FORMAT}; make the index again with --overwrite"
            )
        manifests, facts = content.get("manifests"), content.get("index")
        if not isinstance(facts, Mapping) or not isinstance(manifests, list):
            raise LearnedSparseError(
                f"{path}: 'index' or 'manifests' is missing; make the index again with --overwrite"
            )
        for manifest in manifests:
            if not isinstance(manifest, Mapping):
                raise LearnedSparseError(f"{path}: manifests: expected objects, got {type(manifest).__name__}")
        read = tuple(Manifest.from_json(manifest, f"{path}: manifests[{i}]") for i, manifest in enumerate(manifests))
        return cls(content["scoring"], read, facts)


def is_index_note(content: object) -> bool:
    """Whether the content of a ``learned_sparse.json`` describes an index; checkpoints have such a file too."""
    return isinstance(content, Mapping) and content.get("kind") == "index"


@contextlib.contextmanager
def new_index(index: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder that is renamed to ``index`` if the block ends without an error.

    An index that exists is replaced then if ``overwrite`` is set, else it is an error. Other files are never replaced.
    """
    with new_folder(index) as folder:
        if index.exists() and not (index.is_dir() and not any(index.iterdir())):
            is_index = index.is_dir() and (next(index.glob("segments_*"), None) or (index / INDEX_MANIFEST).is_file())
            if not is_index:
                raise LearnedSparseError(f"{index}: exists and is no index; choose another folder with --index")
            if not overwrite:
                raise LearnedSparseError(
                    f"{index}: an index is there already; replace it with --overwrite (in Python: overwrite=True)"
                )
        yield folder
