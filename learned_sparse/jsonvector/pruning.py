"""Copy encoded documents without the terms that most documents have, without the smallest impacts, or with idf."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from learned_sparse.core.errors import LearnedSparseError, progress_bar
from learned_sparse.core.files import new_output, sha256
from learned_sparse.core.lines import BM25_PREFIX, EMPTY_TERM
from learned_sparse.jsonvector.manifest import MANIFEST, PRUNING, STATISTICS, Manifest, load_manifests, parts_sha256
from learned_sparse.jsonvector.reader import by_frequency, frequent_terms, read_objects
from learned_sparse.jsonvector.writer import open_part


def prune(
    sources: Sequence[Path],
    targets: Sequence[Path],
    *,
    max_document_frequency: float | None = None,
    top_dimensions: int | None = None,
    keep_postings: float | None = None,
    idf: float | None = None,
    overwrite: bool = False,
) -> list[Manifest]:
    """Copy each of ``sources`` (an encoded collection, or its shards) to the target at the same position.

    Exactly one rule is given. Remove the terms in more than a share ``max_document_frequency`` of the documents of all
    sources (above 0, at most 1), or the ``top_dimensions`` most frequent terms (ties by code point), or the postings
    with the smallest impacts, so that at least a share ``keep_postings`` stays (equal impacts together). The last rule
    leaves BM25's postings of a hybrid alone: they are few, and each one counts. ``idf`` multiplies impacts by
    ``log(1 + documents / document frequency) ** idf`` (arXiv 2211.03988), so scaled that the largest impact stays, and
    removes those that round to 0. Documents stay, with an empty vector if need be. Returns the manifests of the
    targets, whose ``options["pruning"]`` records the rule, the removed terms with their document frequencies, and the
    smallest impact that stays.
    """
    share, top, keep = max_document_frequency, top_dimensions, keep_postings
    if [share, top, keep, idf].count(None) != 3:
        raise LearnedSparseError("give one of --max-document-frequency, --top-dimensions, --keep-postings and --idf")
    if idf is not None and not 0 < idf <= 2:
        raise LearnedSparseError(f"--idf {idf}: give a power above 0 and at most 2")
    for option, value in (("--max-document-frequency", share), ("--keep-postings", keep)):
        if value is not None and not 0 < value <= 1:
            raise LearnedSparseError(f"{option} {value}: give a share above 0 and at most 1")
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
        record = {"documents": documents, "source_sha256": parts_sha256(manifests)}
        factors: Mapping[str, float] = {}
        if idf is not None:
            if _whole(manifests[0]):
                raise LearnedSparseError("--idf: these vectors have BM25, and so idf; give those of the model alone")
            record |= {"rule": {"idf": idf}, "removed": {}}
            factors = _idf_factors(vectors, documents, idf)
        elif keep is not None:
            record |= {"rule": {"keep_postings": keep}, "removed": {}}
            record["min_impact"] = _min_impact(vectors, keep, _whole(manifests[0]))
        else:
            frequencies = Counter(itertools.chain.from_iterable(vectors))
            if share is not None:
                removed, rule = frequent_terms(frequencies, documents, share), {"max_document_frequency": share}
            else:
                removed, rule = dict(by_frequency(frequencies)[:top]), {"top_dimensions": top or 0}
            if frequencies and len(removed) == len(frequencies):
                option = f"--max-document-frequency {share}" if top is None else f"--top-dimensions {top}"
                raise LearnedSparseError(f"{option}: removes every term; no query could match")
            record |= {"rule": rule, "removed": removed}
        targets_of = zip(sources, folders, manifests, strict=True)
        return [_copy(source, folder, manifest, record, factors) for source, folder, manifest in targets_of]


def _whole(manifest: Manifest) -> tuple[str, ...]:
    """Prefixes of the terms that lose no posting to ``keep_postings``: those of BM25 in a hybrid."""
    return (BM25_PREFIX,) if "hybrid" in manifest.encoder else ()


def _min_impact(vectors: Iterable[Mapping[str, int]], keep: float, whole: tuple[str, ...]) -> int:
    """The largest impact that at least a share ``keep`` of the postings reach, those of ``whole`` not counted."""
    postings = Counter(n for vector in vectors for term, n in vector.items() if not term.startswith(whole))
    kept = itertools.accumulate(postings[impact] for impact in sorted(postings, reverse=True))
    reached = zip(sorted(postings, reverse=True), kept, strict=True)
    return next((impact for impact, count in reached if count >= keep * postings.total()), 1)


def _idf_factors(vectors: Iterable[Mapping[str, int]], documents: int, power: float) -> dict[str, float]:
    """Factor of each term; the largest product with an impact is the largest impact."""
    frequencies, largest = Counter[str](), dict[str, int]()
    for vector in vectors:
        frequencies.update(vector.keys())
        largest |= {term: impact for term, impact in vector.items() if impact > largest.get(term, 0)}
    idf = {term: math.log(1 + documents / frequency) ** power for term, frequency in frequencies.items()}
    unit = max(largest.values(), default=1) / max((idf[term] * largest[term] for term in idf), default=1)
    return {term: factor * unit for term, factor in idf.items()}


def _written(folder: Path) -> list[Path]:
    """Files of a pruned folder; the encoder's own folders, which record no pruning, are never replaced."""
    manifest = Manifest.load(folder)
    if PRUNING not in manifest.options:
        raise LearnedSparseError(f"{folder}: written by learned_sparse.encode; name another folder")
    return [folder / name for name in (STATISTICS, *(part.file for part in manifest.parts))]


def _copy(
    source: Path, folder: Path, manifest: Manifest, record: Mapping[str, Any], factors: Mapping[str, float]
) -> Manifest:
    """Write one target into ``folder``; the record of an earlier pruning is kept under ``before``."""
    before = {"before": manifest.options[PRUNING]} if PRUNING in manifest.options else {}
    pruned = dataclasses.replace(manifest, options={**manifest.options, PRUNING: {**record, **before}})
    removed, smallest, whole = record["removed"], record.get("min_impact", 1), _whole(manifest)
    empty = postings = largest_impact = largest_sum = 0
    written = []
    for part in progress_bar(manifest.parts, f"pruning {source.name}", "files"):
        with open_part(folder / part.file) as out:
            for _, vector, content in read_objects([source / part.file]):
                if factors:
                    vector = {term: round(impact * factors[term]) for term, impact in vector.items()}
                impacts = {
                    term: impact
                    for term, impact in vector.items()
                    if term not in removed and (impact >= smallest or term.startswith(whole))
                }
                line = {**content, "vector": impacts or {EMPTY_TERM: 1}}
                out.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
                empty += not impacts
                postings += len(impacts)
                largest_impact = max(largest_impact, *impacts.values(), 0)
                largest_sum = max(largest_sum, sum(impacts.values()))
        written.append(dataclasses.replace(part, sha256=sha256(folder / part.file)))
    if (source / STATISTICS).is_file():
        shutil.copyfile(source / STATISTICS, folder / STATISTICS)
    counts = dataclasses.replace(
        manifest.counts, postings=postings, empty_vectors=empty, largest_impact=largest_impact, largest_sum=largest_sum
    )
    return pruned.finish(folder, written, counts)
