"""Every shipped recipe, reading and changing recipes, and ``python -m encoders.train``."""

from __future__ import annotations

import dataclasses
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from encoders.backbone.lora import Lora
from encoders.backbone.towers import save_random_bert
from encoders.train import main
from encoders.training import recipe as options
from encoders.training.learner import Learner
from encoders.training.loop import Training, train
from encoders.training.recipe import Recipe, load_recipe, recipe_names, recipe_values, stated, to_mapping
from encoders.training.session import Session
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.settings import parse
from tests.encoders.training.conftest import WORDS, Recipes

NAMES = recipe_names()


def test_all_recipes_are_found() -> None:
    assert len(NAMES) == 37


def test_a_recipe_has_at_most_90_keys() -> None:
    kinds = {kind for kind in vars(options).values() if getattr(kind, "__module__", "") == options.__name__}
    kinds = {kind for kind in kinds if dataclasses.is_dataclass(kind)}
    assert sum(len(dataclasses.fields(kind)) for kind in (*kinds, Lora)) <= 90


SMALLER = {"uhd": ["settings.dimensions=64", "settings.k=4"]}
"""Additional changes by architecture that make a model small enough for a test."""


@pytest.mark.parametrize("name", NAMES)
def test_recipe_builds_a_model(name: str, backbone_12: Path) -> None:
    architecture = load_recipe(name).architecture
    changes = [f"backbone={backbone_12}", "num_hidden_layers=null", "max_length={query: 8}"]
    recipe = load_recipe(name, changes=[*changes, *SMALLER.get(architecture, [])])
    session = Session(recipe, "cpu")
    for stage in recipe.stages:
        learner = Learner(stage, session)
        assert learner.parameters
        assert (learner.pruner is None) == (stage.options.pruning is None)


