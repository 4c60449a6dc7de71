"""``python -m tests.benchmarks.projection LINES``: hours, memory and disk of the MS MARCO recipes on GPUs, on paper.

Operations and kept activations are counted by running each model (BERT-base, untrained) on one text; everything else is
an assumption below, named in the output. Nothing here was measured on a GPU. Measured is the start of a training on a
made-up file of LINES text triples, 650 bytes each.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from encoders.encoding.model import new_model
from encoders.training.recipe import Negatives, Recipe, Source, Stage, load_recipe
from encoders.training.sources import load_source
from eval.tables import Column, format_table
from learned_sparse.core.encoder import Side
from tests.benchmarks.run import memory_mb
from tests.benchmarks.shapes import random_bert

RECIPES = {"sparterm-expansion": 200, "splade-flops": 58, "splade-distilled": 180, "spade": 189, "uhd-bert": 2588}
"""Recipes, and terms of a document: SpaDE's of its section 3.4, SPLADE's of the notebook beside its published weights,
UHD-BERT's as ``eval.reproduce`` projects them (one bucket), the others of published models of the kind."""
TOKENS: dict[Side, int] = {"query": 10, "document": 77}
"""Mean word pieces of a text of MS MARCO passage, [CLS] and [SEP] included."""
PADDED, IN_GROUPS = 2.4, 1.8
"""Tokens that a pass of training computes for each token of its texts: padded to the longest, and in two groups of
similar length. Means of random batches of 62 and 64 passages of MS MARCO. In groups it is 1.65, but the vocabulary
head, a fifth of the operations, computes all padding on a GPU."""
PASSAGES = {"MS MARCO": 8_841_823, "MS MARCO v2": 138_364_198}
TRIPLES = 39_780_811
"""Lines of MS MARCO's triples.train.small."""
TERAFLOPS, SHARE = 312.0, 0.35
"""bf16 peak of an A100, and the share of it that is reached: 0.34 to 0.41 on CPUs with fast bf16."""
ONE_STATE = 16
"""Bytes of a parameter in training: fp32 weight, gradient, and Adam's two moments."""
JSON_BYTES, INDEX_BYTES = 14.0, 2.3
"""Bytes of a posting: in JSON lines, and in Lucene's index of a million documents."""

ONE_DNN = {torch.ops.mkldnn._linear_pointwise: lambda rows, weight, *_, **__: 2 * rows[0] * rows[1] * weight[0]}
"""Operations of the head's product on a CPU with AVX-512, which torch does not count."""


def main(lines: int) -> None:
    """Print the table."""
    sizes = [f"{name}: vectors / index" for name in PASSAGES]
    columns = ["", "training", *(f"encode {name}" for name in PASSAGES), "memory", *sizes]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        random_bert(Path(folder))
        for name, terms in RECIPES.items():
            recipe = load_recipe(name)
            operations, state, activations = counted(recipe, Path(folder))
            training = sum(step_operations(recipe, stage, operations) * stage.steps for stage in recipe.stages)
            # of the largest forward pass of one process
            documents = max((of.micro_batch_size or of.batch_size) * documents_of(recipe, of) for of in recipe.stages)
            row = [name, *map(hours, (training, *(texts * operations["document"] for texts in PASSAGES.values())))]
            row.append(f"{(state + documents * padding(documents) * activations) / 1e9:.0f} GB")
            for passages in PASSAGES.values():
                vectors, index = (passages * terms * size / 1e9 for size in (JSON_BYTES, INDEX_BYTES))
                row.append(f"{vectors:.0f} / {index:.1f} GB")
            rows.append(row)
    print(format_table([Column(name, right=True) if name else name for name in columns], rows, markdown=True))
    assumed = f"{TOKENS['document']} word pieces a passage, {TOKENS['query']} a query"
    print(
        f"\nOn paper, for one GPU; nothing here was measured on a GPU. Assumed: {TERAFLOPS:g} TFLOP/s in bf16, "
        f"{SHARE:.0%} of it reached, {assumed}, padded in training to {PADDED} times as many, "
        f"in groups of similar length to {IN_GROUPS} times; {INDEX_BYTES} bytes a posting in the index. "
        f"Terms a document: {', '.join(f'{name} {terms}' for name, terms in RECIPES.items())}. "
        "Memory: of one training process. Reading, tokenizing, validation and evaluation come on top. "
        f"Written by `python -m tests.benchmarks.projection {lines}`."
    )
    seconds, memory = start_up(lines)
    share = TRIPLES / lines
    print(
        f"\nMeasured on a CPU: a process reads {lines:,} text triples of 650 bytes, before its first step, in "
        f"{seconds / 60:.1f} minutes, and {memory:.1f} GB of memory hold them. The {TRIPLES:,} of MS MARCO would take "
        f"{seconds * share / 60:.1f} minutes and {memory * share:.1f} GB."
    )


