"""Damage in the JSON records that this package writes is noticed before a number is computed from them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given

from encoders.training.loop import Progress, begin
from encoders.training.recipe import load_recipe, to_mapping
from encoders.training.session import load_weights, save_weights
from eval.reproduce.steps import Step, is_done, record_of, write_end
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import read_json, write_json
from learned_sparse.index.note import IndexNote
from learned_sparse.jsonvector.manifest import Manifest
from tests.learned_sparse.encoded_folder import write_folder
from tests.reliability.scale import damaged, generated, refusal, replaced

PROGRESS = Progress(step=20, best_score=0.5, best_step=10, recipe=to_mapping(load_recipe("demo-splade")))


STEP = Step(name="search", kind="search", module="nothing", arguments=("--hits", "10"), output=Path())


def resume(folder: Path) -> Progress:
    """The progress that a run resumes from."""
    return begin(folder, load_recipe("demo-splade"), resume=True, overwrite=False)


def save_note(folder: Path) -> None:
    vectors = write_folder(folder / "vectors", {"d1": {"itch": 2}, "d2": {}})
    IndexNote("impact", (Manifest.load(vectors),), {"documents": 2}).save(folder)


RECORDS: dict[str, tuple[Callable[[Path], object], Callable[[Path], Any]]] = {
    "learned_sparse.json": (save_note, IndexNote.load),
    "training/state/state.json": (
        lambda folder: write_json(folder / "training/state/state.json", dataclasses.asdict(PROGRESS), record=True),
        resume,
    ),
    "reproduce/steps/search.json": (
        lambda _: write_end(STEP, 1.0, alone=True), lambda _: (record_of(STEP), is_done(STEP))
    ),
}  # fmt: skip
"""The file, what writes it into a folder (or into the home folder, which is the same), and what reads it."""
VALUES = [None, True, 0, -1, 10**9, 2**63, 2**70, 0.5, 1e308, "", "x", "..", "../../x", "\ud800", [], [1], {}, {"x": 1}]


@pytest.mark.parametrize("file", RECORDS)
def test_damage_is_noticed_and_a_hand_is_read_or_refused(file: str, tmp_home: Path) -> None:
    """A flipped bit or a lost end against the checksum; values written by hand have none."""
    save, load = RECORDS[file]
    save(tmp_home)
    path, whole, expected = tmp_home / file, (tmp_home / file).read_bytes(), load(tmp_home)
    content = {key: value for key, value in json.loads(whole).items() if key != "sha256"}

    @generated
    @given(damaged(whole), replaced(content, VALUES))
    def check(damage: bytes, by_hand: Any) -> None:
        path.write_bytes(damage)
        if refusal(load, tmp_home) is None:
            assert load(tmp_home) == expected  # white space, or the name of the checksum
        path.write_text(json.dumps(by_hand))
        refusal(load, tmp_home)

    check()


@pytest.mark.parametrize("file", ["../x.jsonl", "/etc/passwd", "vectors/../../x", "", "vectors\\x"])
def test_parts_of_a_manifest_are_files_in_its_folder(file: str, tmp_path: Path) -> None:
    content = read_json(write_folder(tmp_path, {"d1": {"itch": 2}}) / "manifest.json")
    content["parts"][0]["file"] = file
    del content["sha256"]
    write_json(tmp_path / "manifest.json", content, record=True)
    with pytest.raises(LearnedSparseError, match=r"manifest\.json: parts: .* is not a file in the folder"):
        Manifest.load(tmp_path)


def test_damaged_states_of_training_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "best.safetensors"
    model = torch.nn.Linear(3, 2)
    save_weights(path, model)
    whole = path.read_bytes()
    load_weights(path, model)
    path.write_bytes(whole[:-1])
    with pytest.raises(LearnedSparseError, match=r"best\.safetensors: cannot be read .*; start again with --overwrite"):
        load_weights(path, model)
    path.write_bytes(whole)
    with pytest.raises(LearnedSparseError, match=r"best\.safetensors: cannot be read (.|\n)*size mismatch"):
        load_weights(path, torch.nn.Linear(2, 2))
