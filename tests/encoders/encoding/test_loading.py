"""The kind of encoder that each side gets, and its options."""

from __future__ import annotations

from pathlib import Path

import pytest

from encoders.encoding.loading import load_encoder
from encoders.encoding.model import new_model, save_checkpoint
from encoders.models import SIDES
from learned_sparse.core.errors import LearnedSparseError
from tests.tiny_models import TEXTS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> str:
    """SPLADE with bag-of-words queries."""
    path = tmp_path_factory.mktemp("loading") / "splade-doc"
    save_checkpoint(path, new_model("splade", {"query": "bag-of-words"}, str(tiny_bert)))
    return str(path)


def test_all_options_are_passed_on(folder: str) -> None:
    encoder = load_encoder(folder, "document", device="cpu", dtype="fp32", max_length=7, top_k=3, batch_size=2)
    assert {key: encoder.description[key] for key in ("dtype", "max_length", "top_k")} == {
        "dtype": "fp32", "max_length": 7, "top_k": 3,
    }  # fmt: skip
    assert (encoder.encode(TEXTS).indptr[1:] - encoder.encode(TEXTS).indptr[:-1]).max() == 3
    # a bag of words ignores device and dtype
    plain = load_encoder(folder, "query", max_length=7, top_k=3)
    assert load_encoder(folder, "query", device="cpu", dtype="bf16", max_length=7, top_k=3).description == (
        plain.description
    )
    assert (plain.description["max_length"], plain.description["top_k"]) == (7, 3)
    assert load_encoder(folder, "query", max_length=3, top_k=1).encode(["wing lift"]).row(0) == {"wing": 1.0}


def test_errors_name_the_model(folder: str) -> None:
    for side in SIDES:
        with pytest.raises(LearnedSparseError, match=rf"^mine \({side}\): max length 1;"):
            load_encoder(folder, side, model="mine", max_length=1)
    with pytest.raises(LearnedSparseError, match="no such folder"):
        load_encoder("./nowhere", "query")
