"""What a run uses of the hardware and what it reports: precision, checkpointed layers, and trackers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import accelerate
import pytest
import torch
from accelerate.tracking import GeneralTracker

from encoders.train import main
from encoders.training.session import Session
from learned_sparse.core.errors import LearnedSparseError
from tests.encoders.training.conftest import Recipes, Trained


@pytest.mark.parametrize("has_bf16", [False, True])
def test_auto_is_bf16_where_the_processor_computes_it(
    has_bf16: bool, tiny_recipe: Recipes, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"bf16": has_bf16})
    expected = "bf16" if has_bf16 else "fp32"
    assert Session(tiny_recipe(precision="fp32-strict"), "cpu").precision == "fp32-strict"
    assert trained(tiny_recipe({"steps": 1}, precision="auto")).notes()["training"]["precision"] == expected


@pytest.mark.parametrize("dropout", [True, False])
def test_checkpointed_layers_are_computed_twice(tiny_recipe: Recipes, first_stage: Any, dropout: bool) -> None:
    calls = {}
    for checkpointing in (False, True):
        session, learner = first_stage(tiny_recipe({"dropout": dropout}, gradient_checkpointing=checkpointing))
        passes: list[int] = []
        layer = session.model.towers["document"].model.base_model.encoder.layer[0]
        layer.attention.register_forward_hook(lambda *_, passes=passes: passes.append(1))
        learner.update(0, learner.batch(0)[0], None)
        calls[checkpointing] = len(passes)
        assert layer.attention.self.dropout.training == dropout
    assert calls == {False: 2, True: 4}  # queries and documents


def test_a_run_has_its_own_device(tiny_recipe: Recipes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accelerate keeps the device of the first run of a process."""
    accelerate.PartialState()
    accelerate.PartialState._shared_state["device"] = torch.device("meta")
    assert Session(tiny_recipe(), "cpu").device == torch.device("cpu")
    accelerate.PartialState._shared_state["device"] = torch.device("meta")
    assert Session(tiny_recipe(), None).device.type != "meta"


def test_settings_of_the_launcher_that_would_be_ignored_are_refused(
    tiny_recipe: Recipes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    with pytest.raises(LearnedSparseError, match="accelerate's mixed_precision bf16 or NO has no effect here"):
        Session(tiny_recipe(), "cpu")
    monkeypatch.delenv("ACCELERATE_MIXED_PRECISION")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.PartialState(cpu=True)
    accelerate.PartialState._shared_state["distributed_type"] = accelerate.DistributedType.MULTI_GPU
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)  # the session keeps this state
    with pytest.raises(LearnedSparseError, match="accelerate's mixed_precision no or FSDP has no effect here"):
        Session(tiny_recipe(), "cpu")


def test_an_update_has_a_query_for_each_process(tiny_recipe: Recipes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerate.Accelerator, "num_processes", 9)
    with pytest.raises(LearnedSparseError, match="stage stage 0: an update of 8 queries is too small for 9 processes"):
        Session(tiny_recipe(), "cpu")


class Recorded(GeneralTracker):  # type: ignore[misc]
    """A tracker that keeps what it gets."""

    name = "recorded"
    requires_logging_directory = False
    tracker = None
    config: dict[str, Any]

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[int | None, dict[str, float]]] = []

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        self.config = values

    def log(self, values: dict[str, float], step: int | None = None, **_: Any) -> None:
        self.lines.append((step, values))


def test_trackers_get_every_number_of_the_log(
    recipe_values: Any, tiny_collection: Path, trained: Trained, tiny_recipe: Recipes
) -> None:
    validation = {"collection": str(tiny_collection), "split": "dev", "every": 2}
    tracker = Recorded()
    run = trained(tiny_recipe({"steps": 4}, validation=validation), log_with=[tracker])
    assert json.loads(tracker.config["recipe"])["architecture"] == "splade"
    log = run.log()
    assert [step for step, _ in tracker.lines] == [line["step"] for line in log]
    assert [values["MRR@10"] for _, values in tracker.lines if "MRR@10" in values] == run.logged("MRR@10")
    assert [values["loss"] for _, values in tracker.lines if "loss" in values] == run.logged("loss")


def test_trackers_that_are_missing(tiny_recipe: Recipes, trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(LearnedSparseError, match="--log-with wandb: the package wandb is missing: install it"):
        trained(tiny_recipe({"steps": 1}), log_with=["wandb"])
    with pytest.raises(SystemExit):
        main(["--recipe", "small-splade", "--log-with", "mlflow"])
