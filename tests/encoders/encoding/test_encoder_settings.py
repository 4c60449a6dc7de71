"""What an architecture decides for its encoders: changeable settings, terms, and expanded text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn

from encoders.encoding.loading import load_encoder
from encoders.encoding.model import new_model, save_checkpoint
from encoders.models import ARCHITECTURES, SIDES
from encoders.models.architecture import Architecture
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import EXPANDED


@dataclass(frozen=True, kw_only=True)
class ScaledSettings:
    """Settings of a test architecture."""

    factor: float = 1.0
    cut: int = 9
    layers: tuple[int, ...] = (1, 2)
    seed: int = 0


class Scaled(nn.Module):
    """Weights are text lengths times a factor, up to a limit."""

    def __init__(self, settings: ScaledSettings, tower: Any) -> None:
        super().__init__()
        self.tower, self.settings = tower, settings

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        lengths = attention_mask.sum(1, keepdim=True) * self.settings.factor
        return lengths.clamp(max=self.settings.cut).expand(-1, len(self.settings.layers)).float()


class ScaledArchitecture(Architecture[ScaledSettings]):
    settings = ScaledSettings
    changeable = frozenset({"factor", "cut", "layers"})
    query_only_settings = frozenset({"cut"})

    def networks(self, settings: ScaledSettings, side: Side) -> tuple[str, ...]:
        return ("body",) if side == "document" or settings.cut > 1 else ()

    def network_side(self, settings: ScaledSettings, side: Side, towers: Any, vocabulary: Any) -> nn.Module:
        return Scaled(settings, towers.get("body"))

    def scale(self, settings: ScaledSettings, side: Side) -> float | None:
        return 2.0 if side == "query" else None

    def terms(self, settings: ScaledSettings, vocabulary: Any) -> list[str]:
        return [f"b{layer}" for layer in settings.layers]

    def uses_expanded(self, settings: ScaledSettings) -> bool:
        return settings.cut > 5


@pytest.fixture
def scaled(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A checkpoint of the test architecture with a calibrated quantizer per side."""
    monkeypatch.setitem(ARCHITECTURES, "scaled", ScaledArchitecture())
    model = new_model("scaled", {"factor": 1.5}, str(tiny_bert))
    model.quantizers = dict.fromkeys(SIDES, Quantizer(7.0, 8))
    save_checkpoint(tmp_path / "scaled", model)
    return str(tmp_path / "scaled")


def test_terms_come_from_the_architecture(scaled: str) -> None:
    encoder = load_encoder(scaled, "document")
    assert list(encoder.terms) == ["b1", "b2"]
    assert encoder.encode(["wing"]).row(0) == {"b1": 4.5, "b2": 4.5}
    assert json.loads(json.dumps(encoder.description)) == encoder.description  # layers are a tuple in memory
    assert encoder.description["settings"]["layers"] == [1, 2]


def test_settings_can_be_changed(scaled: str) -> None:
    encoder = load_encoder(scaled, "document", settings={"factor": 2, "layers": [2]})
    assert encoder.encode(["wing"]).row(0) == {"b2": 6.0}
    assert encoder.description["settings"] == {"factor": 2.0, "cut": 9, "layers": [2], "seed": 0}
    settings = encoder.description["settings"]
    assert load_encoder(scaled, "document", settings=settings).description == encoder.description


def test_query_only_settings_do_not_change_the_weights_hash(scaled: str) -> None:
    """The description of a query side without a tower has the weights hash of the document side."""
    large, small = (load_encoder(scaled, "query", settings={"cut": cut}) for cut in (9, 1))
    assert large.description["weights_sha256"].keys() == {"body"}
    assert small.description["weights_sha256"] == large.description["weights_sha256"]


@pytest.mark.parametrize(
    ("changes", "query", "document"),
    [
        ({}, Quantizer(7.0, 8), Quantizer(7.0, 8)),
        ({"factor": 1.5, "seed": 0}, Quantizer(7.0, 8), Quantizer(7.0, 8)),  # unchanged values
        ({"cut": 3}, Quantizer(7.0, 8), Quantizer(7.0, 8)),
        ({"factor": 3.0}, Quantizer(2.0), None),
        ({"factor": 3.0, "cut": 3}, Quantizer(2.0), None),
    ],
)
def test_changes_to_documents_discard_the_stored_quantizer(
    scaled: str, changes: dict[str, Any], query: Quantizer | None, document: Quantizer | None
) -> None:
    assert load_encoder(scaled, "query", settings=changes).quantizer == query
    assert load_encoder(scaled, "document", settings=changes).quantizer == document


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 1}, r"'seed' belongs to how the model was trained.*changeable: cut, factor, layers$"),
        ({"factr": 1}, "did you mean 'factor'"),
        ({"cut": "many"}, "cut: expected int, got 'many'"),
    ],
)
def test_invalid_changes(scaled: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        load_encoder(scaled, "document", settings=changes)


def test_only_documents_are_expanded(scaled: str) -> None:
    assert load_encoder(scaled, "document").uses_expanded
    assert not load_encoder(scaled, "document", settings={"cut": 5}).uses_expanded
    assert not load_encoder(scaled, "query").uses_expanded


def test_expanded_text_is_the_second_sequence_of_a_pair(scaled: str) -> None:
    encoder = load_encoder(scaled, "document", settings={"factor": 1.0, "cut": 100}, max_length=9)
    texts = ["wing", f"wing lift{EXPANDED}drag flow heat", f"wing lift drag flow heat{EXPANDED}the hot skin rash"]
    assert [row["b1"] for row in map(encoder.encode(texts).row, range(3))] == [3, 8, 9]
    assert encoder.truncated == 1
