"""Write files of Anserini's JsonVectorCollection: one ``{"id", "contents", "vector"}`` a line."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import orjson

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import new_file
from learned_sparse.core.lines import EMPTY_TERM, check_id, unfit_reason
from learned_sparse.core.quantize import MAX_IMPACT
from learned_sparse.core.records import SparseBatch


class LuceneTerms:
    """Terms of an encoder, checked once so that each batch is checked by array operations only."""

    def __init__(self, terms: Sequence[str]) -> None:
        self.names = np.empty(len(terms), dtype=object)
        """``(terms,)``: spelling of each term."""
        self.names[:] = list(terms)
        first: dict[str, int] = {}
        self.reasons = {
            number: reason or f"dimensions {first[term]} and {number} have the same spelling"
            for number, term in enumerate(terms)
            if (reason := unfit_reason(term)) or first.setdefault(term, number) != number
        }
        """Why Lucene cannot hold a term, by its number."""
        self.unfit = np.zeros(len(terms), dtype=bool)
        self.unfit[list(self.reasons)] = True


@contextlib.contextmanager
def open_part(path: Path) -> Iterator[BinaryIO]:
    """Open a part file, which appears as ``path`` when the block ends without an exception; ``*.gz`` is compressed."""
    with new_file(path) as temporary, temporary.open("wb") as file:
        if path.suffix == ".gz":
            # No file name and no time in the header, so that equal documents give equal bytes.
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0, compresslevel=6) as lines:
                yield cast(BinaryIO, lines)
        else:
            yield file


def write_documents(
    file: BinaryIO, ids: Sequence[str], texts: Sequence[str], batch: SparseBatch, terms: LuceneTerms
) -> None:
    """Append documents to a part file; raises for rows that Anserini would drop, split or change."""
    check_impacts(ids, batch, terms)
    names, values, bounds = terms.names[batch.indices].tolist(), batch.values.tolist(), batch.indptr.tolist()
    for row, (name, text) in enumerate(zip(ids, texts, strict=True)):
        start, end = bounds[row], bounds[row + 1]
        vector = dict(zip(names[start:end], values[start:end], strict=True)) or {EMPTY_TERM: 1}
        content = {"id": name, "contents": text, "vector": vector}
        try:
            file.write(orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE))
        except TypeError as error:
            raise LearnedSparseError(f"document {name!r}: not writable as UTF-8 ({error}); correct its text") from None


def check_impacts(ids: Sequence[str], batch: SparseBatch, terms: LuceneTerms) -> None:
    """Raise if Anserini would drop, split or change an id, a term or an impact of ``batch``."""
    for name in ids:
        check_id(name)
    if batch.values.dtype.kind not in "iu":
        raise LearnedSparseError(f"impacts are integers, got {batch.values.dtype}: quantise the weights first")
    invalid = (batch.values < 1) | (batch.values > MAX_IMPACT)
    if invalid.any():
        position = int(np.argmax(invalid))
        row = int(np.searchsorted(batch.indptr, position, side="right")) - 1
        term = batch.terms[batch.indices[position]]
        impact = batch.values[position]
        raise LearnedSparseError(f"{ids[row]!r}: term {term!r} has the impact {impact}, not 1 to {MAX_IMPACT}")
    unfit = terms.unfit[batch.indices]
    if unfit.any():
        position = int(np.argmax(unfit))
        row, number = int(np.searchsorted(batch.indptr, position, side="right")) - 1, int(batch.indices[position])
        raise LearnedSparseError(
            f"{ids[row]!r}: Lucene cannot hold the term {terms.names[number]!r}: {terms.reasons[number]}; "
            "spell this dimension of the model differently, or give it no weight"
        )