def start_up(lines: int) -> tuple[float, float]:
    """Seconds and GB of a process that reads a file of so many text triples."""
    words = [f"word{number}" for number in range(1000)]
    with tempfile.TemporaryDirectory() as folder, (path := Path(folder, "triples.tsv")).open("w") as file:
        for number in range(lines):
            passage = " ".join(words[(number + at) % 1000] for at in range(40))
            file.write(f"what is {number}\t{passage}\t{passage}\n")
        file.close()
        before, start = memory_mb("VmRSS"), time.perf_counter()
        source = load_source(Source(examples=path), Negatives())
        assert len(source) == lines
        return time.perf_counter() - start, (memory_mb("VmRSS") - before) / 1000


def counted(recipe: Recipe, backbone: Path) -> tuple[dict[Side, float], int, float]:
    """Operations of a forward pass of one text of each side; bytes of the weights, gradients and moments of training;
    bytes that a document keeps for its backward pass, in bf16.
    """
    model = new_model(recipe.architecture, recipe.settings, str(backbone))
    operations: dict[Side, float] = {}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    for side, tokens in TOKENS.items():
        weigher = model.weighers[side].train()
        ids = torch.full((1, tokens), 5)
        with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=ONE_DNN) as counter:
            weigher(ids, torch.ones_like(ids))
        operations[side] = float(counter.get_total_flops())
    parameters = list(model.weighers.parameters())
    weights = {parameter.untyped_storage().data_ptr() for parameter in parameters}
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        weigher(ids, torch.ones_like(ids))
    activations = sum(size for address, size in kept.items() if address not in weights) / 2
    return operations, sum(parameter.numel() for parameter in parameters) * ONE_STATE, activations


def documents_of(recipe: Recipe, stage: Stage) -> int:
    """The positive and the hard negatives of a query."""
    return 1 + (stage.negatives or recipe.negatives).per_query


def padding(texts: int) -> float:
    """Computed tokens for each token, in a pass of ``texts`` that learns; below 62 there is one group."""
    return IN_GROUPS if texts >= 62 else PADDED


def step_operations(recipe: Recipe, stage: Stage, operations: dict[Side, float]) -> float:
    """Operations of one step: forward and twice as many backward, for queries, positives and hard negatives.

    Gradient caching passes micro-batches forward twice.
    """
    size = min(stage.micro_batch_size or stage.batch_size, stage.batch_size)
    documents = documents_of(recipe, stage)
    query, document = PADDED * operations["query"], documents * operations["document"]
    learning = query + padding(size * documents) * document
    passes = 3.0 + recipe.gradient_checkpointing + (size < stage.batch_size)
    if (cotraining := stage.options.cotraining) is not None:
        # forward for all by both components, without groups, then two selections of the share
        every = query + PADDED * document
        return cotraining.select_from * (2 * every + 2 * cotraining.share * passes * learning)
    return stage.batch_size * learning * passes


def hours(operations: float) -> str:
    """Hours on one GPU, or minutes below one hour."""
    seconds = operations / (TERAFLOPS * SHARE * 1e12)
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


if __name__ == "__main__":
    main(int(sys.argv[1]))
