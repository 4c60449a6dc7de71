"""SparTerm by hand and against plain loops."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from encoders.checkpoints import Vocabulary
from encoders.encoding import new_model
from encoders.models import ARCHITECTURES, SparTerm, SparTermSettings
from learned_sparse.core.errors import LearnedSparseError
from tests.encoders.models import cases
from tests.reference.sparterm import sparterm
from tests.tiny_models import TEXTS, VOCABULARY

VOCABULARY_OF_THREE = Vocabulary(["zero", "one", "two"], special_ids=(), unknown_id=None, unused_ids=())


class Rows(torch.nn.Module):
    """Stands for a tower over three words: token t has the logits ``rows[t]``."""

    def __init__(self, *rows: list[float]) -> None:
        super().__init__()
        self.rows = torch.tensor(rows)
        self.decoder_weight = torch.eye(3)
        self.decoder_bias = torch.zeros(3)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.rows[input_ids]


def weigh(importance: Rows | None, gate: Rows | None, tokens: list[int], **settings: Any) -> list[float]:
    towers: list[Any] = [importance, gate]
    module = SparTerm(SparTermSettings(**settings), towers[0], towers[1], VOCABULARY_OF_THREE)
    weights: list[float] = module(torch.tensor([tokens]), torch.ones(1, len(tokens)))[0].tolist()
    return weights


IMPORTANCE = Rows([1.0, 2.0, 3.0], [0.5, -1.0, 0.25], [9.0, 9.0, 9.0])


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
    tower = None if gate is None else Rows(gate, gate, gate)
    assert weigh(IMPORTANCE, tower, [0, 1], **settings) == pytest.approx(expected)


def test_expansion_only_by_hand() -> None:
    gate = Rows([0.0, 0.0, 0.5], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0])
    assert weigh(None, gate, [0, 1, 0], mode="expansion-only", query="tf") == [2.0, 1.0, 1.0]  # sigmoid(1.5) = .82


def test_the_threshold_of_the_paper_in_logits() -> None:
    """0.7 = sigmoid(0.847...): a float on either side."""
    edge = math.log(0.7 / 0.3)
    for logit, opened in ((edge + 1e-4, 1.0), (edge - 1e-4, 0.0)):
        gate = Rows([0.0, 0.0, logit], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0])
        assert weigh(None, gate, [0], mode="expansion-only", query="tf") == [1.0, 0.0, opened]


@pytest.mark.parametrize("threshold", [-0.1, 1.1])
def test_a_threshold_that_is_no_probability(threshold: float, tiny_bert: Path) -> None:
    with pytest.raises(LearnedSparseError, match="from 0 to 1"):
        new_model("sparterm", {"threshold": threshold}, str(tiny_bert))


@pytest.mark.parametrize("settings", cases.SPARTERM, ids=str)
def test_equals_plain_loops_over_the_models_own_logits(settings: dict[str, Any], tiny_bert: Path) -> None:
    model = new_model("sparterm", settings, str(tiny_bert))
    for number, tower in enumerate(model.towers.values()):  # the two towers must not agree
        with torch.no_grad():
            tower.decoder_bias.sub_(0.7 * number)
    parsed: SparTermSettings = model.settings
    special = {word: VOCABULARY.index(word) for word in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")}
    added = [token for word, token in special.items() if word != "[UNK]"]
    unused = [token for token, word in enumerate(VOCABULARY) if word.startswith("[unused")]
    model.weighers.eval()
    for text in TEXTS:
        inputs = model.tokenizer([text], return_tensors="pt", return_token_type_ids=False)
        with torch.no_grad():
            logits = {
                name: (tower(**inputs) @ tower.decoder_weight.T + tower.decoder_bias)[0].tolist()
                for name, tower in model.towers.items()
            }
            weights = model.weighers.document(**inputs)[0]
        some = next(iter(logits.values()))
        expected = sparterm(
            logits.get("importance", some),
            logits.get("gate", some),
            inputs["input_ids"][0].tolist(),
            mode=parsed.mode,
            gate_pool=parsed.gate_pool,
            threshold=parsed.threshold,
            max_terms=parsed.max_terms,
            not_pooled=[] if parsed.pool_special_tokens else added,
            not_in_bag={"all": [], "unknown": added, "none": list(special.values())}[parsed.bow_special_tokens],
            blocked=[*special.values(), *unused] if parsed.block_special_terms else [],
        )
        torch.testing.assert_close(weights, torch.tensor(expected), rtol=1e-4, atol=1e-4)


def test_the_gate_opens_some_expansion_in_these_tests(tiny_bert: Path) -> None:
    """Else the comparison above would say little about Eq. 5 and 6."""
    model = new_model("sparterm", {}, str(tiny_bert))
    inputs = model.tokenizer(TEXTS[:1], return_tensors="pt", return_token_type_ids=False)
    weights = model.weighers.eval().document(**inputs)[0]
    literal = set(inputs["input_ids"][0].tolist())
    opened = {token for token in weights.nonzero().flatten().tolist() if token not in literal}
    assert 3 < len(opened) < len(VOCABULARY) - len(literal) - 3


def test_gate_logits_can_be_handed_in(tiny_bert: Path) -> None:
    """Joint training runs the gate once."""
    model = new_model("sparterm", {}, str(tiny_bert))
    module: Any = model.weighers.eval().document
    inputs = model.tokenizer(TEXTS, return_tensors="pt", padding=True, return_token_type_ids=False)
    logits = module.gate_logits(**inputs)
    torch.testing.assert_close(module(**inputs, gate_logits=logits), module(**inputs))
    closed = torch.full_like(logits, -100.0)
    bag = module.bag_of_words(**inputs)
    assert torch.equal(module(**inputs, gate_logits=closed) > 0, (module(**inputs) > 0) & (bag > 0))
    assert not module(**inputs, gate_logits=closed).isnan().any()
    module(**inputs, gate_logits=logits).sum().backward()
    assert all(parameter.grad is None for parameter in model.towers["gate"].parameters())


def test_a_frozen_gate_knows_no_dropout(tiny_bert: Path) -> None:
    model = new_model("sparterm", {}, str(tiny_bert))
    model.weighers.train()
    assert model.towers["gate"].training
    model.towers["gate"].requires_grad_(False)
    model.weighers.train()
    assert not model.towers["gate"].training
    assert not model.towers["gate"].model.training
    assert model.towers["importance"].training


def test_query_gate_literal(tiny_bert: Path) -> None:
    both = new_model("sparterm", {"query_gate": "literal"}, str(tiny_bert)).weighers.eval()
    literal_only = new_model("sparterm", {"mode": "literal-only"}, str(tiny_bert)).weighers.eval()
    tokenizer = new_model("sparterm", {}, str(tiny_bert)).tokenizer
    inputs = tokenizer(TEXTS, return_tensors="pt", padding=True, return_token_type_ids=False)
    torch.testing.assert_close(both.query(**inputs), literal_only.document(**inputs))
    assert (both.document(**inputs) > 0).sum() > (both.query(**inputs) > 0).sum()


def test_which_towers_a_side_reads() -> None:
    towers = ARCHITECTURES["sparterm"].towers
    assert towers(SparTermSettings(), "document") == towers(SparTermSettings(), "query") == ("importance", "gate")
    assert towers(SparTermSettings(query="tf"), "query") == ()
    assert towers(SparTermSettings(query="asymmetric"), "query") == ("query_importance", "query_gate")
    assert towers(SparTermSettings(query="asymmetric", query_gate="literal"), "query") == ("query_importance",)
    assert towers(SparTermSettings(mode="literal-only"), "document") == ("importance",)
    assert towers(SparTermSettings(mode="expansion-only", query="tf"), "document") == ("gate",)


def test_expansion_only_is_scored_by_bm25_with_tf_queries(tiny_bert: Path) -> None:
    scoring = ARCHITECTURES["sparterm"].scoring
    assert scoring(SparTermSettings(mode="expansion-only", query="tf")) == "bm25"
    assert scoring(SparTermSettings()) == "impact"
    with pytest.raises(LearnedSparseError, match="set query: tf"):
        new_model("sparterm", {"mode": "expansion-only"}, str(tiny_bert))


def test_no_gate_no_gate_logits(tiny_bert: Path) -> None:
    module: Any = new_model("sparterm", {"mode": "literal-only"}, str(tiny_bert)).weighers.document
    with pytest.raises(LearnedSparseError, match="no gate to train"):
        module.gate_logits(torch.tensor([[4, 5]]), torch.ones(1, 2))
