"""SPLADE-max equals the SPLADE encoders of sentence-transformers and Pyserini."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from encoders.encoding.loading import load_encoder
from tests.tiny_models import TEXTS, for_pyserini


@pytest.mark.jvm
@pytest.mark.parametrize("kind", ["bert", "distilbert"])
def test_pyserini(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Its integers are round(weight / 5 * 256)."""
    from learned_sparse.lucene.jvm import start_jvm

    start_jvm()
    from pyserini.encode import SpladeQueryEncoder

    folder = str(shutil.copytree(request.getfixturevalue(f"tiny_{kind}"), tmp_path / "splade"))
    theirs = SpladeQueryEncoder(for_pyserini(Path(folder)))
    ours = load_encoder(folder, "query", dtype="fp32").encode(TEXTS)
    for row, text in enumerate(TEXTS):
        impacts = {term: weight / 5 * 256 for term, weight in ours.row(row).items()}
        expected = theirs.encode(text)
        assert impacts.keys() == expected.keys()
        for term, impact in expected.items():
            assert impacts[term] == pytest.approx(impact, abs=0.5 + 1e-3), (text, term)
