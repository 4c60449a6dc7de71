"""``python -m encoders.train``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from encoders.train import main
from encoders.training import stopping
from learned_sparse.core.errors import LearnedSparseError


@pytest.fixture
def recipe_file(recipe_values: Callable[..., dict[str, Any]], tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(recipe_values({"steps": 3})), encoding="utf-8")
    return path


def test_trains_into_the_default_folder_and_says_what_is_next(
    recipe_file: Path, tmp_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--recipe", str(recipe_file), "--set", "stages.0.steps=2", "--device", "cpu", "--quiet"]) == 0
    folder = tmp_home / "checkpoints" / "tiny"
    assert (folder / "learned_sparse.json").exists()
    said = capsys.readouterr().out
    assert f"{folder}: 2 steps" in said
    assert f"python -m learned_sparse.encode --model tiny --checkpoint {folder}" in said


def test_a_stopped_run_can_be_made_a_checkpoint_and_goes_on(
    recipe_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--recipe", str(recipe_file), "--output", str(tmp_path / "run"), "--device", "cpu", "--quiet"]

    def interrupt(self: stopping.Stopping) -> bool:
        self.interrupted = True
        return True

    with monkeypatch.context() as patch:
        patch.setattr(stopping.Stopping, "now", interrupt)
        assert main(arguments) == 130
    assert "stopped after step 1; go on with" in capsys.readouterr().out
    assert not (tmp_path / "run" / "learned_sparse.json").exists()
    assert main([*arguments, "--resume", "--max-seconds", "0"]) == 0
    assert (tmp_path / "run" / "learned_sparse.json").exists()
    assert "2 steps" in capsys.readouterr().out
    assert main([*arguments, "--resume"]) == 0
    assert "3 steps" in capsys.readouterr().out


def test_mistakes(recipe_file: Path) -> None:
    with pytest.raises(LearnedSparseError, match="give one of them"):
        main(["--recipe", str(recipe_file), "--resume", "--overwrite"])
    with pytest.raises(LearnedSparseError, match="no recipe 'demo-splad'; did you mean 'demo-splade'"):
        main(["--recipe", "demo-splad"])
    with pytest.raises(LearnedSparseError, match="no hard negatives; give the source a 'run'"):
        main(
            ["--recipe", str(recipe_file), "--data", str(_collection(recipe_file)), "--output", str(recipe_file.parent)]
        )


def _collection(recipe: Path) -> str:
    name: str = yaml.safe_load(recipe.read_text(encoding="utf-8"))["data"][0]["collection"]
    return name


def test_help_is_quick(python: Callable[..., Any]) -> None:
    shown = python("-X", "importtime", "-m", "encoders.train", "--help")
    assert shown.returncode == 0
    assert "demo-splade" in shown.stdout
    assert not {"torch", "transformers", "accelerate"} & {
        line.split("|")[-1].strip() for line in shown.stderr.splitlines()
    }
