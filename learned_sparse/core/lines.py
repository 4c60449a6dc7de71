"""Lines of plain and gzip files, one at a time, in bounded memory."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Generator
from pathlib import Path

from learned_sparse.core.errors import LearnedSparseError

MAX_LINE_VARIABLE = "LEARNED_SPARSE_MAX_LINE_MB"
"""Environment variable with the maximum length of a line in MB (2**20 bytes), decompressed."""
MAX_LINE_MB = 64
"""Its default. One line of a gzip file can decompress to a thousand times the size of the file."""

_GZIP = b"\x1f\x8b"  # no UTF-8 text begins so


def raw_lines(path: Path) -> Generator[tuple[int, bytes], None, None]:
    r"""Lines with their numbers, from 1, and their line ends; only ``\n`` ends a line.

    A file named ``*.gz`` is decompressed, all members of it. ``LearnedSparseError``: no regular file (a pipe could be
    read only once), damaged gzip data, gzip data under another name, or a line longer than ``MAX_LINE_VARIABLE`` says.
    """
    number, limit = 0, _max_line_mb() << 20
    try:
        if not path.is_file():
            kind = "a folder, a pipe or a device, not a regular file" if path.exists() else "no such file"
            raise LearnedSparseError(f"{path}: {kind}")
        with path.open("rb") as raw:
            compressed = raw.peek(len(_GZIP)).startswith(_GZIP)
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
