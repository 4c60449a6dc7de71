"""A program that tests start as a process: trains the recipe in a JSON file, once or on demand.

``train_tiny.py RECIPE.json OUTPUT`` trains once. With only the recipe it reads output folders from standard input, and
for each it forks a process that trains into it, prints the process id, waits for its end and prints its status. A test
can so kill training many times and import torch once. Processes of a group print how long they wait for each other.
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


def serve(recipe: Path) -> None:
    from transformers import BertForMaskedLM, BertTokenizer  # noqa: F401  # slow, and lazy where they are used

    torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])  # imports, too
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            main(recipe, Path(line.strip()))
            sys.stderr.flush()
            os._exit(0)
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) == 2:
        serve(Path(sys.argv[1]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