@pytest.fixture(scope="session")
def backbone_12(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny backbone with twelve layers, as the UHD-BERT recipes with buckets need."""
    folder = tmp_path_factory.mktemp("backbone_12")
    save_random_bert(folder, WORDS, "masked-lm", 12)
    return folder


def test_what_a_recipe_states_is_the_recipe() -> None:
    for name in NAMES:
        recipe = load_recipe(name)
        for values in (stated(recipe), to_mapping(recipe)):
            assert parse(Recipe, yaml.safe_load(yaml.safe_dump(values)), name) == recipe
    # so that a new key with a default is no other recipe
    assert "idf_bias" in to_mapping(recipe).keys() - stated(load_recipe("splade-flops")).keys()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("stages.0.augment_pair=true", r"stages\[0\]: unknown key 'augment_pair'"),
        ("stages.0.regularizer.kind=flop", "'flop' is not a regulariser; did you mean 'flops'"),
        ("stages.0.rank.negatives_from=50", "negatives_from 50 must divide batch_size 124"),
        ("stages.7.steps=1", "'7' is not an index of a list of 1"),
        ("model.name=x", "nothing to set inside"),
        ("stages.0.micro_batch_size=0", "micro_batch_size 0; give at least 1"),
    ],
)
def test_an_invalid_change_of_a_recipe_is_an_error(change: str, message: str) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        load_recipe("splade-flops", changes=[change])


NONE = {"negatives": {"per_query": 0}}
SPADE = {"architecture": "spade"}
KL = {"distillation": {"kl": 1}}


def validated(**settings: Any) -> dict[str, Any]:
    return {"validation": {"collection": "pydoc", "every": 1, **settings}}


@pytest.mark.parametrize(
    ("stage", "changes", "message"),
    [
        ({"rank": {"loss": "pairwise"}}, NONE, "pairwise loss and distillation need hard negatives"),
        (KL, NONE, "pairwise loss and distillation need hard negatives"),
        ({"batch_size": 1}, NONE, "nothing to rank against"),
        ({"distillation": {}}, {}, "distillation: give 'margin_mse' or 'kl' a weight above 0"),
        ({"rank": {"loss": "none"}}, {}, "rank: 'loss: none' needs distillation"),
        ({**KL, "objective": "gate"}, {}, "'distillation' go with objective: rank"),
        ({"component": "weighting", "options": {"cotraining": {}}}, SPADE, "'cotraining' excludes 'component'"),
        ({"options": {"cotraining": {"share": 0.0}}}, SPADE, "'share' above 0"),
        ({"options": {"joint": True}}, SPADE, "options: 'joint' is an option of sparterm, not of 'spade'"),
        (
            {"objective": "gate", "options": {"joint": True}},
            {"architecture": "sparterm"},
            "'options' go with objective",
        ),
        ({}, {"negatives": {"kind": "checkpoint"}}, "kind: checkpoint and 'checkpoint' go together"),
        ({}, {"negatives": {"ranks": [9, 8]}}, "ranks 9 to 8; give 1 <= first <= last"),
        ({}, validated(holdout=3, split="dev"), "'holdout' is at least 1 and excludes 'split' and 'queries'"),
        ({}, validated(pool=5, bm25=3), "pool and bm25 are different pools"),
        ({}, validated(pool=5, rerank=True), "'rerank' needs 'bm25'"),
        ({}, {"data": []}, "at least one entry"),
    ],
)
def test_values_that_contradict_each_other_are_refused(
    tiny_recipe: Recipes, stage: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(LearnedSparseError, match=re.escape(message)):
        tiny_recipe(stage, **changes)


def test_a_recipe_is_merged_into_its_base_and_each_stage_into_the_shared_stage(tmp_path: Path) -> None:
    base, mine = tmp_path / "base.yaml", tmp_path / "mine.yaml"
    base.write_text(
        "base: _demo\nmodel: a\nsettings: {k: 10, alpha: 0.3}\nvalidation: {every: 5}\n"
        "stage: {steps: 4, rank: {loss: hinge, score_scale: 2.0}}\nstages: [{name: one}, {name: two, steps: 8}]\n"
    )
    mine.write_text(
        "base: base.yaml\nsettings: {k: null}\nvalidation: null\nstage: {steps: 6, rank: {score_scale: 3.0}}\n"
    )
    values = recipe_values(mine)
    assert (values["model"], values["backbone"], values["validation"]) == ("a", "splade-tiny", None)
    assert values["settings"] == {"k": None, "alpha": 0.3}
    one, two = values["stages"]
    assert (one["name"], one["steps"], one["batch_size"]) == ("one", 6, 16)
    assert (two["name"], two["steps"]) == ("two", 8)
    assert one["rank"] == two["rank"] == {"loss": "hinge", "score_scale": 3.0}
    assert one["rank"] is not two["rank"]  # so that --set changes one of them
    assert not values.keys() & {"base", "stage"}
    mine.write_text("base: base.yaml\nstages: [{name: only}]\n")  # a list replaces the list of the base
    assert [stage["name"] for stage in recipe_values(mine)["stages"]] == ["only"]
    base.write_text("base: mine.yaml\n")
    with pytest.raises(LearnedSparseError, match="is its own base, through"):
        load_recipe(str(mine))
    base.write_text("base: no-such-recipe\n")
    with pytest.raises(LearnedSparseError, match=r"base\.yaml: base: no recipe 'no-such-recipe'"):
        load_recipe(str(mine))


def test_changes_set_list_items_and_create_missing_mappings() -> None:
    changes = ["stages.0.steps=7", "bits=4", "seed=3"]
    recipe = load_recipe("demo-splade", changes=changes, data=["scifact:train"])
    assert (recipe.stages[0].steps, recipe.bits, recipe.seed) == (7, 4, 3)
    assert recipe.data[0].collection == "scifact"


@pytest.fixture
def recipe_file(recipe_values: Callable[..., dict[str, Any]], tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(recipe_values({"steps": 3})), encoding="utf-8")
    return path


def test_trains_into_the_default_folder_and_prints_the_next_command(
    recipe_file: Path, tmp_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--recipe", str(recipe_file), "--set", "stages.0.steps=2", "--device", "cpu", "--quiet"]) == 0
    folder = tmp_home / "checkpoints" / "tiny"
    assert (folder / "learned_sparse.json").exists()
    output = capsys.readouterr().out
    assert f"{folder}: 2 steps" in output
    assert "\nnext: python -m learned_sparse.encode --model tiny --collection " in output


def test_the_continuation_that_is_printed_goes_on(
    recipe_file: Path, tiny_collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    """Of a run whose time is up, which leaves a checkpoint, and of one that is interrupted, which leaves none."""
    output = tmp_path / "my run"  # a path to quote
    arguments = [
        "--recipe", str(recipe_file), "--data", f"{tiny_collection}:train,run={tiny_collection / 'train.run'}",
        "--set", "stages.0.steps=2", "--set", "negatives.ranks=[2, 100]", "--on-bad-line", "skip",
        "--output", str(output), "--device", "cpu", "--quiet",
    ]  # fmt: skip

    def interrupt(self: Training) -> bool:
        self.interrupted = True
        return True

    ends = f"{output}: 1 steps in "
    for status, told, limit in (
        (0, ends, ["--max-seconds", "0", "--overwrite"]),
        (0, ends, ["--overwrite", "--max-seconds=0"]),
        (130, "training was interrupted after step 1; go on with", ["--overwrite"]),
    ):
        with monkeypatch.context() as patch:
            if status == 130:
                patch.setattr(Training, "stops", interrupt)
            assert main([*arguments, *limit]) == status
        first, command = capsys.readouterr().out.splitlines()[:2]
        assert first.startswith(told)
        _, _, module, *words = shlex.split(command)
        assert (module, words) == ("encoders.train", [*arguments, "--resume"])
    assert main([*words, "--max-seconds", "0"]) == 0
    assert f"{output}: 2 steps in " in capsys.readouterr().out


def test_a_run_of_other_queries_has_no_hard_negatives(recipe_file: Path, tiny_collection: Path, tmp_path: Path) -> None:
    (tmp_path / "dev.run").write_text("q30 Q0 d1 1 2.0 bm25\n")
    data = f"{tiny_collection}:train,run={tmp_path / 'dev.run'}"
    with pytest.raises(LearnedSparseError, match=r"dev\.run: no hits for any query of .*; is it the run of another"):
        main(["--recipe", str(recipe_file), "--data", data, "--output", str(tmp_path / "run"), "--quiet"])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("kind", "warns"), [("masked-LM", False), ("SPLADE", True)])
def test_idf_biases_of_a_sparse_encoder_are_told(
    kind: str, warns: bool, tiny_backbone: Path, tiny_recipe: Callable[..., Recipe], tmp_path: Path, caplog: Any
) -> None:
    backbone = shutil.copytree(tiny_backbone, tmp_path / "backbone")
    if kind == "SPLADE":  # as sentence-transformers marks it
        modules = '[{"type": "sentence_transformers.sparse_encoder.models.SpladePooling"}]'
        (backbone / "modules.json").write_text(modules, encoding="utf-8")
    Session(tiny_recipe(idf_bias=0.5, backbone=str(backbone)), "cpu").start_from(["w1 w2"])
    assert ("is a sparse encoder already" in caplog.text) == warns


def test_invalid_train_options(recipe_file: Path, tiny_collection: Path) -> None:
    with pytest.raises(LearnedSparseError, match="give one of them"):
        main(["--recipe", str(recipe_file), "--resume", "--overwrite"])
    with pytest.raises(LearnedSparseError, match=r"no hard negatives; .*:train,run=FILE"):
        main(["--recipe", str(recipe_file), "--data", str(tiny_collection), "--output", str(recipe_file.parent)])


def test_train_is_a_public_function(recipe_file: Path, tmp_path: Path) -> None:
    import encoders

    options: dict[str, Any] = {"output": tmp_path / "run", "device": "cpu"}
    assert encoders.train(recipe_file, settings={"stages.0.steps": 2, "seed": 1}, **options).steps == 2
    notes = yaml.safe_load((tmp_path / "run" / "learned_sparse.json").read_text(encoding="utf-8"))
    assert (notes["training"]["step"], notes["recipe"]["seed"]) == (2, 1)
    assert train is encoders.train
    with pytest.raises(LearnedSparseError, match="change a recipe given by name or file"):
        train(load_recipe(recipe_file), settings=["seed=1"], **options)
