"""The notes of a checkpoint are read without torch; earlier formats are supported."""

from __future__ import annotations

from pathlib import Path

import pytest

from encoders.checkpoints.notes import FORMAT, BagNotes, CheckpointNotes, read_notes, write_notes
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer

BAG = BagNotes(weighting="binary", excluded=(0, 4), scoring="impact", scale=1.0, changeable=("k",))
ALL_FIELDS = CheckpointNotes(
    format=FORMAT,
    architecture="spade",
    settings={"k": 10, "frequencies": {"wing": 0.25}},
    vocabulary_size=90,
    max_length={"query": 32, "document": 256},
    quantizers={"query": Quantizer(1.0), "document": None},
    recipe={"name": "demo"},
    training={"step": 3},
    bags={"query": BAG},
)


def test_written_and_read(tmp_path: Path) -> None:
    write_notes(tmp_path, ALL_FIELDS)
    assert read_notes(tmp_path) == ALL_FIELDS


def test_a_folder_without_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match="an empty folder, not a checkpoint"):
        read_notes(tmp_path)
