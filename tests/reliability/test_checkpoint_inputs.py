"""Damaged, lying and hostile checkpoints: loaded right or refused in one line, before anything is encoded."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from encoders.backbone.towers import LanguageModel
from encoders.checkpoints.notes import NOTES
from encoders.encoding.loading import load_encoder
from encoders.encoding.model import load_checkpoint, new_model, save_checkpoint
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import SparseBatch
from tests.reliability.scale import refusal
from tests.tiny_models import TEXTS

WEIGHTS = "model.safetensors"


@pytest.fixture
def plain(tiny_bert: Path, tmp_path: Path) -> Path:
    """A masked-LM folder to damage."""
    return Path(shutil.copytree(tiny_bert, tmp_path / "plain"))


@pytest.fixture(scope="session")
def saved(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SPLADE with bag-of-words queries, saved by this package."""
    folder = tmp_path_factory.mktemp("saved") / "splade-doc"
    save_checkpoint(folder, new_model("splade", {"query": "bag-of-words"}, str(tiny_bert)))
    return folder


@pytest.fixture
def ours(saved: Path, tmp_path: Path) -> Path:
    """A checkpoint of this package to damage."""
    return Path(shutil.copytree(saved, tmp_path / "ours"))


def encoded(folder: Path, side: Side) -> SparseBatch:
    """Some texts encoded with one side of ``folder``."""
    return load_encoder(str(folder), side, dtype="fp32").encode(TEXTS)


def refused(folder: Path, message: str, side: Side = "document") -> str:
    """The one line of the refusal to load one side of ``folder``."""
    text = refusal(encoded, folder, side)
    assert text is not None
    assert re.search(message, text), text
    return text


def edit(path: Path, **changes: Any) -> None:
    """Change keys of a JSON file; ``None`` removes one. A record of ours loses its checksum."""
    content = json.loads(path.read_bytes()) | {"sha256": None} | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


