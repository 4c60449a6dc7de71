"""A cross-encoder trained on the data of a recipe, by sentence-transformers' trainer: a teacher where there is none."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from encoders.backbone.device import choose_device, process_settings
from encoders.backbone.towers import quiet
from encoders.checkpoints.hub import locate
from encoders.checkpoints.notes import as_json
from encoders.training.recipe import Negatives, Source
from encoders.training.sources import examples_in_order
from learned_sparse.collections.documents import OnBadLine
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import new_folder, write_json
from learned_sparse.core.lazy import import_extra
from learned_sparse.jsonvector.manifest import versions


@dataclass(frozen=True, kw_only=True)
class CrossEncoderRecipe:
    """A cross-encoder from backbone to folder: binary cross-entropy over pairs of a query and a document."""

    kind: Literal["cross-encoder"]
    model: str  # its name in commands and file names
    backbone: str = "bert-base-uncased"
    num_hidden_layers: int | None = None  # None: all layers of the backbone
    seed: int = 0
    max_length: int = 256  # word pieces of a pair
    precision: Literal["fp32", "bf16"] = "fp32"
    data: tuple[Source, ...]
    on_bad_line: OnBadLine = "error"
    negatives: Negatives = field(default_factory=lambda: Negatives(per_query=4))
    steps: int
    batch_size: int  # queries of a step, each with its positive and its negatives
    learning_rate: float = 2e-5
    warm_up_steps: int = 0
    weight_decay: float = 0.01
    log_every: int = 10

    def __post_init__(self) -> None:
        if not self.data or self.steps < 1 or self.batch_size < 1:
            raise LearnedSparseError("'data' needs an entry, 'steps' and 'batch_size' are at least 1")
        if self.negatives.per_query < 1:
            raise LearnedSparseError("negatives: a cross-encoder needs at least one for each query")
        if (kind := self.negatives.kind) not in ("given", "bm25", "random"):
            raise LearnedSparseError(
                f"negatives: kind: {kind}: a cross-encoder does not search; use given, bm25 or random"
            )


def train_cross_encoder(
    recipe: CrossEncoderRecipe,
    output: Path,
    *,
    overwrite: bool = False,
    device: str | None = None,
    quietly: bool = False,
) -> float:
    """Train ``recipe`` into the folder ``output``, as sentence-transformers saves it. Returns the seconds.

    Nothing is kept before the end: a stopped run starts again. sentence-transformers' own states are pickles.
    """
    model_class = import_extra("sentence_transformers", "teach").CrossEncoder
    if output.exists() and not overwrite:
        raise LearnedSparseError(f"{output}: exists already; replace it with --overwrite, or name another --output")
    import datasets
    import torch
    import transformers
    from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

    started, on = time.perf_counter(), str(choose_device(device))
    rows: list[dict[str, Any]] = []  # the pairs of all steps in order
    count, negatives = recipe.steps * recipe.batch_size, recipe.negatives.per_query
    for example in examples_in_order(recipe.data, recipe.negatives, count, recipe.seed, recipe.on_bad_line):
        rows.append({"query": example.query, "document": example.positive, "label": 1.0})
        rows += [{"query": example.query, "document": text, "label": 0.0} for text in example.negatives]
    transformers.set_seed(recipe.seed)  # also that of the new head
    layers = {} if recipe.num_hidden_layers is None else {"num_hidden_layers": recipe.num_hidden_layers}
    with quiet():
        model: Any = model_class(
            str(locate(recipe.backbone)), num_labels=1, max_length=recipe.max_length, device=on, config_kwargs=layers,
            model_kwargs={"use_safetensors": True},
        )  # fmt: skip
    with new_folder(output) as folder:
        arguments = CrossEncoderTrainingArguments(
            output_dir=str(folder / ".states"), max_steps=recipe.steps, seed=recipe.seed,
            per_device_train_batch_size=recipe.batch_size * (1 + negatives), learning_rate=recipe.learning_rate,
            warmup_steps=recipe.warm_up_steps, weight_decay=recipe.weight_decay, bf16=recipe.precision == "bf16",
            use_cpu=on == "cpu", save_strategy="no", report_to="none", disable_tqdm=quietly,
            logging_steps=recipe.log_every,
        )  # fmt: skip
        trainer = CrossEncoderTrainer(
            model=model, args=arguments, train_dataset=datasets.Dataset.from_list(rows),
            loss=BinaryCrossEntropyLoss(model, pos_weight=torch.tensor(float(negatives))),
        )  # fmt: skip
        with process_settings(recipe.precision, model.device):
            trainer.train()
        model.save_pretrained(str(folder))
        seconds = time.perf_counter() - started
        notes = {"recipe": as_json(recipe), "pairs": len(rows), "seconds": seconds, "versions": versions()}
        write_json(folder / "training.json", notes)
    return seconds
