"""Models that share parts compute them once, and give what they would have given alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from encoders.checkpoints import Vocabulary
from encoders.encoding import new_model
from encoders.models import ARCHITECTURES
from eval.sweep.shared_modules import Remembering, RememberingWinners, share
from learned_sparse.core.settings import parse
from tests.tiny_models import TEXTS, VOCABULARY, tokenizer

Case = tuple[str, dict[str, Any], list[dict[str, Any]], dict[str, int]]
CASES: dict[str, Case] = {
    # architecture, settings, changes of each variant, how many shared parts of each class
    "sparterm": (
        "sparterm",
        {"gate_pool": "max"},
        [{"threshold": 0.6}, {"threshold": 0.7}, {"threshold": 0.7, "max_terms": 3}],
        {"Gate": 1, "Tower": 2, "BagOfWords": 1},
    ),
    "spade alpha": (
        "spade",
        {},
        [{"alpha": 0.0}, {"alpha": 0.4}, {"alpha": 1.0}],
        {"Pruned": 2, "TokenWeights": 1, "Expansion": 1, "BagOfWords": 1, "HiddenStates": 1, "Tower": 1},
    ),
    "spade k": (
        "spade",
        {},
        [{"k": 2}, {"k": 5}, {"k": 5, "alpha": 0.1}],
        {"Pruned": 2, "TokenWeights": 1, "Expansion": 1, "BagOfWords": 1, "HiddenStates": 1, "Tower": 1},
    ),
    "spade gamma": (
        "spade",
        {"frequencies": {term: 0.3 + 0.1 * (number % 6) for number, term in enumerate(VOCABULARY)}},
        [{"gamma": 1.0}, {"gamma": 0.6}, {"gamma": 0.45}],
        {"TokenWeights": 1, "Expansion": 1, "BagOfWords": 1, "HiddenStates": 1, "Tower": 1},
    ),
    "uhd k": (
        "uhd",
        {"dimensions": 64, "layers": [1, 2], "k": 9},
        [{"k": 3}, {"k": 9}, {"k": 9, "document_k": 20}],
        {"WinnerTakeAll": 2, "HiddenStates": 2},
    ),
    "uhd layers": (
        "uhd",
        {"dimensions": 64, "layers": [1, 2], "encoders": "joint", "k": 4},
        [{}, {"layers": [2]}, {"normalize": "none"}],
        {"Bucket": 1, "WinnerTakeAll": 2, "HiddenStates": 1},
    ),
}


def weighers(case: Case, backbone: Path) -> tuple[list[nn.Module], list[nn.Module]]:
    """The variants of a case, and their towers."""
    architecture, settings, variants, _ = case
    family, vocabulary = ARCHITECTURES[architecture], Vocabulary.from_tokenizer(tokenizer(), len(VOCABULARY))
    towers = new_model(architecture, settings, str(backbone)).towers
    all_settings = [parse(family.settings, settings | changes, "test") for changes in variants]
    made = [family.weigher(chosen, "document", towers, vocabulary).eval() for chosen in all_settings]
    return made, list(towers.values())


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    padded = [tokenizer()(texts, padding=True, return_tensors="pt") for texts in (TEXTS[:3], TEXTS[3:])]
    return [(batch["input_ids"], batch["attention_mask"]) for batch in padded]


@pytest.mark.parametrize("name", CASES)
def test_answers_are_the_same_and_computed_once(name: str, tiny_bert: Path) -> None:
    case = CASES[name]
    with torch.inference_mode():
        alone, _ = weighers(case, tiny_bert)
        expected = [[weigher(*batch) for weigher in alone] for batch in batches()]
        together, towers = weighers(case, tiny_bert)
        shared = share(together, towers)
        found = [[weigher(*batch) for weigher in together] for batch in batches()]
    for answer, wanted in zip(sum(found, []), sum(expected, []), strict=True):  # noqa: RUF017  (six of them)
        assert torch.equal(answer, wanted)
    assert len({weights.sum().item() for weights in expected[0]}) == 3  # the variants differ
    parts = {id(part.forward): type(part).__name__ for weigher in together for part in weigher.modules()
             if isinstance(part.forward, Remembering | RememberingWinners)}  # fmt: skip
    counts = {kind: list(parts.values()).count(kind) for kind in parts.values()}
    assert counts == case[3]
    # not at all: a part of a part that was not asked for; once more: the first batch, for more winners
    assert {remembering.computed for remembering in shared} <= {0, 2, 3 if name == "uhd k" else 2}


def test_remembering_asks_again_for_another_batch_or_mask() -> None:
    def forward(input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return input_ids * attention_mask

    part = Remembering(forward)
    ids, mask = torch.tensor([[3, 4]]), torch.tensor([[1, 1]])
    for _ in range(2):
        assert part(ids.clone(), mask.clone()).tolist() == [[3, 4]]
    assert part.computed == 1
    assert part(ids, torch.tensor([[1, 0]])).tolist() == [[3, 0]]
    assert part(torch.tensor([[3]]), torch.tensor([[1]])).tolist() == [[3]]
    assert part(ids, mask).tolist() == [[3, 4]]
    assert part.computed == 4


def test_fewer_winners_are_the_first_of_more() -> None:
    asked = []

    def forward(rows: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        asked.append(k)
        found = rows.topk(k, dim=1)
        return found.values, found.indices

    part = RememberingWinners(forward)
    rows = torch.tensor([[3.0, 1, 4, 2]])
    assert [part(rows.clone(), k)[0].tolist() for k in (2, 3, 1)] == [[[4, 3]], [[4, 3, 2]], [[4]]]
    assert part(rows + 1, 1)[1].tolist() == [[2]]
    assert asked == [2, 3, 3]


class Scaled(nn.Module):
    def __init__(self, factor: Any, start: float = 0.0) -> None:
        super().__init__()
        self._factor = factor
        self.register_buffer("_start", torch.tensor(start))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = input_ids * self._factor + self._start
        return answer


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (Scaled(2), Scaled(2), True),
        (Scaled(2), Scaled(2.0), False),
        (Scaled(2), Scaled(3), False),
        (Scaled(2, 1.0), Scaled(2, 0.0), False),
        (Scaled([1, 2]), Scaled([1, 2]), True),
        (Scaled({"a": 1}), Scaled({"a": 2}), False),
        (Scaled(object()), Scaled(object()), False),
        (Scaled(2), nn.Identity(), False),
    ],
)
def test_what_is_the_same(first: nn.Module, second: nn.Module, same: bool) -> None:
    assert len(share([first, second], [])) == same
