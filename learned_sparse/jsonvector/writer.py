"""Write files of Anserini's JsonVectorCollection: one ``{"id", "contents", "vector"}`` a line."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import orjson

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import atomic_write, new_folder
from learned_sparse.core.quantize import MAX_IMPACT
from learned_sparse.core.records import SparseBatch
from learned_sparse.core.terms import EMPTY_TERM, LuceneTerms, unfit_id_reason


class PartFile:
    """A part file that is being written; see :func:`open_part`. It is also the binary file that ``gzip`` writes to."""

    def __init__(self, file: BinaryIO, *, compress: bool) -> None:
        self._file, self._digest = file, hashlib.sha256()
        self.flush = file.flush
        # No file name and no time in the header, so that equal documents give equal bytes.
        disk = cast(BinaryIO, self)
        self._gzip = gzip.GzipFile("", "wb", fileobj=disk, mtime=0, compresslevel=6) if compress else None
        self.lines: Any = self._gzip or self
        """File to write lines to."""

    def add(self, ids: Sequence[str], texts: Sequence[str], batch: SparseBatch, terms: LuceneTerms) -> None:
        """Append documents; raises for rows that Anserini would drop, split or change."""
        check_impacts(ids, batch, terms)
        names, values, bounds = terms.names[batch.indices].tolist(), batch.values.tolist(), batch.indptr.tolist()
        for row, (name, text) in enumerate(zip(ids, texts, strict=True)):
            start, end = bounds[row], bounds[row + 1]
            vector = dict(zip(names[start:end], values[start:end], strict=True)) or {EMPTY_TERM: 1}
            content = {"id": name, "contents": text, "vector": vector}
            try:
                self.lines.write(orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE))
            except TypeError as error:
                raise LearnedSparseError(
                    f"document {name!r}: not writable as UTF-8 ({error}); correct its text"
                ) from None

    def write(self, data: bytes) -> int:
        """Write and hash bytes of the file on disk."""
        self._digest.update(data)
        return self._file.write(data)

    def close(self) -> str:
        """Write what ``gzip`` holds back; returns the SHA-256 of the file."""
        if self._gzip:
            self._gzip.close()
        return self._digest.hexdigest()


@contextlib.contextmanager
def open_part(path: Path, *, compress: bool = False) -> Iterator[PartFile]:
    """Open a part file, which appears as ``path`` when the block ends without an exception."""
    with atomic_write(path) as file:
        part = PartFile(file, compress=compress)
        try:
            yield part
        finally:
            part.close()


@contextlib.contextmanager
def new_output(
    output: Path, record: str, written: Callable[[Path], Iterable[Path]], *, overwrite: bool
) -> Iterator[Path]:
    """A temporary folder that is renamed to ``output`` if the block ends without an exception.

    A folder that is not empty is replaced only if ``overwrite`` is set and all its files are of an earlier run of the
    same command: it has the file ``record``, and every other file is one of ``written(output)``.
    """
    with new_folder(output) as folder:
        if output.exists() and not (output.is_dir() and not any(output.iterdir())):
            if not (output / record).is_file():
                raise LearnedSparseError(
                    f"{output}: exists and holds no {record} of an earlier run; name another folder"
                )
            if not overwrite:
                raise LearnedSparseError(f"{output}: holds the output of an earlier run; replace it with --overwrite")
            known = {output / record, *written(output)}
            if others := sorted(path for path in output.rglob("*") if not path.is_dir() and path not in known):
                raise LearnedSparseError(
                    f"{others[0]}: not written by the earlier run that --overwrite replaces; move it away, or name "
                    "another folder"
                )
        yield folder


def check_impacts(ids: Sequence[str], batch: SparseBatch, terms: LuceneTerms) -> None:
    """Raise if Anserini would drop, split or change an id, a term or an impact of ``batch``."""
    for name in ids:
        if reason := unfit_id_reason(name):
            raise LearnedSparseError(f"{reason}; rename it")
    if batch.values.dtype.kind not in "iu":
        raise LearnedSparseError(f"impacts are integers, got {batch.values.dtype}: quantise the weights first")
    invalid = (batch.values < 1) | (batch.values > MAX_IMPACT)
    if invalid.any():
        position = int(np.argmax(invalid))
        row = int(np.searchsorted(batch.indptr, position, side="right")) - 1
        term = batch.terms[batch.indices[position]]
        impact = batch.values[position]
        raise LearnedSparseError(f"{ids[row]!r}: term {term!r} has the impact {impact}, not 1 to {MAX_IMPACT}")
    terms.check(batch, ids)
