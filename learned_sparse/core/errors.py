"""Errors that a user can correct, and how every command reports errors, messages and progress."""

from __future__ import annotations

import difflib
import errno
import io
import logging
import math
import os
import re
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any, NoReturn

LOGGERS = ("learned_sparse", "encoders", "eval", "__main__")
"""Loggers whose messages a command shows; ``__main__`` is the logger of a module run with ``python -m``."""

DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_SOLUTIONS = {
    **dict.fromkeys(DISK_FULL, "free disk space"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "use another folder, or change the permissions"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit of open files (ulimit -n)"),
    **dict.fromkeys((errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY), "use another path"),
    errno.ENOENT: "check the path; if it was removed while the command ran, run the command again",
    errno.EIO: "check the disk, or use another one",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.ENOMEM: "free memory, or use a smaller --batch-size",
}
"""What the user can do about an error of the operating system, by its number."""
_KINDS = (
    ("a Lucene index", "segments_*"),
    ("a Lucene index", "*/segments_*"),
    ("encoded queries", "queries.tsv", "manifest.json"),
    ("encoded documents", "manifest.json", "vectors"),
    ("a checkpoint", "learned_sparse.json"),
    ("a checkpoint", "modules.json"),
    ("a model of transformers", "config.json"),
    ("a test collection", "qrels/*.tsv*"),
    ("a test collection", "qrels.*.tsv*"),
)
"""What a folder is, by names of its files; a name without "." matches no extension. The first match decides."""
SIMILAR_NAME = 0.75
"""Ratio of ``difflib`` from which the name of an option, or of a file beside a missing one, is suggested."""
MAX_SUGGESTIONS = 5
"""Longer words that are suggested for the beginning of a word."""


Command = Callable[[list[str] | None], int]
"""The ``main`` function of a command."""


class LearnedSparseError(Exception):
    """An error that the user can correct: the message names the file, the problem and a way out.

    Commands print the message without a traceback and exit with status 2.
    """


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """End of an error message about an unknown ``word``: the nearest known word, or all known words.

    ``cutoff``: ratio of ``difflib`` from which a word is near, whatever the case of its letters.

    >>> did_you_mean("topic", ["topics", "qrels"])
    "; did you mean 'topics'?"
    >>> did_you_mean("NCDG", ["nDCG", "MAP"])
    "; did you mean 'nDCG'?"
    >>> did_you_mean("zzz", ["topics", "qrels"])
    '; known: qrels, topics'
    >>> did_you_mean("splade", ["spade", "splade-doc", "splade-l1"])
    "; did you mean 'splade-doc' or 'splade-l1'?"
    """
    names = sorted(set(known))
    longer = [repr(name) for name in names if word and name.startswith(word)]
    if 1 < len(longer) <= MAX_SUGGESTIONS:
        return f"; did you mean {', '.join(longer[:-1])} or {longer[-1]}?"
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=cutoff)
    return f"; did you mean {folded[close[0]]!r}?" if close else f"; known: {', '.join(names)}"


def folder_kind(path: Path) -> str:
    """What a path holds, by the names of its files: "a Lucene index", "a checkpoint", ...; empty if unknown.

    >>> folder_kind(Path(__file__)), folder_kind(Path(__file__).parent)
    ('a file', '')
    """
    if not path.is_dir():
        return "a file" if path.exists() else ""
    if not any(path.iterdir()):
        return "an empty folder"

    for kind, *names in _KINDS:
        if all(any("." in name or not file.suffix for file in path.glob(name)) for name in names):
            return kind
    return ""


def not_found(path: str | Path, what: str = "file", way_out: str = "check the path") -> LearnedSparseError:
    """The error for a missing ``path``: the nearest name beside it, else ``way_out``; of a relative path the folder."""
    path = Path(path)
    try:
        if path.is_symlink():
            return LearnedSparseError(f"{path}: a link to {path.readlink()}, which does not exist; {way_out}")
        beside = [file.name for file in path.parent.iterdir()]
    except (OSError, ValueError):  # a name that is too long; ValueError: NUL in the name
        beside = []
    close = difflib.get_close_matches(path.name, beside, n=1, cutoff=SIMILAR_NAME)
    hint = f"did you mean {str(path.with_name(close[0]))!r}?" if close else way_out
    below = "" if path.is_absolute() else f" (the current folder is {Path.cwd()})"
    return LearnedSparseError(f"{path}: no such {what}; {hint}{below}")


def wrong_path(path: Path, wanted: str, way_out: str, what: str = "folder") -> LearnedSparseError:
    """The error for a ``path`` that is not ``wanted``, with what it is, or for a missing one."""
    try:
        kind = folder_kind(path)
    except OSError:  # no permission, or a name that is too long
        kind = ""
    if not os.path.lexists(path):
        return not_found(path, what, way_out)
    return LearnedSparseError(f"{path}: {kind}{', ' if kind else ''}not {wanted}; {way_out}")


