"""The numbered lines of a text file, plain or gzip, as bytes."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from learned_sparse.core import LearnedSparseError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WHITE_SPACE = re.compile(r"[ \t\n\r\x0b\f]")


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    r"""``(1, first line)`` and so on, without line ends (``\n`` or ``\r\n``), lines of white space left out.

    A file named ``*.gz`` is decompressed on the way; nothing but the current line is kept.
    """
    number = 0
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                line = line.rstrip(b"\r\n")
                if number == 1:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                if line.strip(b" "):
                    yield number, line
    except FileNotFoundError:
        raise LearnedSparseError(f"{path}: no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LearnedSparseError(f"{path}:{number + 1}: damaged or cut-off gzip data; fetch the file again") from error
    except OSError as error:
        raise LearnedSparseError(f"{path}: cannot be read ({error.strerror})") from error


def decode(line: bytes, where: str) -> str:
    """The text of a line; ``LearnedSparseError`` where it is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LearnedSparseError(f"{where}: {not_utf8(error)}; convert the file to UTF-8") from None


def columns(line: bytes, where: str) -> list[str]:
    """The columns between runs of ASCII white space, as trec_eval sees them: a no-break space parts nothing."""
    decode(line, where)
    return [column.decode("utf-8") for column in line.split()]


def has_white_space(text: str) -> bool:
    """Whether ``columns`` would take ``text`` apart."""
    return _WHITE_SPACE.search(text) is not None


def not_utf8(error: UnicodeDecodeError) -> str:
    """What is wrong, for people: ``not UTF-8: byte 0xe9 at column 17``."""
    return f"not UTF-8: byte 0x{error.object[error.start]:02x} at column {error.start + 1}"


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")
