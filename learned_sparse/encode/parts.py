"""The folder of an encoded collection: which part files are finished, and the manifest at the end."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from learned_sparse.core import (
    Document,
    Encoder,
    LearnedSparseError,
    Quantizer,
    parse,
    read_record,
    sha256,
    write_record,
)
from learned_sparse.encode.quantizers import query_quantizer
from learned_sparse.jsonvector import (
    MANIFEST,
    Counts,
    Manifest,
    Part,
    PartFile,
    anserini_files,
    differences,
    open_part,
    versions,
)

Describe = Callable[[Quantizer], Manifest]
"""Function that makes the manifest of a run without its outcome, once the quantiser is known."""

_FREE = frozenset({"input", "on_bad_line", "revision", "max_length", "top_k", "dtype", "changes"})
"""Options that may change when a run is resumed: their effect is compared in the records of parts (documents) and in
the description of the encoder."""
_ROUNDING = frozenset({"device", "batch_size", "compile"})
"""Options that change weights by rounding only, like the versions of libraries: they are recorded with each part."""
_CALIBRATION = frozenset({"quantization_factor", "bits", "calibration"})
"""Options that decide the quantiser; compared only if a quantiser is to be calibrated, else the quantiser itself is."""
_PART = re.compile(r"part-\d{5,}\.(jsonl|jsonl\.gz|json)")
_LEFTOVER = re.compile(rf"\.{_PART.pattern}\.([0-9a-f]{{16}}\.tmp|lock)")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Window:
    """The documents of one part: ``size`` consecutive documents of the input."""

    number: int
    """Number of the part, from 0."""
    documents: Sequence[Document]

    @property
    def digest(self) -> str:
        """SHA-256 of all ids, texts and expansions, which detects an input that changed between two runs."""
        digest = hashlib.sha256()
        for document in self.documents:
            lengths = f"{len(document.id)} {len(document.text)} {len(document.expanded)} "
            content = f"{lengths}{document.id}{document.text}{document.expanded}"
            digest.update(content.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def windows(documents: Iterable[Document], size: int) -> Iterator[Window]:
    """Split ``documents`` into windows of ``size``; only one window is in memory at a time."""
    iterator = iter(documents)
    for number in itertools.count():
        chunk = list(itertools.islice(iterator, size))
        if not chunk:
            return
        yield Window(number, chunk)


@dataclass(frozen=True, kw_only=True)
class PartRecord:
    """``progress/part-NNNNN.json``. It is written after its part file: a part without record is not finished."""

    part: Part
    input: str
    """``Window.digest`` of the documents."""
    counts: Counts
    """Counts of this part."""
    environment: dict[str, Any] = field(default_factory=dict)
    """Versions and options that change weights by rounding."""


def describe_run(encoder: Encoder, query_encoder: Encoder | None = None, **fields: Any) -> Describe:
    """Manifest of a run of ``encoder``; ``query_encoder`` is the query side of documents, ``fields`` are the others."""
    description, name = dict(encoder.description), type(encoder).__name__

    def describe(quantizer: Quantizer) -> Manifest:
        return Manifest(
            architecture=description.get("architecture", name),
            scoring=description.get("scoring", "impact"),
            encoder=description,
            query_encoder=None if query_encoder is None else dict(query_encoder.description),
            quantizer=quantizer,
            query_quantizer=None if query_encoder is None else query_quantizer(query_encoder),
            versions=versions(),
            **fields,
        )

    return describe


class PartFolder:
    """``vectors/part-NNNNN.jsonl`` and ``progress/part-NNNNN.json`` in one folder."""

    def __init__(self, folder: Path, *, compress: bool = False, wait: bool = False) -> None:
        """``wait`` until another process that writes the same part has ended; else that is an error."""
        self.folder, self._wait = folder, wait
        self.stored: Manifest | None = None
        """Manifest of the earlier run, until something is written."""
        self._compress = compress
        self._replacing = False
        """Whether the output of an earlier run is there, to be removed when the new run has its first document."""

    def begin(
        self, describe: Describe, quantizer: Quantizer | None, *, resume: bool, overwrite: bool
    ) -> Manifest | None:
        """Manifest of a run that continues an earlier one, or None; raises if the folder must not be written to.

        The earlier run must have had the settings of ``describe(quantizer)``; paths, bad lines that are skipped now,
        and what changes weights by rounding may differ. ``quantizer`` is None if it is to be calibrated: a resumed run
        takes the quantiser of the earlier run.
        """
        check_output(self.folder, resume=resume, overwrite=overwrite)
        self._check_strays()
        if overwrite:
            self._replacing = True
            return None
        if not (self.folder / MANIFEST).is_file():
            if anserini_files(self.folder / "vectors"):
                raise LearnedSparseError(f"{self.folder}: part files but no {MANIFEST}; encode with --overwrite")
            return None
        stored = self.stored = Manifest.load(self.folder)
        wanted = describe(quantizer or stored.quantizer)
        free = _FREE | _ROUNDING | (frozenset() if quantizer is None else _CALIBRATION)
        if lines := differences(stored.settings(free), wanted.settings(free)):
            raise LearnedSparseError(
                f"{self.folder / MANIFEST}: made with other settings ({'; '.join(map(_as_option, lines))}); resume "
                "with the same settings, write to another --output, or encode everything again with --overwrite"
            )
        lines = differences(environment(stored), environment(wanted))
        if lines and not stored.complete:
            _log.warning("%s: continued with other versions or options: %s", self.folder, "; ".join(lines))
        return wanted

    def save_unfinished(self, manifest: Manifest) -> None:
        """Write ``manifest`` without an outcome, before the first part is written; with overwrite, clear the folder."""
        if self._replacing:
            self._clear()
        self.stored = None
        dataclasses.replace(manifest, complete=False, counts=Counts(), parts=(), warnings=()).save(self.folder)

    def file(self, number: int) -> Path:
        """Vectors of part ``number``."""
        return self.folder / "vectors" / f"part-{number:05d}.jsonl{'.gz' if self._compress else ''}"

    def finished(self, window: Window) -> PartRecord | None:
        """Record of a part that is complete and has the documents of ``window``; None if it must be written.

        A finished part with other documents raises an error.
        """
        path = self._record(window.number)
        if self._replacing or not path.is_file():
            return None
        try:
            record = parse(PartRecord, read_record(path), str(path))
        except LearnedSparseError as error:
            _log.warning("%s; writing this part again", error)
            return None
        file = self.file(window.number)
        if record.input != window.digest:
            before = Window(window.number, window.documents[: record.part.documents])
            if len(before.documents) < len(window.documents) and record.input == before.digest:
                _log.info("%s: the input has grown; writing this part again", file)
                return None
            raise LearnedSparseError(
                f"{file}: the input has changed since this part was written; "
                "encode again with --overwrite, or into another --output"
            )
        if not file.is_file() or sha256(file) != record.part.sha256:
            _log.warning("%s: missing or changed since it was written; writing this part again", file)
            return None
        return record

    def open(self, number: int) -> contextlib.AbstractContextManager[PartFile]:
        """Open the file of part ``number`` for writing."""
        return open_part(self.file(number), compress=self._compress, wait=self._wait)

    def record(self, window: Window, sha256: str, counts: Counts, manifest: Manifest) -> PartRecord:
        """Write the record of a part whose file is complete, with the SHA-256 of the file."""
        file = self.file(window.number).relative_to(self.folder).as_posix()
        part = Part(file=file, documents=counts.written, sha256=sha256)
        record = PartRecord(part=part, input=window.digest, counts=counts, environment=environment(manifest))
        write_record(self._record(window.number), dataclasses.asdict(record))
        return record

    def finish(
        self, manifest: Manifest, records: Mapping[int, PartRecord], counts: Counts, warnings: Iterable[str] = ()
    ) -> Manifest:
        """Write the finished manifest; ``records`` are those of all parts, ``counts`` those of the whole run.

        A folder that was complete before, and still is, keeps its manifest. Raises if ``vectors`` lacks a part, or
        holds other files that Anserini would index too.
        """
        self._sweep()
        known = {self.file(number) for number in records}
        if missing := sorted(path for path in known if not path.is_file()):
            raise LearnedSparseError(f"{missing[0]}: removed while the others were written; encode with --resume")
        for path in anserini_files(self.folder / "vectors"):
            if path not in known:
                raise LearnedSparseError(
                    f"{path}: not a part of this collection; remove it, or encode with --overwrite"
                )
        ordered = [records[number] for number in sorted(records)]
        parts = tuple(record.part for record in ordered)
        stored = self.stored
        if stored is not None and (stored.complete, stored.parts, stored.counts) == (True, parts, counts):
            return stored
        return manifest.finish(self.folder, parts, counts, (*warnings, *_mixed(ordered)))

    def _record(self, number: int) -> Path:
        return self.folder / "progress" / f"part-{number:05d}.json"

    def _check_strays(self) -> None:
        """Raise if ``vectors`` holds files of other origin that Anserini would index."""
        for path in anserini_files(self.folder / "vectors"):
            if not _PART.fullmatch(path.name) or path.parent != self.folder / "vectors":
                raise LearnedSparseError(f"{path}: not written by learned_sparse.encode; remove it")

    def _sweep(self) -> None:
        """Remove temporary files and locks of killed writers; the folder is locked, and its parts are written."""
        for below in ("progress", "vectors"):
            for path in (self.folder / below).glob(".part-*"):
                if _LEFTOVER.fullmatch(path.name):
                    path.unlink(missing_ok=True)

    def _clear(self) -> None:
        """Remove what an earlier run wrote."""
        (self.folder / MANIFEST).unlink(missing_ok=True)  # first, so that a killed run leaves no manifest without parts
        for below in ("progress", "vectors"):
            for path in (self.folder / below).glob("*"):
                if _PART.fullmatch(path.name) or _LEFTOVER.fullmatch(path.name):
                    path.unlink()
        self._replacing = False


def environment(manifest: Manifest) -> dict[str, Any]:
    """What changes weights by rounding only: versions of libraries, and options such as the device."""
    options = {name: value for name, value in manifest.options.items() if name in _ROUNDING and value}
    return manifest.versions | options


def _mixed(records: Sequence[PartRecord]) -> Iterator[str]:
    """A warning if the parts were not all encoded with the same versions and options."""
    for record in records:
        if lines := differences(records[0].environment, record.environment):
            yield (
                f"{record.part.file} and later parts were encoded with other versions or options than the first part "
                f"({'; '.join(lines)}): weights may differ by rounding"
            )
            return


def _as_option(line: str) -> str:
    """A difference of options with the name that the option has on the command line.

    >>> _as_option("options.part_size: 2048 before, 100 now")
    '--part-size: 2048 before, 100 now'
    """
    name, colon, values = line.partition(":")
    option = name.removeprefix("options.")
    return line if option == name else f"--{option.replace('_', '-')}{colon}{values}"


def check_output(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Raise if the folder is not empty and neither ``resume`` nor ``overwrite`` is given."""
    if folder.exists() and not folder.is_dir():
        raise LearnedSparseError(f"{folder}: is a file; --output is a folder")
    if folder.exists() and any(folder.iterdir()) and not (resume or overwrite):
        raise LearnedSparseError(
            f"{folder}: not empty; give --resume, --overwrite or another --output "
            "(in Python: resume=True or overwrite=True)"
        )
