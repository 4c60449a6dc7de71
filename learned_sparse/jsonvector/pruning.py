"""Copy encoded documents without the terms that most documents have."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import shutil
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from learned_sparse.core.errors import LearnedSparseError, progress_bar
from learned_sparse.core.terms import EMPTY_TERM
from learned_sparse.jsonvector.manifest import (
    MANIFEST,
    PRUNING,
    STATISTICS,
    Counts,
    Manifest,
    Part,
    load_manifests,
    parts_sha256,
)
from learned_sparse.jsonvector.reader import by_frequency, frequent_terms, read_objects
from learned_sparse.jsonvector.writer import new_output, open_part


def prune(
    sources: Sequence[Path],
    targets: Sequence[Path],
    *,
    max_document_frequency: float | None = None,
    top_dimensions: int | None = None,
    overwrite: bool = False,
) -> list[Manifest]:
    """Copy each of ``sources`` (an encoded collection, or its shards) to the target at the same position.

    Exactly one rule is given: remove the terms in more than a share ``max_document_frequency`` of the documents of all
    sources (above 0, at most 1), or the ``top_dimensions`` most frequent terms (ties by code point). Documents stay,
    with an empty vector if need be. Returns the manifests of the targets, whose ``options["pruning"]`` records the rule
    and the removed terms with their document frequencies.
    """
    share, top = max_document_frequency, top_dimensions
    if (share is None) == (top is None):
        raise LearnedSparseError("give one of --max-document-frequency SHARE and --top-dimensions N")
    if share is not None and not 0 < share <= 1:
        raise LearnedSparseError(f"--max-document-frequency {share}: give a share above 0 and at most 1")
    if top is not None and top < 0:
        raise LearnedSparseError(f"--top-dimensions {top}: give 0 or more")
    if same := {target.resolve() for target in targets} & {source.resolve() for source in sources}:
        raise LearnedSparseError(f"{same.pop()}: is the input; write to another folder")
    with contextlib.ExitStack() as stack:  # all targets are written before the first one is replaced
        folders = [stack.enter_context(new_output(t, MANIFEST, _written, overwrite=overwrite)) for t in targets]
        manifests = load_manifests(sources)
        documents = sum(manifest.counts.written for manifest in manifests)
        files = [source / part.file for source, m in zip(sources, manifests, strict=True) for part in m.parts]
        vectors = progress_bar((vector for _, vector, _ in read_objects(files)), "counting", "documents", documents)
        frequencies = Counter(itertools.chain.from_iterable(vectors))
        if share is not None:
            removed = frequent_terms(frequencies, documents, share)
            name, value = "max_document_frequency", share
        else:
            removed = dict(by_frequency(frequencies)[:top])
            name, value = "top_dimensions", top or 0
        if frequencies and len(removed) == len(frequencies):
            raise LearnedSparseError(f"--{name.replace('_', '-')} {value}: removes every term; no query could match")
        record = {
            "rule": {name: value}, "documents": documents, "removed": removed, "source_sha256": parts_sha256(manifests),
        }  # fmt: skip
        return [_copy(s, f, manifest, record) for s, f, manifest in zip(sources, folders, manifests, strict=True)]


def _written(folder: Path) -> list[Path]:
    """Files of a pruned folder; the encoder's own folders, which record no pruning, are never replaced."""
    manifest = Manifest.load(folder)
    if PRUNING not in manifest.options:
        raise LearnedSparseError(f"{folder}: written by learned_sparse.encode; name another folder")
    return [folder / name for name in (STATISTICS, *(part.file for part in manifest.parts))]


def _copy(source: Path, folder: Path, manifest: Manifest, record: Mapping[str, Any]) -> Manifest:
    """Write one target into ``folder``; the record of an earlier pruning is kept under ``before``."""
    before = {"before": manifest.options[PRUNING]} if PRUNING in manifest.options else {}
    pruned = dataclasses.replace(manifest, options={**manifest.options, PRUNING: {**record, **before}})
    parts = progress_bar(manifest.parts, f"pruning {source.name}", "files")
    written = [_copy_part(source / part.file, folder / part.file, part, record["removed"]) for part in parts]
    if (source / STATISTICS).is_file():
        shutil.copyfile(source / STATISTICS, folder / STATISTICS)
    totals = Counts.total(counts for _, counts in written)
    changed = ("postings", "empty_vectors", "largest_impact", "largest_sum")
    counts = dataclasses.replace(manifest.counts, **{name: getattr(totals, name) for name in changed})
    return pruned.finish(folder, [part for part, _ in written], counts)


def _copy_part(source: Path, target: Path, part: Part, removed: Collection[str]) -> tuple[Part, Counts]:
    empty = postings = largest_impact = largest_sum = 0
    with open_part(target, compress=source.suffix == ".gz") as out:
        for _, vector, content in read_objects([source]):
            impacts = {term: impact for term, impact in vector.items() if term not in removed}
            pruned = {**content, "vector": impacts or {EMPTY_TERM: 1}}
            out.lines.write(orjson.dumps(pruned, option=orjson.OPT_APPEND_NEWLINE))
            empty += not impacts
            postings += len(impacts)
            largest_impact = max(largest_impact, *impacts.values(), 0)
            largest_sum = max(largest_sum, sum(impacts.values()))
    counts = Counts(empty_vectors=empty, postings=postings, largest_impact=largest_impact, largest_sum=largest_sum)
    return dataclasses.replace(part, sha256=out.close()), counts
