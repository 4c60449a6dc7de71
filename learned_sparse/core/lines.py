"""Lines of plain and gzip files, one at a time, in bounded memory."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Generator
from pathlib import Path

from learned_sparse.core.errors import LearnedSparseError, folder_kind, not_found

MAX_LINE_VARIABLE = "LEARNED_SPARSE_MAX_LINE_MB"
"""Environment variable with the maximum length of a line in MB (2**20 bytes), decompressed."""
MAX_LINE_MB = 64
"""Its default. One line of a gzip file can decompress to a thousand times the size of the file."""

_GZIP = b"\x1f\x8b"  # no UTF-8 text begins so
_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive or an Excel file; unpack it, or save the sheet as tab-separated text",
    b"%PDF-": "a PDF file; extract its text into JSON lines",
    b"PAR1\x15": "a Parquet file; convert it to JSON lines",
    b"(\xb5/\xfd": "zstd data; unpack it, or compress it with gzip",
    b"\xff\xfe": "UTF-16 text; convert it with iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "UTF-16 text; convert it with iconv -f UTF-16 -t UTF-8",
}
"""First bytes of files that hold no lines of UTF-8, and the way out."""


def raw_lines(path: Path) -> Generator[tuple[int, bytes], None, None]:
    r"""Lines with their numbers, from 1, and their line ends; only ``\n`` ends a line.

    A file named ``*.gz`` is decompressed, all members of it. ``LearnedSparseError``: no regular file (a pipe could be
    read only once), a file of another format such as Excel's, damaged gzip data, gzip data under another name, or a
    line longer than ``MAX_LINE_VARIABLE`` says.
    """
    number, limit = 0, _max_line_mb() << 20
    try:
        if not path.is_file():
            if not path.exists():
                raise not_found(path)
            kind = folder_kind(path) or "a folder" if path.is_dir() else "a pipe or a device"
            raise LearnedSparseError(f"{path}: {kind}, not a regular file; name a file")
        with path.open("rb") as raw:
            first = raw.peek(8)
            if problem := next((text for start, text in _OTHER_FORMATS.items() if first.startswith(start)), ""):
                raise LearnedSparseError(f"{path}:1: {problem}")
            compressed = first.startswith(_GZIP)
            if compressed != (path.suffix == ".gz"):
                problem = "gzip data, but not named .gz" if compressed else "named .gz, but not gzip data"
                raise LearnedSparseError(f"{path}: {problem}; rename the file")
            file = io.BufferedReader(gzip.GzipFile(fileobj=raw)) if compressed else raw
            while line := file.readline(limit + 1):
                number += 1
                if len(line) > limit:
                    raise LearnedSparseError(
                        f"{path}:{number}: a line longer than {limit >> 20} MB; is this a file of lines? "
                        f"If it is, set {MAX_LINE_VARIABLE} to a larger number"
                    )
                yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LearnedSparseError(
            f"{path}:{number + 1}: damaged or cut-off gzip data ({error}); get the file again"
        ) from error
    except OSError as error:
        raise LearnedSparseError(f"{path}: cannot be read ({error.strerror or error})") from error


def _max_line_mb() -> int:
    text = os.environ.get(MAX_LINE_VARIABLE) or str(MAX_LINE_MB)
    if not (text.isascii() and text.isdigit() and len(text) < 9 and 0 < int(text) <= 2**20):
        raise LearnedSparseError(f"{MAX_LINE_VARIABLE}={text}: give a number of MB, 1 to {2**20:,}")
    return int(text)
