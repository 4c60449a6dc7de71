"""8-bit linear layers, compiled towers, and batches that suit a device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from encoders.backbone.device import choose_dtype, default_batch_size
from encoders.backbone.masked_lm import Tower
from encoders.checkpoints.checkpoint import new_model, save_checkpoint
from encoders.encoding.encoder import CheckpointEncoder
from encoders.encoding.loading import load_encoder
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import SparseBatch
from tests.tiny_models import TEXTS

UHD = {"dimensions": 48, "k": 4, "layers": [1, 2], "weight_sparsity": 0.3}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path, tiny_distilbert: Path) -> dict[str, str]:
    found = {}
    for name, architecture, settings, backbone in (
        ("splade", "splade", {"pooling": "max"}, tiny_bert),
        ("distil", "splade", {}, tiny_distilbert),
        ("uhd", "uhd", UHD, tiny_bert),
        ("doc", "splade", {"query": "bag-of-words"}, tiny_bert),
    ):
        folder = tmp_path_factory.mktemp("numbers") / name
        save_checkpoint(folder, new_model(architecture, settings, str(backbone)))
        found[name] = str(folder)
    return found


def loaded(folder: str, **options: Any) -> CheckpointEncoder:
    encoder = load_encoder(folder, "document", **options)
    assert isinstance(encoder, CheckpointEncoder)
    return encoder


def dense(batch: SparseBatch) -> np.ndarray[Any, np.dtype[np.float32]]:
    found = np.zeros((len(batch), len(batch.terms)), np.float32)
    found[np.repeat(np.arange(len(batch)), np.diff(batch.indptr)), batch.indices] = batch.values
    return found


@pytest.mark.parametrize("name", ["splade", "distil", "uhd"])
def test_int8(folders: dict[str, str], name: str) -> None:
    exact, rough = (loaded(folders[name], dtype=dtype) for dtype in ("fp32", "int8"))
    assert rough.description["dtype"] == "int8"
    assert {**rough.description, "dtype": "fp32"} == exact.description
    first, second = dense(exact.encode(TEXTS)).ravel(), dense(rough.encode(TEXTS)).ravel()
    assert (first != second).any()
    assert first @ second / np.linalg.norm(first) / np.linalg.norm(second) > 0.95
    in_towers = [module for module in rough.weigher.modules() if hasattr(module, "packed")]
    assert in_towers
    for tower in in_towers:
        model: Any = tower.model
        assert not any(type(module) is nn.Linear for module in model.modules())
        assert isinstance(tower, Tower) == (type(getattr(tower, "decoder", None)) is nn.Linear)


def test_int8_is_for_the_cpu(folders: dict[str, str]) -> None:
    assert choose_dtype("int8", torch.device("cpu"), int8=True) == "int8"
    with pytest.raises(LearnedSparseError, match=r"not on cuda: give --device cpu, or bf16"):
        choose_dtype("int8", torch.device("cuda"), int8=True)
    with pytest.raises(LearnedSparseError, match=r"known: auto, bf16, fp16, fp32$"):
        choose_dtype("int8", torch.device("cpu"))  # of whoever cannot do it
    assert load_encoder(folders["doc"], "query", dtype="int8").encode(["wing"]).row(0) == {"wing": 1.0}


@pytest.mark.parametrize("name", ["splade", "uhd"])
def test_compiled_towers_give_the_same_weights(
    folders: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the graph as torch.compile sees it, but run as it is: to make code of it takes too long here."""
    before, compiled = nn.Module.compile, []

    def traced(module: nn.Module, **options: Any) -> None:
        compiled.append((module, options))
        before(module, backend="eager", **options)

    monkeypatch.setattr(nn.Module, "compile", traced)
    plain, fast = loaded(folders[name], dtype="fp32"), loaded(folders[name], dtype="fp32", compile=True)
    towers = [module for module in fast.weigher.modules() if hasattr(module, "packed")]
    assert [module for module, _ in compiled] == [tower.model for tower in towers]
    assert all(options == {"dynamic": True} for _, options in compiled)
    assert all(tower.packed is None for tower in towers)
    assert fast.description == plain.description
    np.testing.assert_allclose(dense(fast.encode(TEXTS)), dense(plain.encode(TEXTS)), rtol=1e-4, atol=1e-5)


def test_no_compiler(folders: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("no working C++ compiler\nand much more")

    before = nn.Module.compile
    monkeypatch.setattr(nn.Module, "compile", lambda module, **options: before(module, backend=broken, **options))
    with pytest.raises(LearnedSparseError, match=r"^mine \(document\): torch.compile failed \(.*leave --compile out"):
        load_encoder(folders["splade"], "document", model="mine", dtype="fp32", compile=True)


def test_a_batch_that_suits_the_device(folders: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = {device: int(default_batch_size(torch.device(device)).removesuffix("t")) for device in ("cpu", "cuda")}
    assert tokens["cpu"] < tokens["cuda"]
    seen: list[int] = []
    monkeypatch.setattr("encoders.encoding.encoder.default_batch_size", lambda _: "20t")
    for options in ({}, {"batch_size": "40t"}):
        encoder = loaded(folders["splade"], **options)
        encoder.weigher.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
        encoder.encode(["wing lift drag"] * 8)  # five tokens each
    assert seen == [4, 4, 8]
