"""Which terms pruning keeps and what it writes down, by hand."""

from __future__ import annotations

import pytest
import torch

from encoders.checkpoints import Vocabulary
from encoders.models.spade import TermPruning
from learned_sparse.core.errors import LearnedSparseError
from tests.tiny_models import VOCABULARY, tokenizer

WORDS = Vocabulary.from_tokenizer(tokenizer(), len(VOCABULARY))
ALL = torch.ones(len(WORDS), dtype=torch.bool)


def place(term: str) -> int:
    return list(WORDS.terms).index(term)


def test_a_term_must_be_allowed_and_rare_enough() -> None:
    allowed = ALL.clone()
    allowed[place("wing")] = False
    pruning = TermPruning(WORDS, allowed, {"the": 0.71, "of": 0.7, "wing": 0.1}, 0.7)
    kept = pruning.kept
    assert {WORDS.terms[i] for i in (~kept).nonzero().flatten().tolist()} == {"the", "wing"}
    pruning.update(torch.zeros(len(WORDS)), 0.05)
    assert torch.equal(pruning.kept, allowed)


def test_what_is_written_down_can_be_read_again() -> None:
    shares = torch.zeros(len(WORDS))
    for term, share in {"of": 0.05, "the": 0.9, "in": 0.049999, "and": 0.2, "to": 0.9}.items():
        shares[place(term)] = share
    pruning = TermPruning(WORDS, ALL, {}, 1.0)
    assert pruning.learned() == {"gamma": 1.0, "frequencies": {}}
    assert pruning.kept.all()
    pruning.update(shares, 0.3)
    learned = pruning.learned()
    # the most frequent first, equally frequent ones as in the vocabulary
    assert list(learned["frequencies"].items()) == [("the", 0.9), ("to", 0.9), ("and", 0.2), ("of", 0.05)]
    assert learned["gamma"] == 0.3
    again = TermPruning(WORDS, ALL, learned["frequencies"], learned["gamma"])
    assert torch.equal(again.kept, pruning.kept)
    assert again.learned() == learned


def test_a_word_that_is_not_there_is_named() -> None:
    with pytest.raises(LearnedSparseError, match="no term 'wign' in the vocabulary; did you mean 'wing'"):
        TermPruning(WORDS, ALL, {"wign": 0.5}, 0.7)


@pytest.mark.parametrize("share", [0.049, 1.01])
def test_shares_that_cannot_be(share: float) -> None:
    with pytest.raises(LearnedSparseError, match=r"give a share of documents, 0\.05 to 1"):
        TermPruning(WORDS, ALL, {}, share)
    with pytest.raises(LearnedSparseError, match="give a share of documents"):
        TermPruning(WORDS, ALL, {"wing": share}, 0.7)


def test_a_dimension_without_a_term_is_not_written_down() -> None:
    """A model may have more outputs than its tokenizer has tokens."""
    wide = Vocabulary.from_tokenizer(tokenizer(), len(VOCABULARY) + 2)
    pruning = TermPruning(wide, torch.ones(len(wide), dtype=torch.bool), {}, 1.0)
    pruning.update(torch.full((len(wide),), 0.5), 0.5)
    assert list(pruning.learned()["frequencies"]) == VOCABULARY


def test_millionths_survive_the_float() -> None:
    """0.062507 times a million is 62506.99..."""
    pruning = TermPruning(WORDS, ALL, {"wing": 0.062507}, 0.062507)
    assert pruning.learned() == {"gamma": 0.062507, "frequencies": {"wing": 0.062507}}
