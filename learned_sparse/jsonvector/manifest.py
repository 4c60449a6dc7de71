"""What made these vectors: kept beside the files it describes, and compared before anything is mixed with them."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from learned_sparse import __version__
from learned_sparse.core import LearnedSparseError, Quantizer, parse, read_json, sha256, write_json

MANIFEST = "manifest.json"
FORMAT = 1
EXACT_FLOATS = 2**24
"""Lucene's scores are 32-bit floats: integers up to here are exact."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One finished file; ``file`` is relative to the folder."""

    file: str
    documents: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What went in and what came out; ``read = written + other_shards + skipped`` (all reasons)."""

    read: int = 0
    """Texts in the input, good and bad; with ``segmented``, the segments and the bad documents."""
    segmented: int = 0
    """Documents that were cut into segments: the texts that all else counts."""
    skipped: dict[str, int] = field(default_factory=dict)
    other_shards: int = 0
    """Texts that another shard writes."""
    written: int = 0
    expanded: int = 0
    """Texts encoded together with what expands them."""
    truncated: int = 0
    """Texts cut at the maximum length."""
    unwritable: int = 0
    """Weights the encoder left out because Lucene cannot hold their terms."""
    empty_vectors: int = 0
    postings: int = 0
    clipped: int = 0
    lost_to_rounding: int = 0
    largest_impact: int = 0
    largest_sum: int = 0
    """The largest sum of the impacts of one text."""
    largest_segments: int = 0
    """The most segments of one document."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """``manifest.json`` of encoded documents or queries. Equal input gives equal bytes: no time, no place."""

    format: int = FORMAT
    kind: Literal["documents", "queries"]
    complete: bool = False
    """Set by the very last write; an incomplete folder is not to be indexed."""
    collection: str | None
    split: str | None = None
    model: str
    checkpoint: str
    """As given; ``encoder`` holds the hashes that decide."""
    architecture: str
    scoring: Literal["impact", "bm25"]
    encoder: dict[str, Any]
    """``Encoder.description`` of the side that made these vectors."""
    query_encoder: dict[str, Any] | None = None
    """``Encoder.description`` of the query side these documents are to be searched with; null for queries."""
    quantizer: Quantizer
    query_quantizer: Quantizer | None = None
    input: tuple[dict[str, Any], ...] = ()
    """``{"file", "bytes"}`` of each input file; none for the embedded collection."""
    options: dict[str, Any] = field(default_factory=dict)
    counts: Counts = Counts()
    parts: tuple[Part, ...] = ()
    warnings: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """JSON values only, as the file holds them."""
        content = dataclasses.asdict(self)
        return {key: list(value) if isinstance(value, tuple) else value for key, value in content.items()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], where: str) -> Manifest:
        """The inverse of ``to_json``; ``where`` opens every error message."""
        if content.get("format") != FORMAT:
            raise LearnedSparseError(
                f"{where}: format {content.get('format')!r}, this version knows {FORMAT}; encode anew with --overwrite"
            )
        return parse(cls, content, where)

    def save(self, folder: Path) -> None:
        """Write ``folder/manifest.json``, whole or not at all."""
        write_json(folder / MANIFEST, self.to_json())

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read ``folder/manifest.json``."""
        path = folder / MANIFEST
        if not path.is_file():
            raise LearnedSparseError(f"{path}: no such file; is {folder} a folder that learned_sparse.encode wrote?")
        content = read_json(path)
        if not isinstance(content, Mapping):
            raise LearnedSparseError(f"{path}: expected an object, got {type(content).__name__}")
        return cls.from_json(content, str(path))

    def settings(self) -> dict[str, Any]:
        """What must be equal before more vectors are added: all but the outcome and the place of the checkpoint."""
        outcome = {"complete", "counts", "parts", "warnings", "checkpoint"}
        return {key: value for key, value in self.to_json().items() if key not in outcome}

    def problems(self, folder: Path) -> Iterator[str]:
        """What in ``folder`` is not as this manifest says: missing, changed or unknown files, counts that differ."""
        if not self.complete:
            yield f"{folder / MANIFEST}: not complete; run learned_sparse.encode with --resume"
        for part in self.parts:
            path = folder / part.file
            if not path.is_file():
                yield f"{path}: missing"
            elif sha256(path) != part.sha256:
                yield f"{path}: not the bytes the manifest records"
        if self.kind == "documents" and self.complete:
            known = {folder / part.file for part in self.parts}
            unknown = [path for path in sorted((folder / "vectors").glob("*")) if path not in known]
            yield from (f"{path}: not in the manifest" for path in unknown)
            total = sum(part.documents for part in self.parts)
            if total != self.counts.written:
                yield f"{folder / MANIFEST}: {total} documents in the parts, {self.counts.written} written"


def differences(stored: Mapping[str, Any], current: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The fields in which two JSON objects differ, one line each, nested fields with dots.

    >>> differences({"encoder": {"max_length": 128}, "top_k": 9}, {"encoder": {"max_length": 256}, "top_k": 9})
    ['encoder.max_length: 128 before, 256 now']
    """
    lines: list[str] = []
    for key in sorted(stored.keys() | current.keys()):
        before, now = stored.get(key), current.get(key)
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            lines += differences(before, now, f"{prefix}{key}.")
        elif before != now:
            lines.append(f"{prefix}{key}: {_short(before)} before, {_short(now)} now")
    return lines


def exactness_warning(largest_sum: int, largest_query_impact: int) -> str | None:
    """A warning when a score can exceed what Lucene's 32-bit floats hold exactly; None otherwise.

    No score exceeds the largest sum of a document's impacts times the largest query impact (nor the same with the two
    sides swapped).
    """
    bound = largest_sum * largest_query_impact
    if bound <= EXACT_FLOATS:
        return None
    return (
        f"scores may reach {bound:,}, above {EXACT_FLOATS:,} where Lucene's float scores stop being exact; documents "
        "so close together may then change places: quantise with a smaller factor or fewer bits"
    )


def versions() -> dict[str, str]:
    """Of this package, Python, and what computes the weights, read without importing them."""
    found = {"learned_sparse": __version__, "python": platform.python_version()}
    for package in ("numpy", "torch", "transformers"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _short(value: Any) -> str:
    text = "absent" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"
