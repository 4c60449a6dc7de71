"""A regulariser and an export format of an installed package are found by their entry points."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from encoders.training.recipe import REGULARIZERS, Regularizer
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.lazy import Register
from learned_sparse.export.__main__ import main as export
from tests.learned_sparse.encoded_folder import write_folder

PACKAGE = """
from learned_sparse.export.exporting import Format


def write_ids(documents, folder):
    (folder / "ids.txt").write_text("".join(f"{name}\\n" for name, _ in documents))


IDS = Format("ids alone", write_ids, None, 2**20, None)
"""
POINTS = """
[learned_sparse.regularizers]
norm = torch:norm
flops = torch:norm
[learned_sparse.formats]
ids = more_parts:IDS
"""


def test_parts_of_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    (site / "more_parts-1.0.dist-info").mkdir(parents=True)
    (site / "more_parts.py").write_text(PACKAGE)
    (site / "more_parts-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: more-parts\n")
    (site / "more_parts-1.0.dist-info" / "entry_points.txt").write_text(POINTS)
    with pytest.raises(LearnedSparseError, match="'norm' is not a regulariser"):
        Regularizer(kind="norm", lambda_document=1.0)
    monkeypatch.syspath_prepend(site)
    Regularizer(kind="norm", lambda_document=1.0)
    assert REGULARIZERS["norm"](torch.tensor([[3.0, 4.0]])).item() == 5
    assert REGULARIZERS["flops"].__module__ == "encoders.training.objective"  # no package takes a name of ours
    write_folder(tmp_path / "vectors", {"d1": {"itch": 2}, "d2": {}})
    words = ["--format", "ids", "--vectors", str(tmp_path / "vectors"), "--output", str(tmp_path / "out")]
    assert export(words) == 0
    assert (tmp_path / "out" / "ids.txt").read_text() == "d1\nd2\n"
    with pytest.raises(LearnedSparseError, match=r"broken: more_parts:ABSENT cannot be imported .*uninstall"):
        Register("learned_sparse.formats", {"broken": "more_parts:ABSENT"})["broken"]