def positive_impacts(query: Mapping[str, int] | str, largest: float = math.inf) -> dict[str, int]:
    """The terms of ``query`` with an impact above 0; a term of impact 0 matches nothing.

    Raise unless ``query`` is ``{term: impact}`` with whole numbers from 0 to ``largest``.
    """
    if isinstance(query, str):
        raise LearnedSparseError(
            f"a query is {{term: impact}}, not a text: search(queries.encode({query[:60]!r})), with queries = "
            "QueryEncoder.from_index(INDEX)"
        )
    for term, impact in query.items():
        if isinstance(impact, bool) or not isinstance(impact, Integral) or not 0 <= impact <= largest:
            raise LearnedSparseError(
                f"query term {term!r} has the impact {impact!r}, not a whole number from 0 to {largest:,}"
            )
    return {term: impact for term, impact in query.items() if impact}


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "document"), counted(1200, "document"), counted(2, "query")
    ('1 document', '1,200 documents', '2 queries')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def progress_bar(items: Iterable[Any] | None, description: str, unit: str, total: int | None = None) -> Any:
    """``items`` under a progress bar, or without items a bar to ``update``; shown only if standard error is a terminal.

    ``total``: number of items, if known. A bar is a context manager, and disappears when it ends.
    """
    from tqdm import tqdm

    return tqdm(items, desc=description, unit=f" {unit}", total=total, disable=None, leave=False, dynamic_ncols=True)


def run_main(main: Command, way_on: str = "") -> NoReturn:
    """Run the ``main`` function of a command on ``sys.argv`` and exit with the status it returns.

    Messages of our loggers (level INFO and above) go to standard error as plain lines. ``LearnedSparseError``, errors
    of the operating system (a full disk, missing permissions) and a lack of memory are printed as ``error: ...`` and
    give status 2. Ctrl-C gives status 130, SIGTERM 143 and a closed output pipe (``| head``) 141, all without a
    traceback and after temporary files are removed. Any other exception keeps its traceback. ``way_on``: how to
    continue the command, printed after Ctrl-C.
    """
    for stream in (sys.stdout, sys.stderr):  # UTF-8, on a terminal its encoding; what cannot be encoded is escaped
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")
    from tqdm.contrib.logging import logging_redirect_tqdm  # above the progress bars that are shown

    levels = {logger: logger.level for logger in map(logging.getLogger, LOGGERS)}
    for logger in levels:
        logger.setLevel(logging.INFO)
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _leave) if in_main_thread else None
    try:
        with logging_redirect_tqdm(list(levels)):
            status = main(None)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"interrupted; {way_on}" if way_on else "interrupted", file=sys.stderr)
        status = 130
    except Exception as error:
        message, status = _message(error), 2
        if isinstance(error, BrokenPipeError) and _output_is_closed():
            status = 141
        elif message is None:
            raise
        else:
            print(f"error: {message}", file=sys.stderr)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
        for logger, level in levels.items():
            logger.setLevel(level)
    sys.exit(status)


def _output_is_closed() -> bool:
    """Whether the reader of standard output has gone. If so, redirect it to the null device: Python flushes at exit."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    closed = any(event & select.POLLERR for _, event in poll.poll(0))
    if closed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return closed


def error_number(error: BaseException) -> int | None:
    """Number of the error of the operating system; libraries in Rust (safetensors, tokenizers) have it in the text."""
    if isinstance(error, OSError):
        return error.errno
    match = re.search(r"\(os error (\d+)\)", str(error))
    return int(match[1]) if match else None


def unwritable(path: str | Path, error: BaseException) -> LearnedSparseError:
    """The error for an output file or folder that cannot be written because of ``error``."""
    number = error_number(error)
    cause = os.strerror(number) if number else str(error)
    solution = _SOLUTIONS.get(number or 0, "use another folder")
    return LearnedSparseError(f"{path}: cannot be written ({cause}); {solution}")


def _message(error: Exception) -> str | None:
    """The message about an error that is the user's to solve."""
    if isinstance(error, LearnedSparseError):
        return str(error)
    if isinstance(error, UnicodeEncodeError):  # an argument whose bytes are not text in this locale
        return f"{error.object[:200]!r}: not text in the encoding of this locale; use UTF-8 (LC_ALL=C.UTF-8)"
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] not in LOGGERS:
        from learned_sparse import missing_package

        return missing_package(error)
    if "java.lang.OutOfMemoryError" in str(error):
        return "Java ran out of memory; give it more with --heap or LEARNED_SPARSE_JAVA_HEAP"
    lack = "out of memory|can't allocate memory|can't start new thread|could not create a primitive$"  # oneDNN's
    if isinstance(error, MemoryError) or re.search(lack, str(error)):
        return "ran out of memory; free memory, or use a smaller --batch-size or fewer --threads"
    number, file = error_number(error) or 0, getattr(error, "filename", None)
    if number in _SOLUTIONS:
        return f"{file or 'output'}: {os.strerror(number)}; {_SOLUTIONS[number]}"
    return f"{file}: {error.strerror}" if isinstance(error, OSError) and file is not None else None


def _leave(number: int, _: object) -> NoReturn:
    """Raise ``SystemExit`` at SIGTERM, so that temporary files are removed; a second one ends the process at once."""
    signal.signal(number, signal.SIG_DFL)
    raise SystemExit(128 + number)
