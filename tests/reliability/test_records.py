"""Damage in the JSON records that this package writes is noticed before a number is computed from them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from encoders.training import load_recipe, to_mapping
from encoders.training.state.folder import Progress, RunFolder
from encoders.training.state.tensors import load_weights, save_weights
from eval.reproduce.steps import Step, is_done, record_file, record_of, write_end
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import read_json, read_record, write_record
from learned_sparse.core.quantize import Quantizer
from learned_sparse.index.note import IndexNote
from learned_sparse.jsonvector.manifest import Counts, Manifest, Part
from tests.reliability.refusals import refusal
from tests.reliability.scale import INPUTS, record

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


def step() -> Step:
    """A step of a leaderboard without output."""
    return Step(name="search", kind="search", title="search", module="nothing", arguments=("--hits", "10"))


def save_state(folder: Path) -> Path:
    """A state of training; only its record is read here."""
    path = folder / "training" / "state" / "state.json"
    write_record(path, dataclasses.asdict(PROGRESS))
    return path


def resume(folder: Path) -> Progress:
    """The progress that a run resumes from."""
    return RunFolder(folder).begin(load_recipe("demo-splade"), resume=True, overwrite=False)


def save_step(_: Path) -> Path:
    """The record of a step that is done."""
    write_end(step(), 1.0, alone=True)
    return record_file(step())


def save_note(folder: Path) -> Path:
    """The note of an index."""
    IndexNote("impact", (MANIFEST,), {"documents": 2}).save(folder)
    return folder / "learned_sparse.json"


RECORDS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], Any]]] = {
    "note of an index": (save_note, IndexNote.load),
    "state of training": (save_state, resume),
    "record of a step": (save_step, lambda _: (record_of(step()), is_done(step()))),
}
VALUES = [None, True, 0, -1, 10**9, 2**63, 2**70, 0.5, 1e308, "", "x", "..", "../../x", "\ud800", [], [1], {}, {"x": 1}]


@pytest.mark.usefixtures("tmp_home")
@pytest.mark.parametrize("name", RECORDS)
def test_a_flipped_bit_or_a_lost_end_is_noticed(name: str, tmp_path: Path) -> None:
    save, load = RECORDS[name]
    path = save(tmp_path)
    whole, expected = path.read_bytes(), load(tmp_path)

    @settings(max_examples=INPUTS, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, len(whole) - 1), st.sampled_from([0, 1, 2, 4, 8, 16, 32, 64, 128]))
    def check(at: int, bit: int) -> None:
        path.write_bytes(whole[:at] + (bytes([whole[at] ^ bit]) + whole[at + 1 :] if bit else b""))
        if refusal(load, tmp_path) is None:
            assert load(tmp_path) == expected  # white space, or the name of the checksum

    check()
    test = f"tests/reliability/test_records.py::test_a_flipped_bit_or_a_lost_end_is_noticed[{name}]"
    record("corruption", name, INPUTS, "noticed", test)


@pytest.mark.usefixtures("tmp_home")
@pytest.mark.parametrize("name", RECORDS)
def test_a_record_written_by_hand_is_read_or_refused(name: str, tmp_path: Path) -> None:
    save, load = RECORDS[name]
    path = save(tmp_path)
    whole = path.read_bytes()

    @settings(max_examples=INPUTS, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        content = json.loads(whole)
        del content["sha256"]
        inner, parent, key = content, content, "format"
        while isinstance(inner, dict | list) and inner:
            choices = list(inner) if isinstance(inner, dict) else range(len(inner))
            parent, key = inner, data.draw(st.sampled_from(choices))
            inner = parent[key]
            if data.draw(st.booleans()):
                break
        parent[key] = data.draw(st.sampled_from(VALUES))
        path.write_text(json.dumps(content))
        refusal(load, tmp_path)

    check()
    test = f"tests/reliability/test_records.py::test_a_record_written_by_hand_is_read_or_refused[{name}]"
    record("input", name, INPUTS, "read or refused", test)


def test_the_message_says_what_to_do(tmp_path: Path) -> None:
    path = save_note(tmp_path)
    path.write_text(path.read_text().replace('"documents": 2', '"documents": 3'))
    with pytest.raises(LearnedSparseError, match=r"learned_sparse\.json: changed since it was written; restore it, or"):
        IndexNote.load(tmp_path)
    path.write_text(json.dumps({key: value for key, value in read_json(path).items() if key != "sha256"}))
    assert IndexNote.load(tmp_path).facts["documents"] == 3


@pytest.mark.parametrize("file", ["../x.jsonl", "/etc/passwd", "vectors/../../x", "", "vectors\\x"])
def test_parts_of_a_manifest_are_files_in_its_folder(file: str, tmp_path: Path) -> None:
    content = MANIFEST.to_json() | {"parts": [{"file": file, "documents": 2, "sha256": "00"}]}
    write_record(tmp_path / "manifest.json", content)
    with pytest.raises(LearnedSparseError, match=r"manifest\.json: parts: .* is not a file in the folder"):
        Manifest.load(tmp_path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": ' + "9" * 5_000 + "}", "Exceeds the limit"),
        ("[" * 100_000, "maximum recursion depth"),
        ("", "Expecting value"),
    ],
    ids=lambda text: text[:20],
)
def test_json_that_cannot_be_read(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(LearnedSparseError, match=rf"a\.json.*: not readable as JSON: {reason}"):
        read_json(tmp_path / "a.json")


def test_what_is_no_json_file(tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match="cannot be read"):
        read_json(tmp_path)
    (tmp_path / "a.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(LearnedSparseError, match="utf-8"):
        read_record(tmp_path / "a.json")


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
    with pytest.raises(LearnedSparseError, match=r"best\.safetensors: the weights of another model"):
        load_weights(path, torch.nn.Linear(2, 2))
