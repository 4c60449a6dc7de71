"""Every shipped recipe, reading and changing recipes, and ``python -m encoders.train``."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from encoders.models import UHDSettings
from encoders.train import main
from encoders.training import RECIPES, Distillation, Recipe, load_recipe, recipe_names, run_recipe, to_mapping, train
from encoders.training.learner import make_learner
from encoders.training.recipe_file import differences, resolved
from encoders.training.session import Session, Stopping
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.settings import parse

NAMES = recipe_names()


RECIPE_NAMES = """
deepct deepimpact demo-spade demo-sparterm demo-splade demo-uhd fine-tune-splade
small-spade small-spade-expansion small-spade-weighting
small-sparterm small-sparterm-literal small-splade small-uhd
spade spade-distilled spade-expansion spade-joint spade-k2 spade-k5 spade-no-cotraining spade-weighting
sparterm-expansion sparterm-literal
splade-distilled splade-doc splade-flops splade-l1 st-exp-flops st-exp-l1 st-lexical-only
tildev2 uhd-bert uhd-bert-buckets uhd-bert-joint uhd-bert-separate unicoil
"""


def test_all_recipes_are_tested() -> None:
    assert RECIPE_NAMES.split() == NAMES


SMALLER = {"uhd": ["settings.dimensions=64", "settings.k=4"]}
"""Additional changes by architecture that make a model small enough for a test."""


@pytest.mark.parametrize("name", NAMES)
def test_recipe_builds_a_model(name: str, backbone_12: Path) -> None:
    architecture = load_recipe(name).architecture
    changes = [f"backbone={backbone_12}", "num_hidden_layers=null", "max_length={query: 8}"]
    recipe = load_recipe(name, changes=[*changes, *SMALLER.get(architecture, [])])
    session = Session(recipe, "cpu")
    for stage in recipe.stages:
        assert make_learner(stage, session).parameters
        assert session.micro_batch_size(stage) >= 1
        assert (session.pruner(stage) is None) == (stage.pruning is None)


@pytest.fixture(scope="session")
def backbone_12(tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny backbone with twelve layers, as the UHD-BERT recipes with buckets need."""
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    folder = tmp_path_factory.mktemp("backbone_12")
    config = BertConfig.from_pretrained(tiny_backbone, num_hidden_layers=12)
    BertForMaskedLM(config).save_pretrained(folder)
    BertTokenizer.from_pretrained(tiny_backbone).save_pretrained(folder)
    return folder


def test_recipes_written_as_yaml_are_read_unchanged() -> None:
    for name in NAMES:
        recipe = load_recipe(name)
        assert parse(Recipe, yaml.safe_load(yaml.safe_dump(to_mapping(recipe))), name) == recipe


def test_numbers_of_the_splade_paper() -> None:
    for name in ("splade-flops", "splade-l1", "st-exp-flops", "st-exp-l1", "st-lexical-only"):
        (stage,) = load_recipe(name).stages
        numbers = (stage.steps, stage.batch_size, stage.learning_rate, stage.warm_up_steps, stage.optimizer)
        assert numbers == (150_000, 124, 2e-5, 6_000, "adam")
        assert stage.regularizer.kind == {"l1": "l1", "flops": "flops", "only": "none"}[name.split("-")[-1]]
        assert stage.regularizer.ramp_steps == 50_000
        assert load_recipe(name).settings["saturation"] == ("log" if name.startswith("splade") else "none")


def test_numbers_of_published_distilled_splade() -> None:
    recipe = load_recipe("splade-distilled")
    (stage,) = recipe.stages
    assert (stage.distillation, stage.rank.weight) == (Distillation(margin_mse=1.0), 0.0)
    regularizer = stage.regularizer
    assert (regularizer.kind, regularizer.lambda_query, regularizer.lambda_document) == ("flops", 0.1, 0.08)
    assert (stage.steps, stage.batch_size, stage.warm_up_steps, stage.learning_rate) == (150_000, 128, 6000, 2e-5)
    assert (stage.optimizer, stage.weight_decay, recipe.settings["pooling"]) == ("adamw", 0.01, "max")


