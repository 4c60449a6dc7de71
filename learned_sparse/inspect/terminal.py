"""An inspection for the terminal: words on the colour of their weight, or with their weight behind them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TextIO

from learned_sparse.inspect.score import Score, ScoreTerm
from learned_sparse.inspect.setup import Inspection
from learned_sparse.inspect.view import SHADES, Term, TextView, Word, heaviest_words, pieces, shade

SOURCES = 5
"""Words shown for each term; as many as in SparTerm's Fig. 4."""
_ON = tuple(f"\x1b[38;5;16;48;5;{colour}m" for colour in (230, 223, 216, 209, 203))  # black on cream to red
_BOLD, _DIM, _OFF = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_JOINERS = "\u200c\u200d"  # parts of words in some scripts, though not printable by themselves


def wants_colour(stream: TextIO, no_color: bool, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether ``stream`` is a terminal and nobody asks for plain text: ``--no-color``, ``$NO_COLOR``, ``TERM=dumb``."""
    refused = no_color or bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
    return stream.isatty() and not refused


def to_terminal(inspection: Inspection, *, terms: int, colour: bool) -> str:
    """All of it, the ``terms`` heaviest terms of each text."""
    where = f", {inspection.index}" if inspection.index else ""
    lines = [_bold(visible(f"{inspection.model}{where}"), colour)]
    for view in (inspection.query, inspection.document):
        if view is not None:
            lines += ["", *_text(view, terms, colour)]
    if inspection.score is not None:
        lines += ["", *_score(inspection.score, terms, colour)]
    return "\n".join(lines) + "\n"


def visible(text: str) -> str:
    r"""``text`` with what could steer a terminal spelt out; line breaks stay.

    >>> visible("a\x1b[31mb\u202ec")
    'a\\x1b[31mb\\u202ec'
    """
    return "".join(
        character if character.isprintable() or character == "\n" or character in _JOINERS else ascii(character)[1:-1]
        for character in text.replace("\r\n", "\n").replace("\t", "    ")
    )


def _text(view: TextView, most: int, colour: bool) -> Iterator[str]:
    yield _bold(visible(" ".join(filter(None, [view.kind, view.id]))), colour)
    for note in view.notes:
        yield f"  note: {visible(note)}"
    heaviest = max((word.weight for word in view.words), default=0.0)
    for sequence in (0, 1):
        if view.texts[sequence]:
            words = "".join(_piece(piece, word, heaviest, colour) for piece, word in pieces(view, sequence))
            yield from [f"  {line}" for line in ("expanded by: " * sequence + words).split("\n")]
    known = [term for term in view.terms if term.literal is not None]
    own = f", {sum(bool(term.literal) for term in known):,} of the text itself" if known else ""
    more = f"; the heaviest {most:,}" if most < len(view.terms) else ""
    yield f"  {len(view.terms):,} terms{own}{more}" + (" (+: an expansion)" if known else "")
    shown = view.terms[:most]
    width = max((len(visible(term.term)) for term in shown), default=0)
    yield from (_term(view, term, width) for term in shown)


def _piece(piece: str, word: Word | None, heaviest: float, colour: bool) -> str:
    if word is None or not word.weight > 0:
        return visible(piece)
    if not colour:
        return f"{visible(piece)}[{number(word.weight)}]"
    return f"{_ON[shade(word.weight, heaviest) * len(_ON) // SHADES - 1]}{visible(piece)}{_OFF}"


def _term(view: TextView, term: Term, width: int) -> str:
    mark = "+" if term.literal is False else " "
    parts = [f"  {number(term.value):>9} {mark} {visible(term.term):<{width}}"]
    if term.sources and term.sources.shares:
        parts.append(f"<- {_shares(view, term)}")
    if term.sources and term.sources.gate:
        opened = ", ".join(
            f"{word} {number(logit)}" for word, _, logit in heaviest_words(view, term.sources.gate)[:SOURCES]
        )
        parts.append(f"(gate {term.sources.probability:.2f}: {visible(opened)})")
    return "  ".join(parts).rstrip()


def _shares(view: TextView, term: Term) -> str:
    rows = heaviest_words(view, term.sources.shares if term.sources else ())
    whole, several = sum(weight for *_, weight in rows), len(rows) > 1
    words = [
        f"{visible(word)}" + (f" {weight / whole:.0%}" if several else "") + (f" ({part})" if part else "")
        for word, part, weight in rows[:SOURCES]
    ]
    return ", ".join(words) + (f", {len(rows) - SOURCES} more" if len(rows) > SOURCES else "")


def _score(score: Score, most: int, colour: bool) -> Iterator[str]:
    asked = len(score.terms) + len(score.only_in_query)
    found = f", from {len(score.terms):,} of {asked:,} terms of the query; Lucene says {score.lucene:,.10g}"
    yield _bold(f"score {score.total:,}", colour) + found
    shown = score.terms[:most]
    width = max([4, *(len(visible(term.term)) for term in shown)])
    if shown:
        yield f"  {'term':<{width}}  {'query':>9}   {'document':>9}   {'product':>11}   share  words they come from"
    for term in shown:
        product = f"{term.query:>9} x {term.document:>9} = {term.product:>11}  {term.product / score.total:6.1%}"
        yield f"  {visible(term.term):<{width}}  {product}  {_words_of(term)}".rstrip()
    if rest := score.terms[most:]:
        yield f"  {len(rest):,} more terms = {sum(term.product for term in rest):,}"
    yield from _alone("query", score.only_in_query, most)
    yield from _alone("document", score.only_in_document, most)


def _words_of(term: ScoreTerm) -> str:
    words = (term.word_in_query, term.word_in_document)
    return " | ".join(visible(word or "?") for word in words) if any(words) else ""


def _alone(side: str, impacts: Mapping[str, int], most: int) -> Iterator[str]:
    if impacts:
        named = ", ".join(f"{visible(term)} {impact}" for term, impact in _first(impacts.items(), most))
        more = f", {len(impacts) - most:,} more" if len(impacts) > most else ""
        yield f"  only in the {side} ({len(impacts):,}): {named}{more}"


def _first(items: Iterable[tuple[str, int]], most: int) -> list[tuple[str, int]]:
    return list(items)[:most]


def number(value: float) -> str:
    """Impacts whole, weights with three digits.

    >>> number(1234), number(12.0), number(0.123456), number(3.14159)
    ('1234', '12', '0.123', '3.14')
    """
    return str(int(value)) if value == int(value) else f"{value:.3g}"


def _bold(text: str, colour: bool) -> str:
    return f"{_BOLD}{text}{_OFF}" if colour else text
