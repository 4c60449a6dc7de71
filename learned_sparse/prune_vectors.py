"""Encoded folders without the dimensions that too many documents have, written anew with a manifest that says so."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from learned_sparse.core import EMPTY_TERM, LearnedSparseError, new_folder, sha256
from learned_sparse.index import VectorFiles, encoded_files
from learned_sparse.jsonvector import (
    MANIFEST,
    PRUNING,
    Counts,
    Manifest,
    Part,
    Rule,
    numbered_lines,
    open_lines,
    read_vector_files,
)


@dataclass(frozen=True)
class Pruned:
    """What became of one encoded collection, all shards together."""

    manifests: tuple[Manifest, ...]
    """Of what is left; their options have the record."""

    @property
    def removed(self) -> Mapping[str, int]:
        """Dimension → documents that had it, the most frequent first."""
        found: dict[str, int] = self.manifests[0].options[PRUNING]["removed"]
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    @property
    def documents(self) -> int:
        """Of all shards."""
        return sum(manifest.counts.written for manifest in self.manifests)

    @property
    def postings(self) -> int:
        """That are left."""
        return sum(manifest.counts.postings for manifest in self.manifests)

    @property
    def postings_removed(self) -> int:
        """With the dimensions."""
        return sum(manifest.options[PRUNING]["postings"] for manifest in self.manifests)

    @property
    def emptied(self) -> int:
        """Documents that had other dimensions before and have none now; they are kept, with empty vectors."""
        return sum(manifest.options[PRUNING]["emptied"] for manifest in self.manifests)


def prune(
    sources: Sequence[Path],
    targets: Sequence[Path],
    rule: Rule,
    *,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Pruned:
    """Write each of ``sources`` (an encoded collection, or its shards) to the folder at the same place in ``targets``.

    How frequent a dimension is, is counted over all sources. Each target appears whole or not at all; what is there
    already by the same rule from the same sources is only checked. Nothing is encoded again: queries, and how they are
    encoded, stay as they are.
    """
    vectors = encoded_files(sources)
    asked = {"rule": rule.to_json(), "sources": sorted(sha256(source / MANIFEST) for source in sources)}
    wanted = list(map(_with_record, vectors.manifests, [asked] * len(sources)))
    there = [not overwrite and _is_there(target, manifest) for target, manifest in zip(targets, wanted, strict=True)]
    if all(there):
        say("these vectors are there already, pruned in this way")
        return Pruned(encoded_files(targets).manifests)
    for target, same in zip(targets, there, strict=True):
        _check_free(target, sources, overwrite or same)
    documents = sum(vectors.documents)
    say(f"counting the dimensions of {documents:,} documents")
    frequencies = _frequencies(sources, vectors)
    removed = rule.removed(frequencies, documents)
    if frequencies and len(removed) == len(frequencies):
        raise LearnedSparseError(f"{_named(rule)}: this removes every dimension, and nothing could be found any more")
    found = {"documents": documents, "removed": removed}
    say(f"removing {len(removed):,} of {len(frequencies):,} dimensions")
    manifests = tuple(
        _write(source, target, _with_record(manifest, found))
        for source, target, manifest in zip(sources, targets, wanted, strict=True)
    )
    pruned = Pruned(manifests)
    if pruned.postings_removed != sum(removed.values()):
        raise RuntimeError(f"{pruned.postings_removed} postings removed, {sum(removed.values())} were to be")
    return pruned


def _frequencies(sources: Sequence[Path], vectors: VectorFiles) -> Counter[str]:
    """In how many documents each dimension is."""
    frequencies = Counter[str]()
    for file in vectors.files:
        for _, vector in read_vector_files([file]):
            frequencies.update(vector.keys())
    recorded = sum(manifest.counts.postings for manifest in vectors.manifests)
    if frequencies.total() != recorded:
        names = ", ".join(map(str, sources))
        raise LearnedSparseError(
            f"{names}: {frequencies.total():,} postings, {recorded:,} by the {MANIFEST}; encode anew"
        )
    return frequencies


def _write(source: Path, target: Path, manifest: Manifest) -> Manifest:
    """Write one folder whose parts have the names and documents of ``manifest``; the finished manifest."""
    removed = frozenset(manifest.options[PRUNING]["removed"])
    with new_folder(target) as folder:
        written = [_write_part(source / part.file, folder / part.file, part, removed) for part in manifest.parts]
        sums = Counts.total(counts for _, counts in written)
        before = manifest.counts
        counts = dataclasses.replace(
            before,
            postings=sums.postings,
            empty_vectors=sums.empty_vectors,
            largest_impact=sums.largest_impact,
            largest_sum=sums.largest_sum,
        )
        if sums.written != before.written:
            raise RuntimeError(f"{source}: {before.written} documents in it, {sums.written} written")
        less = {"postings": before.postings - sums.postings, "emptied": sums.empty_vectors - before.empty_vectors}
        finished = dataclasses.replace(
            _with_record(manifest, less),
            counts=counts,
            parts=tuple(part for part, _ in written),
            warnings=tuple(manifest.document_warnings(counts)),
        )
        finished.save(folder)
    return finished


def _write_part(source: Path, target: Path, part: Part, removed: Collection[str]) -> tuple[Part, Counts]:
    """Lines that lose nothing keep their bytes."""
    documents = empty = postings = largest_impact = largest_sum = 0
    with (
        contextlib.closing(numbered_lines(source)) as lines,
        open_lines(target, compress=source.suffix == ".gz") as (out, digest),
    ):
        for _, source_line in lines:
            content = orjson.loads(source_line)
            vector = content["vector"]
            kept = {term: impact for term, impact in vector.items() if term not in removed and term != EMPTY_TERM}
            documents += 1
            postings += len(kept)
            if kept:
                largest_impact = max(largest_impact, max(kept.values()))
                largest_sum = max(largest_sum, sum(kept.values()))
            else:
                empty += 1
            left = kept or {EMPTY_TERM: 1}
            shorter = {**content, "vector": left}
            out.write(source_line if left == vector else orjson.dumps(shorter, option=orjson.OPT_APPEND_NEWLINE))
    if documents != part.documents:
        raise LearnedSparseError(f"{source}: {documents} documents, {part.documents} by the manifest; encode anew")
    counts = Counts(
        written=documents,
        empty_vectors=empty,
        postings=postings,
        largest_impact=largest_impact,
        largest_sum=largest_sum,
    )
    return dataclasses.replace(part, sha256=digest.hexdigest()), counts


def _with_record(manifest: Manifest, entries: Mapping[str, Any]) -> Manifest:
    """``manifest`` with further entries in its record of the pruning; an earlier pruning's becomes ``before``."""
    record = manifest.options.get(PRUNING, {})
    if "rule" in entries:
        record = {"before": record} if record else {}
    return dataclasses.replace(manifest, options={**manifest.options, PRUNING: {**record, **entries}})


def _is_there(target: Path, wanted: Manifest) -> bool:
    if not (target / MANIFEST).is_file():
        return False
    stored = Manifest.load(target)
    record, asked = stored.options.get(PRUNING, {}), wanted.options[PRUNING]
    same = {key: record.get(key) for key in ("rule", "sources", "before") if key in record} == asked
    options = [{key: value for key, value in of.options.items() if key != PRUNING} for of in (stored, wanted)]
    return stored.complete and same and options[0] == options[1]


def _check_free(target: Path, sources: Sequence[Path], overwrite: bool) -> None:
    if any(target.resolve() == source.resolve() for source in sources):
        raise LearnedSparseError(f"{target}: the vectors themselves; write what is left to another folder")
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not (target / MANIFEST).is_file():
        raise LearnedSparseError(f"{target}: exists and holds no encoded vectors; name another folder")
    if not overwrite:
        raise LearnedSparseError(f"{target}: other vectors are there already; replace them with --overwrite")


def _named(rule: Rule) -> str:
    ((name, value),) = rule.to_json().items()
    return f"--{name.replace('_', '-')} {value}"
