"""``manifest.json``: origin, counts and checksums of encoded documents or queries."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from learned_sparse import __version__
from learned_sparse.core.errors import LearnedSparseError, wrong_path
from learned_sparse.core.files import is_name, read_json, restore_folder, sha256, write_json
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.settings import parse

if TYPE_CHECKING:
    from learned_sparse.core.records import SparseBatch

MANIFEST = "manifest.json"
STATISTICS = "bm25.json"
"""BM25's statistics of the collection, beside the manifest of vectors that hold BM25, and in an index of them."""
FORMAT = 1
EXACT_FLOATS = 2**24
"""Integers up to this one are exact in Lucene's scores, which are 32-bit floats."""
UNVERIFIED = (
    f"no {MANIFEST}, so the encoder and the quantiser of the vectors are unknown, and missing or changed files are "
    "not noticed"
)
"""What is unknown about vectors of other tools."""
PRUNING = "pruning"
"""Key of ``Manifest.options`` for the record that ``learned_sparse.jsonvector prune`` adds."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Part:
    """One finished file."""

    file: str
    """Path relative to the folder of the manifest."""
    documents: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counts of one encoding; ``read = written + other_shards + skipped`` (over all reasons)."""

    read: int = 0
    """Texts in the input, including bad lines. With segments: segments and bad documents."""
    segmented: int = 0
    """Documents that were cut into segments. If there are any, all other counts are of segments."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Bad lines, by reason."""
    other_shards: int = 0
    """Texts that belong to other shards."""
    written: int = 0
    empty_texts: int = 0
    """Texts that are empty or white space; their vectors are empty."""
    expanded: int = 0
    """Texts encoded together with their expansion."""
    truncated: int = 0
    """Texts truncated at the maximum length."""
    unwritable: int = 0
    """Weights that the encoder left out because Lucene cannot store their terms."""
    empty_vectors: int = 0
    postings: int = 0
    clipped: int = 0
    """Weights reduced to the largest impact."""
    lost_to_rounding: int = 0
    """Positive weights that became the impact 0."""
    largest_impact: int = 0
    largest_sum: int = 0
    """Maximum over texts of the sum of impacts."""
    largest_segments: int = 0
    """Maximum number of segments of a document."""

    @classmethod
    def of(cls, impacts: SparseBatch, statistics: Mapping[str, Any]) -> Counts:
        """Counts of quantised vectors, with the ``statistics`` of ``Quantizer.quantize``."""
        sums = np.diff(np.append(0, np.cumsum(impacts.values, dtype=np.int64))[impacts.indptr])
        return cls(
            written=len(impacts),
            empty_vectors=int(np.count_nonzero(sums == 0)),
            postings=len(impacts.values),
            largest_impact=int(impacts.values.max(initial=0)),
            largest_sum=int(sums.max(initial=0)),
            **statistics,
        )

    @classmethod
    def total(cls, counts: Iterable[Counts]) -> Counts:
        """Counts of several parts together: sums, and maxima of ``largest_...``; ``skipped`` stays empty."""
        counts, names = list(counts), [entry.name for entry in dataclasses.fields(cls) if entry.name != "skipped"]
        values = {name: [0, *(getattr(count, name) for count in counts)] for name in names}
        return cls(**{name: max(row) if name.startswith("largest") else sum(row) for name, row in values.items()})


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Content of ``manifest.json``. Equal input gives equal bytes, ``environment`` aside: no time, no output path."""

    format: int = FORMAT
    kind: Literal["documents", "queries"]
    complete: bool = False
    """Set by the last write; a folder with an incomplete manifest must not be indexed."""
    collection: str | None
    split: str | None = None
    model: str
    checkpoint: str
    """As the user named it; the hashes in ``encoder`` decide whether two checkpoints are the same."""
    architecture: str
    scoring: Literal["impact", "bm25"]
    encoder: dict[str, Any]
    """``Encoder.description`` of the side that made these vectors."""
    query_encoder: dict[str, Any] | None = None
    """``Encoder.description`` of the query side that matches these documents; None for queries, or if unknown."""
    quantizer: Quantizer
    query_quantizer: Quantizer | None = None
    input: tuple[dict[str, Any], ...] = ()
    """``{"file", "bytes"}`` of each input file. Documents of a collection: first ``{"collection", "data"}`` as the user
    named them. Queries: last ``{"queries", "sha256"}`` of ids and texts."""
    options: dict[str, Any] = field(default_factory=dict)
    counts: Counts = Counts()
    parts: tuple[Part, ...] = ()
    warnings: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    """``Encoder.environment`` at the end of the run."""

    @classmethod
    def from_json(cls, content: Mapping[str, Any], where: str) -> Manifest:
        """Inverse of ``dataclasses.asdict``; error messages begin with ``where``."""
        if content.get("format") != FORMAT:
            raise LearnedSparseError(
                f"{where}: format {content.get('format')!r}, this version knows {FORMAT}; encode again with --overwrite"
            )
        return parse(cls, content, where)

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read ``folder/manifest.json``."""
        path = folder / MANIFEST
        restore_folder(folder)
        if not path.is_file():
            raise wrong_path(folder, f"encoded texts ({MANIFEST} is missing)", "name what learned_sparse.encode wrote")
        manifest = cls.from_json(read_json(path, record=True), str(path))
        for part in manifest.parts:
            if not all(map(is_name, part.file.split("/"))):
                raise LearnedSparseError(f"{path}: parts: {part.file!r} is not a file in the folder of the manifest")
        return manifest

    def settings(self, free: Set[str] = frozenset()) -> dict[str, Any]:
        """Fields that must be equal before vectors are added, without the options ``free``.

        The outcome, versions, and the paths of checkpoint and input are not settings: hashes compare their contents.
        """
        other = {"complete", "counts", "parts", "warnings", "versions", "environment", "checkpoint", "input"}
        fields = {key: value for key, value in dataclasses.asdict(self).items() if key not in other}
        return fields | {"options": {key: value for key, value in self.options.items() if key not in free}}

    def finish(self, folder: Path, parts: Iterable[Part], counts: Counts, warnings: Iterable[str] = ()) -> Manifest:
        """Write and return the complete manifest: this one with the outcome of an encoding.

        ``warnings`` are for the user to read before indexing, as are those that the counts of documents give.
        """
        messages, query = list(warnings), self.query_quantizer
        # A score is at most the largest sum of impacts of a document times the largest impact of a query.
        bound = counts.largest_sum * (1 if query is None or query.bits is None else 2**query.bits - 1)
        if self.kind == "documents" and self.scoring == "impact" and bound > EXACT_FLOATS:
            messages.append(
                f"scores may reach {bound:,}; above {EXACT_FLOATS:,} Lucene's float scores are not exact, and "
                "documents with nearly equal scores may change places: quantise with a smaller factor or fewer bits"
            )
        if self.kind == "documents" and counts.written and counts.empty_vectors == counts.written:
            messages.append("every vector is empty: no query will find anything; is the checkpoint trained?")
        finished = dataclasses.replace(self, complete=True, parts=tuple(parts), counts=counts, warnings=tuple(messages))
        write_json(folder / MANIFEST, dataclasses.asdict(finished), record=True)
        return finished

    def check(self, folder: Path, *, hashes: bool = True) -> None:
        """Raise at the first of ``problems``."""
        for problem in self.problems(folder, hashes=hashes):
            raise LearnedSparseError(f"{problem}; encode again")

    def problems(self, folder: Path, *, hashes: bool = True) -> Iterator[str]:
        """Differences between ``folder`` and this manifest: missing, changed and unknown files.

        Without ``hashes``, files are compared by name only and none is read.
        """
        if not self.complete:
            yield f"{folder / MANIFEST}: not complete; run learned_sparse.encode with --resume"
        for part in self.parts:
            path = folder / part.file
            if not path.is_file():
                yield f"{path}: missing"
            elif hashes and sha256(path) != part.sha256:
                yield f"{path}: not the bytes the manifest records"
        if self.kind == "documents" and self.complete:
            known = {folder / part.file for part in self.parts}
            yield from (
                f"{path}: not in the manifest" for path in anserini_files(folder / "vectors") if path not in known
            )