class Payload:
    """Unpickling it would end the process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exit, (99,))


def test_the_code_of_pickles_is_never_run(plain: Path) -> None:
    for name, message in (
        ("weights.pkl", r"no \*\.safetensors or pytorch_model\.bin; copy or download"),
        ("pytorch_model.bin", "not a pickle of tensors alone, .* never run .*use a revision that has safetensors"),
    ):
        (plain / name).write_bytes(pickle.dumps(Payload()))
        encoded(plain, "document")  # from the safetensors beside it
        (plain / WEIGHTS).rename(plain / "elsewhere")
        refused(plain, message)
        (plain / "elsewhere").rename(plain / WEIGHTS)


def test_an_index_of_several_files_names_only_safetensors(plain: Path) -> None:
    (plain / WEIGHTS).rename(plain / "model-00001-of-00001.safetensors")
    index = plain / f"{WEIGHTS}.index.json"
    names = load_file(plain / "model-00001-of-00001.safetensors")
    (plain / "pytorch_model.bin").write_bytes(pickle.dumps(Payload()))
    for file in ("model-00001-of-00001.safetensors", "pytorch_model.bin", "../x.safetensors", "gone.safetensors"):
        index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(names, file)}))
        if file.startswith("model"):
            encoded(plain, "document")
        else:
            refused(plain, r"index\.json: '.*' is no safetensors file beside it")
    index.write_text("[]")
    refused(plain, "no weight_map")


def test_headers_of_safetensors_are_checked(plain: Path) -> None:
    path = plain / WEIGHTS
    whole = path.read_bytes()
    for damaged in (b"", whole[:7], whole[:100], whole[:-1], whole + b"x", struct.pack("<Q", 2**62) + whole[8:]):
        path.write_bytes(damaged)
        refused(plain, r"model\.safetensors: weights cannot be read \(.*\); copy or download")


@pytest.mark.parametrize("number", [float("nan"), float("-inf")])
def test_weights_that_are_no_numbers(number: float, plain: Path) -> None:
    tensors = load_file(plain / WEIGHTS)
    tensors["bert.encoder.layer.1.output.dense.weight"][3, 5] = number
    save_file(tensors, plain / WEIGHTS, {"format": "pt"})
    refused(plain, r"bert\.encoder\.layer\.1\.output\.dense\.weight holds NaN or infinite numbers")


CODE = {"AutoModelForMaskedLM": "own.Model", "AutoTokenizer": ["own.Tokenizer", None]}
QUANTIZERS: list[tuple[Any, str]] = [
    ({"scale": "big"}, "scale: expected a finite number"), ({"scale": -1}, "quantisation factor -1"),
    ({"scale": 1, "bits": 99}, "99 bits"), (3, "quantizers: document: expected"),
]  # fmt: skip
EDITS: list[tuple[str, Any, str]] = [
    *(("config.json", lie, message) for lie, message in (
        ({"vocab_size": 50}, r"word_embeddings\.weight has the shape \[\d+, 16\] .* \[50, 16\] in config"),
        ({"hidden_size": 32}, r"LayerNorm\.bias has the shape \[16\] in the weights and \[32\] in config"),
        ({"num_hidden_layers": 1}, "config.json has 1 layers, the weights have 2"),
        ({"num_hidden_layers": 3}, r"no weights for bert\.encoder\.layer\.2"),
        ({"hidden_act": "no"}, "config.json"), ({"model_type": "vit"}, "vit is not a masked-LM"),
        ({"model_type": None}, "transformers cannot read config"),
    )),
    *(("config.json", text, r"config\.json") for text in ("", "[]", '{"vocab_size": 1, "vocab_size": 2}', "[" * 10**5)),
    *((file, {"auto_map": CODE}, rf"{file}: names Python code of the checkpoint \(auto_map\), which is never run")
      for file in ("config.json", "tokenizer_config.json")),
    *((NOTES, changes, message) for changes, message in (
        ({"vocabulary_size": 10**12}, "vocabulary_size 1000000000000"),
        ({"vocabulary_size": 200}, r"the weights have \d+ dimensions, the checkpoint records 200"),
        ({"max_length": {"query": 64}}, "max_length: expected one for each of query and document"),
        ({"quantizers": {"query": None}}, "quantizers: expected one for each"),
        *(({"quantizers": {"query": None, "document": value}}, what) for value, what in QUANTIZERS),
        ({"settings": {"pooling": "mean"}}, "pooling"), ({"architecture": "none"}, "unknown architecture"),
        ({"format": 99}, "format 99, this version reads 1"),
    )),
]  # fmt: skip
"""A file of a masked-LM, or the notes of a checkpoint of this package: keys that are changed, or another text."""


@pytest.mark.parametrize(("file", "change", "message"), EDITS, ids=lambda value: str(value)[:40])
def test_files_that_lie(file: str, change: dict[str, Any] | str, message: str, plain: Path, ours: Path) -> None:
    folder = ours if file == NOTES else plain
    if isinstance(change, str):
        (folder / file).write_text(change)
    else:
        edit(folder / file, **change)
    refused(folder, message)


def test_a_backbone_without_some_layers_is_not_completed(tiny_headless: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_headless, tmp_path / "headless"))
    LanguageModel.from_backbone(folder)
    edit(folder / "config.json", num_hidden_layers=3)
    with pytest.raises(LearnedSparseError, match=r"no weights for bert\.encoder\.layer\.2"):
        LanguageModel.from_backbone(folder)


def test_tokenizers_that_do_not_fit(plain: Path, ours: Path) -> None:
    path = plain / "tokenizer.json"
    whole = path.read_text()
    for text in (whole[:1_000], whole[:-2], whole.replace('"WordPiece"', '"NoSuchModel"'), "[]", ""):
        path.write_text(text)
        refused(plain, "no readable tokenizer")
    content = json.loads(whole)
    content["added_tokens"].append({**content["added_tokens"][0], "id": 5_000, "content": "[NEW]"})
    content["model"]["vocab"]["[NEW]"] = 5_000
    path.write_text(json.dumps(content))
    refused(plain, r"the tokenizer has the token '\[NEW\]' with id 5000, the model only \d+ dimensions")
    shutil.copy(path, ours / "tokenizer.json")
    edit(ours / NOTES, files={})
    refused(ours, r"the token '\[NEW\]' with id 5000", "query")


def test_a_changed_file_of_our_checkpoint_is_noticed(ours: Path) -> None:
    cases: tuple[tuple[str, Side], ...] = (
        ("tokenizer.json", "query"), ("tokenizer_config.json", "document"),
        ("towers/document/config.json", "document"), (f"towers/document/{WEIGHTS}", "document"),
    )  # fmt: skip
    for name, side in cases:
        path = ours / name
        whole = path.read_bytes()
        for damaged in (whole[:-5], whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:]):
            path.write_bytes(damaged)
            refused(ours, rf"{name}: missing, or not the file that was saved", side)
            with pytest.raises(LearnedSparseError, match="not the file that was saved"):
                load_checkpoint(ours)
        path.write_bytes(whole)
    (ours / "towers" / "document" / WEIGHTS).unlink()
    load_encoder(str(ours), "query")  # reads no weights
