"""Two processes train what one trains, when in-batch negatives and regulariser are taken over the whole batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

PROGRAM = Path(__file__).with_name("train_tiny.py")


def test_two_processes_equal_one(
    recipe_values: Callable[..., dict[str, Any]], tiny_collection: Path, tmp_path: Path, root: Path
) -> None:
    validation = {"collection": str(tiny_collection), "every": 2, "queries": None}
    regularizer = {"kind": "flops", "lambda_query": 1e-2, "lambda_document": 1e-2, "ramp_steps": 0}
    stage = {"steps": 4, "scope": "batch", "dropout": False, "learning_rate": 1e-4, "regularizer": regularizer}
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(recipe_values(stage, validation=validation)), encoding="utf-8")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    for name, prefix in {"one": [], "two": launcher}.items():
        command = [sys.executable, *prefix, str(PROGRAM), str(recipe), str(tmp_path / name)]
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr
    logs = {}
    for name in ("one", "two"):
        text = (tmp_path / name / "training" / "log.jsonl").read_text(encoding="utf-8")
        logs[name] = [line["loss"] for line in map(json.loads, text.splitlines()) if "loss" in line]
    assert logs["two"] == pytest.approx(logs["one"], rel=1e-5)
    file = Path("towers") / "document" / "model.safetensors"
    one, two = load_file(tmp_path / "one" / file), load_file(tmp_path / "two" / file)
    # the bias of attention's keys has no effect and no gradient but rounding, which Adam takes for a direction
    names = [name for name in one if not name.endswith("key.bias")]
    assert [name for name in names if not torch.allclose(one[name], two[name], atol=1e-5)] == []
