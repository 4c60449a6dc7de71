"""The terminal shows any text as text."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from learned_sparse.core.records import EXPANDED
from learned_sparse.inspect.explanation import Inspection, make_view
from learned_sparse.inspect.rendering import to_text, visible
from tests.learned_sparse.inspect.explaining import Explaining


@given(st.text())
@settings(max_examples=40)
def test_any_text_is_shown_without_control_characters(text: str) -> None:
    assert all(character.isprintable() or character in "\n\u200c\u200d" for character in visible(text))
    view = make_view("document", text, Explaining().explain(text), None)
    plain = to_text(Inspection(model="m", document=view), terms=5)
    assert "\x1b" not in plain
    words = text.partition(EXPANDED)[0].split()
    assert "".join(piece for piece, _ in view.pieces(0)) == text.partition(EXPANDED)[0] or not words
