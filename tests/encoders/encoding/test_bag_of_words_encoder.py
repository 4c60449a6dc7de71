"""The bag-of-words encoder without torch gives the same vectors as the one with torch."""

from __future__ import annotations

import shutil
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from encoders.checkpoints.notes import NOTES, read_notes
from encoders.checkpoints.tokenizer import TOKENIZER, Vocabulary
from encoders.encoding.bag_of_words import BagNotes, BagOfWordsEncoder
from encoders.encoding.encoder import CheckpointEncoder
from encoders.encoding.loading import load_encoder
from encoders.encoding.model import new_model, save_checkpoint
from encoders.models.bags import BagOfWords
from learned_sparse.core.encoder import Encoder
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import read_json, write_json
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import EXPANDED, SparseBatch
from tests.tiny_models import TEXTS, VOCABULARY, tokenizer

UNUSUAL = [
    "[CLS] wing [SEP] wing [PAD] [MASK] [UNK]",
    "[unused0] zzz ☃ \x00 \x1e \x7f \ufeff",
    f"wing lift{EXPANDED}drag lift",
    "wing " * 100,
    "\t\n ",
    "ÉTÉ été e\u0301te\u0301 ﬁn 　 ",
    "the wing-tip's wing, wings; winged?",
]
ALL_TEXTS = [*TEXTS, *UNUSUAL]
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "tf": ("sparterm", {"query": "tf"}),
    "bm25": ("sparterm", {"query": "tf", "mode": "expansion-only", "bow_special_tokens": "unknown"}),
    "boolean": ("spade", {"bow_special_tokens": "unknown"}),
    "binary": ("splade", {"query": "bag-of-words"}),
    "all": ("splade", {"query": "bag-of-words", "query_weighting": "tf", "bow_special_tokens": "all"}),
    "table": ("splade", {"query": "bag-of-words", "query_weighting": "learned"}),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> dict[str, Path]:
    """Checkpoint folders, each with one without bags beside it."""
    folders = {}
    for name, (architecture, settings) in CASES.items():
        folders[name] = tmp_path_factory.mktemp("bags") / name
        model = new_model(architecture, settings, str(tiny_bert))
        if name == "table":
            model.towers["query_weights"].weights.data.copy_(torch.linspace(-1, 3, len(VOCABULARY)))
        elif name == "tf":
            model.quantizers["query"] = Quantizer(3.0, 8)
        save_checkpoint(folders[name], model)
        older = Path(shutil.copytree(folders[name], folders[name].with_name("older")))
        content = read_json(older / NOTES, record=True)
        del content["bags"]
        write_json(older / NOTES, content, record=True)
    return folders


def both(folder: Path, **options: Any) -> tuple[BagOfWordsEncoder, CheckpointEncoder]:
    """The query side by both encoders, in fp32; a checkpoint of an early version has no bags."""
    older = folder.with_name("older")
    bag, plain = (load_encoder(str(path), "query", dtype="fp32", **options) for path in (folder, older))
    assert isinstance(bag, BagOfWordsEncoder)
    assert isinstance(plain, CheckpointEncoder)
    return bag, plain


def assert_equal(first: SparseBatch, second: SparseBatch) -> None:
    assert list(first.terms) == list(second.terms)
    assert (first.truncated, first.dropped) == (second.truncated, second.dropped)
    for name in ("indptr", "indices", "values"):
        actual, expected = getattr(first, name), getattr(second, name)
        assert actual.dtype == expected.dtype, name
        np.testing.assert_array_equal(actual, expected)


OPTIONS: list[dict[str, Any]] = [{}, {"max_length": 5}, {"top_k": 2}, {"max_length": 3, "top_k": 1}]
THRESHOLD: dict[str, Any] = {"settings": {"threshold": 0.5}}
"""The gate of documents, which changes no query."""


@pytest.mark.parametrize(("name", "options"), [*product(CASES, OPTIONS), ("tf", THRESHOLD), ("bm25", THRESHOLD)])
def test_vectors_and_attributes_are_equal(saved: dict[str, Path], name: str, options: dict[str, Any]) -> None:
    bag, plain = both(saved[name], **options)
    batches = bag.encode(ALL_TEXTS), plain.encode(ALL_TEXTS)
    assert_equal(*batches)
    for attribute in ("description", "quantizer", "unwritable", "uses_expanded", "max_length"):
        assert getattr(bag, attribute) == getattr(plain, attribute), attribute
    assert batches[0].truncated >= 1
    assert bag.explain(TEXTS[0]) == plain.explain(TEXTS[0])
    assert_equal(bag.encode([]), plain.encode([]))


