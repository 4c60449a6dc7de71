"""A test collection: documents, and splits of queries with judgements and measures."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from learned_sparse.collections import catalogue, pydoc
from learned_sparse.collections.descriptions import (
    DESCRIPTION,
    Description,
    Source,
    Split,
    describe_folder,
    described_split,
    descriptions,
    read_description,
    shipped_description,
)
from learned_sparse.collections.documents import Document, DocumentReader, OnBadLine, read_documents
from learned_sparse.collections.topics import Query, read_queries
from learned_sparse.collections.trec import Qrels, read_qrels
from learned_sparse.core.errors import LearnedSparseError, did_you_mean, progress_bar
from learned_sparse.core.files import home
from learned_sparse.core.records import EXPANDED

DATA_VARIABLE = "LEARNED_SPARSE_DATA"
MAX_COUNTED_BYTES = 2**32
"""Size of files up to which their lines are counted for a progress bar."""

T = TypeVar("T")
Read = Callable[[Path], T]
"""Reads a file."""
Fetch = Callable[[str], T]
"""Fetches by name, from ir_datasets or Pyserini."""
_YAML = {".yaml", ".yml"}


@dataclass(frozen=True)
class Collection:
    """A description and the folder its files are in; files are read when a method needs them."""

    description: Description
    root: Path = field(default_factory=Path)
    on_bad_line: OnBadLine = "error"
    """Default of ``documents``."""

    @property
    def name(self) -> str:
        """Folder name of the collection in the paths of vectors, indexes and runs."""
        return self.description.name

    @property
    def splits(self) -> Mapping[str, Split]:
        """All splits by name."""
        return self.description.splits

    def split(self, name: str) -> Split:
        """The split ``name``, or the first one that it joins (see ``split_parts``), with its measures.

        ``LearnedSparseError`` with the nearest name if there is none.
        """
        parts, whole = self._parts(name), name in self.splits
        return parts[0] if whole else replace(parts[0], queries=None, judgements=None, expected=())

    def sources(self, split: str) -> tuple[Source, ...]:
        """The topics and judgements of a split."""
        return tuple(source for part in self._parts(split) for source in (part.topics, part.qrels))

    def _parts(self, name: str) -> list[Split]:
        splits = self.description.splits
        if not splits:
            raise LearnedSparseError(
                f"collection {self.name}: no split {name!r}, because it has no queries with judgements; its "
                "documents can be encoded, indexed and searched for the queries of a file: --topics FILE"
            )
        for one in (names := split_parts(name)[0]):
            if one not in splits:
                raise LearnedSparseError(f"collection {self.name}: no split {one!r}{did_you_mean(one, splits)}")
        return [splits[one] for one in names]

    def choose_split(self, name: str | None = None, default: str | None = None) -> str:
        """``name``, else the split that ``ir_datasets:ID`` names, else ``default``, else the only split or ``test``.

        Raises like ``split`` if there is no such split.
        """
        splits = self.description.splits
        only = next(iter(splits)) if len(splits) == 1 else None
        if self.name.startswith(catalogue.FOLDER):
            name = name or only
        name = name or default or only or "test"
        self._parts(name)
        return name

    def documents(self, on_bad_line: OnBadLine | None = None, expanded: Path | None = None) -> DocumentReader:
        """All documents, one at a time; see ``DocumentReader`` for bad lines and predicted queries (``expanded``)."""
        on_bad_line = on_bad_line or self.on_bad_line
        reader = _open(
            self.description.corpus,
            self.root,
            f"{self.name}'s documents",
            lambda path: read_documents(path, on_bad_line=on_bad_line, expanded=expanded),
            lambda name: catalogue.documents(name, on_bad_line, expanded),
        )
        reader.total = self.description.documents
        return reader

    def documents_shown(self, on_bad_line: OnBadLine | None = None, expanded: Path | None = None) -> Iterator[Document]:
        """``documents`` under a progress bar on a terminal."""
        return with_progress(self.documents(on_bad_line, expanded))

    def documents_by_id(self, ids: set[str], expanded: Path | None = None) -> dict[str, Document]:
        """The documents with these ids, from one pass over the collection; an error if one is missing."""
        shown = self.documents_shown("skip", expanded)
        documents = {document.id: document for document in shown if document.id in ids}
        if missing := ids - documents.keys():
            raise LearnedSparseError(
                f"collection {self.name}: {len(missing)} of {len(ids)} documents are missing "
                f"(for instance {min(missing)!r}); are the run and the judgements of this collection?"
            )
        return documents

    def queries(self, split: str) -> list[Query]:
        """The judged queries of a split in the order of the topics; unjudged queries affect no measure.

        ``LearnedSparseError`` if a judged query is not among the topics.
        """
        qrels = self.qrels(split)
        what = f"{self.name}'s topics ({split})"
        topics = [
            query
            for source in dict.fromkeys(part.topics for part in self._parts(split))
            for query in _open(source, self.root, what, read_queries, catalogue.queries, _registered_queries)
        ]
        missing = qrels.keys() - {query.id for query in topics}
        if missing:
            raise LearnedSparseError(
                f"collection {self.name}, split {split}: {len(missing)} judged queries are not among the topics "
                f"(for instance {min(missing)!r}); the two files do not belong together"
            )
        return [query for query in topics if query.id in qrels]

    def qrels(self, split: str) -> Qrels:
        """The judgements of a split: ``{query id: {document id: grade}}``."""
        what, qrels, (_, kept, folds) = f"{self.name}'s judgements ({split})", dict[str, Any](), split_parts(split)
        for part in self._parts(split):
            qrels |= _open(part.qrels, self.root, what, read_qrels, catalogue.qrels, registered_qrels)
        return qrels if folds == 1 else {id: of for id, of in qrels.items() if _fold(id, folds) in kept}


def load_collection(name: str | Path, *, data: Path | None = None, on_bad_line: OnBadLine = "error") -> Collection:
    """The collection ``name``; only its description is read. ``name`` is one of

    - the name of a YAML that ships with the package (``scifact``, ``msmarco-v1-passage``, ``pydoc``); its files are
      below ``data``, else ``$LEARNED_SPARSE_DATA``, else ``home()/data``;
    - the path of a YAML file; the files are below ``data``, else in the folder of the YAML file;
    - a BEIR folder (``corpus.jsonl``, ``queries.jsonl``, ``qrels/*.tsv``) or an MS MARCO folder;
    - ``ir_datasets:ID``, a name of the ir_datasets catalogue (see ``catalogue_entry``), or its folder name, which
      manifests hold: ``ir_datasets--beir--scifact``.

    A name that ships with the package and is also a folder in the current one is an error, unless ``data`` is given or
    the folder is the one below ``$LEARNED_SPARSE_DATA``; ``./scifact`` always means the folder. ``pydoc``, the default
    of many commands, always means the embedded collection.
    """
    name = str(name)
    path = Path(name)
    if name.startswith(catalogue.FOLDER) and not os.path.lexists(path):
        name = catalogue.name_of_folder(name)
    if name.startswith(catalogue.CATALOGUE):
        return Collection(catalogue.catalogue_entry(name.removeprefix(catalogue.CATALOGUE)), Path(), on_bad_line)
    if path.suffix in _YAML:
        return Collection(read_description(path), data or path.parent, on_bad_line)
    if os.path.lexists(path) and path.is_dir():
        if name not in descriptions():
            return Collection(describe_folder(path), path, on_bad_line)
        if data is None and name != "pydoc" and path.resolve() != (data_root() / name).resolve():
            raise LearnedSparseError(
                f"{name}: a collection of the package and a folder here; write ./{name} for the folder, or run the "
                "command in another folder for the collection of the package"
            )
    return Collection(shipped_description(name), data or data_root(), on_bad_line)


def split_parts(split: str) -> tuple[list[str], set[int], int]:
    """The splits that ``split`` joins, its folds, and the number of folds that their queries are divided into.

    A query is in the fold that a hash of its id gives, on every machine.

    >>> split_parts("test"), split_parts("train+dev@1of5"), split_parts("train+dev@not1of5")
    ((['test'], {1}, 1), (['train', 'dev'], {1}, 5), (['train', 'dev'], {2, 3, 4, 5}, 5))
    """
    names, at, fold = split.partition("@")
    match = re.fullmatch(r"(not)?(\d+)of(\d+)", fold if at else "1of1")
    if not match or not 1 <= int(match[2]) <= int(match[3]):
        raise LearnedSparseError(f"split {split!r}: after @ give a fold, such as @1of5, or @not1of5 for all others")
    number, folds = int(match[2]), int(match[3])
    return names.split("+"), set(range(1, folds + 1)) - {number} if match[1] else {number}, folds


def _fold(query: str, folds: int) -> int:
    return int.from_bytes(hashlib.sha256(query.encode()).digest()[:8], "big") % folds + 1


def with_progress(documents: DocumentReader) -> Iterator[Document]:
    """``documents`` under a progress bar on a terminal."""
    total = count_documents(documents) if sys.stderr.isatty() else None
    yield from progress_bar(documents, documents.source, "documents", total)


def count_documents(documents: DocumentReader) -> int | None:
    """``documents.total``, else the lines of their uncompressed files; None if counting them would be slow."""
    files, total = documents.files, documents.total
    size = sum(file.stat().st_size for file in files)
    if total is not None or not files or size > MAX_COUNTED_BYTES or any(file.suffix == ".gz" for file in files):
        return total
    lines = 0
    for file in files:
        with file.open("rb") as stream:
            lines += sum(block.count(b"\n") for block in iter(lambda: stream.read(2**20), b""))
    return lines


def data_root() -> Path:
    """The folder with the files of named collections: ``$LEARNED_SPARSE_DATA``, else ``home()/data``."""
    return Path(os.environ.get(DATA_VARIABLE) or home() / "data")


def filed_under(name: str) -> str:
    """Folder name of ``--collection NAME`` in the paths of vectors, indexes and runs.

    ``name`` itself if it is the name of a folder that no longer exists.
    """
    return load_collection(name).name if ":" in name or os.path.lexists(Path(name)) else name


def split_names(name: str, split: str) -> tuple[str, ...]:
    """Canonical name of a split, ``COLLECTION:SPLIT``, followed by the splits it shares queries with.

    Reads descriptions only. A folder without a description is treated as the collection of that name.

    >>> split_names("data/msmarco-mini", "train"), split_names("ir_datasets:msmarco-passage/dev/small", "dev")
    (('msmarco-mini:train', 'msmarco-v1-passage:dev'), ('msmarco-v1-passage:dev',))

    Joined splits and folds (``split_parts``) share queries with the splits they are parts of, and with equal folds:
    ``msmarco-mini:train@1of5``.
    """
    names, kept, folds = split_parts(split)
    if names != [split]:
        parts = [split_names(name, part) for part in names]
        of_folds = (f"{part[0]}@{number}of{folds}" for part in parts for number in kept)
        return f"{parts[0][0].rpartition(':')[0]}:{split}", *dict.fromkeys(itertools.chain(*parts)), *of_folds
    if name.startswith(catalogue.CATALOGUE):
        entry = name.removeprefix(catalogue.CATALOGUE)
        known = described_split(entry) or described_split(f"{entry}/{split.replace('-', '/')}")
        return (f"{known[0]}:{known[1]}", *known[2].contains_queries_of) if known else (f"{name}:{split}",)
    path = Path(name)
    file = path if path.suffix in _YAML else path / DESCRIPTION
    if os.path.lexists(file):
        description = read_description(file)
    elif path.name in descriptions():
        description = shipped_description(path.name)
    else:
        return (f"{path.name}:{split}",)
    known_split = description.splits.get(split)
    return f"{description.name}:{split}", *(known_split.contains_queries_of if known_split else ())


def registered_qrels(name: str) -> Qrels:
    """The judgements that Pyserini knows under ``name``. Starts the JVM."""
    from learned_sparse.lucene.stock import registered_qrels_file

    return read_qrels(registered_qrels_file(name))


def local_file(source: Source, root: Path) -> Path | None:
    """The first existing file of ``source``; the file of an embedded collection is generated if need be."""
    if source.embedded:
        return pydoc.build() / source.embedded
    return next((path for path in candidates(source, root) if os.path.lexists(path)), None)


def candidates(source: Source, root: Path) -> list[Path]:
    """All paths that the files of ``source`` can have, in the order they are looked for."""
    plain = ((file, file.removesuffix(".gz")) for file in source.files)
    return [root / name for name in dict.fromkeys(name for file, p in plain for name in (file, p, f"{p}.gz"))]


def _registered_queries(name: str) -> list[Query]:
    """The topics that Pyserini knows under ``name``, sorted by number or by text. Starts the JVM."""
    from learned_sparse.lucene.stock import registered_topics

    queries = [Query(query, text.replace(EXPANDED, " ").strip()) for query, text in registered_topics(name).items()]
    return sorted(queries, key=lambda query: (0, int(query.id), "") if query.id.isdigit() else (1, 0, query.id))


def _open(
    source: Source, root: Path, what: str, read: Read[T], fetch: Fetch[T], registered: Fetch[T] | None = None
) -> T:
    """Read ``source`` from the first place that has it; an error names all places. ``what`` opens the error."""
    if path := local_file(source, root):
        return read(path)
    failures = [f"{path}: no such file" for path in candidates(source, root)]
    for name, from_name in ((source.ir_datasets, fetch), (source.registered, registered)):
        if name and from_name:
            try:
                return from_name(name)
            except LearnedSparseError as error:
                failures.append(str(error))
    if source.files:
        file = source.files[0]
        failures[-1] += f"\nPut the file at {root / file}, or set {DATA_VARIABLE} to the folder that has it as {file}"
    raise LearnedSparseError(f"{what}: not found. Looked for:\n  " + "\n  ".join(failures))
