"""Encoding on a GPU gives the vectors of the CPU. ``make test-gpu`` runs it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from encoders.encoding.encoder import to_sparse
from encoders.encoding.loading import load_encoder
from encoders.encoding.model import new_model, save_checkpoint
from encoders.models import ARCHITECTURES
from learned_sparse.core.records import SparseBatch
from tests.encoders.models.cases import SMALLEST
from tests.tiny_models import TEXTS

pytestmark = pytest.mark.gpu
DEVICE = os.environ.get("TEST_DEVICE", "cuda")
MANY = [f"{text} {'wing lift drag ' * (7 * number % 5)}" for number, text in enumerate(TEXTS * 4)]


def encoded(folder: Path, architecture: str, **options: Any) -> SparseBatch:
    if not folder.exists():
        backbone = folder.parent / "backbone"
        save_checkpoint(folder, new_model(architecture, SMALLEST.get(architecture, {}), str(backbone)))
    return load_encoder(str(folder), "document", **options).encode(MANY)


@pytest.fixture
def folder(tiny_bert: Path, tmp_path: Path) -> Path:
    (tmp_path / "backbone").symlink_to(tiny_bert)
    return tmp_path / "checkpoint"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_fp32_equals_the_cpu(architecture: str, folder: Path) -> None:
    """A weight near 0, or near the k-th largest, may be present on one side only."""
    cpu, gpu = (encoded(folder, architecture, device=device, dtype="fp32") for device in ("cpu", DEVICE))
    expected, result = cpu.to_scipy().toarray(), gpu.to_scipy().toarray()
    assert np.isclose(result, expected, rtol=1e-3, atol=1e-3).mean() > 0.999
    assert len(cpu.values) > 0


@pytest.mark.parametrize("dtype", ["fp16", "bf16", None])
def test_half_precision_is_near(dtype: str | None, folder: Path) -> None:
    """None is the data type that is chosen for this GPU."""
    cpu = encoded(folder, "splade", device="cpu", dtype="fp32").to_scipy().toarray()
    gpu = encoded(folder, "splade", device=DEVICE, dtype=dtype).to_scipy().toarray()
    assert (cpu * gpu).sum() / np.sqrt((cpu**2).sum() * (gpu**2).sum()) > 0.99


def test_extraction_on_the_device() -> None:
    weights = torch.rand(50, 3000, generator=torch.Generator().manual_seed(0))
    weights = weights.where(weights > 0.9, 0.0)
    cpu, gpu = to_sparse(weights, ()), to_sparse(weights.to(DEVICE), ())
    for name in ("indptr", "indices", "values"):
        np.testing.assert_array_equal(getattr(gpu, name), getattr(cpu, name))


def test_eight_threads(folder: Path) -> None:
    encoded(folder, "splade")
    encoder = load_encoder(str(folder), "document", device=DEVICE, dtype="fp32")
    expected = [encoder.encode([text]) for text in MANY]
    with ThreadPoolExecutor(8) as pool:
        for number, batch in enumerate(pool.map(lambda text: encoder.encode([text]), MANY)):
            np.testing.assert_array_equal(batch.values, expected[number].values)
            np.testing.assert_array_equal(batch.indices, expected[number].indices)
