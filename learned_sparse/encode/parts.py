"""The folder of an encoded collection: which part files are finished, and the manifest at the end."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import read_record, sha256, write_record
from learned_sparse.core.quantize import Calibration, Quantizer
from learned_sparse.core.records import Document
from learned_sparse.core.settings import parse
from learned_sparse.jsonvector.manifest import (
    MANIFEST,
    STATISTICS,
    Counts,
    Manifest,
    Part,
    anserini_files,
    as_text,
    check_together,
    differences,
)

_PATHS = frozenset({"expanded", "revision"})
"""Options that may change when a run is resumed: fingerprints and the description of the encoder have their effect."""
_PART = re.compile(r"part-\d{5,}\.(jsonl|jsonl\.gz|json)")
_LEFTOVER = re.compile(rf"\.{_PART.pattern}\.([0-9a-f]{{16}}\.tmp|lock)")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PartRecord:
    """Content of ``progress/part-NNNNN.json``: a finished part file."""

    part: Part
    fingerprint: str
    """SHA-256 of the settings of the run and of the documents of the part: equal ones give equal vectors."""
    counts: Counts


def fingerprint(manifest: Manifest, documents: Sequence[Document]) -> str:
    """``PartRecord.fingerprint`` of ``documents`` encoded with the settings of ``manifest``."""
    settings = manifest.settings(_PATHS | {"num_shards", "shard_id"})
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for document in documents:
        lengths = f"{len(document.id)} {len(document.text)} {len(document.expanded)} "
        digest.update(f"{lengths}{document.id}{document.text}{document.expanded}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


class PartFolder:
    """``vectors/part-NNNNN.jsonl`` and ``progress/part-NNNNN.json`` in one folder."""

    def __init__(self, folder: Path, *, compress: bool = False, overwrite: bool = False) -> None:
        """``overwrite``: the output of an earlier run is removed before the first part is written."""
        self.folder, self.compress, self._overwrite = folder, compress, overwrite
        self._stored: Manifest | None = None
        """Manifest of the earlier run that this one continues."""

    def resume(self, manifest: Manifest, quantizer: Quantizer | Calibration) -> Quantizer | Calibration:
        """The quantiser of the run: that of the earlier run which it continues, else ``quantizer``.

        Raises if the folder has other files, or if the earlier run had other settings than ``manifest``.
        """
        stored = (self.folder / MANIFEST).is_file()
        for path in anserini_files(self.folder / "vectors"):
            if not _PART.fullmatch(path.name) or path.parent != self.folder / "vectors":
                raise LearnedSparseError(f"{path}: not written by learned_sparse.encode; remove it")
            if not (self._overwrite or stored):
                raise LearnedSparseError(f"{self.folder}: part files but no {MANIFEST}; encode with --overwrite")
        if self._overwrite or not stored:
            return quantizer
        before = self._stored = Manifest.load(self.folder)
        chosen = quantizer if isinstance(quantizer, Quantizer) else before.quantizer
        wanted = dataclasses.replace(manifest, quantizer=chosen)
        if changed := differences(before.settings(_PATHS), wanted.settings(_PATHS)):
            raise LearnedSparseError(
                f"{self.folder / MANIFEST}: made with other settings ({as_text(changed)}); resume with the same "
                "settings, write to another --output, or encode everything again with --overwrite"
            )
        if (changed := differences(before.versions, manifest.versions)) and not before.complete:
            _log.warning(
                "%s: continued with other versions, which may round differently: %s", self.folder, as_text(changed)
            )
        return chosen

    def begin(self, manifest: Manifest) -> None:
        """Write ``manifest`` without an outcome, before the first part is written; with overwrite, clear the folder."""
        if self._overwrite:
            self.clear()
        self._overwrite, self._stored = False, None
        dataclasses.replace(manifest, complete=False, counts=Counts(), parts=(), warnings=()).save(self.folder)

    def finished(self, number: int, documents: Sequence[Document], manifest: Manifest) -> PartRecord | None:
        """Record of part ``number`` if it has the vectors of ``documents``; None if it must be written."""
        path = self._record(number)
        if self._overwrite or not path.is_file():
            return None
        try:
            record = parse(PartRecord, read_record(path), str(path))
        except LearnedSparseError as error:
            _log.warning("%s; writing this part again", error)
            return None
        file = self.file(number)
        if record.fingerprint != fingerprint(manifest, documents):
            _log.info("%s: the input has changed; writing this part again", file)
            return None
        if not file.is_file() or sha256(file) != record.part.sha256:
            _log.warning("%s: missing or changed since it was written; writing this part again", file)
            return None
        return record

    def file(self, number: int) -> Path:
        """Vectors of part ``number``."""
        return self.folder / "vectors" / f"part-{number:05d}.jsonl{'.gz' if self.compress else ''}"

    def record(
        self, number: int, documents: Sequence[Document], digest: str, counts: Counts, manifest: Manifest
    ) -> PartRecord:
        """Write the record of a part whose file is complete, with the SHA-256 ``digest`` of the file."""
        file = self.file(number).relative_to(self.folder).as_posix()
        part = Part(file=file, documents=counts.written, sha256=digest)
        record = PartRecord(part=part, fingerprint=fingerprint(manifest, documents), counts=counts)
        write_record(self._record(number), dataclasses.asdict(record))
        return record

    def finish(self, manifest: Manifest, records: Mapping[int, PartRecord], counts: Counts) -> Manifest:
        """Write the finished manifest; ``records`` are those of all parts, ``counts`` those of the whole run.

        A folder that was complete before, and still is, keeps its manifest. Parts of an earlier, longer input go.
        """
        if self._overwrite:  # a shard without parts
            self.begin(manifest)
        self.clear(keep={path for number in records for path in (self.file(number), self._record(number))})
        parts = tuple(records[number].part for number in sorted(records))
        if (stored := self._stored) and (stored.complete, stored.parts, stored.counts) == (True, parts, counts):
            return stored
        return manifest.finish(self.folder, parts, counts)

    def clear(self, keep: Set[Path] | None = None) -> None:
        """Remove parts, temporary files and locks of killed writers, but for ``keep``; without it also the manifest."""
        if keep is None:  # first: a killed run leaves no manifest without parts
            (self.folder / MANIFEST).unlink(missing_ok=True)
        for below in ("progress", "vectors"):
            for path in (self.folder / below).glob("*"):
                if (_PART.fullmatch(path.name) or _LEFTOVER.fullmatch(path.name)) and path not in (keep or ()):
                    path.unlink()

    def _record(self, number: int) -> Path:
        return self.folder / "progress" / f"part-{number:05d}.json"


def merge_shards(shards: Sequence[Path], folder: Path) -> Manifest:
    """Move the parts of all shards of an encoding into ``folder``, as one process would have written them."""
    manifests = [Manifest.load(shard) for shard in shards]
    check_together(shards, manifests)
    first = manifests[0]
    counts = Counts.total(manifest.counts for manifest in manifests)
    counts = dataclasses.replace(
        counts, other_shards=0,
        **{name: getattr(first.counts, name) for name in ("read", "skipped", "segmented", "largest_segments")},
    )  # fmt: skip
    whole = dataclasses.replace(first, options={**first.options, "num_shards": 1, "shard_id": 0})
    PartFolder(folder).clear()
    for below in ("vectors", "progress"):
        (folder / below).mkdir(exist_ok=True)
        for shard in shards:
            for path in sorted((shard / below).glob("part-*")):
                path.replace(folder / below / path.name)
    if (shards[0] / STATISTICS).is_file():  # of BM25, the same in each shard
        (shards[0] / STATISTICS).replace(folder / STATISTICS)
    parts = sorted((part for manifest in manifests for part in manifest.parts), key=lambda part: part.file)
    return whole.finish(folder, parts, counts, first.warnings)


def check_output(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Raise if the folder is not empty and neither ``resume`` nor ``overwrite`` is given."""
    if folder.exists() and not folder.is_dir():
        raise LearnedSparseError(f"{folder}: is a file; --output is a folder")
    if folder.exists() and any(folder.iterdir()) and not (resume or overwrite):
        raise LearnedSparseError(
            f"{folder}: not empty; give --resume, --overwrite or another --output "
            "(in Python: resume=True or overwrite=True)"
        )
