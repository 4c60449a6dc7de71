"""Output biases from document frequencies, against the formula by hand."""

from __future__ import annotations

import math
from pathlib import Path

import torch

from encoders.encoding import new_model
from encoders.training.idf import add_idf_bias, inverse_document_frequencies

DOCUMENTS = ["python file", "python file file", "wing", "python"]


def test_frequencies_count_documents_and_skip_what_is_no_word(tiny_headless: Path) -> None:
    model = new_model("splade", {"pooling": "max"}, str(tiny_headless))
    found, ids = inverse_document_frequencies(model, DOCUMENTS), model.tokenizer.get_vocab()
    expected = {"python": 5 / 4, "file": 5 / 3, "wing": 5 / 2, "skin": 5 / 1}
    for term, ratio in expected.items():
        assert math.isclose(found[ids[term]], math.log(ratio), rel_tol=1e-6)
    assert all(found[ids[term]] == 0 for term in ("[CLS]", "[SEP]", "[PAD]", "[UNK]", "[unused0]"))


def test_biases_of_all_towers_but_gates_are_raised(tiny_headless: Path) -> None:
    model = new_model("sparterm", {"query": "asymmetric"}, str(tiny_headless), output_bias=-3.0)
    add_idf_bias(model, DOCUMENTS, 0.5)
    expected = -3.0 + 0.5 * inverse_document_frequencies(model, DOCUMENTS)
    assert set(model.towers) == {"importance", "gate", "query_importance", "query_gate"}
    for name, tower in model.towers.items():
        wanted = torch.full_like(expected, -3.0) if name.endswith("gate") else expected
        torch.testing.assert_close(tower.decoder_bias.detach(), wanted)
