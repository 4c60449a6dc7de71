"""A program that tests start as a process: ``train_tiny.py RECIPE.json OUTPUT`` trains the recipe in a JSON file.

Processes of a group print how long they wait for each other.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch

from encoders.training import Recipe, run_recipe
from learned_sparse.core.settings import parse


def main(recipe: Path, output: Path) -> None:
    values = json.loads(recipe.read_text(encoding="utf-8"))
    device = os.environ.get("TRAIN_DEVICE", "cpu")
    run_recipe(parse(Recipe, values, str(recipe)), output, resume=True, device=device, quiet=True)
    if torch.distributed.is_initialized():
        backend = torch.distributed.group.WORLD._get_backend(torch.device(device))  # type: ignore[union-attr]
        print(f"processes wait for {backend.options._timeout}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
