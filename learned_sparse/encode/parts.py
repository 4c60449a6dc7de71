"""The folder of an encoded collection: which part files are finished, and the manifest at the end."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Sequence, Set
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from learned_sparse.collections.documents import Document
from learned_sparse.core.encoder import Encoder, query_quantizer
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import read_json, sha256, write_json
from learned_sparse.core.quantize import Quantizer, calibrate_on
from learned_sparse.core.records import SparseBatch
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
    versions,
)

_PATHS = frozenset({"expanded", "revision"})
"""Options that may change when a run is resumed: fingerprints and the description of the encoder have their effect."""
_PART = re.compile(r"part-\d{5,}\.(jsonl|jsonl\.gz|json)")
_LEFTOVER = re.compile(rf"\.{_PART.pattern}\.([0-9a-f]{{16}}\.tmp|lock)")
_log = logging.getLogger(__name__)


class PartFolder:
    """``vectors/part-NNNNN.jsonl`` and ``progress/part-NNNNN.json`` in one folder, and the manifest of their run."""

    def __init__(
        self,
        folder: Path,
        encoder: Encoder,
        query_encoder: Encoder | None,
        quantizer: Quantizer | None,
        *,
        overwrite: bool = False,
        **fields: Any,
    ) -> None:
        """Continue an earlier run, if there is one. Without ``quantizer`` it is that of the run, or calibrated.

        ``query_encoder`` is the query side of documents; ``fields`` are those of the manifest that no encoder has.
        ``overwrite``: the output of an earlier run is removed before the first part is written. Raises if the folder
        has other files, or if the earlier run had other settings.
        """
        self.folder, self.overwrite = folder, overwrite
        self.stored = stored = Manifest.load(folder) if (folder / MANIFEST).is_file() and not overwrite else None
        """Manifest of the run that is continued."""
        for path in anserini_files(folder / "vectors"):
            if not _PART.fullmatch(path.name) or path.parent != folder / "vectors":
                raise LearnedSparseError(f"{path}: not written by learned_sparse.encode; remove it")
            if not (overwrite or stored):
                raise LearnedSparseError(f"{folder}: part files but no {MANIFEST}; encode with --overwrite")
        if quantizer is None and stored:
            quantizer = stored.quantizer
        self.calibrates = quantizer is None
        """Whether ``begin`` calibrates the quantiser."""
        description = dict(encoder.description)
        self.manifest = Manifest(
            architecture=description.get("architecture", type(encoder).__name__),
            scoring=description.get("scoring", "impact"),
            encoder=description,
            query_encoder=None if query_encoder is None else dict(query_encoder.description),
            quantizer=quantizer or Quantizer(1.0),
            query_quantizer=None if query_encoder is None else query_quantizer(query_encoder),
            versions=versions(),
            **fields,
        )
        if stored and (changed := differences(stored.settings(_PATHS), self.manifest.settings(_PATHS))):
            raise LearnedSparseError(
                f"{folder / MANIFEST}: made with other settings ({as_text(changed)}); resume with the same "
                "settings, write to another --output, or encode everything again with --overwrite"
            )
        if stored and not stored.complete and (changed := differences(stored.versions, self.manifest.versions)):
            _log.warning("%s: continued with other versions, which may round differently: %s", folder, as_text(changed))

    def begin(self, weights: SparseBatch, ids: Sequence[str], kind: str = "document") -> None:
        """Before the first part: save the manifest without an outcome, and remove a run that is to be overwritten.

        ``weights``: those of the first texts ``ids``, on which a quantiser is calibrated if need be. Raises for weights
        that cannot be quantised, before anything is removed; the error names the ``kind`` of text.
        """
        self.manifest.quantizer.quantize(weights, ids, kind)
        if self.calibrates:
            options = self.manifest.options
            quantizer = calibrate_on(weights, options.get("bits"), options.get("calibration", 100.0))
            self.manifest = replace(self.manifest, quantizer=quantizer)
        if self.overwrite:
            clear(self.folder)
        self.overwrite, self.stored = False, None
        write_json(self.folder / MANIFEST, asdict(self.manifest), record=True)

    def finished(self, file: Path, record: Path, documents: Sequence[Document]) -> tuple[Part, Counts] | None:
        """The part ``file`` and its counts, if it has the vectors of ``documents``; None if it must be written."""
        if self.overwrite or self.calibrates or not record.is_file():
            return None
        try:
            content = read_json(record, record=True)
            part, counts = parse(Part, content["part"], str(record)), parse(Counts, content["counts"], str(record))
        except (KeyError, LearnedSparseError) as error:
            _log.warning("%s; writing this part again", error)
            return None
        if content.get("fingerprint") != self.fingerprint(documents):
            _log.info("%s: the input has changed; writing this part again", file)
            return None
        if not file.is_file() or sha256(file) != part.sha256:
            _log.warning("%s: missing or changed since it was written; writing this part again", file)
            return None
        return part, counts

    def fingerprint(self, documents: Sequence[Document]) -> str:
        """SHA-256 of the settings of the run and of the documents of a part: equal ones give equal vectors."""
        settings = self.manifest.settings(_PATHS | {"num_shards", "shard_id"})
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        for document in documents:
            lengths = f"{len(document.id)} {len(document.text)} {len(document.expanded)} "
            digest.update(f"{lengths}{document.id}{document.text}{document.expanded}".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def clear(folder: Path, keep: Set[Path] | None = None) -> None:
    """Remove parts, temporary files and locks of killed writers, but for ``keep``; without it also the manifest."""
    if keep is None:  # first: a killed run leaves no manifest without parts
        (folder / MANIFEST).unlink(missing_ok=True)
    for below in ("progress", "vectors"):
        for path in (folder / below).glob("*"):
            if (_PART.fullmatch(path.name) or _LEFTOVER.fullmatch(path.name)) and path not in (keep or ()):
                path.unlink()


def merge_shards(shards: Sequence[Path], folder: Path) -> Manifest:
    """Move the parts of all shards of an encoding into ``folder``, as one process would have written them."""
    manifests = [Manifest.load(shard) for shard in shards]
    check_together(shards, manifests)
    first = manifests[0]
    counts = Counts.total(manifest.counts for manifest in manifests)
    counts = replace(
        counts, other_shards=0,
        **{name: getattr(first.counts, name) for name in ("read", "skipped", "segmented", "largest_segments")},
    )  # fmt: skip
    whole = replace(first, options={**first.options, "num_shards": 1, "shard_id": 0})
    clear(folder)
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
