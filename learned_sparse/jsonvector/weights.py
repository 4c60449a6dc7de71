"""Vectors of other tools: documents with float weights become impacts, and queries are given as vectors."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from learned_sparse.core import (
    EMPTY_TERM,
    LearnedSparseError,
    LuceneTerms,
    Quantizer,
    SparseBatch,
    new_folder,
    unfit_reason,
    write_record,
)
from learned_sparse.jsonvector.manifest import MANIFEST, Counts
from learned_sparse.jsonvector.queries import read_topics
from learned_sparse.jsonvector.reader import BadLineError, numbered_lines, parse_line, vector_files
from learned_sparse.jsonvector.writer import PartFile, open_part

QUANTIZER = "quantizer.json"
"""Quantiser and counts, beside the files that ``quantize_vectors`` writes."""
BITS = 8
_CHUNK_LINES = 256
_JSON_LINES = (".jsonl", ".json", ".jsonl.gz", ".json.gz")


class WeightReader:
    """Parses lines with weights of any kind, and checks each distinct term only once.

    Unlike ``LineReader`` it takes floats, leaves out weights of 0, and takes empty vectors.
    """

    def __init__(self) -> None:
        self._fit: set[str] = set()

    def parse(self, line: bytes) -> tuple[str, dict[str, float]]:
        """``(id, {term: weight})`` of a line, weights above 0; ``BadLineError`` for a bad line."""
        name, vector = parse_line(line)
        for term, weight in vector.items():
            if type(weight) not in (int, float) or not 0 <= weight < math.inf:
                raise BadLineError(f"{term!r} has the weight {weight!r}, not a number of 0 or more")
        if vector.keys() == {EMPTY_TERM}:
            return name, {}
        for term in vector.keys() - self._fit:
            if reason := unfit_reason(term):
                raise BadLineError(f"Lucene cannot hold the term {term!r}: {reason}")
            self._fit.add(term)
        return name, {term: weight for term, weight in vector.items() if weight}


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
    with new_folder(output) as folder:
        if output.exists() and any(output.iterdir()) and not (overwrite and (output / QUANTIZER).is_file()):
            way_out = "replace them with --overwrite" if (output / QUANTIZER).is_file() else "name another folder"
            raise LearnedSparseError(f"{output}: exists and holds files; {way_out}")
        quantizer = Quantizer(factor, bits) if factor is not None else _calibrated(files, bits or BITS)
        (folder / "vectors").mkdir()
        seen: set[str] = set()
        counts = Counts.total(
            _quantize_file(file, folder / "vectors" / f"{number:05d}.jsonl", quantizer, seen)
            for number, file in enumerate(files)
        )
        if counts.read != counts.written:
            raise LearnedSparseError(f"{output}: {counts.read:,} documents read, {counts.written:,} written")
        write_record(folder / QUANTIZER, {"quantizer": quantizer.to_json(), "counts": _nonzero(counts)})
    return quantizer, counts


def read_query_vectors(path: Path, quantizer: Quantizer | None = None) -> dict[str, dict[str, int]]:
    """``{query id: {term: impact}}`` of encoded queries.

    ``path`` is what ``read_topics`` reads (terms repeated as often as their impacts), or JSON lines with ``"id"`` and
    ``"vector"``. There, ``quantizer`` turns weights into impacts; without it they have to be integers.
    """
    if not path.name.endswith(_JSON_LINES):
        if quantizer is not None:
            raise LearnedSparseError(f"{path}: repeats terms as often as their impacts; omit --quantization-factor")
        return read_topics(path)
    if not path.is_file():
        raise LearnedSparseError(f"{path}: no such file")
    queries: dict[str, dict[str, int]] = {}
    reader = WeightReader()
    for number, line in numbered_lines(path):
        where = f"{path}:{number}"
        try:
            name, weights = reader.parse(line)
        except BadLineError as error:
            raise LearnedSparseError(f"{where}: {error}") from None
        if name in queries:
            raise LearnedSparseError(f"{where}: the query id {name!r} occurs twice; remove one of the two")
        queries[name] = _impacts(weights, quantizer, where)
    if not queries:
        raise LearnedSparseError(f"{path}: no queries")
    return queries


def _impacts(weights: Mapping[str, float], quantizer: Quantizer | None, where: str) -> dict[str, int]:
    if quantizer is None:
        for term, weight in weights.items():
            if type(weight) is not int:
                raise LearnedSparseError(
                    f"{where}: {term!r} has the weight {weight!r}, no integer; give --quantization-factor "
                    "(100 keeps two decimals)"
                )
        quantizer = Quantizer(1.0)
    impacts, _ = quantizer.quantize(SparseBatch.from_dicts([weights], np.float64))
    return impacts.row(0)


def _calibrated(files: Sequence[Path], bits: int) -> Quantizer:
    """The quantiser that maps the largest weight of all ``files`` to the largest impact of ``bits``."""
    largest = [max(vector.values(), default=0) for file in files for _, _, vector in _documents(file)]
    return Quantizer.calibrate(np.array([max(largest, default=0)]), bits)


def _quantize_file(source: Path, target: Path, quantizer: Quantizer, seen: set[str]) -> Counts:
    compress = source.suffix == ".gz"
    documents = _documents(source)
    with open_part(target.with_suffix(".jsonl.gz") if compress else target, compress=compress) as part:
        chunks = iter(lambda: list(itertools.islice(documents, _CHUNK_LINES)), [])
        return Counts.total([_quantize_chunk(chunk, part, quantizer, seen) for chunk in chunks])


def _quantize_chunk(
    documents: Sequence[tuple[str, str, dict[str, float]]], part: PartFile, quantizer: Quantizer, seen: set[str]
) -> Counts:
    ids, texts, vectors = zip(*documents, strict=True)
    for name in ids:
        if name in seen:
            raise LearnedSparseError(f"the id {name!r} occurs twice in the input; remove one of the two")
        seen.add(name)
    weights = SparseBatch.from_dicts(vectors, np.float64)
    impacts, statistics = quantizer.quantize(weights, ids)
    part.add(ids, texts, impacts, LuceneTerms(impacts.terms))
    return Counts(
        read=len(documents),
        written=len(impacts),
        empty_vectors=int(np.count_nonzero(np.diff(impacts.indptr) == 0)),
        postings=len(impacts.values),
        clipped=statistics.clipped,
        lost_to_rounding=statistics.lost_to_rounding,
        largest_impact=int(impacts.values.max(initial=0)),
    )


def _documents(file: Path) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Id, text (empty if the line has none) and weights of each line of ``file``."""
    reader = WeightReader()
    with contextlib.closing(numbered_lines(file)) as lines:
        for number, line in lines:
            try:
                name, vector = reader.parse(line)
            except BadLineError as error:
                raise LearnedSparseError(f"{file}:{number}: {error}") from None
            yield name, _text(orjson.loads(line)), vector


def _text(content: Mapping[str, Any]) -> str:
    """The text of a document: ``contents`` in Pyserini's files, ``content`` in those of naver/splade."""
    return next((text for key in ("contents", "content") if isinstance(text := content.get(key), str)), "")


def _nonzero(counts: Counts) -> dict[str, Any]:
    return {name: value for name, value in vars(counts).items() if value}
