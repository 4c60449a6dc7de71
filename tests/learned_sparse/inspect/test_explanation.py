"""Words and terms of a text, and the terms of a score; the terminal shows any text as text."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from learned_sparse.core.reading import Reading, Share, Sources, Token
from learned_sparse.core.records import EXPANDED
from learned_sparse.inspect.explanation import Inspection, make_view
from learned_sparse.inspect.rendering import to_text, visible
from tests.learned_sparse.inspect.explaining import Explaining

TEXT = f"Wingers, hives{EXPANDED}the wing"
TOKENS = (
    Token("[CLS]", 0, 0, None, None),
    Token("wing", 0, 4, 0, 0),
    Token("##er", 4, 6, 0, 0),
    Token("##s", 6, 7, 0, 0),
    Token(",", 7, 8, 0, 1),
    Token("hives", 9, 14, 0, 2),
    Token("[SEP]", 0, 0, None, None),
    Token("the", 0, 3, 1, 0),
    Token("wing", 4, 8, 1, 1),
)


def read(sources: dict[str, list[Share]], *, spelled: bool) -> Reading:
    weights = {term: sum(share.weight for share in shares) for term, shares in sources.items()}
    return Reading(
        tokens=TOKENS,
        truncated=True,
        spelled=spelled,
        weights=weights,
        sources={term: Sources(shares=tuple(shares)) for term, shares in sources.items()},
    )


def test_a_word_has_the_weight_of_its_heaviest_piece() -> None:
    reading = read({"wing": [Share(1, 3.0)], "##er": [Share(0, 1.0)], "the": [Share(7, 2.0)]}, spelled=True)
    view = make_view("document", TEXT, reading, None)
    assert [(word.start, word.end, word.sequence, word.weight) for word in view.words] == [
        (0, 7, 0, 3.0), (7, 8, 0, 0.0), (9, 14, 0, 0.0), (0, 3, 1, 2.0), (4, 8, 1, 3.0),
    ]  # fmt: skip
    assert [piece for piece, _ in view.pieces(0)] == ["Wingers", ",", " ", "hives"]
    assert [piece for piece, _ in view.pieces(1)] == ["the", " ", "wing"]
    assert (view.text, view.expanded) == ("Wingers, hives", "the wing")
    assert view.notes == ("truncated at 9 tokens",)
    assert [term.literal for term in view.terms] == [True, True, True]


def test_words_have_the_impacts_of_their_terms() -> None:
    reading = read({"wing": [Share(1, 3.0)], "the": [Share(7, 2.0)], "gone": [Share(7, 1.0)]}, spelled=True)
    view = make_view("document", TEXT, reading, {"the": 7, "wing": 2, "air": 2}, indexed=True)
    assert [(term.term, term.impact, term.weight, term.literal) for term in view.terms] == [
        ("the", 7, 2.0, True), ("air", 2, None, False), ("wing", 2, 3.0, True),
    ]  # fmt: skip
    assert [word.weight for word in view.words] == [2.0, 0.0, 0.0, 7.0, 2.0]
    encoded = make_view("document", TEXT, reading, {"the": 7, "wing": 2})
    assert [(term.term, term.impact) for term in encoded.terms] == [("wing", 2), ("the", 7), ("gone", 0)]


def test_a_word_has_the_sum_of_its_contributions_to_latent_dimensions() -> None:
    reading = read({"b1d3": [Share(1, 3.0, "b1")], "b2d9": [Share(3, 1.0, "b2"), Share(5, 0.5, "b2")]}, spelled=False)
    view = make_view("document", TEXT, reading, {"b1d3": 1, "b2d9": 1})
    assert [word.weight for word in view.words] == [4.0, 0.0, 0.5, 0.0, 0.0]
    assert {term.literal for term in view.terms} == {None}


def test_shares_are_added_up_by_word() -> None:
    shares = [Share(1, 1.0), Share(2, 2.0), Share(8, 4.0), Share(0, 1.0), Share(5, 3.0, "b1"), Share(5, 3.5, "b2")]
    (term,) = make_view("document", TEXT, read({"x": shares}, spelled=True), None).terms
    assert [(source.word, source.part, source.weight) for source in term.words] == [
        ("wing", "", 4.0), ("hives", "b2", 3.5), ("Wingers", "", 3.0), ("hives", "b1", 3.0), ("[CLS]", "", 1.0),
    ]  # fmt: skip


def test_a_score_is_divided_among_the_words_of_its_terms() -> None:
    """In proportion to their shares; the part of [CLS] belongs to no word."""
    reading = read({"x": [Share(0, 1.0), Share(2, 2.0), Share(8, 1.0)], "y": [Share(8, 3.0)]}, spelled=True)
    view = make_view("document", TEXT, reading, {"x": 1, "y": 1}, products={"x": 8, "y": 5, "z": 7})
    assert [(word.text, word.score) for word in view.words] == [
        ("Wingers", 4.0), (",", 0.0), ("hives", 0.0), ("the", 0.0), ("wing", 7.0),
    ]  # fmt: skip


@given(st.text())
@settings(max_examples=40)
def test_any_text_is_shown_without_control_characters(text: str) -> None:
    assert all(character.isprintable() or character in "\n\u200c\u200d" for character in visible(text))
    view = make_view("document", text, Explaining().explain(text), None)
    plain = to_text(Inspection(model="m", document=view), terms=5)
    assert "\x1b" not in plain
    words = text.partition(EXPANDED)[0].split()
    assert "".join(piece for piece, _ in view.pieces(0)) == text.partition(EXPANDED)[0] or not words