@pytest.fixture(scope="module")
def pair(saved: dict[str, Path]) -> tuple[BagOfWordsEncoder, CheckpointEncoder]:
    """Both encoders, created once."""
    return both(saved["all"], max_length=12)


words = st.sampled_from([*VOCABULARY, " ", "-", "É", "ß", "☃", "中", "\u200b", "[SEP]", EXPANDED, "winging"])
some_text = st.lists(words | st.characters(codec="utf-8"), max_size=25).map("".join)


@given(texts=st.lists(some_text, max_size=4))
def test_any_text(pair: tuple[BagOfWordsEncoder, CheckpointEncoder], texts: list[str]) -> None:
    bag, plain = pair
    assert_equal(bag.encode(texts), plain.encode(texts))


def test_by_hand(saved: dict[str, Path]) -> None:
    bag: Encoder = load_encoder(str(saved["tf"]), "query")
    assert isinstance(bag, BagOfWordsEncoder)
    assert bag.encode(["Wing, wing [SEP] lift zz"]).row(0) == {"wing": 2, ",": 1, "lift": 1, "z": 1, "##z": 1}
    for name in ("binary", "boolean"):
        assert load_encoder(str(saved[name]), "query").encode(["wing wing ☃"]).row(0) == {"wing": 1, "[UNK]": 1}
    number = VOCABULARY.index("wing")
    weight = pytest.approx(-1 + 4 * number / (len(VOCABULARY) - 1), rel=1e-5)
    assert load_encoder(str(saved["table"]), "query").encode(["wing wing a"]).row(0) == {"wing": weight}


def test_terms_that_lucene_cannot_store() -> None:
    terms = [term if term != "wing" else "new york" for term in VOCABULARY]
    notes = BagNotes(weighting="tf", excluded=(), scoring="impact", scale=1.0)
    backend = Tokenizer.from_str(tokenizer().backend_tokenizer.to_str())
    bag = BagOfWordsEncoder(backend, terms, notes, max_length=9)
    module = BagOfWords(Vocabulary.from_tokenizer(tokenizer(), len(terms)), "tf", "all")
    plain = CheckpointEncoder(
        module, tokenizer(), terms, max_length=9, device=torch.device("cpu"), dtype="fp32"
    )  # fmt: skip
    for encoder in (bag, plain):
        batch = encoder.encode(["wing wing lift", "wing"])
        assert batch.row(0) == {"[CLS]": 1, "[SEP]": 1, "lift": 1}
        assert batch.dropped == 2


def test_changed_settings(saved: dict[str, Path]) -> None:
    load = partial(load_encoder, str(saved["tf"]), "query")
    assert load(settings={"threshold": 0.7}).quantizer == Quantizer(3.0, 8)  # as it was
    assert load(settings={"threshold": 1}).quantizer == Quantizer(1.0)
    for setting, message in (("treshold", "did you mean 'threshold'"), ("query", "changeable: max_terms, threshold")):
        with pytest.raises(LearnedSparseError, match=rf"\(query\).*{message}"):
            load(settings={setting: "symmetric"})


def test_a_damaged_or_missing_tokenizer_file(saved: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved["tf"], tmp_path / "damaged"))
    (folder / TOKENIZER).write_text("{")
    write_json(folder / NOTES, read_json(folder / NOTES, record=True) | {"files": {}}, record=True)
    with pytest.raises(LearnedSparseError, match=r"tokenizer\.json: not a readable tokenizer"):
        load_encoder(str(folder), "query")
    (folder / TOKENIZER).unlink()
    with pytest.raises(LearnedSparseError, match=r"tokenizer\.json: no such file"):
        load_encoder(str(folder), "query")


def test_bag_notes_are_omitted_if_the_tokenizers_could_differ(tiny_bert: Path, tmp_path: Path) -> None:
    def bags(name: str, **changes: Any) -> set[str]:
        model = new_model(*CASES["tf"], str(tiny_bert))
        model.tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_bert, **changes)
        save_checkpoint(tmp_path / name, model)
        return set(read_notes(tmp_path / name).bags)

    assert bags("plain") == {"query"}
    assert bags("from the left", truncation_side="left") == set()
    assert bags("special tokens as text", split_special_tokens=True) == set()
