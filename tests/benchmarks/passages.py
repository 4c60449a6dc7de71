"""English passages of about 56 words from the standard library's docstrings."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cache

from learned_sparse.collections.pydoc import docstrings, source_files, standard_library

FULL = 75
"""Number of words after which a passage ends with the current sentence."""
_MIN_WORDS = 26
_PROSE = 0.93  # share of letters and spaces: no tables, no code
_ENDS = re.compile(r"(?<=[.!?:])\s+|\n\s*\n")


def passages(number: int, seed: int = 0, full: int = FULL, *, files: int | None = None) -> list[str]:
    """``number`` passages from the running Python's documentation, drawn without replacement.

    Their lengths spread as MS MARCO's do (60 words, 83 tokens, padding 2.15 by ``described``). Another version of
    Python gives other passages. If there are too few, they are repeated in another order.
    ``files`` bounds how much of the library is read.
    """
    all_passages = _all(full, files)
    chosen: list[str] = []
    source = random.Random(seed)
    while len(chosen) < number:
        chosen += source.sample(all_passages, min(number - len(chosen), len(all_passages)))
    return chosen


@cache
def _all(full: int, files: int | None) -> list[str]:
    folder = standard_library()
    texts = docstrings(folder, source_files(folder)[:files])
    return [passage for _, text in texts for passage in cut(text, full) if _is_prose(passage)]


def cut(text: str, full: int = FULL) -> Iterator[str]:
    """Passages of whole sentences with at least ``full`` words; a remainder below 26 words is dropped."""
    words: list[str] = []
    for sentence in _ENDS.split(text):
        words += sentence.split()
        if len(words) >= full:
            yield " ".join(words[: 2 * full])
            words = []
    if len(words) >= min(_MIN_WORDS, full):
        yield " ".join(words)


def _is_prose(text: str) -> bool:
    return sum(letter.isalpha() or letter == " " for letter in text) >= _PROSE * len(text)
