"""Errors that a user can correct, and how every command reports errors and messages."""

from __future__ import annotations

import contextlib
import difflib
import errno
import io
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

LOGGERS = ("learned_sparse", "encoders", "eval", "__main__")
"""Loggers whose messages a command shows; ``__main__`` is the logger of a module run with ``python -m``."""

_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class LearnedSparseError(Exception):
    """An error that the user can correct: the message names the file, the problem and a way out.

    Commands print the message without a traceback and exit with status 2.
    """


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """End of an error message about an unknown ``word``: the nearest known word, or all known words.

    >>> did_you_mean("topic", ["topics", "qrels"])
    "; did you mean 'topics'?"
    >>> did_you_mean("zzz", ["topics", "qrels"])
    '; known: qrels, topics'
    """
    names = sorted(set(known))
    close = difflib.get_close_matches(word, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(names)}"


def run_main(main: Callable[[list[str] | None], int]) -> NoReturn:
    """Run the ``main`` function of a command on ``sys.argv`` and exit with the status it returns.

    Messages of our loggers (level INFO and above) go to standard error as plain lines. ``LearnedSparseError``, a full
    disk and an unreadable or unwritable file are printed as ``error: ...`` and give status 2. Ctrl-C gives status 130
    and a closed output pipe (``| head``) gives status 141, both without a traceback. Any other exception keeps its
    traceback.
    """
    _prepare_output()
    try:
        with _messages_to_stderr():
            status = main(None)
        if sys.stdout is not None:  # None: closed by the caller (>&-)
            sys.stdout.flush()
    except LearnedSparseError as error:
        status = _report(str(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        status = 130
    except BrokenPipeError:
        status = 141
    except OSError as error:
        if error.filename is None and error.errno not in _DISK_ERRORS:
            raise
        status = _report(f"{error.filename or 'output'}: {error.strerror}")
    except UnicodeEncodeError as error:  # an argument whose bytes are not text in this locale
        status = _report(f"{error.object[:200]!r}: not text in the encoding of this locale; use UTF-8 (LC_ALL=C.UTF-8)")
    _end_output()
    sys.exit(status)


def _prepare_output() -> None:
    """Print UTF-8 (on a terminal: in its encoding), and escape what cannot be encoded.

    Files that are opened later do not take the number of a closed standard stream: Java prints to these numbers.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")


def _end_output() -> None:
    """Flush standard output; the null device takes the rest if that fails, because Python flushes again at exit."""
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _MessageHandler(logging.Handler):
    """Prints messages to standard error, above the progress bar if one is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        message = self.format(record)
        if "tqdm" in sys.modules:
            from tqdm import tqdm

            tqdm.write(message, file=sys.stderr)
        else:
            print(message, file=sys.stderr)


@contextlib.contextmanager
def _messages_to_stderr() -> Iterator[None]:
    handler = _MessageHandler()
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)


def _report(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2
