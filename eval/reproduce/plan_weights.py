"""The checkpoint of a row: trained by its recipe, named, that of another row, or one that counts word pieces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eval.reproduce.matrix import Training
from eval.reproduce.matrix_file import slug
from eval.reproduce.plan import Step
from eval.reproduce.plan_steps import USUAL_TERMS, Builder, Weights
from eval.reproduce.plan_target import files_of, target
from learned_sparse.core import checkpoint_folder

if TYPE_CHECKING:
    from encoders.training.recipe import Recipe

_TERMS = {"uhd": 500, "spade": 250, "sparterm": 30}
"""Of a document, about, by architecture: for estimates."""


def folder_name(name: str, seed: int | None) -> str:
    """What the folders of a row are called.

    >>> folder_name("SpaDE k=10", None), folder_name("splade", 1)
    ('spade-k-10', 'splade-seed-1')
    """
    return slug(name) if seed is None else f"{slug(name)}-seed-{seed}"


def weights_of(builder: Builder, name: str, seed: int | None) -> Weights:
    """The checkpoint of row ``name``."""
    if (name, seed) not in builder.weights:
        builder.weights[name, seed] = _weights(builder, name, seed)
    return builder.weights[name, seed]


def _weights(builder: Builder, name: str, seed: int | None) -> Weights:
    row = builder.matrix.rows[name]
    if row.model is not None:
        return weights_of(builder, row.model, seed)
    if row.bm25 is not None:
        made = builder.word_pieces()
        return Weights(checkpoint=str(made.writes[0]), needs=(made,))
    if row.checkpoint is not None:
        folder = Path(row.checkpoint)
        return Weights(checkpoint=row.checkpoint, reads=(folder,) if folder.is_dir() else ())
    return _trained(builder, name, seed)


def _trained(builder: Builder, name: str, seed: int | None) -> Weights:
    """The training of a row's recipe, on the data of the matrix where it names some."""
    from encoders.training.recipe_file import load_recipe, to_mapping

    row, training = builder.matrix.rows[name], builder.matrix.training
    recipe, folder = str(row.recipe), checkpoint_folder(folder_name(name, seed))
    changes = [*row.changes, *([] if seed is None else [f"seed={seed}"])]
    runs = _negatives(builder, training) if training else {}
    changes += [f"data.{number}.run={step.writes[0]}" for number, step in runs.items()]
    if training and training.validation and load_recipe(recipe).validation:
        changes.append(f"validation.collection={training.validation}")
    data = training.data if training else ()
    read = load_recipe(recipe, changes=changes, data=data)
    words = ["--recipe", recipe, "--output", str(folder)]
    words += [word for spelled in data for word in ("--data", spelled)]
    words += [word for change in changes for word in ("--set", change)]
    made = builder.step(
        "train", f"train {folder.name}", "encoders.train", words, place=f"checkpoints/{folder.name}",
        needs=tuple(runs.values()), reads=_files(read), writes=(folder,), free=("--resume",),
        facts={"recipe": json.loads(json.dumps(to_mapping(read)))},
        size=sum(stage.steps * stage.batch_size for stage in read.stages),
    )  # fmt: skip
    return Weights(checkpoint=str(folder), needs=(made,), terms=_TERMS.get(read.architecture, USUAL_TERMS))


def _negatives(builder: Builder, training: Training) -> dict[int, Step]:
    """BM25's runs of the training queries, by the number of the data."""
    from encoders.training.recipe_file import source

    parts: Sequence[dict[str, str]] = [source(spelled) for spelled in training.data] if training.negatives else []
    return {
        number: builder.bm25_search(target(part["collection"], part.get("split", "train")), training.negatives or 0)
        for number, part in enumerate(parts)
        if "collection" in part
    }


def _files(recipe: Recipe) -> tuple[Path, ...]:
    """What a training reads: of collections, and triples."""
    files: list[Path] = []
    for part in recipe.data:
        files += [path for path in (part.triples, part.topics, part.qrels) if path]
        files += files_of(part.collection, None if part.topics else part.split) if part.collection else []
    if recipe.validation:
        files += files_of(recipe.validation.collection, recipe.validation.split)
    return tuple(dict.fromkeys(files))
