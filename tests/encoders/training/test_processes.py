"""Two processes train the same weights as one; ``tests/reliability/test_kills.py`` kills a run and resumes it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from encoders.training.recipe import Recipe
from learned_sparse.core.settings import parse
from tests.encoders.training.conftest import Run, Trained

SPADE = {"architecture": "spade", "settings": {"k": 3}}
CO_TRAINING = {"batch_size": 7, "micro_batch_size": 3, "options": {"cotraining": {"select_from": 14, "share": 0.5}}}


@pytest.mark.parametrize("architecture", ["splade", "spade"])
def test_two_processes_equal_one(
    architecture: str,
    recipe_values: Callable[..., dict[str, Any]],
    trained: Trained,
    tiny_collection: Path,
    tmp_path: Path,
    root: Path,
    python: Any,
) -> None:
    """In-batch negatives from the whole batch of 7 queries (4 and 3), then from half of 8, in passes of 3 and 1.

    SpaDE: each component selects the hardest examples of both processes for the other.
    """
    validation = {"collection": str(tiny_collection), "every": 2, "holdout": 6}
    regularizer = {"kind": "flops", "lambda_query": 1e-2, "lambda_document": 1e-2, "ramp_steps": 0}
    stage = {"steps": 4, "batch_size": 7, "dropout": False, "learning_rate": 1e-4, "regularizer": regularizer}
    mining = {"kind": "self", "every": 2, "ranks": [1, 10]}  # both processes read what the main process has mined
    cut = {"batch_size": 8, "micro_batch_size": 3, "rank": {"negatives_from": 4}, "negatives": mining}
    values = recipe_values(stage, {**stage, **cut}, validation=validation, precision="fp32-strict")
    keys = ["query_regularizer", "document_regularizer"]
    if architecture == "spade":
        keys = ["weighting_loss_over_all", "expansion_loss_over_all"]
        values |= {**SPADE, "stages": [{**values["stages"][0], **CO_TRAINING}]}
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(json.dumps(values), encoding="utf-8")
    group = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "encoders.train"]
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    options = f"--recipe {recipe} --output {tmp_path}/two --device cpu --quiet".split()
    done = python(*group, *options, env=environment)
    assert done.returncode == 0, done.stderr
    two, one = Run(tmp_path / "two"), trained(parse(Recipe, values, "recipe"), "one")
    for key in ("loss", *keys):
        assert len(one.logged(key)) in (4, 8)
        assert two.logged(key) == pytest.approx(one.logged(key), rel=1e-5)
    before, after = one.weights(), two.weights()
    # The key bias has no effect, so its gradient is rounding error, which Adam scales up.
    names = [name for name in before if not name.endswith("key.bias")]
    assert [name for name in names if not torch.allclose(before[name], after[name], atol=1e-5)] == []
