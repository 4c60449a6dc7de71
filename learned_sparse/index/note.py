"""The note about its source that an index has beside Lucene's files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from learned_sparse.core.errors import LearnedSparseError, folder_kind, wrong_path
from learned_sparse.core.files import read_json, restore_folder, write_json
from learned_sparse.jsonvector.manifest import STATISTICS, Manifest

INDEX_MANIFEST = "learned_sparse.json"
FORMAT = 1
SCORINGS = ("impact", "bm25", "bm25-text")
"""Dot products of impacts; BM25 of encoded terms; BM25 of plain text."""
_FILES = re.compile(rf"_\w+\.\w+|segments_\w+|write\.lock|{re.escape(INDEX_MANIFEST)}|{STATISTICS}|anserini\.log")
"""Names of the files in an index: Lucene's and ours, and the log of earlier versions."""


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
        manifests = [asdict(manifest) for manifest in self.manifests]
        content = {"format": FORMAT, "kind": "index", "scoring": self.scoring, "manifests": manifests}
        write_json(index / INDEX_MANIFEST, {**content, "index": self.facts}, record=True)

    @classmethod
    def load(cls, index: Path, *, foreign: bool = False) -> IndexNote:
        """Read the note. ``LearnedSparseError``: there is none, or it has another format.

        With ``foreign``, an index of another tool is accepted without a note, as one of impacts of an unknown encoder.
        """
        path = index / INDEX_MANIFEST
        restore_folder(index)
        content = read_json(path, record=True) if path.is_file() else {}
        if not path.is_file() and folder_kind(index) == "a Lucene index":
            if foreign:
                return cls("impact", (), {})
            raise LearnedSparseError(
                f"{index}: an index of another tool, without {INDEX_MANIFEST}; learned_sparse.search takes it with the "
                "--checkpoint of its impacts or with --query-vectors; learned_sparse.pyserini search.lucene searches "
                "plain text"
            )
        if content.get("kind") != "index":
            raise wrong_path(index, "an index", "make the index with learned_sparse.index")
        try:
            if content["format"] != FORMAT or content["scoring"] not in SCORINGS:
                raise ValueError(content["format"])
            manifests = [Manifest.from_json(m, f"{path}: manifests[{i}]") for i, m in enumerate(content["manifests"])]
            return cls(content["scoring"], tuple(manifests), dict(content["index"]))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise LearnedSparseError(
                f"{path}: not the note of an index of format {FORMAT}; make the index again with --overwrite"
            ) from None


def index_files(index: Path) -> list[Path]:
    """The files of ``index`` that this package and Lucene write."""
    return [path for path in index.iterdir() if _FILES.fullmatch(path.name)]
