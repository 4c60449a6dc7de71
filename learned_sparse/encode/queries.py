"""Queries through an encoder into the two files that stock Pyserini reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from learned_sparse.core import Encoder, LearnedSparseError, LuceneTerms, Quantizer, Query, SparseBatch, sha256
from learned_sparse.encode.parts import Describe, PartFolder, largest_sum
from learned_sparse.encode.quantizers import Calibration
from learned_sparse.jsonvector import ENCODED, TOPICS, Counts, Manifest, Part, write_queries

WINDOW = 2048
"""Queries in one call of the encoder."""


def encode_queries(
    folder: Path,
    queries: Sequence[Query],
    encoder: Encoder,
    quantizer: Quantizer | Calibration,
    describe: Describe,
    *,
    resume: bool = False,
    overwrite: bool = False,
    say: Callable[[str], None],
) -> Manifest:
    """Write ``queries.tsv``, ``queries.jsonl`` and the manifest.

    Queries are few: a resumed run compares the settings, then does everything again.
    """
    if not queries:
        raise LearnedSparseError(f"{folder}: there are no queries to encode")
    found = quantizer if isinstance(quantizer, Quantizer) else None
    stored = PartFolder(folder, compress=False).begin(describe, found, resume=resume, overwrite=overwrite)
    ids, texts = [query.id for query in queries], [query.text for query in queries]
    weights = SparseBatch.concatenate(
        [encoder.encode(texts[start : start + WINDOW]) for start in range(0, len(texts), WINDOW)]
    )
    if isinstance(quantizer, Calibration):
        found = stored.quantizer if stored is not None else quantizer.find(weights, ids)
        say(f"quantiser calibrated on {len(ids)} queries: factor {found.scale:.6g}, {found.bits} bits")
    else:
        found = quantizer
    impacts, statistics = found.quantize(weights, ids)
    manifest = dataclasses.replace(describe(found), complete=False)
    manifest.save(folder)
    warnings = write_queries(folder, queries, impacts, LuceneTerms(encoder.terms))
    counts = Counts(
        read=len(queries),
        written=len(impacts),
        empty_vectors=int(np.count_nonzero(np.diff(impacts.indptr) == 0)),
        postings=statistics.postings,
        clipped=statistics.clipped,
        lost_to_rounding=statistics.lost_to_rounding,
        largest_impact=int(impacts.values.max(initial=0)),
        largest_sum=largest_sum(impacts),
    )
    files = tuple(Part(file=name, documents=len(queries), sha256=sha256(folder / name)) for name in (TOPICS, ENCODED))
    finished = dataclasses.replace(manifest, complete=True, counts=counts, parts=files, warnings=tuple(warnings))
    finished.save(folder)
    return finished
