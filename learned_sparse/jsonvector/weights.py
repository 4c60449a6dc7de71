"""Documents with float weights, from other tools, become impacts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import new_output, write_json
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import SparseBatch
from learned_sparse.jsonvector.manifest import MANIFEST, Counts
from learned_sparse.jsonvector.reader import read_objects, vector_files
from learned_sparse.jsonvector.writer import LuceneTerms, open_part, write_documents

QUANTIZER = "quantizer.json"
"""Quantiser and counts, beside the files that ``quantize_vectors`` writes."""
BITS = 8
_CHUNK_LINES = 256


def quantize_vectors(
    sources: Sequence[Path],
    output: Path,
    *,
    bits: int | None = None,
    factor: float | None = None,
    overwrite: bool = False,
) -> tuple[Quantizer, Counts]:
    """Write the impacts of all documents below ``sources`` into the folder ``output``, whole or not at all.

    Without ``factor``, the largest weight of all documents becomes the largest impact of ``bits`` (default 8).
    A document that has no weight, or loses its last one to rounding, gets an empty vector, so that the number of
    documents stays. Returns the quantiser and the counts of what was read and written.
    """
    for source in sources:
        if (source / MANIFEST).is_file():
            raise LearnedSparseError(f"{source}: holds impacts already ({MANIFEST}); index it without --quantize")
    files = [file for source in sources for file in vector_files(source)]
    with new_output(output, QUANTIZER, lambda path: path.glob("vectors/[0-9]*.jsonl*"), overwrite=overwrite) as folder:
        if factor is None:
            vectors = (vector for _, vector, _ in read_objects(files, weights=True))
            largest = max((max(vector.values(), default=0) for vector in vectors), default=0)
            quantizer = Quantizer.calibrate(np.array([largest]), bits or BITS)
        else:
            quantizer = Quantizer(factor, bits)
        seen = set[int]()
        parts = [folder / "vectors" / f"{n:05d}.jsonl{'.gz' * (f.suffix == '.gz')}" for n, f in enumerate(files)]
        counts = Counts.total(
            _write(read_objects([file], weights=True, seen=seen), part, quantizer)
            for file, part in zip(files, parts, strict=True)
        )
        nonzero = {name: value for name, value in vars(counts).items() if value}
        write_json(folder / QUANTIZER, {"quantizer": asdict(quantizer), "counts": nonzero})
    return quantizer, counts


def _write(documents: Iterator[tuple[str, Any, dict[str, Any]]], path: Path, quantizer: Quantizer) -> Counts:
    total = Counts()
    with open_part(path) as part:
        while chunk := list(itertools.islice(documents, _CHUNK_LINES)):
            ids, vectors, contents = zip(*chunk, strict=True)
            impacts, statistics = quantizer.quantize(SparseBatch.from_dicts(vectors, np.float64), ids)
            write_documents(part, ids, list(map(_text, contents)), impacts, LuceneTerms(impacts.terms))
            counts = replace(Counts.of(impacts, statistics), read=len(ids), largest_sum=0)
            total = Counts.total([total, counts])
    return total


def _text(content: Mapping[str, Any]) -> str:
    """The text of a document: ``contents`` in Pyserini's files, ``content`` in those of naver/splade."""
    return next((text for key in ("contents", "content") if isinstance(text := content.get(key), str)), "")
