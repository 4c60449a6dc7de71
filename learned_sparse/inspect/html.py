"""An inspection as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from learned_sparse.core import escape, page
from learned_sparse.inspect.score import Score, ScoreTerm
from learned_sparse.inspect.setup import Inspection
from learned_sparse.inspect.terminal import SOURCES, number
from learned_sparse.inspect.view import Term, TextView, Word, heaviest_words, pieces, shade, spells

STYLE = """
.text { font-size: 1.0625rem; line-height: 1.9; max-width: 52rem; white-space: pre-wrap; }
.text span { border-radius: 0.1875rem; padding: 0.0625rem 0.125rem; }
.text .met { outline: 0.125rem solid var(--bad); }
.shade1 { background: color-mix(in oklab, var(--heat) 12%, transparent); }
.shade2 { background: color-mix(in oklab, var(--heat) 28%, transparent); }
.shade3 { background: color-mix(in oklab, var(--heat) 46%, transparent); }
.shade4 { background: color-mix(in oklab, var(--heat) 66%, transparent); }
.shade5 { background: color-mix(in oklab, var(--heat) 88%, transparent); }
:root { --heat: #f0883e; }
@media (prefers-color-scheme: dark) { :root { --heat: #b45a12; } }
.bar { display: block; width: 6rem; height: 0.625rem; }
.bar rect { fill: var(--heat); }
.expansion { font-style: italic; }
.total td, .total th { border-bottom: 0; font-weight: 650; }
.note { border-left: 0.1875rem solid var(--unsure); padding-left: 0.75rem; }
"""


def to_html(inspection: Inspection, *, terms: int) -> str:
    """The page, with the ``terms`` heaviest terms of each text."""
    named = [view.id for view in (inspection.query, inspection.document) if view is not None and view.id]
    title = f"{inspection.model}: {' and '.join(named) or 'a text'}"
    body = [f"<h1>{escape(title)}</h1>"]
    if inspection.index:
        body.append(f'<p class="soft">Index <code>{escape(inspection.index)}</code></p>')
    if inspection.score is not None:
        body += _score(inspection.score, terms)
    met = inspection.score.names if inspection.score else frozenset()
    for view in (inspection.query, inspection.document):
        if view is not None:
            body += _text(view, met, terms)
    return page(title, "\n".join(["<main>", *body, "</main>"]), style=STYLE)


def _text(view: TextView, met: frozenset[str], most: int) -> Iterator[str]:
    yield f"<section><h2>{escape(' '.join(filter(None, [view.kind.capitalize(), view.id])))}</h2>"
    yield from (f'<p class="note">{escape(note)}</p>' for note in view.notes)
    heaviest = max((word.weight for word in view.words), default=0.0)
    for sequence in (0, 1):
        if view.texts[sequence]:
            words = "".join(_piece(view, piece, word, met, heaviest) for piece, word in pieces(view, sequence))
            yield ('<p class="soft">expanded by</p>' * sequence) + f'<p class="text">{words}</p>'
    known = [term for term in view.terms if term.literal is not None]
    own = (
        f", {sum(bool(term.literal) for term in known):,} of the text itself; expansions are in italics"
        if known
        else ""
    )
    more = f" The heaviest {most:,}:" if most < len(view.terms) else ""
    yield f'<p class="soft">{len(view.terms):,} terms{own}.{more}</p>'
    top = max((term.value for term in view.terms), default=1.0)
    rows = [_term(view, term, top) for term in view.terms[:most]]
    yield from _table(("term", "weight", "", "from"), rows, numbers=(1,))
    yield "</section>"


def _piece(view: TextView, piece: str, word: Word | None, met: frozenset[str], heaviest: float) -> str:
    """Words whose terms count in the score are framed, as in SpaDE's Table 8."""
    if word is None or not word.weight > 0:
        return escape(piece)
    kind = f"shade{shade(word.weight, heaviest)}" + (" met" if spells(view, word, met) else "")
    return f'<span class="{kind}" title="{number(word.weight)}">{escape(piece)}</span>'


def _term(view: TextView, term: Term, top: float) -> list[str]:
    name = escape(term.term)
    return [
        f'<span class="expansion">{name}</span>' if term.literal is False else name,
        number(term.value),
        _bar(term.value / top if top else 0.0),
        _sources(view, term),
    ]


def _bar(share: float) -> str:
    """A style attribute could not say how wide: the page allows none."""
    return (
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{100 * share:.1f}" height="10"/></svg>'
    )


def _sources(view: TextView, term: Term) -> str:
    if term.sources is None:
        return ""
    rows = heaviest_words(view, term.sources.shares)
    whole = sum(weight for *_, weight in rows)
    named = [
        escape(word) + (f" {weight / whole:.0%}" if len(rows) > 1 else "") + (f" ({escape(part)})" if part else "")
        for word, part, weight in rows[:SOURCES]
    ]
    if len(rows) > SOURCES:
        named.append(f"{len(rows) - SOURCES} more")
    text = ", ".join(named)
    if term.sources.gate:
        opened = heaviest_words(view, term.sources.gate)[:SOURCES]
        logits = ", ".join(f"{escape(word)} {number(logit)}" for word, _, logit in opened)
        text += f' <span class="soft">gate {term.sources.probability:.2f}: {logits}</span>'
    return text


def _score(score: Score, most: int) -> Iterator[str]:
    asked = len(score.terms) + len(score.only_in_query)
    yield f"<section><h2>Score {score.total:,}</h2>"
    yield f"<p>From {len(score.terms):,} of {asked:,} terms of the query. Lucene says {score.lucene:,.10g}.</p>"
    rows = [_product(term, score.total) for term in score.terms[:most]]
    if rest := score.terms[most:]:
        rows.append([f"{len(rest):,} more", "", "", f"{sum(term.product for term in rest):,}", "", "", ""])
    rows.append(["all", "", "", f"{score.total:,}", "", "", ""])
    header = ("term", "query", "document", "product", "", "query's word", "document's word")
    yield from _table(header, rows, numbers=(1, 2, 3), total=True)
    yield from _alone("query", score.only_in_query, most)
    yield from _alone("document", score.only_in_document, most)
    yield "</section>"


def _product(term: ScoreTerm, total: int) -> list[str]:
    words = [escape(word or "") for word in (term.word_in_query, term.word_in_document)]
    numbers = [f"{number:,}" for number in (term.query, term.document, term.product)]
    return [escape(term.term), *numbers, _bar(term.product / total), *words]


def _alone(side: str, impacts: Mapping[str, int], most: int) -> Iterator[str]:
    if impacts:
        named = [f"{escape(term)}&nbsp;{impact:,}" for term, impact in list(impacts.items())[:most]]
        more = [f"{len(impacts) - most:,} more"] if len(impacts) > most else []
        yield f'<p class="soft">Only in the {side} ({len(impacts):,}): {", ".join(named + more)}</p>'


def _table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: tuple[int, ...], total: bool = False
) -> Iterator[str]:
    """Cells are HTML already; ``total``: the last row is one."""
    classes = [' class="number"' if place in numbers else "" for place in range(len(header))]

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in zip(classes, cells, strict=True))

    yield f'<div class="scroll"><table><thead><tr>{line(header, "th")}</tr></thead><tbody>'
    for place, row in enumerate(rows):
        kind = ' class="total"' if total and place == len(rows) - 1 else ""
        yield f"<tr{kind}>{line(row, 'td')}</tr>"
    yield "</tbody></table></div>"
