"""A tiny random BERT, a tiny BEIR collection, and a recipe that trains this BERT on it in a second."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from encoders.training.recipe import Negatives, Recipe
from learned_sparse.core.settings import parse
from tests.toy_data import save_beir

if TYPE_CHECKING:
    from encoders.training.loop import Progress

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
    """A BEIR folder with splits train and dev: 40 documents of five words, each with a query of two of its words."""
    folder = tmp_path_factory.mktemp("tiny") / "collection"
    texts = [
        " ".join(WORDS[(7 * row + 11 * position + row * position) % 60] for position in range(5)) for row in range(40)
    ]
    queries = {f"q{row}": f"{text.split()[0]} {text.split()[3]}" for row, text in enumerate(texts)}
    judged = {"train": range(30), "dev": range(30, 40)}
    pairs = {split: [(f"q{row}", f"d{row}", 1) for row in rows] for split, rows in judged.items()}
    save_beir(folder, {f"d{row}": text for row, text in enumerate(texts)}, queries, pairs)
    run = "".join(
        f"q{row} Q0 d{(row + rank) % 40} {rank + 1} {9 - rank} bm25\n" for row in range(30) for rank in range(4)
    )
    (folder / "train.run").write_text(run, encoding="utf-8")
    return folder


Recipes = Callable[..., Recipe]


@pytest.fixture(scope="session")
def recipe_values(tiny_backbone: Path, tiny_collection: Path) -> Callable[..., dict[str, Any]]:
    """The tiny recipe as a mapping; the arguments change its stages, at least one, and other values."""

    def values(*stages: dict[str, Any], **changes: Any) -> dict[str, Any]:
        common = {"steps": 20, "batch_size": 8, "learning_rate": 1e-3}
        return {
            "model": "tiny",
            "architecture": "splade",
            "backbone": str(tiny_backbone),
            "max_length": {"query": 8, "document": 12},
            "data": [{"collection": str(tiny_collection), "run": str(tiny_collection / "train.run")}],
            "stages": [{"name": f"stage {row}", **common, **stage} for row, stage in enumerate(stages or [{}])],
            "precision": "fp32",
            "log_every": 1,
            **changes,
        }

    return values


@pytest.fixture(scope="session")
def tiny_recipe(recipe_values: Callable[..., dict[str, Any]]) -> Recipes:
    """``tiny_recipe({...}, {...}, **changes)`` returns the tiny recipe with these stages."""

    def make(*stages: dict[str, Any], **changes: Any) -> Recipe:
        return parse(Recipe, recipe_values(*stages, **changes), "tiny recipe")

    return make


@pytest.fixture(scope="session")
def spade_recipe(tiny_recipe: Recipes) -> Recipes:
    """``tiny_recipe`` of a tiny SpaDE."""
    return functools.partial(tiny_recipe, architecture="spade", settings={"k": 3})


class Run:
    """Output folder and report of a training run."""

    def __init__(self, folder: Path, report: Progress | None = None) -> None:
        self.folder = folder
        self.report: Any = report

    def log(self) -> list[dict[str, Any]]:
        """The lines of the log."""
        lines = (self.folder / "training" / "log.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]  # a kill cuts a line off

    def logged(self, key: str) -> list[Any]:
        """The values of ``key`` in the log."""
        return [line[key] for line in self.log() if key in line]

    def notes(self) -> dict[str, Any]:
        """The checkpoint's notes."""
        content: dict[str, Any] = json.loads((self.folder / "learned_sparse.json").read_text(encoding="utf-8"))
        return content

    def weights(self) -> dict[str, Any]:
        """Every tensor of every tower, as ``tower/tensor``."""
        from safetensors.torch import load_file

        files = sorted((self.folder / "towers").glob("*/*.safetensors"))
        return {f"{file.parent.name}/{name}": tensor for file in files for name, tensor in load_file(file).items()}

    def moved_since(self, before: Run) -> set[str]:
        """Names of the towers whose weights differ."""
        old, new = before.weights(), self.weights()
        assert old.keys() == new.keys()
        return {name.split("/")[0] for name in old if not old[name].equal(new[name])}


Trained = Callable[..., Run]


@pytest.fixture
def trained(tmp_path: Path) -> Trained:
    """``trained(recipe, name, **options)`` trains on the CPU into a folder called ``name``."""

    def make(recipe: Recipe, name: str = "run", **options: Any) -> Run:
        from encoders.training.loop import train

        report = train(recipe, tmp_path / name, device="cpu", **options)
        return Run(tmp_path / name, report)

    return make


@pytest.fixture
def first_stage() -> Callable[[Recipe], tuple[Any, Any]]:
    """``first_stage(recipe)`` returns a session, and the learner of the first stage."""

    def make(recipe: Recipe) -> tuple[Any, Any]:
        from encoders.training.learner import Learner
        from encoders.training.session import Session
        from encoders.training.sources import load_source

        session = Session(recipe, "cpu")
        return session, Learner(recipe.stages[0], session, [load_source(recipe.data[0], Negatives())])

    return make


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``scores(0.5, 0.2, mixture=None)`` sets the results of the next validations."""

    def make(*results: float, mixture: dict[str, Any] | None = None) -> None:
        from encoders.training.validation import Validator

        remaining = iter(results)
        monkeypatch.setattr(Validator, "score", lambda *_: (next(remaining), mixture, {}))

    return make


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """``stop_after(n)`` ends the next run after n steps, as if its time were up; ``stop_after(0)`` never ends it."""

    def stop(steps: int) -> None:
        from encoders.training.loop import Training

        calls = iter(range(1, 10_000))
        monkeypatch.setattr(Training, "stops", lambda self: next(calls) == steps)

    return stop
