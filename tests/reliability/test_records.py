"""Damage in the JSON records that this package writes is noticed before a number is computed from them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from hypothesis import given

from encoders.checkpoints.notes import NOTES, CheckpointNotes, read_notes
from encoders.encoding.loading import load_encoder
from encoders.encoding.model import new_model, save_checkpoint
from encoders.training.loop import Progress, begin
from encoders.training.recipe import load_recipe, to_mapping
from encoders.training.session import load_weights, save_weights
from eval.reproduce.steps import Step, is_done, record_of, write_end
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import read_json, write_record
from learned_sparse.core.quantize import Quantizer
from learned_sparse.index.note import IndexNote
from learned_sparse.jsonvector.manifest import Counts, Manifest, Part
from tests.reliability.scale import damaged, generated, refusal, replaced

MANIFEST = Manifest(
    kind="documents", complete=True, collection="pydoc", model="splade", checkpoint="somewhere", architecture="splade",
    scoring="impact", encoder={"settings": {"pooling": "max"}, "max_length": 256}, quantizer=Quantizer(100.0),
    query_quantizer=Quantizer(12.5, 8), input=({"file": "corpus.jsonl", "bytes": 7},),
    counts=Counts(read=3, written=2, skipped={"empty text": 1}, postings=12),
    parts=(Part(file="vectors/part-00000.jsonl", documents=2, sha256="00"),), versions={"numpy": "2"},
)  # fmt: skip
PROGRESS = Progress(
    stage=0, step=20, best_score=0.5, best_step=10, recipe=to_mapping(load_recipe("demo-splade")), data={"pydoc": "abc"}
)


STEP = Step(name="search", kind="search", module="nothing", arguments=("--hits", "10"))


def resume(folder: Path) -> Progress:
    """The progress that a run resumes from."""
    return begin(folder, load_recipe("demo-splade"), resume=True, overwrite=False)


def load_notes(folder: Path) -> CheckpointNotes:
    """The notes of a checkpoint, after both sides have been loaded with them."""
    for side in get_args(Side):
        load_encoder(str(folder), side, dtype="fp32")
    return read_notes(folder)


RECORDS: dict[str, tuple[str, Callable[[Path, Path], object], Callable[[Path], Any]]] = {
    "notes of a checkpoint": (
        NOTES,
        lambda folder, bert: save_checkpoint(folder, new_model("splade", {"query": "bag-of-words"}, str(bert))),
        load_notes,
    ),
    "note of an index": (
        "learned_sparse.json",
        lambda folder, _: IndexNote("impact", (MANIFEST,), {"documents": 2}).save(folder),
        IndexNote.load,
    ),
    "state of training": (
        "training/state/state.json",
        lambda folder, _: write_record(folder / "training/state/state.json", dataclasses.asdict(PROGRESS)),
        resume,
    ),
    "record of a step": (
        "reproduce/steps/search.json",
        lambda *_: write_end(STEP, 1.0, alone=True),
        lambda _: (record_of(STEP), is_done(STEP)),
    ),
}
"""The file, what writes it into a folder (or into the home folder, which is the same), and what reads it."""
VALUES = [None, True, 0, -1, 10**9, 2**63, 2**70, 0.5, 1e308, "", "x", "..", "../../x", "\ud800", [], [1], {}, {"x": 1}]


@pytest.mark.parametrize("name", RECORDS)
def test_damage_is_noticed_and_a_hand_is_read_or_refused(name: str, tmp_home: Path, tiny_bert: Path) -> None:
    """A flipped bit or a lost end against the checksum; values written by hand have none."""
    file, save, load = RECORDS[name]
    save(tmp_home, tiny_bert)
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


def test_the_message_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "learned_sparse.json"
    IndexNote("impact", (MANIFEST,), {"documents": 2}).save(tmp_path)
    path.write_text(path.read_text().replace('"documents": 2', '"documents": 3'))
    with pytest.raises(LearnedSparseError, match=r"learned_sparse\.json: changed since it was written; restore it, or"):
        IndexNote.load(tmp_path)
    path.write_text(json.dumps({key: value for key, value in read_json(path).items() if key != "sha256"}))
    assert IndexNote.load(tmp_path).facts["documents"] == 3


@pytest.mark.parametrize("file", ["../x.jsonl", "/etc/passwd", "vectors/../../x", "", "vectors\\x"])
def test_parts_of_a_manifest_are_files_in_its_folder(file: str, tmp_path: Path) -> None:
    content = dataclasses.asdict(MANIFEST) | {"parts": [{"file": file, "documents": 2, "sha256": "00"}]}
    write_record(tmp_path / "manifest.json", content)
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
