"""Encoding on a GPU gives the vectors of the CPU. ``make test-gpu`` runs it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tqdm import tqdm

from encoders.backbone.towers import LanguageModel, save_random_bert
from encoders.encoding.encoder import to_sparse
from encoders.encoding.loading import load_encoder
from encoders.encoding.model import new_model, save_checkpoint
from encoders.head.vocabulary_head import pool
from encoders.models import ARCHITECTURES
from encoders.teach.scorers import CrossEncoder
from learned_sparse.collections.documents import Document
from learned_sparse.core.records import SparseBatch
from tests.encoders.models.cases import SMALLEST
from tests.tiny_models import MANY_TEXTS, TEXTS

pytestmark = pytest.mark.gpu
DEVICE = os.environ.get("TEST_DEVICE", "cuda")


def encoded(folder: Path, architecture: str, **options: Any) -> SparseBatch:
    if not folder.exists():
        backbone = folder.parent / "backbone"
        save_checkpoint(folder, new_model(architecture, SMALLEST.get(architecture, {}), str(backbone)))
    return load_encoder(str(folder), "document", **options).encode(MANY_TEXTS)


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


def test_sums_of_few_scores() -> None:
    generator = torch.Generator().manual_seed(0)
    hidden, weight = torch.rand(3, 7, 8, generator=generator), torch.rand(100, 8, generator=generator)
    bias = torch.tensor([-1.0] * 4 + [-99.0] * 96)
    tensors = hidden, torch.ones(3, 7), weight, bias
    cpu, gpu = (pool(*(each.to(to) for each in tensors), pooling="sum") for to in ("cpu", DEVICE))
    assert (cpu > 0).sum() == 12
    torch.testing.assert_close(gpu.cpu(), cpu)


def test_texts_of_a_training_step_run_in_groups_of_similar_length(tiny_bert: Path) -> None:
    """As on a CPU, but in larger groups."""
    tower, sizes = LanguageModel.load(tiny_bert).eval().to(DEVICE), list[tuple[int, int]]()
    tower.model.register_forward_pre_hook(lambda *call: sizes.append(call[2]["input_ids"].shape), with_kwargs=True)
    mask = (torch.arange(32) < torch.arange(62)[:, None] % 30).long().to(DEVICE)
    ids = torch.randint(5, 40, mask.shape, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    grouped = tower(ids, mask)
    with torch.no_grad():
        together = tower(ids, mask)
    assert sizes == [(31, 14), (31, 29), (62, 32)]
    difference = (grouped - together) * mask[:, :, None]
    assert float(difference.detach().abs().max()) < 1e-3
    difference.sum().backward()


def test_scores_of_a_cross_encoder(tmp_path: Path) -> None:
    save_random_bert(tmp_path / "classifier", TEXTS[0].split(), "classifier", 1)
    pairs = {"q": TEXTS[0]}, {"d": Document("d", TEXTS[1])}, [("q", "d")], tqdm(disable=True)
    cpu, gpu = (CrossEncoder(str(tmp_path / "classifier"), device=to).scores(*pairs) for to in ("cpu", DEVICE))
    np.testing.assert_allclose(gpu, cpu, rtol=1e-3, atol=1e-3)


def test_eight_threads(folder: Path) -> None:
    encoded(folder, "splade")
    encoder = load_encoder(str(folder), "document", device=DEVICE, dtype="fp32")
    expected = [encoder.encode([text]) for text in MANY_TEXTS]
    with ThreadPoolExecutor(8) as pool:
        for number, batch in enumerate(pool.map(lambda text: encoder.encode([text]), MANY_TEXTS)):
            np.testing.assert_array_equal(batch.values, expected[number].values)
            np.testing.assert_array_equal(batch.indices, expected[number].indices)
