"""An inspection on the terminal, in colour or as plain text, with the tables of rich."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from learned_sparse.inspect.explanation import Inspection, Score, Term, TextView

if TYPE_CHECKING:
    from rich.console import RenderableType

SHADES = tuple(f"#1a1a1a on {colour}" for colour in ("#fdf0e0", "#fbd9b5", "#f8bd85", "#f59e55", "#ef7d2b"))
"""Styles of words, from hardly any weight to the heaviest word."""
MAX_SOURCES = 5
"""Words shown for each term, as in Figure 4 of the SparTerm paper."""
PLAIN_WIDTH = 1_000
"""Columns of plain text, whose lines are as long as the text."""
_JOINERS = "\u200c\u200d"  # not printable by themselves, but parts of words in some scripts


def print_to_terminal(inspection: Inspection, *, terms: int) -> None:
    """Print to standard output, in colour if it is a terminal that shows colours and ``NO_COLOR`` is not set.

    ``terms`` is the number of terms shown for each text.
    """
    console = Console(markup=False, emoji=False, highlight=False)
    if console.no_color or console.is_dumb_terminal or not console.is_terminal:
        console.file.write(to_text(inspection, terms=terms))
    else:
        console.print(*_render(inspection, terms, shaded=True), sep="\n")


def to_text(inspection: Inspection, *, terms: int) -> str:
    """Plain text: each word has its weight behind it. It depends on no terminal and no environment variable."""
    console = Console(
        file=io.StringIO(), width=PLAIN_WIDTH, markup=False, emoji=False, highlight=False, color_system=None,
        force_terminal=False, legacy_windows=False, _environ={},
    )  # fmt: skip
    with console.capture() as captured:
        console.print(*_render(inspection, terms, shaded=False), sep="\n")
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def visible(text: str) -> str:
    r"""``text`` with control and format characters written as escapes; line breaks stay.

    >>> visible("a\x1b[31mb\u202ec")
    'a\\x1b[31mb\\u202ec'
    """
    return "".join(
        character if character.isprintable() or character == "\n" or character in _JOINERS else ascii(character)[1:-1]
        for character in text.replace("\r\n", "\n").replace("\t", "    ")
    )


def number(value: float) -> str:
    """Impacts as integers, weights with three digits.

    >>> number(1234), number(12.0), number(0.123456), number(3.14159)
    ('1234', '12', '0.123', '3.14')
    """
    return str(int(value)) if value == int(value) else f"{value:.3g}"


def shade(weight: float, heaviest: float) -> int:
    """0 for no weight, else 1 to 5.

    >>> [shade(weight, 10.0) for weight in (0.0, 0.1, 2.0, 2.1, 10.0)]
    [0, 1, 1, 2, 5]
    """
    return min(len(SHADES), -int(-len(SHADES) * weight // heaviest)) if weight > 0 else 0


def _render(inspection: Inspection, terms: int, *, shaded: bool) -> Iterator[RenderableType]:
    where = f", {inspection.index}" if inspection.index else ""
    yield Text(visible(f"{inspection.model}{where}"), style="bold")
    shared = frozenset(term.term for term in inspection.score.terms) if inspection.score else frozenset()
    for view in (inspection.query, inspection.document):
        if view is not None:
            yield Text()
            yield from _render_view(view, shared, terms, shaded=shaded)
    if inspection.score is not None:
        yield Text()
        yield from _render_score(inspection.score, terms)


def _render_view(view: TextView, shared: frozenset[str], terms: int, *, shaded: bool) -> Iterator[RenderableType]:
    yield Text(visible(" ".join(filter(None, [view.kind, view.id]))), style="bold")
    for note in view.notes:
        yield Text(visible(f"note: {note}"), style="italic")
    for sequence, text in enumerate((view.text, view.expanded)):
        if text:
            yield _render_words(view, sequence, shared, shaded=shaded)
    literal = [term.literal for term in view.terms if term.literal is not None]
    of_text = f", {sum(literal):,} of the text itself (+: an expansion)" if literal else ""
    more = f"; the heaviest {terms:,}" if terms < len(view.terms) else ""
    yield Text(f"{len(view.terms):,} terms{of_text}{more}")
    rows = [
        (number(term.value), "+" if term.literal is False else "", visible(term.term), _sources(term))
        for term in view.terms[:terms]
    ]
    if rows:
        yield _table(("weight", "", "term", "words it comes from"), rows, right=(0,))


def _render_words(view: TextView, sequence: int, shared: frozenset[str], *, shaded: bool) -> Text:
    """The text; words with a term that counts in the score are underlined (framed in Table 8 of the SpaDE paper)."""
    heaviest = max((word.weight for word in view.words), default=0.0)
    text = Text("expanded by: " * sequence)
    for piece, word in view.pieces(sequence):
        if word is None or not word.weight > 0:
            text.append(visible(piece))
        elif shaded:
            style = SHADES[shade(word.weight, heaviest) - 1]
            text.append(visible(piece), style=style if shared.isdisjoint(word.tokens) else f"underline {style}")
        else:
            text.append(f"{visible(piece)}[{number(word.weight)}]")
    return text


def _sources(term: Term) -> str:
    """Words that a term's weight comes from, with their shares; for a gated term also what opened the gate."""
    total = sum(source.weight for source in term.words)
    words = [
        source.word
        + (f" {source.weight / total:.0%}" if len(term.words) > 1 else "")
        + (f" ({source.part})" if source.part else "")
        for source in term.words[:MAX_SOURCES]
    ]
    if len(term.words) > MAX_SOURCES:
        words.append(f"{len(term.words) - MAX_SOURCES} more")
    text = ", ".join(words)
    if term.gate:
        opened = ", ".join(f"{source.word} {number(source.weight)}" for source in term.gate[:MAX_SOURCES])
        text += f"  (gate {term.probability:.2f}: {opened})"
    return visible(text)


def _render_score(score: Score, terms: int) -> Iterator[RenderableType]:
    of_query = len(score.terms) + len(score.only_in_query)
    signals = ", ".join(f"{name} {share:.1%}" for name, share in score.signals.items())
    yield Text.assemble(
        (f"score {_amount(score.total)}", "bold"),
        f" ({signals})" if signals else "",
        f", from {len(score.terms):,} of {of_query:,} terms of the query; Lucene says {score.lucene:,.10g}",
    )
    rows = [
        (
            visible(term.term), *map(_amount, (term.query, term.document, term.product)),
            f"{term.product / score.total:.1%}",
            *(visible(word or "") for word in (term.word_in_query, term.word_in_document)),
        )
        for term in score.terms[:terms]
    ]  # fmt: skip
    if rest := score.terms[terms:]:
        rows.append((f"{len(rest):,} more", "", "", _amount(sum(term.product for term in rest)), "", "", ""))
    if rows:
        header = ("term", "query", "document", "product", "share", "query's word", "document's word")
        yield _table(header, rows, right=(1, 2, 3, 4))
    for side, impacts in (("query", score.only_in_query), ("document", score.only_in_document)):
        if impacts:
            named = ", ".join(f"{visible(term)} {impact}" for term, impact in list(impacts.items())[:terms])
            more = f", {len(impacts) - terms:,} more" if len(impacts) > terms else ""
            yield Text(f"only in the {side} ({len(impacts):,}): {named}{more}")


def _amount(value: float) -> str:
    """Products of impacts as integers, BM25 with four decimals."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4f}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column, name in enumerate(header):
        table.add_column(name, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
