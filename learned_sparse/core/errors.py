"""The one exception a person at the keyboard is meant to read."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class LearnedSparseError(Exception):
    """Something the user can mend: the message names the file, the thing and the way out.

    The command-line tools print the message without a traceback and exit with status 2.
    """


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``"; did you mean 'topics'?"`` for a near miss, a list of what is known otherwise.

    >>> did_you_mean("topic", ["topics", "qrels"])
    "; did you mean 'topics'?"
    >>> did_you_mean("zzz", ["topics", "qrels"])
    '; known: qrels, topics'
    """
    names = sorted(set(known))
    close = difflib.get_close_matches(word, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(names)}"
