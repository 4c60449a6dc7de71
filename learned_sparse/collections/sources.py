"""Opens what a ``Source`` describes: the first place that has it, or an error that names every place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from learned_sparse.collections import catalogue, pydoc, registered
from learned_sparse.collections.description_files import DATA_VARIABLE
from learned_sparse.collections.descriptions import Source
from learned_sparse.collections.documents import DocumentReader, OnBadLine, read_documents
from learned_sparse.collections.topics import read_queries
from learned_sparse.collections.trec import Qrels, read_qrels
from learned_sparse.core import LearnedSparseError, Query

T = TypeVar("T")


def open_documents(source: Source, root: Path, what: str, on_bad_line: OnBadLine) -> DocumentReader:
    """The documents of ``source``; ``what`` names them in errors."""
    path = local_file(source, root)
    if path:
        return read_documents(path, on_bad_line=on_bad_line)
    return _elsewhere(source, root, what, lambda name: catalogue.documents(name, on_bad_line), None)


def open_queries(source: Source, root: Path, what: str) -> list[Query]:
    """The topics of ``source``."""
    path = local_file(source, root)
    return (
        read_queries(path) if path else _elsewhere(source, root, what, catalogue.queries, registered.registered_queries)
    )


def open_qrels(source: Source, root: Path, what: str) -> Qrels:
    """The judgements of ``source``."""
    path = local_file(source, root)
    return read_qrels(path) if path else _elsewhere(source, root, what, catalogue.qrels, registered.registered_qrels)


def local_file(source: Source, root: Path) -> Path | None:
    """The first file of ``source`` that is there, made on the spot for an embedded collection."""
    if source.embedded:
        return pydoc.build() / source.embedded
    return next((path for path in candidates(source, root) if path.exists()), None)


def candidates(source: Source, root: Path) -> list[Path]:
    """Where the files of ``source`` are looked for, in this order."""
    names = (
        name for file in source.files for name in (file, file.removesuffix(".gz"), f"{file.removesuffix('.gz')}.gz")
    )
    return [root / name for name in dict.fromkeys(names)]


def _elsewhere(
    source: Source,
    root: Path,
    what: str,
    from_catalogue: Callable[[str], T],
    from_pyserini: Callable[[str], T] | None,
) -> T:
    tried = [f"{path}: no such file" for path in candidates(source, root)]
    places = ((source.ir_datasets, from_catalogue), (source.registered, from_pyserini))
    for name, fetch in places:
        if name and fetch:
            try:
                return fetch(name)
            except LearnedSparseError as error:
                tried.append(str(error))
    raise LearnedSparseError(f"{what}: not found. Looked for:\n  " + "\n  ".join(tried) + _way_out(source, root))


def _way_out(source: Source, root: Path) -> str:
    if not source.files:
        return ""
    first = source.files[0]
    return f"\nPut the file at {root / first}, or set {DATA_VARIABLE} to the folder that has it as {first}"
