"""The part files of an encoded collection: which are finished, and what each holds."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from learned_sparse.core import (
    Document,
    LearnedSparseError,
    LuceneTerms,
    Quantizer,
    SparseBatch,
    parse,
    read_json,
    sha256,
    write_json,
)
from learned_sparse.jsonvector import MANIFEST, Counts, Manifest, Part, PartFile, WrittenPart, differences, open_part

Describe = Callable[[Quantizer], Manifest]
"""The manifest of a run but for its outcome, once the quantiser is known."""

_PART = re.compile(r"part-\d{5,}\.(jsonl|jsonl\.gz|json)")


@dataclass(frozen=True)
class Window:
    """The documents of one part: the boundaries follow from the order of the input alone."""

    number: int
    documents: Sequence[Document]

    @property
    def ids(self) -> list[str]:
        """Of the documents."""
        return [document.id for document in self.documents]

    @property
    def digest(self) -> str:
        """A hash of all ids, texts and what expands them, to notice an input that changed between two runs."""
        digest = hashlib.sha256()
        for document in self.documents:
            head = f"{len(document.id)} {len(document.text)} "
            more = f" {len(document.expanded)} {document.expanded}" if document.expanded else ""
            digest.update(f"{head}{document.id}{document.text}{more}".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class Note:
    """``progress/part-NNNNN.json``, written after its part: while it is missing, the part is not finished."""

    part: Part
    input: str
    """``Window.digest`` of the documents."""
    counts: Counts
    """Of this part alone."""


class PartFolder:
    """``vectors/part-NNNNN.jsonl`` and ``progress/part-NNNNN.json`` in one folder."""

    def __init__(self, folder: Path, *, compress: bool) -> None:
        self.folder = folder
        self._compress = compress

    def begin(
        self, describe: Describe, quantizer: Quantizer | None, *, resume: bool, overwrite: bool
    ) -> Manifest | None:
        """The manifest of an earlier run to be resumed, if there is one; an error if the folder may not be written to.

        It is compared with what ``describe`` gives for ``quantizer``, or if there is none yet (it is to be calibrated)
        for the earlier run's.
        """
        check_output(self.folder, resume=resume, overwrite=overwrite)
        if overwrite:
            self._clear()
        if not (self.folder / MANIFEST).is_file():
            self._refuse_parts_without_manifest()
            return None
        stored = Manifest.load(self.folder)
        compare(stored, describe(quantizer or stored.quantizer), self.folder)
        return stored

    def file(self, number: int) -> Path:
        """The vectors of part ``number``."""
        return self.folder / "vectors" / f"part-{number:05d}.jsonl{'.gz' if self._compress else ''}"

    def finished(self, window: Window) -> tuple[Note | None, str | None]:
        """The note of a part that is whole and of these documents; else None, and why it must be made again.

        There is no reason for a part that was never finished. A finished part of other documents is an error.
        """
        path = self._note(window.number)
        if not path.is_file():
            return None, None
        try:
            note = parse(Note, read_json(path), str(path))
        except LearnedSparseError as error:
            return None, f"{error}; making this part again"
        if note.input != window.digest:
            raise LearnedSparseError(
                f"{self.file(window.number)}: the input has changed since this part was written; "
                "encode anew with --overwrite, or into another --output"
            )
        file = self.file(window.number)
        if not file.is_file() or sha256(file) != note.part.sha256:
            return None, f"{file}: missing or changed since it was written; making this part again"
        return note, None

    def open(self, number: int, terms: LuceneTerms) -> contextlib.AbstractContextManager[PartFile]:
        """The file of part ``number``, for its documents to be added."""
        return open_part(self.file(number), terms, compress=self._compress)

    def note(self, window: Window, written: WrittenPart, counts: Counts) -> Note:
        """Write the note of a part whose file is whole; what was written is added to ``counts``."""
        file = self.file(window.number)
        if (written.documents, written.postings) != (len(window.documents), counts.postings):
            raise RuntimeError(f"{file}: {counts.postings} impacts to write, {written.postings} written")
        counts = dataclasses.replace(counts, written=written.documents, empty_vectors=written.empty_vectors)
        part = Part(file=str(file.relative_to(self.folder)), documents=written.documents, sha256=written.sha256)
        note = Note(part=part, input=window.digest, counts=counts)
        write_json(self._note(window.number), dataclasses.asdict(note))
        return note

    def refuse_others(self, numbers: Iterable[int]) -> None:
        """Raise if there are files in ``vectors`` beside the parts ``numbers``: Anserini would index them too."""
        known = {self.file(number) for number in numbers}
        for path in sorted((self.folder / "vectors").glob("*")):
            if path not in known and not path.name.endswith(".tmp"):
                raise LearnedSparseError(
                    f"{path}: not a part of this collection; remove it, or encode with --overwrite"
                )

    def _note(self, number: int) -> Path:
        return self.folder / "progress" / f"part-{number:05d}.json"

    def _clear(self) -> None:
        (self.folder / MANIFEST).unlink(missing_ok=True)  # first: parts without it are never taken for an earlier run
        for below in ("vectors", "progress"):
            for path in sorted((self.folder / below).glob("*")):
                if _PART.fullmatch(path.name) or path.name.endswith(".tmp"):
                    path.unlink()

    def _refuse_parts_without_manifest(self) -> None:
        if any((self.folder / "vectors").glob("*")):
            raise LearnedSparseError(f"{self.folder}: part files but no {MANIFEST}; encode with --overwrite")


def check_output(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Raise if there is something in ``folder`` and nobody said what is to become of it."""
    if folder.exists() and not folder.is_dir():
        raise LearnedSparseError(f"{folder}: is a file; --output is a folder")
    if folder.exists() and any(folder.iterdir()) and not (resume or overwrite):
        raise LearnedSparseError(f"{folder}: not empty; give --resume, --overwrite or another --output")


def compare(stored: Manifest, wanted: Manifest, folder: Path) -> None:
    """Raise, naming each field, if a run with the settings of ``wanted`` cannot be added to what is in ``folder``."""
    if differing := differences(stored.settings(), wanted.settings()):
        listed = "".join(f"\n  {line}" for line in differing)
        raise LearnedSparseError(
            f"{folder / MANIFEST}: made with other settings; resume with the same ones, or give --overwrite:{listed}"
        )


def windows(documents: Iterable[Document], size: int) -> Iterator[Window]:
    """``documents`` cut into parts of ``size``; only one part is in memory at a time."""
    iterator = iter(documents)
    for number in itertools.count():
        chunk = list(itertools.islice(iterator, size))
        if not chunk:
            return
        yield Window(number, chunk)


def largest_sum(impacts: SparseBatch) -> int:
    """The largest sum of the impacts of one row."""
    filled = np.flatnonzero(np.diff(impacts.indptr))
    if not len(filled):
        return 0
    return int(np.add.reduceat(impacts.values.astype(np.int64), impacts.indptr[filled]).max())
