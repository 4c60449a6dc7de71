"""Saving and loading a checkpoint restores the model; damaged folders are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from encoders.backbone import device
from encoders.checkpoints.notes import NOTES
from encoders.encoding.model import LoadedModel, load_checkpoint, new_model, save_checkpoint
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.encode.__main__ import main as encode
from tests.tiny_models import TEXTS


@pytest.fixture
def model(tiny_bert: Path) -> LoadedModel:
    return new_model("sparterm", {"query": "asymmetric", "query_gate": "literal"}, str(tiny_bert))


def test_saving_and_loading_restores_everything(model: LoadedModel, tmp_path: Path) -> None:
    model.quantizers = {"query": None, "document": Quantizer(12.5, 8)}
    model.max_length = {"query": 32, "document": 60}
    model.recipe, model.training = {"name": "demo", "steps": 3}, {"best": 0.25}
    save_checkpoint(tmp_path / "saved", model)
    loaded = load_checkpoint(tmp_path / "saved")
    for name in ("architecture", "settings", "max_length", "quantizers", "recipe", "training"):
        assert getattr(loaded, name) == getattr(model, name), name
    assert list(loaded.towers) == ["importance", "gate", "query_importance"]
    assert loaded.tokenizer(TEXTS)["input_ids"] == model.tokenizer(TEXTS)["input_ids"]


def test_the_same_seed_gives_the_same_model(tiny_headless: Path) -> None:
    def parameters(seed: int) -> list[torch.Tensor]:
        return list(new_model("splade", {}, str(tiny_headless), seed=seed).weighers.parameters())

    before = torch.random.get_rng_state()
    for first, second in zip(parameters(3), parameters(3), strict=True):
        assert torch.equal(first, second)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_default_lengths_and_factors(tiny_bert: Path) -> None:
    splade = new_model("splade", {}, str(tiny_bert))
    assert splade.max_length == {"query": 64, "document": 64}  # limit of this tiny BERT; the papers have 256
    assert splade.quantizers == {"query": Quantizer(100.0), "document": Quantizer(100.0)}
    sparterm = new_model("sparterm", {"query": "tf"}, str(tiny_bert), max_length={"query": 16})
    assert sparterm.max_length == {"query": 16, "document": 64}
    assert sparterm.quantizers == {"query": Quantizer(1.0), "document": None}


def test_a_failed_save_leaves_the_earlier_checkpoint_and_one_that_is_cut_off_leaves_none(
    model: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path, model)
    replace = Path.replace

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    def killed(path: Path, target: Path) -> Path:
        if path.name == "towers":
            raise KeyboardInterrupt
        return replace(path, target)

    with monkeypatch.context() as patched:
        patched.setattr("encoders.backbone.towers.LanguageModel.save", full)
        with pytest.raises(LearnedSparseError, match="No space"):
            save_checkpoint(tmp_path, model)
    load_checkpoint(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            save_checkpoint(tmp_path, model)
    with pytest.raises(LearnedSparseError, match=f"not a checkpoint .neither {NOTES} nor"):
        load_checkpoint(tmp_path)
    save_checkpoint(tmp_path, model)
    load_checkpoint(tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_missing_parts_of_a_checkpoint_are_errors(model: LoadedModel, tmp_path: Path) -> None:
    save_checkpoint(tmp_path, model)
    (tmp_path / "towers" / "gate" / "model.safetensors").unlink()
    with pytest.raises(LearnedSparseError, match=r"gate/model\.safetensors: missing"):
        load_checkpoint(tmp_path)
    (tmp_path / NOTES).write_text("{")
    with pytest.raises(LearnedSparseError, match="not readable as JSON"):
        load_checkpoint(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(LearnedSparseError, match="an empty folder, not a checkpoint"):
        load_checkpoint(tmp_path / "empty")


def test_the_encode_command_says_what_it_did(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In which data type it computed, and how many texts it truncated at which length."""
    monkeypatch.delenv(device.DTYPE_VARIABLE, raising=False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"bf16": True})
    (tmp_path / "texts.tsv").write_text(f"1\twing\n2\t{'wing ' * 9}\n3\t{'lift ' * 5}\n")
    words = ["--model", "m", "--checkpoint", str(tiny_bert), "--device", "cpu", "--max-length", "6"]
    words += ["--input", str(tmp_path / "texts.tsv")]
    encode([*words, "--output", str(tmp_path / "documents")])
    documents = capsys.readouterr().out
    assert "computed in bf16 (--dtype fp32" in documents
    assert "2 of 3 documents truncated at 6 tokens (--max-length; this model can read 64)" in documents
    encode([*words, "--queries", "--output", str(tmp_path / "queries")])
    queries = capsys.readouterr().out
    assert "computed in fp32\n" in queries
    assert "2 of 3 queries truncated at 6 tokens" in queries
