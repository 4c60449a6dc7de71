"""The terminal shows any text as text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learned_sparse.core.records import EXPANDED
from learned_sparse.inspect.explanation import Inspection, explain_score, make_view
from learned_sparse.inspect.rendering import print_to_terminal, to_text, visible
from tests.learned_sparse.inspect.explaining import EXPANSION, Explaining


def test_colour(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The heaviest word is the darkest; words of terms in the score are underlined."""
    text, products = f"hives \x1b[31m hives {EXPANSION}", {EXPANSION: 3 * 3}
    impacts = {"hives": 8, EXPANSION: 3}
    view = make_view("document", text, Explaining().explain(text), impacts)
    inspection = Inspection(model="m", document=view, score=explain_score(view, view, products, 9.0))
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    print_to_terminal(inspection, terms=5)
    plain = capsys.readouterr().out
    assert plain == to_text(inspection, terms=5)
    assert "hives[8]" in plain
    assert "\x1b" not in plain
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    print_to_terminal(inspection, terms=5)
    colours = capsys.readouterr().out
    assert "\x1b[38;5;234;48;5;208mhives\x1b[0m" in colours
    assert f"\x1b[4;38;5;234;48;5;223m{EXPANSION}\x1b[0m" in colours
    assert "\x1b[31m" not in colours
    monkeypatch.setenv("NO_COLOR", "1")
    print_to_terminal(inspection, terms=5)
    assert capsys.readouterr().out == plain


@given(st.text())
@settings(max_examples=40)
def test_any_text_is_shown_without_control_characters(text: str) -> None:
    assert all(character.isprintable() or character in "\n\u200c\u200d" for character in visible(text))
    view = make_view("document", text, Explaining().explain(text), None)
    plain = to_text(Inspection(model="m", document=view), terms=5)
    assert "\x1b" not in plain
    words = text.partition(EXPANDED)[0].split()
    assert "".join(piece for piece, _ in view.pieces(0)) == text.partition(EXPANDED)[0] or not words