def test_numbers_of_the_sparterm_paper() -> None:
    gate, importance = load_recipe("sparterm-expansion").stages
    assert (gate.objective, gate.steps) == ("gate", 50_000)
    assert (gate.gate.negative_weight, gate.gate.positive_weight) == (1e-3, 1)
    assert (importance.objective, importance.steps) == ("rank", 100_000)
    assert (importance.joint, importance.rank.loss) == (False, "pairwise")
    assert gate.batch_size == importance.batch_size == 128


def test_numbers_of_the_spade_paper() -> None:
    recipe = load_recipe("spade")
    weighting, expansion, both = recipe.stages
    assert (weighting.component, expansion.component) == ("weighting", "expansion")
    assert all((stage.steps, stage.batch_size) == (32_000, 32) for stage in (weighting, expansion))
    assert (weighting.learning_rate, expansion.learning_rate) == (1e-5, 5e-6)
    assert (weighting.pointwise.weight, expansion.pointwise.weight) == (0, 1)
    assert both.learning_rates == {"weighting": 1e-5, "expansion": 5e-6}
    assert both.cotraining is not None
    assert both.cotraining.share == 0.3
    assert both.pruning is not None
    assert (both.pruning.gamma, both.pruning.schedule[0]) == (0.7, 0.9)
    # The paper validates every 1,600 iterations; each of our steps makes ten updates after a selection.
    assert both.validate_every == 160
    assert -(-int(both.cotraining.select_from * both.cotraining.share) // both.batch_size) == 10
    assert both.pruning.window == 2 * both.validate_every
    assert recipe.validation is not None
    assert recipe.validation.patience == 5
    for part in ("weighting", "expansion"):
        assert load_recipe(f"spade-{part}").settings["components"] == part


def test_spade_is_pruned_in_fine_tuning_only() -> None:
    """Section 3.4 and Fig. 4; without co-training, from the start (section 5.3)."""
    for name in ("spade", "spade-k2", "spade-k5", "spade-weighting", "spade-expansion", "spade-joint"):
        *warm_up, fine_tuning = load_recipe(name).stages
        assert [stage.steps for stage in warm_up] == [32_000] * len(warm_up)
        assert not any(stage.pruning or stage.validate for stage in warm_up)
        expanding = [stage for stage in warm_up if stage.component != "weighting"]
        assert [stage.settings for stage in expanding] == [{"k": None}] * len(expanding)
        assert fine_tuning.pruning is not None
        assert not fine_tuning.settings
    (only,) = load_recipe("spade-no-cotraining").stages
    assert only.pruning is not None
    assert (only.pruning.begin, dict(only.settings)) == (0, {})
    assert only.cotraining is not None
    assert only.cotraining.share == 1


def test_the_alpha_of_joint_spade_is_fixed() -> None:
    joint = load_recipe("spade-joint")
    assert (joint.settings["alpha"], joint.mix) == (0.3, False)
    assert all(stage.component is None for stage in joint.stages)


def test_each_k_of_spade_is_trained() -> None:
    assert [load_recipe(name).settings["k"] for name in ("spade-k2", "spade-k5", "spade")] == [2, 5, 10]


def test_numbers_of_the_uhd_paper() -> None:
    for name, layers in (("uhd-bert", [12]), ("uhd-bert-buckets", [2, 4, 6, 8, 10, 12])):
        recipe = load_recipe(name)
        assert (recipe.settings["layers"], recipe.settings["dimensions"], recipe.settings["k"]) == (layers, 81_920, 80)
        assert len(recipe.stages) == len(layers)
        for stage in recipe.stages:
            numbers = (stage.steps, stage.batch_size, stage.learning_rate, stage.warm_up_steps, stage.weight_decay)
            assert numbers == (39_782_779 // 4 // 32 + 1, 32, 5e-6, 2_000, 0.01)
            assert (stage.optimizer, stage.decay, stage.rank.loss, stage.rank.margin) == ("adam", True, "hinge", 1.0)
        assert (recipe.max_length.query, recipe.max_length.document, recipe.negatives.per_query) == (32, 180, 0)
    assert [stage.component for stage in load_recipe("uhd-bert-buckets").stages] == [
        f"b{layer}" for layer in range(2, 13, 2)
    ]
    assert load_recipe("uhd-bert-joint").settings["encoders"] == "joint"
    assert load_recipe("uhd-bert-joint").stages[0].component is None
    for name in ("uhd-bert-joint", "uhd-bert-separate"):
        assert load_recipe(name).settings["dimensions"] == 8192
        assert {stage.steps for stage in load_recipe(name).stages} == {39_782_779 * 3 // 100 // 32}


def test_uhd_is_normalised_per_token_and_tuned_in_one_recipe() -> None:
    """Fig. 3 shows values of 1 / sqrt(80), and section 4.5 alone tunes bucket weights."""
    assert UHDSettings().normalize == "token"
    for name in ("uhd-bert", "uhd-bert-buckets", "uhd-bert-joint", "uhd-bert-separate"):
        assert load_recipe(name).settings["normalize"] == "token"
        assert load_recipe(name).mix == (name in ("uhd-bert", "uhd-bert-separate"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("stages.0.augment_pair=true", r"stages\[0\]: unknown key 'augment_pair'"),
        ("seeds=1", "unknown key 'seeds'; did you mean 'seed'"),
        ("stages.0.regularizer.kind=l2", "'l2' is not one of"),
        ("stages.7.steps=1", "'7' is not an index of a list of 1"),
        ("stages.0.steps", "expected key=value"),
        ("model.name=x", "nothing to set inside"),
        ("stages.0.micro_batch_size=50", "must divide batch_size 124"),
        ("stages.0.micro_batch_size=0", "must divide batch_size 124"),
        ("stages.0.micro_batch_size=-2", "must divide batch_size 124"),
        ("negatives.kind=dense", "'dense' is not one of"),
    ],
)
def test_an_invalid_change_of_a_recipe_is_an_error(change: str, message: str) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        load_recipe("splade-flops", changes=[change])


def test_recipes_without_negatives_or_stages_are_errors(recipe_values: Callable[..., dict[str, Any]]) -> None:
    none = {"kind": "none"}
    with pytest.raises(LearnedSparseError, match="pairwise loss needs hard negatives"):
        parse(Recipe, recipe_values({"rank": {"loss": "pairwise"}}, negatives=none), "r")
    with pytest.raises(LearnedSparseError, match="nothing to rank against"):
        parse(Recipe, recipe_values({"batch_size": 1}, negatives=none), "r")
    with pytest.raises(LearnedSparseError, match="at least one entry"):
        parse(Recipe, {**recipe_values(), "stages": []}, "r")


def test_a_recipe_is_merged_into_its_base_and_each_stage_into_the_shared_stage(tmp_path: Path) -> None:
    base, mine = tmp_path / "base.yaml", tmp_path / "mine.yaml"
    base.write_text(
        "base: _demo\nmodel: a\nsettings: {k: 10, alpha: 0.3}\nvalidation: {every: 5}\n"
        "stage: {steps: 4, rank: {loss: hinge, margin: 2.0}}\nstages: [{name: one}, {name: two, steps: 8}]\n"
    )
    mine.write_text("base: base.yaml\nsettings: {k: null}\nvalidation: null\nstage: {steps: 6, rank: {margin: 3.0}}\n")
    values = resolved(mine)
    assert (values["model"], values["backbone"], values["validation"]) == ("a", "splade-tiny", None)
    assert values["settings"] == {"k": None, "alpha": 0.3}
    one, two = values["stages"]
    assert (one["name"], one["steps"], one["batch_size"]) == ("one", 6, 16)
    assert (two["name"], two["steps"]) == ("two", 8)
    assert one["rank"] == two["rank"] == {"loss": "hinge", "margin": 3.0}
    assert one["rank"] is not two["rank"]  # so that --set changes one of them
    assert not values.keys() & {"base", "stage"}
    mine.write_text("base: base.yaml\nstages: [{name: only}]\n")  # a list replaces the list of the base
    assert [stage["name"] for stage in resolved(mine)["stages"]] == ["only"]
    base.write_text("base: mine.yaml\n")
    with pytest.raises(LearnedSparseError, match="is its own base, through"):
        load_recipe(str(mine))


def test_recipes_state_only_differences_from_their_base() -> None:
    """No recipe repeats a value of its base, and no stage repeats a value of the shared ``stage``."""

    def repeated(values: Any, base: Any) -> bool:
        if isinstance(values, dict) and isinstance(base, dict):
            return any(repeated(value, base[key]) for key, value in values.items() if key in base)
        return bool(values == base)

    for path in RECIPES.glob("*.yaml"):
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        shared = values.get("stage", {})
        if "base" in values:
            base = yaml.safe_load((RECIPES / f"{values['base']}.yaml").read_text(encoding="utf-8"))
            assert not repeated({key: value for key, value in values.items() if key != "base"}, base), path.name
        assert not any(repeated(stage, shared) for stage in values.get("stages", [])), path.name


def test_the_error_for_an_unknown_recipe_suggests_the_nearest_name() -> None:
    with pytest.raises(LearnedSparseError, match="no recipe 'splade-flop'; did you mean 'splade-flops'"):
        load_recipe("splade-flop")


def test_changes_set_list_items_and_create_missing_mappings() -> None:
    changes = ["stages.0.steps=7", "quantization.factor=10", "seed=3"]
    recipe = load_recipe("demo-splade", changes=changes, data=["scifact:train"])
    assert (recipe.stages[0].steps, recipe.quantization.factor, recipe.seed) == (7, 10.0, 3)
    assert recipe.data[0].collection == "scifact"
    changed = differences(to_mapping(load_recipe("demo-splade", changes=changes[:1])), to_mapping(recipe))
    assert changed == [
        "data.0.collection: 'pydoc' -> 'scifact'",
        "quantization.factor: None -> 10.0",
        "seed: 0 -> 3",
    ]


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


def test_a_stopped_run_can_be_finished_as_a_checkpoint_and_resumed(
    recipe_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--recipe", str(recipe_file), "--output", str(tmp_path / "run"), "--device", "cpu", "--quiet"]

    def interrupt(self: Stopping) -> bool:
        self.interrupted = True
        return True

    with monkeypatch.context() as patch:
        patch.setattr(Stopping, "now", interrupt)
        assert main(arguments) == 130
    assert "stopped after step 1; go on with" in capsys.readouterr().out
    assert not (tmp_path / "run" / "learned_sparse.json").exists()
    assert main([*arguments, "--resume", "--max-seconds", "0"]) == 0
    assert (tmp_path / "run" / "learned_sparse.json").exists()
    assert "2 steps" in capsys.readouterr().out
    assert main([*arguments, "--resume"]) == 0
    assert "3 steps" in capsys.readouterr().out


def test_the_continuation_that_is_printed_goes_on(
    recipe_file: Path, tiny_collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "my run"  # a path to quote
    arguments = [
        "--recipe", str(recipe_file), "--data", f"{tiny_collection}:train,run={tiny_collection / 'train.run'}",
        "--set", "stages.0.steps=2", "--set", "negatives.first_rank=2", "--on-bad-line", "skip",
        "--output", str(output), "--device", "cpu", "--quiet",
    ]  # fmt: skip
    for limit in (["--max-seconds", "0", "--overwrite"], ["--overwrite", "--max-seconds=0"]):
        assert main([*arguments, *limit]) == 0
        told, command = capsys.readouterr().out.splitlines()[:2]
        assert told.startswith(f"{output}: 1 steps in ")
        _, _, module, *words = shlex.split(command)
        assert (module, words) == ("encoders.train", [*arguments, "--resume"])
    assert main(words) == 0
    assert f"{output}: 2 steps in " in capsys.readouterr().out


def test_a_run_of_other_queries_has_no_hard_negatives(recipe_file: Path, tiny_collection: Path, tmp_path: Path) -> None:
    (tmp_path / "dev.run").write_text("q30 Q0 d1 1 2.0 bm25\n")
    data = f"{tiny_collection}:train,run={tmp_path / 'dev.run'}"
    with pytest.raises(LearnedSparseError, match=r"dev\.run: no hits for any query of .*; is it the run of another"):
        main(["--recipe", str(recipe_file), "--data", data, "--output", str(tmp_path / "run"), "--quiet"])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "kind", "warning"),
    [
        ({"settings": {"pooling": "max"}}, "masked-LM", "at step 1 documents have weight in"),
        ({"architecture": "spade", "settings": {"k": 3}}, "masked-LM", ""),  # few terms: three of each token
        ({"architecture": "spade", "settings": {"k": 3}}, "SPLADE", ""),
        ({"architecture": "spade", "settings": {"k": 3}, "idf_bias": 0.5}, "masked-LM", ""),
        ({"architecture": "spade", "settings": {"k": 3}, "idf_bias": 0.5}, "SPLADE", "is a sparse encoder already"),
    ],
)
def test_start_values_for_another_kind_of_backbone_are_told(
    changes: dict[str, Any], kind: str, warning: str, tiny_backbone: Path, tiny_recipe: Callable[..., Recipe],
    tmp_path: Path, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    backbone = shutil.copytree(tiny_backbone, tmp_path / "backbone")
    if kind == "SPLADE":  # as sentence-transformers marks it
        modules = '[{"type": "sentence_transformers.sparse_encoder.models.SpladePooling"}]'
        (backbone / "modules.json").write_text(modules, encoding="utf-8")
    run_recipe(tiny_recipe({"steps": 1}, **changes, backbone=str(backbone)), tmp_path / "run", device="cpu", quiet=True)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == bool(warning)
    assert warning in "".join(warnings)


def test_invalid_train_options(recipe_file: Path) -> None:
    with pytest.raises(LearnedSparseError, match="give one of them"):
        main(["--recipe", str(recipe_file), "--resume", "--overwrite"])
    with pytest.raises(LearnedSparseError, match="no recipe 'demo-splad'; did you mean 'demo-splade'"):
        main(["--recipe", "demo-splad"])
    with pytest.raises(LearnedSparseError, match=r"no hard negatives; .*:train,run=FILE"):
        main(["--recipe", str(recipe_file), "--data", _collection(recipe_file), "--output", str(recipe_file.parent)])


def test_train_is_a_public_function(recipe_file: Path, tmp_path: Path) -> None:
    import encoders

    options: dict[str, Any] = {"output": tmp_path / "run", "device": "cpu"}
    folder = encoders.train(recipe_file, settings={"stages.0.steps": 2, "seed": 1}, **options)
    assert folder == tmp_path / "run"
    notes = yaml.safe_load((folder / "learned_sparse.json").read_text(encoding="utf-8"))
    assert (notes["training"]["step"], notes["recipe"]["seed"]) == (2, 1)
    assert train is encoders.train
    with pytest.raises(LearnedSparseError, match="this folder holds a run"):
        train(load_recipe(recipe_file), **options)
    with pytest.raises(LearnedSparseError, match="change a recipe given by name or file"):
        train(load_recipe(recipe_file), settings=["seed=1"], **options)


def _collection(recipe: Path) -> str:
    name: str = yaml.safe_load(recipe.read_text(encoding="utf-8"))["data"][0]["collection"]
    return name
