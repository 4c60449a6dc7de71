"""Where a text ends and what expands it begins, by hand; who is asked to tell the two apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from encoders.models import ARCHITECTURES
from encoders.models.token_weights import between_texts, own_text
from tests.encoders.models.heads import untrained

CLS, SEP, PAD = 1, 2, 0


def test_the_text_itself_ends_at_its_first_separator() -> None:
    ids = torch.tensor([[CLS, 7, SEP, 8, SEP, PAD], [CLS, SEP, 9, 9, 9, SEP], [CLS, 7, 7, 7, SEP, PAD]])
    mask = (ids != PAD).long()
    own, kept = own_text(ids, mask, SEP)
    assert own.shape == (3, 5)  # no wider than the third needs
    assert kept.tolist() == [[1, 1, 1, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]]
    assert kept.dtype == mask.dtype


def test_padding_is_no_text() -> None:
    """Some tokenizers pad with what ends a text too."""
    ids, mask = torch.tensor([[CLS, 7, 7, SEP, SEP]]), torch.tensor([[1, 1, 1, 1, 0]])
    assert own_text(ids, mask, SEP)[1].tolist() == [[1, 1, 1, 1]]
    assert not between_texts(ids, mask, SEP).any()
    cut = torch.tensor([[1, 1, 0, 0, 0]])  # a text that was cut has no separator of its own
    assert own_text(ids, cut, SEP)[1].tolist() == [[1, 1]]
    assert own_text(ids, torch.zeros_like(mask), SEP)[1].tolist() == [[0]]
    ids, mask = torch.tensor([[SEP, CLS, 7, SEP, 8, SEP]]), torch.tensor([[0, 1, 1, 1, 1, 1]])  # or on the left
    assert own_text(ids, mask, SEP)[1].tolist() == [[0, 1, 1, 1]]
    assert between_texts(ids, mask, SEP).nonzero().tolist() == [[0, 3]]


def test_a_separator_between_texts_has_tokens_behind_it() -> None:
    ids = torch.tensor([[CLS, 7, SEP, 8, SEP], [CLS, 7, 8, SEP, PAD], [CLS, SEP, SEP, PAD, PAD]])
    found = between_texts(ids, (ids != PAD).long(), SEP)
    assert found.nonzero().tolist() == [[0, 2], [2, 1]]  # of empty expansions one separator still is between


@pytest.mark.parametrize("architecture", ["unicoil", "deepimpact", "tildev2"])
def test_who_reads_expanded_text(architecture: str) -> None:
    family = ARCHITECTURES[architecture]
    assert family.uses_expanded(family.settings())
    assert not family.uses_expanded(family.settings(expanded=False))


def test_dropout_is_before_a_two_layer_head(tiny_bert: Path) -> None:
    head: Any = untrained("deepimpact", {"dropout": 0.3}, tiny_bert).towers["document"].head
    assert head[0].p == 0.3
