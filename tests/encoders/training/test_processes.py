"""Two processes train the same weights as one, and a killed run resumes to the weights of an uninterrupted run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from encoders.training.recipe import Recipe
from learned_sparse.core.settings import parse
from tests.encoders.training.conftest import Run, Trained

STEPS = 60


@pytest.fixture
def started(tmp_path: Path, root: Path) -> Callable[..., subprocess.Popen[str]]:
    """``started(values, name, processes=1)`` starts the training of a recipe into the folder ``name``."""

    def start(values: dict[str, Any], name: str, processes: int = 1) -> subprocess.Popen[str]:
        recipe = tmp_path / "recipe.yaml"
        recipe.write_text(json.dumps(values), encoding="utf-8")
        group = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m"]
        command = [sys.executable, "-m", *(group if processes > 1 else []), "encoders.train", "--recipe", str(recipe)]
        command += ["--output", str(tmp_path / name), "--resume", "--device", "cpu", "--quiet"]
        environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
        return subprocess.Popen(command, cwd=root, env=environment, stderr=subprocess.PIPE, text=True)

    return start


def test_a_killed_and_resumed_run_equals_an_uninterrupted_run(
    recipe_values: Callable[..., dict[str, Any]], tiny_collection: Path, tmp_path: Path, started: Callable[..., Any]
) -> None:
    validation = {"collection": str(tiny_collection), "every": 8, "holdout": 6}
    values = recipe_values({"steps": STEPS}, validation=validation, save_every=4)
    killed, whole = (Run(tmp_path / name) for name in ("killed", "whole"))
    log = killed.folder / "training" / "log.jsonl"
    for line, delay in ((13, 0.01), (38, 0.04)):
        process = started(values, "killed")
        while not log.exists() or len(log.read_bytes().splitlines()) < line:
            time.sleep(0.005)
        time.sleep(delay)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert not (killed.folder / "learned_sparse.json").exists()
    assert [started(values, name).wait() for name in ("killed", "whole")] == [0, 0]
    assert killed.moved_since(whole) == set()
    # of two lines of a step, the last one counts
    losses = [{line["step"]: line["loss"] for line in run.log() if "loss" in line} for run in (killed, whole)]
    assert losses[0] == losses[1]
    assert sorted(losses[0]) == list(range(1, STEPS + 1))


def test_two_processes_equal_one(
    recipe_values: Callable[..., dict[str, Any]],
    trained: Trained,
    tiny_collection: Path,
    tmp_path: Path,
    started: Callable[..., Any],
) -> None:
    """In-batch negatives from the whole batch of 7 queries (4 and 3), then from half of 8, in passes of 3 and 1."""
    validation = {"collection": str(tiny_collection), "every": 2, "holdout": 6}
    regularizer = {"kind": "flops", "lambda_query": 1e-2, "lambda_document": 1e-2, "ramp_steps": 0}
    stage = {"steps": 4, "batch_size": 7, "dropout": False, "learning_rate": 1e-4, "regularizer": regularizer}
    values = recipe_values(stage, validation=validation, precision="fp32-strict")
    mining = {"kind": "self", "every": 2, "ranks": [1, 10]}  # both processes read what the main process has mined
    cut = {"batch_size": 8, "micro_batch_size": 3, "rank": {"negatives_from": 4}, "negatives": mining}
    values["stages"].append({**values["stages"][0], **cut})
    process = started(values, "two", processes=2)
    assert process.wait(timeout=300) == 0, process.stderr.read()
    two, one = Run(tmp_path / "two"), trained(parse(Recipe, values, "recipe"), "one")
    for key in ("loss", "query_regularizer", "document_regularizer"):
        assert two.logged(key) == pytest.approx(one.logged(key), rel=1e-5)
    before, after = one.weights(), two.weights()
    # The key bias has no effect, so its gradient is rounding error, which Adam scales up.
    names = [name for name in before if not name.endswith("key.bias")]
    assert [name for name in names if not torch.allclose(before[name], after[name], atol=1e-5)] == []
