"""Batches: padding, what is known to be relevant, the number of negatives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from encoders.training.data.batches import Batches, Tokens, bag_of_words, known_positives
from encoders.training.data.examples import Example
from encoders.training.data.sampler import Sampler
from encoders.training.data.texts import text_key
from encoders.training.objective.objective import (
    Outputs,
    example_losses,
    excluded,
    negatives_per_query,
    objective,
    rank_loss,
    rank_losses,
)
from encoders.training.recipe import MaxLength, Pointwise, Rank, Stage


class Numbered:
    """Example i has the texts qi, pi, ni."""

    fingerprint = ""

    def __len__(self) -> int:
        return 12

    def get(self, index: int, rng: np.random.Generator) -> Example:
        return Example(f"w{index}", f"w{index} w{index + 1}", (f"w{index + 2} w{rng.integers(9)} w1",), frozenset())


@pytest.fixture
def tokenizer(tiny_backbone: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_backbone)


def batches(tokenizer: Any, **options: Any) -> Batches:
    settings = {"batch_size": 4, "micro_batch_size": 2, "seed": [0, 0], **options}
    return Batches([Numbered()], Sampler([12], seed=0), tokenizer, MaxLength(query=8, document=8), **settings)


def test_batches_are_the_same_however_they_are_reached(tokenizer: Any) -> None:
    made = batches(tokenizer)
    streamed = list(made.stream(range(1, 4)))
    assert [batch.step for batch in streamed] == [1, 2, 3]
    assert streamed[2].examples == batches(tokenizer).examples(3)
    assert {example.query for step in range(3) for example in made.examples(step)} == {f"w{i}" for i in range(12)}


def test_processes_share_a_batch_in_order(tokenizer: Any) -> None:
    whole = batches(tokenizer).batch(0)
    parts = [batches(tokenizer, process=process, processes=2).batch(0) for process in range(2)]
    ids = [micro.queries.input_ids.tolist() for part in parts for micro in part.micro_batches]
    assert ids == [micro.queries.input_ids.tolist() for micro in whole.micro_batches]
    assert all(part.examples == whole.examples for part in parts)


def test_documents_are_positives_then_negatives_padded_to_the_longest(tokenizer: Any) -> None:
    batch = batches(tokenizer).batch(0)
    micro, examples = batch.micro_batches[0], batch.examples[:2]
    texts = [example.positive for example in examples] + [example.negatives[0] for example in examples]
    assert tokenizer.batch_decode(micro.documents.input_ids, skip_special_tokens=True) == texts
    assert micro.documents.attention_mask.sum(1).tolist() == [4, 4, 5, 5]
    assert micro.documents.input_ids.shape == (4, 5)


def test_bag_of_words_is_binary_and_without_special_tokens() -> None:
    tokens = Tokens(torch.tensor([[2, 5, 5, 6, 3, 0]]), torch.tensor([[1, 1, 1, 1, 1, 0]]))
    assert bag_of_words(tokens, 8, [0, 1, 2, 3, 4]).tolist() == [[0, 0, 0, 0, 0, 1, 1, 0]]


def test_known_positives_are_judged_ones_their_copies_and_those_of_the_same_query() -> None:
    examples = [
        Example("q", "one", ("n1",), frozenset([text_key("one"), text_key("two")])),
        Example("r", "two", ("one",), frozenset([text_key("two")])),
        Example("r", "three", ("n3",), frozenset()),
    ]
    # columns: one, two, three | n1, one, n3
    assert known_positives(examples).int().tolist() == [
        [0, 1, 0, 0, 1, 0],
        [0, 0, 1, 0, 0, 0],
        [0, 1, 0, 0, 0, 0],
    ]


STAGE: dict[str, Any] = {"name": "s", "steps": 1, "batch_size": 4}


@pytest.mark.parametrize(
    ("rank", "expected"),
    [
        (Rank(loss="pairwise"), 2),
        (Rank(), 3 + 2),
        (Rank(others_hard_negatives=True), 3 + 8),
    ],
)
def test_number_of_negatives_per_query(rank: Rank, expected: int) -> None:
    """Four queries with two hard negatives each: a misread switch would show here."""
    known = torch.zeros(4, 4 + 8, dtype=torch.bool)
    assert negatives_per_query(Stage(**STAGE, rank=rank), known) == expected


def test_known_positives_are_no_negatives_unless_asked_for() -> None:
    known = torch.zeros(4, 12, dtype=torch.bool)
    known[0, 1] = True  # the positive of query 1 is relevant to query 0
    known[1, 4] = True  # a hard negative of query 0 is relevant to query 1, which is not ranked against it
    assert negatives_per_query(Stage(**STAGE, rank=Rank()), known) == 5 - 1 / 4
    assert negatives_per_query(Stage(**STAGE, rank=Rank(others_hard_negatives=True)), known) == 11 - 2 / 4
    assert negatives_per_query(Stage(**STAGE, rank=Rank(mask_known_positives=False)), known) == 5
    assert excluded(Rank(), known, 4)[0].int().tolist() == [0, 1, 0, 0, 0, 0]


def test_the_hinge_loss_ranks_against_others_positives_alone() -> None:
    known = torch.zeros(4, 12, dtype=torch.bool)
    known[0, 1] = True
    assert negatives_per_query(Stage(**STAGE, rank=Rank(loss="hinge")), known) == 3 - 1 / 4
    queries, positives = torch.eye(4), torch.eye(4) * 2 + 0.5
    negatives = torch.full((8, 4), 100.0)  # given, and left alone
    rank = Rank(loss="hinge", margin=3.0)
    # own 2.5, others 0.5: 3 - 2.5 + 0.5 = 1 each; query 0 has two others, for one is relevant
    assert rank_losses(rank, queries, positives, negatives, known).tolist() == [2.0, 3.0, 3.0, 3.0]


def test_pointwise_loss_is_added_where_the_stage_says_so() -> None:
    queries, positives = torch.tensor([[1.0, 0.0, 1.0]] * 2), torch.rand(2, 3)
    outputs = Outputs(queries=queries, positives=positives, negatives=torch.rand(2, 3))
    known = torch.zeros(2, 4, dtype=torch.bool)
    likelihood = positives.log_softmax(dim=1)
    stage = Stage(**STAGE, rank=Rank(), pointwise=Pointwise(weight=2.0, component="expansion"))
    _, without = objective(stage, outputs, known, None, 1.0, component="weighting")
    assert set(without) == {"rank_loss"}
    total, parts = objective(stage, outputs, known, None, 1.0, component="expansion")
    assert parts["pointwise_loss"].item() == pytest.approx(-2 * float((queries * likelihood).sum(dim=1).mean()))
    assert total.item() == pytest.approx(float(parts["rank_loss"] + parts["pointwise_loss"]))
    kept = torch.tensor([False, True, True])  # queries lose the first term
    _, parts = objective(stage, outputs, known, None, 1.0, component="expansion", kept=kept)
    assert parts["pointwise_loss"].item() == pytest.approx(-2 * float(likelihood[:, 2].mean()))
    per_example = example_losses(stage, outputs, known, component="expansion", kept=kept)
    assert per_example.mean().item() == pytest.approx(float(parts["rank_loss"] + parts["pointwise_loss"]))


def test_rank_loss_scores_the_right_pairs() -> None:
    rng = torch.Generator().manual_seed(0)
    queries, positives = torch.rand(3, 5, generator=rng), torch.rand(3, 5, generator=rng)
    negatives = torch.rand(6, 5, generator=rng)
    known = torch.zeros(3, 9, dtype=torch.bool)
    plain, every, pairs = 0.0, 0.0, 0.0
    for i in range(3):
        scores = [float(queries[i] @ positive) * 2 for positive in positives]
        hard = [float(queries[i] @ negatives[2 * i + j]) * 2 for j in range(2)]
        others = [float(queries[i] @ negative) * 2 for negative in negatives]
        plain -= scores[i] - np.log(np.exp([*scores, *hard]).sum())
        every -= scores[i] - np.log(np.exp([*scores, *others]).sum())
        pairs -= sum(scores[i] - np.log(np.exp([scores[i], score]).sum()) for score in hard) / 2
    for rank, expected in [
        (Rank(score_scale=2.0), plain),
        (Rank(score_scale=2.0, others_hard_negatives=True), every),
        (Rank(score_scale=2.0, loss="pairwise"), pairs),
    ]:
        assert rank_loss(rank, queries, positives, negatives, known).item() == pytest.approx(expected / 3)
