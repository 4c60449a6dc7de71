"""SPLADE-max equals the SPLADE encoders of sentence-transformers and Pyserini."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from encoders.encoding.loading import load_encoder
from encoders.encoding.model import new_model
from tests.tiny_models import TEXTS, for_pyserini


@pytest.mark.parametrize("kind", ["bert", "distilbert"])
@pytest.mark.parametrize("pooling", ["max", "sum"])
def test_sentence_transformers(kind: str, pooling: Any, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    sparse_encoder: Any = pytest.importorskip("sentence_transformers.sparse_encoder")
    modules: Any = pytest.importorskip("sentence_transformers.sparse_encoder.modules")
    folder = str(request.getfixturevalue(f"tiny_{kind}"))
    transformer = modules.MLMTransformer(folder)
    theirs = sparse_encoder.SparseEncoder(
        modules=[transformer, modules.SpladePooling(pooling_strategy=pooling)], device="cpu"
    )
    expected = theirs.encode(TEXTS, convert_to_sparse_tensor=False).cpu()
    model = new_model("splade", {"pooling": pooling}, folder)
    inputs = model.tokenizer(TEXTS, padding=True, return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        torch.testing.assert_close(model.weighers.eval().document(**inputs), expected, rtol=1e-4, atol=1e-5)
    theirs.save_pretrained(str(tmp_path / "theirs"))  # records the pooling
    batches = [load_encoder(str(tmp_path / "theirs"), "query", dtype="fp32").encode(TEXTS)]
    batches += [load_encoder(folder, "query", dtype="fp32", settings={"pooling": pooling}).encode(TEXTS)]
    for batch in batches:
        for row, dense in enumerate(expected):
            terms = {batch.terms[j]: float(dense[j]) for j in dense.nonzero().flatten().tolist()}
            assert batch.row(row) == pytest.approx(terms, rel=1e-4, abs=1e-5)


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
