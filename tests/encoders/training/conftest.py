"""A tiny random BERT, a tiny BEIR collection, and a recipe that trains the one on the other in a second."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from encoders.training.recipe import Recipe
from learned_sparse.settings import parse

WORDS = [f"w{number}" for number in range(60)]


@pytest.fixture(scope="session")
def tiny_backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT with masked-LM head of a few kilobytes over 65 word pieces, as a Hugging Face folder."""
    import torch
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    folder = tmp_path_factory.mktemp("tiny_backbone")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    BertTokenizer(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        config = BertConfig(
            vocab_size=len(pieces),
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=40,
            initializer_range=0.3,
        )
        BertForMaskedLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 documents of five words, and for each a query of two of them; a BEIR folder with train and dev."""
    folder = tmp_path_factory.mktemp("tiny_collection")
    (folder / "qrels").mkdir()
    texts = [" ".join(WORDS[(7 * row + 11 * place + row * place) % 60] for place in range(5)) for row in range(40)]
    queries = [f"{text.split()[0]} {text.split()[3]}" for text in texts]
    _lines(folder / "corpus.jsonl", [{"_id": f"d{row}", "title": "", "text": text} for row, text in enumerate(texts)])
    _lines(folder / "queries.jsonl", [{"_id": f"q{row}", "text": text} for row, text in enumerate(queries)])
    for split, rows in {"train": range(30), "dev": range(30, 40)}.items():
        judgements = "".join(f"q{row}\td{row}\t1\n" for row in rows)
        (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + judgements, encoding="utf-8")
    run = "".join(
        f"q{row} Q0 d{(row + rank) % 40} {rank + 1} {9 - rank} bm25\n" for row in range(30) for rank in range(4)
    )
    (folder / "train.run").write_text(run, encoding="utf-8")
    return folder


def _lines(path: Path, records: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


Recipes = Callable[..., Recipe]


@pytest.fixture(scope="session")
def recipe_values(tiny_backbone: Path, tiny_collection: Path) -> Callable[..., dict[str, Any]]:
    """The tiny recipe as YAML would hold it; ``stage`` and the other arguments change it."""

    def values(stage: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
        stages = [{"name": "ranking", "steps": 20, "batch_size": 8, "learning_rate": 1e-3, **(stage or {})}]
        return {
            "model": "tiny",
            "architecture": "splade",
            "backbone": str(tiny_backbone),
            "max_length": {"query": 8, "document": 12},
            "data": [{"collection": str(tiny_collection), "run": str(tiny_collection / "train.run")}],
            "stages": stages,
            "log_every": 1,
            **changes,
        }

    return values


@pytest.fixture(scope="session")
def tiny_recipe(recipe_values: Callable[..., dict[str, Any]]) -> Recipes:
    """``tiny_recipe(stage={...}, **changes)``"""

    def make(stage: dict[str, Any] | None = None, **changes: Any) -> Recipe:
        return parse(Recipe, recipe_values(stage, **changes), "tiny recipe")

    return make
