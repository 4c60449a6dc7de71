"""Documents out of files, one at a time, with every bad line reported or counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from learned_sparse.collections.car import PARAGRAPHS, parse_paragraph, read_paragraphs
from learned_sparse.collections.document_formats import BadLineError, extension, parser_for
from learned_sparse.collections.lines import read_lines
from learned_sparse.collections.seen import SeenIds
from learned_sparse.core import Document, LearnedSparseError

OnBadLine = Literal["error", "skip"]
Line = tuple[str, Callable[[Any], Document], Any]
"""Where a record stands (``corpus.jsonl:17``), what makes a document of it, and the record."""


class DocumentReader(Iterator[Document]):
    """An iterator over the documents of a collection, once, that counts what it leaves out.

    A line is bad when it is not UTF-8, malformed, or has no id, no text, an empty text or an id that came before. With
    ``on_bad_line="error"`` the first one ends the reading with ``LearnedSparseError``; with ``"skip"`` it is counted in
    ``skipped``. One document is in memory at a time, and 12 to 24 bytes for each id (see ``SeenIds``).
    """

    def __init__(self, lines: Iterable[Line], *, source: str, files: tuple[Path, ...], on_bad_line: OnBadLine) -> None:
        """Read ``lines`` of ``source`` (a name for messages), which stand in ``files``."""
        if on_bad_line not in {"error", "skip"}:
            raise LearnedSparseError(f"on_bad_line: {on_bad_line!r} is neither 'error' nor 'skip'")
        self.source = source
        self.files = files
        """The files read, in order; none where the documents come from elsewhere."""
        self.read = 0
        """Documents handed out so far."""
        self.skipped: dict[str, int] = {}
        """Lines left out so far, by reason."""
        self.first_skipped: dict[str, str] = {}
        """The first line left out for each reason, with all there is to say about it."""
        self._on_bad_line = on_bad_line
        self._documents = self._checked(lines)

    @property
    def empty(self) -> int:
        """Documents left out because their text is empty."""
        return self.skipped.get("empty text", 0)

    def summary(self) -> str:
        """One line for people: ``11 documents read, 2 lines skipped (duplicate id: 2, first corpus.jsonl:9)``."""
        reasons = (f"{reason}: {count}, first {self.first_skipped[reason]}" for reason, count in self.skipped.items())
        skipped = f", {sum(self.skipped.values())} lines skipped ({'; '.join(reasons)})" if self.skipped else ""
        return f"{self.read} documents read{skipped}"

    def __next__(self) -> Document:
        document = next(self._documents)
        self.read += 1
        return document

    def _checked(self, lines: Iterable[Line]) -> Iterator[Document]:
        seen = SeenIds()
        for where, parse, record in lines:
            try:
                document = parse(record)
                if not seen.add(document.id):
                    raise BadLineError("duplicate id", repr(document.id))
            except BadLineError as error:
                self._count(where, error)
            else:
                yield document
        if not seen:
            raise LearnedSparseError(f"{self.source}: no documents; {self.summary()}")

    def _count(self, where: str, error: BadLineError) -> None:
        if self._on_bad_line == "error":
            raise LearnedSparseError(f"{where}: {error}; skip such lines with --on-bad-line skip") from error
        self.first_skipped.setdefault(error.reason, f"{where}: {error}")
        self.skipped[error.reason] = self.skipped.get(error.reason, 0) + 1


def read_documents(path: str | Path, *, on_bad_line: OnBadLine = "error") -> DocumentReader:
    """The documents of a file, or of all files of a folder and its sub-folders in the order of their paths.

    JSON lines (``.jsonl``, ``.json``), MS MARCO's columns (``.tsv``, ``.txt``), TREC CAR's paragraphs (``.cbor``), each
    also with ``.gz``. Hidden files are passed over; any other kind of file is an error.
    """
    path = Path(path)
    files = _files(path)
    records = list(map(_records, files))  # a kind that is not known is known at once
    return DocumentReader(chain.from_iterable(records), source=str(path), files=files, on_bad_line=on_bad_line)


def _records(file: Path) -> Iterator[Line]:
    if extension(file) == PARAGRAPHS:
        return ((f"{file}, paragraph {n}", parse_paragraph, record) for n, record in read_paragraphs(file))
    parse = parser_for(file)
    return ((f"{file}:{number}", parse, line) for number, line in read_lines(file))


def _files(path: Path) -> tuple[Path, ...]:
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise LearnedSparseError(f"{path}: no such file or folder")
    for corpus in ("corpus.jsonl", "collection.tsv", "msmarco-docs.tsv"):
        if (path / corpus).exists() and len(list(path.iterdir())) > 1:
            raise LearnedSparseError(
                f"{path}: holds {corpus} beside other files, so it looks like a whole test collection; "
                f"name it with --collection {path}, or only its documents with --input {path / corpus}"
            )
    files = sorted(file for file in path.rglob("*") if file.is_file() and not _hidden(file.relative_to(path)))
    if not files:
        raise LearnedSparseError(f"{path}: the folder has no files")
    return tuple(files)


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
