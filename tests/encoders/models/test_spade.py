"""SpaDE computed by hand and by plain loops, with and without expansion texts."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from encoders.checkpoints.tokenizer import Vocabulary
from encoders.models.spade import SpaDE, SpaDESettings
from learned_sparse.core.errors import LearnedSparseError
from tests.encoders.models import cases
from tests.encoders.models.heads import (
    NOT_IN_BAG,
    PAIRS,
    SPECIAL,
    UNUSED,
    LogitTable,
    inputs,
    logits_of,
    scores_of,
    untrained,
)
from tests.reference import spade as reference
from tests.tiny_models import TEXTS, VOCABULARY

EXPANSION = LogitTable([1.0, 5.0, 4.0, -1.0], [0.5, -2.0, -3.0, -4.0], [3.0, 6.0, -9.0, 2.0], [9.0, 9.0, 9.0, 9.0])


class Scores(nn.Module):
    """A weighting tower without a network: the positions score 1, -2, 3 and 7."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Identity()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor]:
        return (torch.tensor([1.0, -2.0, 3.0, 7.0])[: input_ids.shape[1]].expand(len(input_ids), -1)[..., None],)


BY_HAND: list[tuple[dict[str, Any], list[float]]] = [
    ({"components": "weighting"}, [3.0, 0.0, 0.0, 0.0]),  # the word 0 scores 1 and 3, the word 1 scores -2
    ({"components": "weighting", "repeats": "first"}, [1.0, 0.0, 0.0, 0.0]),
    ({"components": "weighting", "repeats": "mean"}, [2.0, 0.0, 0.0, 0.0]),
    ({"components": "expansion", "k": 1}, [0.5, 5.0, 0.0, 0.0]),  # the word 1 is the best at 0, the word 0 at 1
    ({"components": "expansion", "k": 2}, [0.5, 5.0, 4.0, 0.0]),  # -2 is the second best at 1, which gives no weight
    ({"components": "expansion", "k": None}, [1.0, 5.0, 4.0, 0.0]),
    ({"k": 1, "alpha": 0.25}, [0.75 * 3 + 0.25 * 0.5, 0.25 * 5, 0.0, 0.0]),
    ({"k": 1, "alpha": 0.0}, [3.0, 0.0, 0.0, 0.0]),
    ({"k": 1, "alpha": 1.0}, [0.5, 5.0, 0.0, 0.0]),
    ({"k": 1, "gamma": 0.5, "frequencies": {"one": 0.51, "zero": 0.5}}, [1.75, 0.0, 0.0, 0.0]),
]


@pytest.mark.parametrize(("settings", "expected"), BY_HAND)
def test_by_hand(settings: dict[str, Any], expected: list[float]) -> None:
    """The text is "0 1 0", padded."""
    vocabulary = Vocabulary(["zero", "one", "two", "three"], special_ids=(), unknown_id=None, unused_ids=())
    module = SpaDE(SpaDESettings(**settings), {"weighting": Scores(), "expansion": EXPANSION}, vocabulary).eval()
    weights = module(torch.tensor([[0, 1, 0, 3]]), torch.tensor([[1, 1, 1, 0]]))
    torch.testing.assert_close(weights, torch.tensor([expected]))


def expected_of(model: Any, pair: str, *, training: bool = False) -> list[float]:
    """Weights of one pair by ``tests.reference.spade``; text and expansion are tokenized separately."""
    settings: SpaDESettings = model.settings
    pair_ids, text_ids = inputs(model, [pair])[0][0], inputs(model, [pair.split("\x1f")[0]])[0][0]
    vectors = {}
    if settings.components != "expansion":
        ids = pair_ids if settings.expanded in {"both", "weighting"} else text_ids
        vectors["weighting"] = reference.weighting(
            scores_of(model.towers["weighting"], ids),
            ids.tolist(),
            len(VOCABULARY),
            repeats=settings.repeats,
            relu=settings.weighting_activation == "relu",
            not_in_bag=NOT_IN_BAG[settings.bow_special_tokens],
            separator=SPECIAL["[SEP]"] if settings.weighting_separators else None,
        )
    if settings.components != "weighting":
        ids = pair_ids if settings.expanded in {"both", "expansion"} else text_ids
        vectors["expansion"] = reference.expansion(
            logits_of(model.towers["expansion"], ids),
            ids.tolist(),
            k=settings.k,
            relu=settings.expansion_activation == "relu" or settings.k is not None,
            not_pooled=[] if settings.pool_special_tokens else NOT_IN_BAG["unknown"],
        )
    if not training:
        vectors = {name: [max(0.0, weight) for weight in vector] for name, vector in vectors.items()}
    vector = next(iter(vectors.values()))
    if settings.components == "both":
        vector = reference.aggregate(vectors["weighting"], vectors["expansion"], settings.alpha)
    shares = [settings.frequencies.get(word, 0.0) for word in VOCABULARY]
    blocked = [*SPECIAL.values(), *UNUSED] if settings.block_special_terms else []
    kept = reference.prune(vector, shares, settings.gamma)
    return [0.0 if j in blocked else weight for j, weight in enumerate(kept)]


@pytest.mark.parametrize("training", [False, True], ids=["encoding", "training"])
@pytest.mark.parametrize("settings", cases.SPADE, ids=str)
def test_equals_plain_loops(settings: dict[str, Any], training: bool, tiny_bert: Path) -> None:
    """A padded batch equals its texts encoded one by one; training, here without dropout, keeps negative scores."""
    model = untrained("spade", settings, tiny_bert)
    texts = TEXTS if model.settings.expanded == "none" else PAIRS
    document: Any = model.weighers.document
    for part in document.components.values():
        part.unpruned.training = training
    with torch.no_grad():
        weights = document(*inputs(model, texts, pad_to_multiple_of=16))
    expected = torch.tensor([expected_of(model, text, training=training) for text in texts])
    torch.testing.assert_close(weights, expected, rtol=1e-4, atol=1e-4)
    assert training or (weights >= 0).all()


def test_a_tokenizer_without_separator_cannot_split_text_and_expansion(tiny_bert: Path) -> None:
    model = untrained("spade", {}, tiny_bert)
    vocabulary = dataclasses.replace(Vocabulary.from_tokenizer(model.tokenizer, len(VOCABULARY)), separator_id=None)
    SpaDE(SpaDESettings(), model.towers, vocabulary)
    for expanded in ("weighting", "expansion"):
        with pytest.raises(LearnedSparseError, match="no separator token"):
            SpaDE(SpaDESettings(expanded=expanded), model.towers, vocabulary)