def load_manifests(folders: Sequence[Path]) -> list[Manifest]:
    """Manifests of folders of encoded documents: one folder, or all shards of one collection.

    All files are compared with their checksums. ``LearnedSparseError``: a file differs from its manifest, or the shards
    were encoded with different settings.
    """
    manifests = []
    for folder in folders:
        manifest = Manifest.load(folder)
        if manifest.kind != "documents":
            raise LearnedSparseError(
                f"{folder}: encoded {manifest.kind}, not documents; only documents can be indexed and searched"
            )
        manifest.check(folder)
        manifests.append(manifest)
    check_together(folders, manifests)
    return manifests


def check_together(folders: Sequence[Path], manifests: Sequence[Manifest]) -> None:
    """Raise if ``folders`` were not encoded alike, or are not all shards of one encoding, each once."""
    for (before, first), (folder, second) in pairwise(zip(folders, manifests, strict=True)):
        if changed := differences(_vector_settings(first), _vector_settings(second)):
            problem = f"{folder / MANIFEST}: not encoded as {before} was: {as_text(changed)}"
            if all(field.startswith("quantizer.") for field in changed):
                factor, bits = first.quantizer.scale, first.quantizer.bits
                options = f"--quantization-factor {factor!r}" + (f" --bits {bits}" if bits else "")
                problem += f"; documents of one index need one quantiser: encode {folder} with {options} --overwrite"
            raise LearnedSparseError(problem)
    shards = [(m.options.get("shard_id") or 0, m.options.get("num_shards") or 1) for m in manifests]
    if all(count == 1 for _, count in shards):
        return
    if sorted(shards) != [(number, len(shards)) for number in range(len(shards))]:
        listed = ", ".join(f"{path} (shard {i} of {n})" for path, (i, n) in zip(folders, shards, strict=True))
        raise LearnedSparseError(
            f"not all shards of one encoding: {listed}; name each shard once, or index plain vectors with --no-manifest"
        )
    written = sum(manifest.counts.written for manifest in manifests)
    for folder, manifest in zip(folders, manifests, strict=True):
        if (read := manifest.counts.written + manifest.counts.other_shards) != written:
            raise LearnedSparseError(
                f"{folder}: its input had {read:,} documents, but all shards together hold {written:,}; "
                "the input has changed between the shards: encode them again from one input"
            )


