"""SparTerm computed by hand and by plain loops."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from encoders.checkpoints.tokenizer import Vocabulary
from encoders.encoding.model import new_model
from encoders.models import SIDES
from encoders.models.bags import BagOfWords
from encoders.models.objectives import Labels, Tokens
from encoders.models.sparterm import SparTerm, SparTermSettings, gate_bce
from encoders.training.objective import RankingObjective
from encoders.training.recipe import Stage, StageOptions
from learned_sparse.core.encoder import Side
from tests.encoders.models import cases
from tests.encoders.models.heads import ADDED, NOT_IN_BAG, SPECIAL, UNUSED, LogitTable, inputs, logits_of, weigh
from tests.reference.sparterm import sparterm
from tests.tiny_models import TEXTS, VOCABULARY

VOCABULARY_OF_THREE = Vocabulary(["zero", "one", "two"], special_ids=(), unknown_id=None, unused_ids=())


def weights_by_hand(
    importance: LogitTable | None, gate: LogitTable | None, tokens: list[int], **settings: Any
) -> list[float]:
    towers: Any = {"importance": importance} | ({} if gate is None else {"gate": gate})
    module = SparTerm(SparTermSettings(**settings), towers, VOCABULARY_OF_THREE)
    weights: list[float] = module(torch.tensor([tokens]), torch.ones(1, len(tokens)))[0].tolist()
    return weights


IMPORTANCE = LogitTable([1.0, 2.0, 3.0], [0.5, -1.0, 0.25], [9.0, 9.0, 9.0])


@pytest.mark.parametrize(
    ("settings", "gate", "expected"),
    [
        ({"mode": "literal-only"}, None, [1.5, 2.0, 0.0]),  # 1 + .5, 2 + ReLU(-1)
        ({}, [0.0, 0.0, 0.9], [1.5, 2.0, 3.25]),  # sigmoid(0.9 + 0.9) = 0.86 opens the word 2
        ({}, [0.0, 0.0, 0.4], [1.5, 2.0, 0.0]),  # sigmoid(0.8) = 0.69 < 0.7
        ({"gate_pool": "max"}, [0.0, 0.0, 0.8], [1.5, 2.0, 0.0]),  # a maximum, not 1.6
        ({"gate_pool": "max"}, [0.0, 0.0, 0.9], [1.5, 2.0, 3.25]),
        ({"gate_pool": "raw_max", "threshold": 0.3}, [0.0, 0.0, -1.0], [1.5, 2.0, 0.0]),  # sigmoid(-1) = 0.27
        ({"gate_pool": "max", "threshold": 0.3}, [0.0, 0.0, -1.0], [1.5, 2.0, 3.25]),  # ReLU: sigmoid(0) = 0.5
        ({"threshold": 0.5}, [0.0, 0.0, -7.0], [1.5, 2.0, 3.25]),  # G >= 0.5 always
        ({"threshold": 0.0}, [0.0, 0.0, -7.0], [1.5, 2.0, 3.25]),
        ({"threshold": 1.0}, [0.0, 0.0, 99.0], [1.5, 2.0, 0.0]),
        ({"max_terms": 2}, [0.0, 0.0, 9.0], [0.0, 2.0, 3.25]),
    ],
)
def test_by_hand(settings: dict[str, Any], gate: list[float] | None, expected: list[float]) -> None:
    """The text "0 1"; word 2 is expansion."""
    tower = None if gate is None else LogitTable(gate, gate, gate)
    assert weights_by_hand(IMPORTANCE, tower, [0, 1], **settings) == pytest.approx(expected)


def test_the_threshold_of_the_paper_in_logits() -> None:
    """The floats just below and above 0.847..., whose sigmoid is 0.7."""
    edge = math.log(0.7 / 0.3)
    for logit, opened in ((edge + 1e-4, 1.0), (edge - 1e-4, 0.0)):
        gate = LogitTable([0.0, 0.0, logit], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0])
        assert weights_by_hand(None, gate, [0], mode="expansion-only", query="tf") == [1.0, 0.0, opened]


@pytest.mark.parametrize("settings", cases.SPARTERM, ids=str)
def test_equals_plain_loops_over_its_logits(settings: dict[str, Any], tiny_bert: Path) -> None:
    model = new_model("sparterm", settings, str(tiny_bert))
    for number, tower in enumerate(model.towers.values()):  # makes the two towers different
        with torch.no_grad():
            tower.decoder.bias.sub_(0.7 * number)
    parsed: SparTermSettings = model.settings
    model.weighers.eval()
    sides: tuple[Side, ...] = SIDES if parsed.query_bag is None else ("document",)
    for text, side in product(TEXTS, sides):
        ids = inputs(model, [text])[0][0]
        logits = {name.removeprefix("query_"): logits_of(model.towers[name], ids) for name in parsed.networks(side)}
        unused_logits = next(iter(logits.values()))  # the mode does not use the logits of a missing tower
        weights = weigh(model.weighers[side], model, [text])[0]
        expected = sparterm(
            logits.get("importance", unused_logits),
            logits.get("gate", unused_logits),
            ids.tolist(),
            mode="literal-only" if side == "query" and parsed.query_gate == "literal" else parsed.mode,
            gate_pool=parsed.gate_pool,
            threshold=parsed.threshold,
            max_terms=parsed.max_terms,
            not_pooled=[] if parsed.pool_special_tokens else ADDED,
            not_in_bag=NOT_IN_BAG[parsed.bow_special_tokens],
            blocked=[*SPECIAL.values(), *UNUSED] if parsed.block_special_terms else [],
        )
        torch.testing.assert_close(weights, torch.tensor(expected), rtol=1e-4, atol=1e-4)


def test_the_tiny_model_adds_some_expansion_terms(tiny_bert: Path) -> None:
    """Guards the comparison with plain loops: Eq. 5 and 6 need expansion terms."""
    model = new_model("sparterm", {}, str(tiny_bert))
    weights = weigh(model.weighers.eval().document, model, TEXTS[:1])[0]
    literal = set(inputs(model, TEXTS[:1])[0][0].tolist())
    opened = {token for token in weights.nonzero().flatten().tolist() if token not in literal}
    assert 3 < len(opened) < len(VOCABULARY) - len(literal) - 3


def test_a_frozen_gate_has_no_dropout(tiny_bert: Path) -> None:
    model = new_model("sparterm", {}, str(tiny_bert))
    model.weighers.train()
    assert model.towers["gate"].training
    model.towers["gate"].requires_grad_(False)
    model.weighers.train()
    assert not model.towers["gate"].training
    assert not model.towers["gate"].model.training
    assert model.towers["importance"].training


@pytest.mark.parametrize("objective", ["gate", "rank"])
def test_the_gate_learns_the_terms_of_queries(objective: str, tiny_bert: Path) -> None:
    """Eq. 8, in the gate stage and in the joint one."""
    model = new_model("sparterm", {"query": "asymmetric"}, str(tiny_bert))
    module: Any = model.weighers.eval()
    queries, documents = Tokens(*inputs(model, TEXTS[:2])), Tokens(*inputs(model, TEXTS[2:6]))
    options = StageOptions(joint=objective == "rank")
    stage = Stage(name="s", steps=1, batch_size=2, objective=objective, options=options)
    ranking = RankingObjective(stage.rank, module, ("importance", "query_importance"))
    trained = model.settings.objective(ranking, stage, module)
    assert "gate" in trained.towers
    outputs = trained.outputs(queries, documents)
    bag = BagOfWords(Vocabulary.from_tokenizer(model.tokenizer, len(VOCABULARY)))
    losses = trained.losses(outputs, Labels(torch.zeros(2, 4, dtype=torch.bool)))
    logits = module.document.gate(*documents)[:2]
    torch.testing.assert_close(losses["gate_loss"], gate_bce(logits, bag(*queries)))
    if options.joint:
        torch.testing.assert_close(outputs["queries"], module.query(*queries))
        torch.testing.assert_close(outputs["positives"], module.document(*documents)[:2])
