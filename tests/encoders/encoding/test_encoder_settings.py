"""Changed settings of a checkpoint: what they leave valid, and which are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from encoders.encoding.loading import load_encoder
from encoders.encoding.model import new_model, save_checkpoint
from encoders.models import SIDES
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from tests.encoders.models.cases import SMALLEST


@pytest.fixture(scope="module")
def uhd(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint with a calibrated quantizer per side."""
    model = new_model("uhd", SMALLEST["uhd"], str(tiny_bert))
    model.quantizers = dict.fromkeys(SIDES, Quantizer(7.0, 8))
    folder = tmp_path_factory.mktemp("settings")
    save_checkpoint(folder, model)
    return str(folder)


def test_changes_are_described_as_json_and_read_back(uhd: str) -> None:
    description = load_encoder(uhd, "document", settings={"k": 2, "layers": [2]}).description
    assert json.loads(json.dumps(description)) == description  # layers are a tuple in memory
    assert (description["settings"]["k"], description["settings"]["layers"]) == (2, [2])
    assert load_encoder(uhd, "document", settings=description["settings"]).description == description


def test_query_only_settings_do_not_change_the_weights_hash(uhd: str) -> None:
    """A query without the first bucket reads one tower; its description names those of both."""
    both, one = (load_encoder(uhd, "query", settings={"bucket_weights": weights}) for weights in ([1, 2], [0, 1]))
    assert both.description["weights_sha256"].keys() == {"bucket-1", "bucket-2"}
    assert one.description["weights_sha256"] == both.description["weights_sha256"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Quantizer(7.0, 8)),
        ({"k": 4, "dimensions": 48}, Quantizer(7.0, 8)),  # unchanged values
        ({"query_k": 3}, Quantizer(7.0, 8)),
        ({"k": 3}, None),
        ({"binarize": True, "query_k": 3}, Quantizer(1.0)),
    ],
)
def test_changes_to_documents_discard_the_stored_quantizer(
    uhd: str, changes: dict[str, Any], expected: Quantizer | None
) -> None:
    for side in SIDES:
        assert load_encoder(uhd, side, settings=changes).quantizer == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"dimensions": 9},
            r"'dimensions' belongs to how the model was trained.*changeable: binarize, bucket_weights, ",
        ),
        ({"normalise": "both"}, "did you mean 'normalize'"),
        ({"query_k": "many"}, "query_k: expected .*, got 'many'"),
    ],
)
def test_invalid_changes(uhd: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        load_encoder(uhd, "document", settings=changes)
