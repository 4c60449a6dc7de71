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
from safetensors.torch import load_file

from encoders.training import Recipe
from encoders.training.session import TIMEOUT
from learned_sparse.core.settings import parse

PROGRAM = Path(__file__).with_name("train_tiny.py")
STEPS = 60


def _lines(output: Path) -> int:
    log = output / "training" / "log.jsonl"
    return len(log.read_bytes().splitlines()) if log.exists() else 0


def test_a_killed_and_resumed_run_equals_an_uninterrupted_run(
    recipe_values: Callable[..., dict[str, Any]], tiny_collection: Path, tmp_path: Path, root: Path
) -> None:
    validation = {"collection": str(tiny_collection), "every": 8, "holdout": 6}
    recipe = tmp_path / "recipe.json"
    values = recipe_values({"steps": STEPS}, validation=validation, save_every=4)
    recipe.write_text(json.dumps(values), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(root)}

    def start(output: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(PROGRAM), str(recipe), str(tmp_path / output)]
        return subprocess.Popen(command, cwd=root, env=environment)

    for line, delay in ((13, 0.01), (38, 0.04)):
        process = start("killed")
        while _lines(tmp_path / "killed") < line:
            time.sleep(0.005)
        time.sleep(delay)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "killed" / "learned_sparse.json").exists()
    assert [start(name).wait() for name in ("killed", "whole")] == [0, 0]
    name = Path("towers") / "document" / "model.safetensors"
    uninterrupted, killed = load_file(tmp_path / "whole" / name), load_file(tmp_path / "killed" / name)
    assert uninterrupted.keys() == killed.keys()
    assert all(torch.equal(uninterrupted[key], killed[key]) for key in uninterrupted)
    assert _log(tmp_path / "whole") == _log(tmp_path / "killed")


def _log(output: Path) -> list[tuple[int, float]]:
    text = (output / "training" / "log.jsonl").read_text(encoding="utf-8")
    values: dict[tuple[int, bool], float] = {}
    for entry in (json.loads(line) for line in text.splitlines() if line.endswith("}")):  # a kill cuts a line off
        # of two lines of a step, the last one counts
        values[entry["step"], "loss" in entry] = entry.get("loss", entry.get("MRR@10"))
    assert sorted(step for step, is_loss in values if is_loss) == list(range(1, STEPS + 1))
    return sorted((step, value) for (step, _), value in values.items())


def test_two_processes_equal_one(
    recipe_values: Callable[..., dict[str, Any]],
    trained: Callable[..., Any],
    tiny_collection: Path,
    tmp_path: Path,
    root: Path,
) -> None:
    """With in-batch negatives from the whole batch of 7 queries (4 and 3), then from half of 8, in passes of 3 and 1.

    While the main process validates, the other waits for more than NCCL's 10 minutes.
    """
    validation = {"collection": str(tiny_collection), "every": 2, "holdout": 6}
    regularizer = {"kind": "flops", "lambda_query": 1e-2, "lambda_document": 1e-2, "ramp_steps": 0}
    stage = {"steps": 4, "batch_size": 7, "dropout": False, "learning_rate": 1e-4, "regularizer": regularizer}
    values = recipe_values(stage, validation=validation, precision="fp32-strict")
    cut = {"batch_size": 8, "micro_batch_size": 3, "rank": {"negatives_from": 4}}
    values["stages"].append({**values["stages"][0], **cut})
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(values), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, str(PROGRAM), str(recipe), str(tmp_path / "two")]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.replace("\n", "") == f"processes wait for {TIMEOUT}" * 2  # both may write before a line ends
    trained(parse(Recipe, values, "recipe"), "one")
    logs = {}
    for name in ("one", "two"):
        text = (tmp_path / name / "training" / "log.jsonl").read_text(encoding="utf-8")
        lines = [line for line in map(json.loads, text.splitlines()) if "loss" in line]
        keys = ("loss", "query_regularizer", "document_regularizer")
        logs[name] = [line[key] for line in lines for key in keys]
    assert logs["two"] == pytest.approx(logs["one"], rel=1e-5)
    file = Path("towers") / "document" / "model.safetensors"
    one, two = load_file(tmp_path / "one" / file), load_file(tmp_path / "two" / file)
    # The key bias has no effect, so its gradient is rounding error, which Adam scales up.
    names = [name for name in one if not name.endswith("key.bias")]
    assert [name for name in names if not torch.allclose(one[name], two[name], atol=1e-5)] == []
