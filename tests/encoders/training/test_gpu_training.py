"""Training on GPUs: resuming, random numbers, precisions, validation, mining, processes. ``make test-gpu`` runs it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from encoders.backbone.device import random_state, set_random_state
from encoders.models import ARCHITECTURES
from encoders.training.loop import train
from encoders.training.recipe import Recipe
from tests.encoders.models.cases import SMALLEST
from tests.encoders.training.conftest import Recipes, Run

pytestmark = pytest.mark.gpu
DEVICE = os.environ.get("TEST_DEVICE", "cuda")


def losses(recipe: Recipe, output: Path, device: str = DEVICE, **options: Any) -> list[float]:
    train(recipe, output, device=device, **options)
    return Run(output).logged("loss")


def test_resumed_training_equals_an_undisturbed_run(
    tiny_recipe: Recipes, stop_after: Callable[[int], None], tmp_path: Path
) -> None:
    """With the fused optimizer and with dropout."""
    recipe = tiny_recipe({"steps": 5}, precision="fp32-strict")
    stop_after(3)
    assert len(losses(recipe, tmp_path / "run")) == 3
    stop_after(0)
    resumed = losses(recipe, tmp_path / "run", resume=True)
    assert resumed == pytest.approx(losses(recipe, tmp_path / "whole"), rel=1e-3)


def test_random_numbers_of_the_last_device_are_repeated() -> None:
    """It is not the current device if there are several."""
    device = torch.device(DEVICE, torch.get_device_module(DEVICE).device_count() - 1)
    state, first = random_state(device), torch.rand(9, device=device)
    assert set_random_state(state, device)
    assert torch.rand(9, device=device).equal(first)


STAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "splade": ("splade", {"regularizer": {"kind": "flops", "lambda_query": 1e-3, "lambda_document": 1e-3}}),
    "sparterm": ("sparterm", {}),
    "sparterm gate": ("sparterm", {"objective": "gate"}),
    "sparterm joint": ("sparterm", {"options": {"joint": True}}),
    "spade": ("spade", {"options": {"pruning": {"window": 2}}}),
    "spade cotraining": ("spade", {"options": {"cotraining": {"select_from": 16}}}),
    "deepct": ("deepct", {"objective": "term_recall"}),
    "masked LM": ("splade", {"objective": "mlm"}),
    **{name: (name, {}) for name in ("deepimpact", "tildev2", "uhd", "unicoil")},
}


def test_every_architecture_has_a_stage() -> None:
    assert {architecture for architecture, _ in STAGES.values()} == set(ARCHITECTURES)


@pytest.mark.parametrize("case", STAGES)
def test_every_architecture_trains_and_validates(
    case: str, tiny_recipe: Recipes, tiny_collection: Path, tmp_path: Path
) -> None:
    """Gradient caching, validation; later losses of sums of many weights differ by more than the first."""
    architecture, stage = STAGES[case]
    changes: dict[str, Any] = {"settings": SMALLEST.get(architecture, {}), "precision": "fp32-strict"}
    if stage.get("objective", "rank") == "rank":
        changes["validation"] = {"collection": str(tiny_collection), "every": 2, "queries": None}
    else:
        changes["negatives"] = {"per_query": 0}
    recipe = tiny_recipe(
        {"steps": 2, "dropout": False, "micro_batch_size": 4, **stage}, architecture=architecture, **changes
    )
    on_device, on_cpu = losses(recipe, tmp_path / "gpu"), losses(recipe, tmp_path / "cpu", "cpu")
    assert len(on_device) == 2
    assert on_device[0] == pytest.approx(on_cpu[0], rel=1e-3)
    assert on_device == pytest.approx(on_cpu, rel=0.05)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_lower_precision_is_near_the_cpu(precision: str, tiny_recipe: Recipes, tmp_path: Path) -> None:
    recipe = tiny_recipe({"steps": 2, "dropout": False}, precision=precision)
    expected = losses(tiny_recipe({"steps": 2, "dropout": False}), tmp_path / "cpu", "cpu")
    assert losses(recipe, tmp_path / "gpu") == pytest.approx(expected, rel=0.1)


def test_validation_mining_and_micro_batches(tiny_recipe: Recipes, tiny_collection: Path, tmp_path: Path) -> None:
    """Nothing but the loss is compared: scores have ties, which rounding breaks."""
    recipe = tiny_recipe(
        {"steps": 4, "dropout": False, "micro_batch_size": 4},
        precision="fp32-strict",
        data=[{"collection": str(tiny_collection)}],
        negatives={"kind": "self", "every": 2, "ranks": [1, 10]},
        validation={"collection": str(tiny_collection), "every": 2, "queries": None},
    )
    on_gpu, on_cpu = losses(recipe, tmp_path / "gpu"), losses(recipe, tmp_path / "cpu", "cpu")
    assert len(on_gpu) == 4
    assert on_gpu[0] == pytest.approx(on_cpu[0], rel=0.2)
    assert (tmp_path / "gpu" / "learned_sparse.json").exists()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU")
def test_two_gpus_equal_one_cpu(
    recipe_values: Callable[..., dict[str, Any]], tiny_recipe: Recipes, tmp_path: Path, python: Any
) -> None:
    stage = {"steps": 4, "dropout": False}
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(json.dumps(recipe_values(stage, precision="fp32-strict")), encoding="utf-8")
    group = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "encoders.train"]
    done = python(*group, "--recipe", recipe, "--output", tmp_path / "two", "--device", "cuda", timeout=300)
    assert done.returncode == 0, done.stderr
    two = Run(tmp_path / "two").logged("loss")
    assert two == pytest.approx(losses(tiny_recipe(stage), tmp_path / "cpu", "cpu"), rel=1e-3)
