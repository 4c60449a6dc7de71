"""Data types compared with fp32 on a small collection; agreement of vectors and runs checked by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from encoders.encoding import new_model, save_checkpoint
from eval.fidelity import agreement, format_page, main, top_overlap
from eval.measures import confidence_interval, differences, evaluate
from learned_sparse.collections import load_collection
from learned_sparse.core import LearnedSparseError
from learned_sparse.jsonvector import Manifest, read_vectors
from learned_sparse.search import ExactSearcher, QueryEncoder
from tests.toy_data import save_collection


def checkpoint(folder: Path, backbone: Path, architecture: str = "splade", **settings: Any) -> str:
    save_checkpoint(folder, new_model(architecture, settings, str(backbone)))
    return str(folder)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("scifact", "msmarco-mini"):
        save_collection(tmp_path / "data" / name, ["test"])
    return tmp_path / "data"


@pytest.mark.jvm
def test_bf16_is_compared_with_fp32(
    tmp_home: Path, tmp_path: Path, data: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model without a fixed quantiser: bf16 uses the quantiser that was calibrated in fp32."""
    model = checkpoint(tmp_path / "sums", tiny_bert, saturation="none")
    words = ["--checkpoint", model, "--data", str(data), "--device", "cpu", "--collections", "scifact", "msmarco-mini"]
    words += ["--output", str(tmp_path / "results" / "fidelity")]
    assert main(words) == 0
    content = json.loads((tmp_path / "results" / "fidelity.json").read_text(encoding="utf-8"))
    assert str(tmp_path) not in json.dumps(content)
    assert [of["collection"] for of in content["collections"]] == ["scifact", "msmarco-mini"]
    folders = {dtype: tmp_home / "vectors" / "scifact" / f"sums-{dtype}" for dtype in ("fp32", "bf16")}
    quantizers = [Manifest.load(folder).quantizer for folder in folders.values()]
    assert quantizers[0] == quantizers[1]
    assert quantizers[0].bits == 8
    fp32, bf16 = content["collections"][0]["rows"]
    vectors = [dict(read_vectors(folder)) for folder in folders.values()]
    expected = agreement(zip(*(of.values() for of in vectors), strict=True))
    assert bf16["document"] == expected
    assert 0.9 < bf16["document"]["cosine"] < 1  # different weights of the same model
    collection = load_collection(data / "scifact")
    scores = {}
    for dtype, folder in folders.items():
        encoder = QueryEncoder(model, dtype=dtype, device="cpu")
        queries = {query.id: encoder.encode(query.text) for query in collection.queries("test")}
        run = ExactSearcher.load(folder).search_batch(queries, 100)
        scores[dtype] = evaluate(run, collection.qrels("test"), ["nDCG@10"])
    assert (fp32["nDCG@10"], bf16["nDCG@10"]) == tuple(of.mean["nDCG@10"] for of in scores.values())
    values = differences(scores["bf16"].per_query["nDCG@10"], scores["fp32"].per_query["nDCG@10"])
    assert bf16["difference"] == pytest.approx(values.mean(), abs=1e-6)
    assert bf16["confidence interval"] == pytest.approx(confidence_interval(values), abs=1e-6)
    assert bf16["may be a default"] == (confidence_interval(values)[0] >= -0.002)
    page = (tmp_path / "results" / "fidelity.md").read_text(encoding="utf-8")
    assert page == format_page(content) + "\n"
    assert page.count("| bf16 ") == 2

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("documents are encoded again")

    monkeypatch.setattr(ExactSearcher, "load", fail)  # called only after all documents are encoded
    monkeypatch.setattr("encoders.encoding.CheckpointEncoder.encode_prepared", fail)
    with pytest.raises(AssertionError, match="encoded again"):
        main(words)


def test_agreement_by_hand() -> None:
    pairs = [({"a": 3, "b": 4}, {"a": 4, "c": 3}), ({"a": 5}, {"a": 5}), ({}, {"a": 1}), ({}, {})]
    results = agreement(pairs)
    assert results["cosine"] == pytest.approx((12 / 25 + 1 + 0 + 1) / 4)
    assert results["equal impacts"] == 1 / 5  # over a, b, c; a; a
    assert agreement([({}, {})])["equal impacts"] == 1.0


def test_top_overlap_by_hand() -> None:
    run = {"q1": [("d1", 3), ("d2", 2), ("d3", 1)], "q2": [], "q3": [("d1", 1)]}
    other = {"q1": [("d2", 9), ("d4", 8), ("d1", 7)], "q2": [], "q3": []}
    assert top_overlap(run, other, 2) == pytest.approx((1 / 2 + 1 + 0) / 3)
    assert top_overlap(run, other, 3) == pytest.approx((2 / 3 + 1 + 0) / 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dtypes", "bf16", "fp32"], "the others are compared with it"),
        (["--collections", "vaswani"], r"vaswani/corpus\.jsonl: no such file"),
    ],
)
def test_invalid_arguments_are_errors_before_encoding(words: list[str], message: str, data: Path) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        main(["--checkpoint", "none", "--data", str(data), *words])


def test_models_scored_by_bm25_are_refused(data: Path, tiny_bert: Path, tmp_path: Path) -> None:
    name = checkpoint(tmp_path / "model", tiny_bert, "sparterm", mode="expansion-only", query="tf")
    with pytest.raises(LearnedSparseError, match="scored by BM25"):
        main(["--checkpoint", name, "--data", str(data)])
