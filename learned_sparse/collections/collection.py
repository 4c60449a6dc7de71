"""A test collection: documents, and splits of queries with judgements and the measures that belong to them.

``learned_sparse.collections`` is the command that lists what collections there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from learned_sparse.collections.description_files import data_root, description_file, descriptions, read_description
from learned_sparse.collections.descriptions import Description, Expected, Source, Split
from learned_sparse.collections.documents import DocumentReader, OnBadLine, read_documents
from learned_sparse.collections.folders import describe_folder
from learned_sparse.collections.named_in_catalogue import CATALOGUE, catalogue_entry
from learned_sparse.collections.names import folder_name, spelling_of
from learned_sparse.collections.sources import open_documents, open_qrels, open_queries
from learned_sparse.collections.topics import read_queries
from learned_sparse.collections.trec import Qrels
from learned_sparse.core import LearnedSparseError, Query, did_you_mean

__all__ = [
    "Collection", "Description", "DocumentReader", "Expected", "OnBadLine", "Source", "Split",
    "filed_under", "load_collection", "named_split", "read_documents", "read_queries",
]  # fmt: skip


@dataclass(frozen=True)
class Collection:
    """A described collection whose files are looked for below ``root``, when they are asked for and not before."""

    description: Description
    root: Path = field(default_factory=Path)

    @property
    def name(self) -> str:
        """The name it is filed under: vectors, indexes and runs have it in their paths."""
        return self.description.name

    @property
    def splits(self) -> Mapping[str, Split]:
        """All splits by name."""
        return self.description.splits

    def split(self, name: str) -> Split:
        """The split ``name``."""
        if not self.splits:
            raise LearnedSparseError(
                f"collection {self.name}: no split {name!r}, for no queries with judgements were found there; its "
                "documents can be encoded and indexed, and searched for the queries of a file: --topics FILE"
            )
        if name not in self.splits:
            raise LearnedSparseError(f"collection {self.name}: no split {name!r}{did_you_mean(name, self.splits)}")
        return self.splits[name]

    def documents(self, on_bad_line: OnBadLine = "error") -> DocumentReader:
        """All documents, one at a time; see ``DocumentReader`` for bad lines."""
        return open_documents(self.description.corpus, self.root, f"{self.name}'s documents", on_bad_line)

    def queries(self, split: str) -> list[Query]:
        """The queries of a split that have judgements: no other has a say in any measure.

        The order is that of the topics. A judged query that is not among the topics is an error.
        """
        qrels = self.qrels(split)
        topics = open_queries(self.split(split).topics, self.root, f"{self.name}'s topics ({split})")
        missing = qrels.keys() - {query.id for query in topics}
        if missing:
            raise LearnedSparseError(
                f"collection {self.name}, split {split}: {len(missing)} judged queries are not among the topics "
                f"(for instance {min(missing)!r}); the two files do not belong together"
            )
        return [query for query in topics if query.id in qrels]

    def qrels(self, split: str) -> Qrels:
        """The judgements of a split: ``{query id: {document id: grade}}``."""
        return open_qrels(self.split(split).qrels, self.root, f"{self.name}'s judgements ({split})")


def load_collection(name: str | Path, *, data: Path | None = None) -> Collection:
    """The collection ``name``, which is one of

    - the name of a YAML that comes with the package (``scifact``, ``msmarco-v1-passage``, ``pydoc``); its files are
      looked for below ``data``, else ``$LEARNED_SPARSE_DATA``, else ``home()/data``;
    - the path of such a YAML of your own, whose files are looked for below its folder (or ``data``);
    - a BEIR folder (``corpus.jsonl``, ``queries.jsonl``, ``qrels/*.tsv``) or an MS MARCO folder on disk;
    - ``ir_datasets:ID``: what ir_datasets knows by this name, see ``catalogue_entry``; so is the name that it is filed
      under, which manifests hold: ``ir_datasets--beir--scifact``.

    Nothing is read but the description. A name that comes with the package wins over a folder called the same; write
    ``./scifact`` for the folder.
    """
    name = str(name)
    path = Path(name)
    if name.startswith(folder_name(CATALOGUE)) and not path.exists():
        name = spelling_of(name)
    if name.startswith(CATALOGUE):
        return Collection(catalogue_entry(name.removeprefix(CATALOGUE)))
    if path.suffix in {".yaml", ".yml"}:
        return Collection(read_description(path), data or path.parent)
    if path.is_dir() and name not in descriptions():
        return Collection(describe_folder(path), path)
    return Collection(read_description(description_file(name)), data or data_root())


def filed_under(name: str) -> str:
    """The name that vectors, indexes and runs of ``--collection NAME`` have in their paths.

    The name of a folder that is not here any more is its own.
    """
    return load_collection(name).name if ":" in name or Path(name).exists() else name


def named_split(name: str, collection: Collection, default: str) -> str:
    """``default``, or the only split of ``ir_datasets:ID``, which names it: ``msmarco-passage/dev/small``."""
    splits = list(collection.splits)
    return splits[0] if name.startswith(CATALOGUE) and len(splits) == 1 else default
