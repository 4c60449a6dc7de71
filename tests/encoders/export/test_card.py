"""The model card of an export says where the model comes from, without folders of the machine."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import huggingface_hub
import pytest

from encoders.encoding.model import new_model, save_checkpoint
from encoders.export import __main__ as command
from learned_sparse.core.errors import LearnedSparseError

RECIPE = {
    "model": "splade",
    "backbone": "prajjwal1/bert-tiny",
    "data": [{"collection": "scifact", "split": "train"}, {"examples": "/mnt/secret/triples.tsv"}],
}


def test_the_command_exports_with_a_card(tiny_bert: Path, tmp_path: Path) -> None:
    model = new_model("splade", {"pooling": "max"}, str(tiny_bert))
    save_checkpoint(tmp_path / "mine", dataclasses.replace(model, recipe=RECIPE, training={"MRR@10": 0.25}))
    words = ["--checkpoint", str(tmp_path / "mine"), "--to", "sentence-transformers", "--license", "apache-2.0"]
    assert command.main([*words, "--output", str(tmp_path / "out")]) == 0
    card = huggingface_hub.ModelCard.load(tmp_path / "out" / "README.md")
    assert card.data.library_name == "sentence-transformers"
    assert (card.data.license, card.data.base_model) == ("apache-2.0", "prajjwal1/bert-tiny")
    for text in (
        'SparseEncoder("out")', "- collection: scifact\n  split: train\n- examples: triples.tsv\n",
        "MRR@10 0.2500 on the validation queries",
    ):  # fmt: skip
        assert text in card.text
    assert "secret" not in card.text
    with pytest.raises(LearnedSparseError, match="which model"):
        command.main(["--to", "pyserini", "--output", "x"])
