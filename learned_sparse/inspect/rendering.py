"""An inspection as plain text for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from learned_sparse.inspect.explanation import Inspection, Score, Term, TextView

MAX_SOURCES = 5
"""Words shown for each term, as in Figure 4 of the SparTerm paper."""
_JOINERS = "\u200c\u200d"  # not printable by themselves, but parts of words in some scripts


def to_text(inspection: Inspection, *, terms: int) -> str:
    """Lines of text: each word has its weight behind it. ``terms`` is the number of terms shown for each text."""
    return "".join(f"{visible(line).rstrip()}\n" for line in _lines(inspection, terms))


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


def _lines(inspection: Inspection, terms: int) -> Iterator[str]:
    yield f"{inspection.model}{f', {inspection.index}' if inspection.index else ''}"
    for view in (inspection.query, inspection.document):
        if view is not None:
            yield ""
            yield from _view(view, terms)
    if inspection.score is not None:
        yield ""
        yield from _score(inspection.score, terms)


def _view(view: TextView, terms: int) -> Iterator[str]:
    yield " ".join(filter(None, [view.kind, view.id]))
    for note in view.notes:
        yield f"note: {note}"
    for sequence, text in enumerate((view.text, view.expanded)):
        if text:
            words = (
                f"{t}[{number(word.weight)}]" if word and word.weight > 0 else t for t, word in view.pieces(sequence)
            )
            yield "expanded by: " * sequence + "".join(words)
    literal = [term.literal for term in view.terms if term.literal is not None]
    of_text = f", {sum(literal):,} of the text itself (+: an expansion)" if literal else ""
    more = f"; the heaviest {terms:,}" if terms < len(view.terms) else ""
    yield f"{len(view.terms):,} terms{of_text}{more}"
    rows = [
        (number(term.value), "+" if term.literal is False else "", term.term, _sources(term))
        for term in view.terms[:terms]
    ]
    if rows:
        yield from _table(("weight", "", "term", "words it comes from"), rows, right=(0,))


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
    return text


def _score(score: Score, terms: int) -> Iterator[str]:
    of_query = len(score.terms) + len(score.only_in_query)
    signals = ", ".join(f"{name} {share:.1%}" for name, share in score.signals.items())
    yield (
        f"score {_amount(score.total)}{f' ({signals})' if signals else ''}, from {len(score.terms):,} of {of_query:,} "
        f"terms of the query; Lucene says {score.lucene:,.10g}"
    )
    rows = [
        (
            term.term, *map(_amount, (term.query, term.document, term.product)), f"{term.product / score.total:.1%}",
            term.word_in_query or "", term.word_in_document or "",
        )
        for term in score.terms[:terms]
    ]  # fmt: skip
    if rest := score.terms[terms:]:
        rows.append((f"{len(rest):,} more", "", "", _amount(sum(term.product for term in rest)), "", "", ""))
    if rows:
        header = ("term", "query", "document", "product", "share", "query's word", "document's word")
        yield from _table(header, rows, right=(1, 2, 3, 4))
    for side, impacts in (("query", score.only_in_query), ("document", score.only_in_document)):
        if impacts:
            named = ", ".join(f"{term} {impact}" for term, impact in list(impacts.items())[:terms])
            more = f", {len(impacts) - terms:,} more" if len(impacts) > terms else ""
            yield f"only in the {side} ({len(impacts):,}): {named}{more}"


def _amount(value: float) -> str:
    """Products of impacts as integers, BM25 with four decimals."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int]) -> Iterator[str]:
    shown = [header, *([visible(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = enumerate(zip(row, widths, strict=True))
        yield "  ".join(cell.rjust(width) if column in right else cell.ljust(width) for column, (cell, width) in cells)
