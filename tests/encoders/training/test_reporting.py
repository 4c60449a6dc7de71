"""What a run uses of the hardware and what it reports: precision, checkpointed layers, trackers, and the plot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.tracking import GeneralTracker

from encoders.backbone import device as device_module
from encoders.backbone import training_precision
from encoders.train import main
from encoders.training.learner import buckets
from encoders.training.state import draw_log
from learned_sparse.core.errors import LearnedSparseError
from tests.encoders.training.conftest import Recipes, Trained

CPU = torch.device("cpu")


@pytest.mark.parametrize("has_bf16", [False, True])
def test_auto_is_bf16_where_the_processor_computes_it(
    has_bf16: bool, tiny_recipe: Recipes, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_module, "cpu_has_bf16", lambda: has_bf16)
    expected = "bf16" if has_bf16 else "fp32"
    assert training_precision("auto", CPU) == expected
    assert training_precision("fp32-strict", CPU) == "fp32-strict"
    auto = trained(tiny_recipe({"steps": 2}, precision="auto"), "auto")
    assert auto.notes()["training"]["precision"] == expected
    assert auto.moved_since(trained(tiny_recipe({"steps": 2}, precision=expected), "named")) == set()


def test_a_run_resumed_in_another_precision_warns(
    tiny_recipe: Recipes,
    trained: Trained,
    stop_after: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    recipe = tiny_recipe({"steps": 4}, precision="auto")
    monkeypatch.setattr(device_module, "cpu_has_bf16", lambda: True)
    stop_after(2)
    trained(recipe)
    stop_after(0)
    monkeypatch.setattr(device_module, "cpu_has_bf16", lambda: False)
    trained(recipe, resume=True)
    assert "resumed with other versions (precision: 'bf16' -> 'fp32')" in caplog.text


def test_checkpointed_layers_change_no_weight(tiny_recipe: Recipes, trained: Trained) -> None:
    plain = trained(tiny_recipe({"steps": 4}), "plain")
    saved = trained(tiny_recipe({"steps": 4}, gradient_checkpointing=True), "saved")  # with dropout
    assert saved.logged("loss") == pytest.approx(plain.logged("loss"), rel=1e-5)
    for name, tensor in plain.weights().items():
        torch.testing.assert_close(saved.weights()[name], tensor, rtol=1e-4, atol=1e-6)


class Recorded(GeneralTracker):  # type: ignore[misc]
    """A tracker that keeps what it gets."""

    name = "recorded"
    requires_logging_directory = False

    def __init__(self) -> None:
        super().__init__()
        self.config: dict[str, Any] = {}
        self.lines: list[tuple[int | None, dict[str, float]]] = []

    @property
    def tracker(self) -> None:
        """Nothing of another package."""
        return

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
    with pytest.raises(LearnedSparseError, match="--log-with tensorbord; did you mean 'tensorboard'"):
        trained(tiny_recipe({"steps": 1}), log_with=["tensorbord"])
    with pytest.raises(SystemExit):
        main(["--recipe", "small-splade", "--log-with", "mlflow"])


def test_the_drawing_is_there_before_the_checkpoint_counts(
    tiny_recipe: Recipes, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced: list[str] = []
    replace = Path.replace

    def noted(path: Path, target: Path) -> Path:
        replaced.append(path.name)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", noted)
    trained(tiny_recipe({"steps": 1}))
    assert replaced.index("training.svg") < replaced.index("learned_sparse.json")


def test_the_log_is_drawn_beside_the_checkpoint(
    recipe_values: Any, tiny_collection: Path, tiny_recipe: Recipes, trained: Trained, tmp_path: Path
) -> None:
    validation = {"collection": str(tiny_collection), "split": "dev", "every": 2}
    run = trained(tiny_recipe({"steps": 6}, validation=validation))
    drawn = (run.folder / "training.svg").read_text(encoding="utf-8")
    for word in ("rank loss", "terms per document", "MRR@10, validation"):
        assert f"<!-- {word} -->" in drawn
    assert draw_log(run.folder / "training" / "log.jsonl", tmp_path / "again.svg", [6])
    assert "MRR@10" in (tmp_path / "again.svg").read_text(encoding="utf-8")


def test_gradients_are_combined_in_large_groups() -> None:
    sizes = [3, 3, 9, 1, 1, 30]
    parameters = [torch.nn.Parameter(torch.zeros(size)) for size in sizes]
    groups = list(buckets(parameters, 10))
    assert [[each.numel() for each in group] for group in groups] == [[3, 3], [9, 1], [1], [30]]
    assert [id(each) for group in groups for each in group] == list(map(id, parameters))
