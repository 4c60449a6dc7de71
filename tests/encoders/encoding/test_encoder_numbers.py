"""Compiled towers, and the default batch size of a device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from encoders.backbone.device import default_batch_size
from encoders.backbone.towers import Tower
from encoders.encoding.encoder import CheckpointEncoder
from encoders.encoding.loading import load_encoder
from encoders.encoding.model import new_model, save_checkpoint
from learned_sparse.core.errors import LearnedSparseError
from tests.tiny_models import TEXTS

UHD = {"dimensions": 48, "k": 4, "layers": [1, 2], "weight_sparsity": 0.3}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> dict[str, str]:
    paths = {}
    for name, settings in (
        ("splade", {"pooling": "max"}),
        ("uhd", UHD),
    ):
        folder = tmp_path_factory.mktemp("numbers") / name
        save_checkpoint(folder, new_model(name, settings, str(tiny_bert)))
        paths[name] = str(folder)
    return paths


def loaded(folder: str, **options: Any) -> CheckpointEncoder:
    encoder = load_encoder(folder, "document", **options)
    assert isinstance(encoder, CheckpointEncoder)
    return encoder


def towers(encoder: CheckpointEncoder) -> list[Any]:
    return [module for module in encoder.weigher.modules() if isinstance(module, Tower)]


def test_compiled_towers_give_the_same_weights(folders: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.compile traces the model but generates no code, which would take too long here."""
    compile_module, compiled = nn.Module.compile, []

    def traced(module: nn.Module, **options: Any) -> None:
        compiled.append((module, options))
        compile_module(module, backend="eager", **options)

    monkeypatch.setattr(nn.Module, "compile", traced)
    plain, compiled_encoder = (loaded(folders["uhd"], dtype="fp32", compile=option) for option in (False, True))
    assert compiled == [(tower.model, {"dynamic": True}) for tower in towers(compiled_encoder)]
    assert len(compiled) == 2
    assert compiled_encoder.description == plain.description
    for text in TEXTS[:2]:
        assert compiled_encoder.encode([text]).row(0) == pytest.approx(plain.encode([text]).row(0), rel=1e-4, abs=1e-5)


def test_no_compiler(folders: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no working C++ compiler\nand much more")

    monkeypatch.setattr(nn.Module, "compile", lambda module, **_: setattr(module, "forward", broken))
    with pytest.raises(
        LearnedSparseError, match=r"^mine \(document\): torch.compile failed \(no working.*omit --compile"
    ):
        load_encoder(folders["splade"], "document", model="mine", dtype="fp32", compile=True)


def test_the_default_batch_size_depends_on_the_device(folders: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = {device: int(default_batch_size(torch.device(device)).removesuffix("t")) for device in ("cpu", "cuda")}
    assert tokens["cpu"] < tokens["cuda"]
    sizes: list[int] = []
    monkeypatch.setattr("encoders.encoding.encoder.default_batch_size", lambda _: "20t")
    for options in ({}, {"batch_size": "40t"}):
        encoder = loaded(folders["splade"], **options)
        encoder.weigher.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
        encoder.encode(["wing lift drag"] * 8)  # five tokens each
    assert sizes == [4, 4, 8]