def same_vectors(first: Sequence[Manifest], second: Sequence[Manifest]) -> bool:
    """Whether two encodings have the same files and settings; versions and locations may differ."""
    return [(m.parts, _vector_settings(m)) for m in first] == [(m.parts, _vector_settings(m)) for m in second]


def parts_sha256(manifests: Iterable[Manifest]) -> str:
    """Hash of the contents of all part files, in any order."""
    digests = sorted(part.sha256 for manifest in manifests for part in manifest.parts)
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()


def _vector_settings(manifest: Manifest) -> dict[str, object]:
    """The settings that all vectors of one index must share."""
    content = dataclasses.asdict(manifest)
    keys = ("architecture", "scoring", "encoder", "query_encoder", "quantizer", "query_quantizer")
    pruning = manifest.options.get(PRUNING, {})
    pruned = {"pruned dimensions": sorted(pruning.get("removed", [])) or None, "min_impact": pruning.get("min_impact")}
    return {key: content[key] for key in keys} | pruned


def anserini_files(folder: Path) -> list[Path]:
    """Files below ``folder`` that Anserini's JsonVectorCollection reads: others, such as ``.DS_Store``, do no harm."""
    return sorted(file for file in folder.rglob("*") if file.suffix in {".json", ".jsonl", ".gz"} and not file.is_dir())


def differences(stored: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """``{field: (stored value, current value)}`` where two JSON objects differ, with dots for nested fields.

    >>> differences({"encoder": {"max_length": 128}, "top_k": 9}, {"encoder": {"max_length": 256}, "top_k": 9})
    {'encoder.max_length': (128, 256)}
    """
    changed: dict[str, tuple[Any, Any]] = {}
    for key in sorted(stored.keys() | current.keys()):
        before, now = stored.get(key), current.get(key)
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            changed |= {f"{key}.{name}": values for name, values in differences(before, now).items()}
        elif before != now:
            changed[key] = (before, now)
    return changed


def as_text(changed: Mapping[str, tuple[Any, Any]], stored: str = "before", current: str = "now") -> str:
    """``differences`` as text; ``stored`` and ``current`` say where the values are.

    >>> as_text({"max_length": (128, 256), "top_k": (None, 9)}, "in the index", "in the encoder")
    'max_length: 128 in the index, 256 in the encoder; top_k: absent in the index, 9 in the encoder'
    """
    return "; ".join(
        f"{field}: {_short(old)} {stored}, {_short(new)} {current}" for field, (old, new) in changed.items()
    )


def versions() -> dict[str, str]:
    """Versions of this package, Python, numpy, torch and transformers, read without importing them."""
    numbers = {"learned_sparse": __version__, "python": platform.python_version()}
    for package in ("numpy", "torch", "transformers"):
        try:
            numbers[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return numbers


def _short(value: Any) -> str:
    if isinstance(value, str) and _SHA256.fullmatch(value):
        return f"{value[:12]}..."
    text = "absent" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"
