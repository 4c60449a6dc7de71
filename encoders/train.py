"""``python -m encoders.train``: a recipe and text in, a checkpoint out. From Python, use ``encoders.train``."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from learned_sparse.collections.documents import add_bad_line_option
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import checkpoint_folder
from learned_sparse.core.lazy import import_extra
from learned_sparse.core.settings import CommandParser, add_set_option, command_line, parse


def main(argv: list[str] | None = None) -> int:
    """Train a model by a recipe. A stopped run goes on with --resume; on a CPU, with the same weights at the end."""
    from encoders.training.recipe import Recipe, recipe_names, recipe_values

    parser = CommandParser(prog="python -m encoders.train", description=main.__doc__)
    add = parser.add_argument
    add("--recipe", required=True, metavar="NAME|FILE", help=f"{', '.join(recipe_names())}; or a YAML file")
    add("--output", type=Path, metavar="DIR", help="checkpoint folder (default: that of the recipe's model)")
    data = "train on this instead, with hard negatives from a TREC run of the training queries; may be repeated"
    add("--data", action="append", default=[], metavar="COLLECTION[:SPLIT][,run=FILE]|FILE.tsv", help=data)
    add_set_option(parser, "change a value of the recipe, as in seed=1 or stages.0.steps=100; may be repeated")
    add_bad_line_option(add, default=None)
    add("--resume", action="store_true", help="go on from the last saved state (start if there is none)")
    add("--overwrite", action="store_true", help="replace the run in the output folder")
    add("--device", help="cpu, cuda, cuda:1, ... (default: the best one available)")
    seconds = "end after S seconds with the best weights; with --resume, 0 turns a stopped run into a checkpoint"
    add("--max-seconds", type=float, metavar="S", help=seconds)
    trackers = "also report to these, if installed; training/log.jsonl is always written"
    add("--log-with", nargs="+", default=[], choices=["tensorboard", "wandb"], metavar="TRACKER", help=trackers)
    add("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args(argv)
    if options.resume and options.overwrite:
        raise LearnedSparseError("--resume goes on and --overwrite starts again; give one of them")
    if options.on_bad_line:
        options.set.append(f"on_bad_line={options.on_bad_line}")
    values = recipe_values(options.recipe, changes=options.set, data=options.data)
    if values.get("kind") == "cross-encoder":
        return _train_cross_encoder(options, values)
    recipe = parse(Recipe, values, options.recipe)
    import_extra("accelerate", "train")
    from encoders.training.loop import train

    names = ("resume", "overwrite", "device", "max_seconds", "quiet", "log_with")
    output = options.output or checkpoint_folder(recipe.model)
    given = shlex.join(sys.argv[1:] if argv is None else argv)
    again = re.sub(r"(^| )--(overwrite|resume|max-seconds[ =]\S+)", "", given).strip()
    way_on = f"go on with\n  {command_line(f'encoders.train {again} --resume')}"
    try:
        run = train(recipe, output, **{name: getattr(options, name) for name in names})
    except KeyboardInterrupt as error:
        if not error.args:  # before the first step
            raise
        print(f"{error}; {way_on}")
        return 130
    score = "" if run.best_score is None else f", MRR@10 {run.best_score:.4f} in validation"
    state = "" if run.finished else f", stopped early; {way_on}"
    print(f"{output}: {run.steps} steps in {run.seconds:.0f} s{score}{state}")
    collection = next((source.collection for source in recipe.data if source.collection), None)
    words = ["--model", recipe.model, *([] if options.output is None else ["--checkpoint", str(output)])]
    words += ["--collection", collection] if collection else ["--input", "DOCUMENTS.jsonl", "--output", "VECTORS"]
    print("next:", command_line(f"learned_sparse.encode {shlex.join(words)}"))
    return 0


def _train_cross_encoder(options: argparse.Namespace, values: Mapping[str, Any]) -> int:
    from encoders.teach.cross_encoder import CrossEncoderRecipe, train_cross_encoder

    if options.resume or options.max_seconds is not None:
        raise LearnedSparseError("a cross-encoder is trained in one go: leave --resume and --max-seconds out")
    teacher = parse(CrossEncoderRecipe, values, options.recipe)
    output = options.output or checkpoint_folder(teacher.model)
    seconds = train_cross_encoder(
        teacher, output, overwrite=options.overwrite, device=options.device, quietly=options.quiet
    )
    print(f"{output}: {teacher.steps} steps in {seconds:.0f} s")
    print("next:", command_line(f"encoders.teach --cross-encoder {output} --collection NAME --run RUN --output FILE"))
    return 0


if __name__ == "__main__":
    from learned_sparse.core.errors import run_main

    run_main(main, "go on with --resume (a cross-encoder starts again)")
