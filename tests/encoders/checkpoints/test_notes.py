"""The notes of a checkpoint are read without torch; earlier formats are supported."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from encoders.checkpoints.notes import FORMAT, NOTES, BagNotes, CheckpointNotes, as_json, read_notes, write_notes
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import read_record, write_record
from learned_sparse.core.quantize import Quantizer
from tests.conftest import Python

BAG = BagNotes(weighting="binary", excluded=(0, 4), scoring="impact", scale=1.0, changeable=("k",))
ALL_FIELDS = CheckpointNotes(
    format=FORMAT,
    architecture="spade",
    settings={"k": 10, "frequencies": {"wing": 0.25}},
    vocabulary_size=90,
    max_length={"query": 32, "document": 256},
    quantizers={"query": {"scale": 1.0, "bits": None}, "document": None},
    recipe={"name": "demo"},
    training={"step": 3},
    bags={"query": BAG},
)


def test_written_and_read(tmp_path: Path) -> None:
    write_notes(tmp_path, ALL_FIELDS)
    assert read_notes(tmp_path) == ALL_FIELDS
    assert (ALL_FIELDS.quantizer("query"), ALL_FIELDS.quantizer("document")) == (Quantizer(1.0), None)


def test_notes_without_bags_have_the_earlier_format(tmp_path: Path) -> None:
    write_notes(tmp_path, dataclasses.replace(ALL_FIELDS, bags={}))
    written = json.loads((tmp_path / NOTES).read_text())
    assert set(written) == {
        "format", "architecture", "settings", "vocabulary_size", "max_length", "quantizers", "recipe", "training",
        "sha256",
    }  # fmt: skip
    assert read_notes(tmp_path).bags == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "format 2, this version reads 1"),
        ({"bags": {"query": {"weighting": "tf-idf"}}}, "bags: query"),
        ({"bags": {"query": {**dataclasses.asdict(BAG), "excluded": ["a"]}}}, r"excluded\[0\]: expected int"),
    ],
)
def test_damaged_notes(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    write_notes(tmp_path, ALL_FIELDS)
    content = read_record(tmp_path / NOTES)
    write_record(tmp_path / NOTES, {**content, **changes})
    with pytest.raises(LearnedSparseError, match=message):
        read_notes(tmp_path)


def test_a_folder_without_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match="an empty folder, not a checkpoint"):
        read_notes(tmp_path)


def test_a_plain_masked_lm_is_splade_max(tiny_distilbert: Path) -> None:
    notes = read_notes(tiny_distilbert)
    assert (notes.architecture, notes.settings["pooling"], notes.bags) == ("splade", "max", {})
    assert notes.quantizer("query") == notes.quantizer("document") == Quantizer(100.0)
    assert notes.max_length == {"query": 64, "document": 64}
    json.dumps(dataclasses.asdict(notes))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Nested:
    """Settings that contain tuples."""

    layers: tuple[int, ...] = (2, 4)
    frequencies: dict[str, tuple[float, ...]] = dataclasses.field(default_factory=lambda: {"wing": (0.5,)})
    none: None = None


def test_settings_as_json() -> None:
    assert as_json(Nested()) == {"layers": [2, 4], "frequencies": {"wing": [0.5]}, "none": None}
    assert as_json(Nested()) == json.loads(json.dumps(dataclasses.asdict(Nested())))


def test_no_torch(tmp_path: Path, python: Python) -> None:
    write_notes(tmp_path, ALL_FIELDS)
    code = (
        "import sys; from pathlib import Path; from encoders.checkpoints.notes import read_notes;"
        "read_notes(Path(sys.argv[1])); print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    done = python("-c", code, tmp_path)
    assert done.stdout == "False False\n", done.stderr
