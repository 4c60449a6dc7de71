"""``python -m tests.benchmarks.quality_peer RECIPE LOSS START OUTPUT``: sentence-transformers trains a recipe."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from datasets import Dataset
from sentence_transformers import SparseEncoder
from sentence_transformers.sparse_encoder import SparseEncoderTrainer, SparseEncoderTrainingArguments, losses

from encoders.training.recipe import Recipe, Stage, load_recipe
from encoders.training.sources import examples_in_order
from learned_sparse.core.errors import run_main
from learned_sparse.core.files import new_folder
from tests.benchmarks.quality import PRECISION

LOSSES: dict[str, Callable[[SparseEncoder], Any]] = {
    "ranking": losses.SparseMultipleNegativesRankingLoss,
    "cached": losses.SparseMultipleNegativesRankingLoss,
    "kl": lambda model: losses.SparseDistillKLDivLoss(model, temperature=1.0),
    "margin": losses.SparseMarginMSELoss,
}


def main(argv: list[str] | None = None) -> int:
    """Train and save one model."""
    recipe_path, loss, start, output = argv or sys.argv[1:]
    recipe = load_recipe(recipe_path)
    (stage,) = recipe.stages
    torch.manual_seed(recipe.seed)
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # stage.dropout is false
    model = SparseEncoder(start, device="cpu", config_kwargs=no_dropout)
    model.max_seq_length = recipe.max_length.document
    make = losses.CachedSpladeLoss if loss == "cached" else losses.SpladeLoss
    with new_folder(Path(output)) as folder:
        trainer = SparseEncoderTrainer(
            model=model, args=_arguments(recipe, stage, folder / "states"), train_dataset=_dataset(recipe, stage, loss),
            loss=make(
                model=model, loss=LOSSES[loss](model),
                query_regularizer_weight=stage.regularizer.lambda_query,
                document_regularizer_weight=stage.regularizer.lambda_document,
            ),
        )  # fmt: skip
        trainer.train()
        model.save_pretrained(str(folder))
    return 0


def _dataset(recipe: Recipe, stage: Stage, loss: str) -> Dataset:
    """The examples of all steps, in the order of our own training; ``label`` is what the loss learns from a teacher.

    The teacher has not scored the random documents of a query with too few negatives. Our losses leave them out; those
    of sentence-transformers need a number and get the lowest score of all.
    """
    count = stage.steps * stage.batch_size
    examples = list(examples_in_order(recipe.data, recipe.negatives, count, recipe.seed))
    lowest = min((score for each in examples for score in each.scores if not math.isnan(score)), default=0.0)
    rows: list[dict[str, Any]] = []
    for example in examples:
        scores = [lowest if math.isnan(score) else score for score in example.scores]
        row: dict[str, Any] = {"query": example.query, "positive": example.positive}
        row |= {f"negative_{number}": text for number, text in enumerate(example.negatives, 1)}
        if loss == "kl":
            row["label"] = scores
        elif loss == "margin":
            row["label"] = [scores[0] - score for score in scores[1:]]
        rows.append(row)
    return Dataset.from_list(rows)


def _arguments(recipe: Recipe, stage: Stage, states: Path) -> SparseEncoderTrainingArguments:
    return SparseEncoderTrainingArguments(
        output_dir=str(states), max_steps=stage.steps, seed=recipe.seed, per_device_train_batch_size=stage.batch_size,
        learning_rate=stage.learning_rate, warmup_steps=stage.warm_up_steps, weight_decay=stage.weight_decay,
        max_grad_norm=stage.max_gradient_norm or 0.0, use_cpu=True, save_strategy="no", report_to="none",
        disable_tqdm=True, dataloader_drop_last=True, bf16=PRECISION == "bf16",
    )  # fmt: skip


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    run_main(main)
