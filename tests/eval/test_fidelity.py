"""What fewer bits cost: measured on a made-up collection, and the arithmetic and the verdict by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from encoders.encoding import new_model, save_checkpoint
from eval.fidelity import __main__ as fidelity
from eval.fidelity import naive as fidelity_naive
from eval.fidelity.naive import against_naive
from eval.fidelity.page import page, verdict
from eval.fidelity.run import Model, compare
from eval.fidelity.steps import Place
from eval.fidelity.vectors import agreement, shared_at_the_top
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.jsonvector import Manifest, read_vectors
from tests.tiny_models import TEXTS
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
def test_every_dtype_is_compared_on_every_collection(
    tmp_home: Path, tmp_path: Path, data: Path, tiny_bert: Path
) -> None:
    model = checkpoint(tmp_path / "tiny-splade", tiny_bert, pooling="max")
    words = ["--checkpoint", model, "--data", str(data), "--device", "cpu"]
    assert fidelity.main([*words, "--pooled", "msmarco-mini", "--output", str(tmp_path / "results" / "fidelity")]) == 0
    found = json.loads((tmp_path / "results" / "fidelity.json").read_text(encoding="utf-8"))
    assert str(tmp_path) not in json.dumps(found)
    assert [of["collection"] for of in found["collections"]] == ["scifact", "msmarco-mini-test-pool-10"]
    of = found["collections"][0]
    assert [row["dtype"] for row in of["rows"]] == ["fp32", "bf16"]
    assert (of["document texts"], of["query texts"]) == (12, 12)
    fp32, bf16 = of["rows"]
    for measure in ("nDCG@10", "MRR@10"):
        difference = bf16["scores"][measure] - fp32["scores"][measure]
        assert bf16["difference"][measure] == pytest.approx(difference, abs=1e-9)
        assert 0 < bf16["p"][measure] <= 1
    assert 0.9 < bf16["document"]["cosine"] < 1  # other numbers, but of the same model
    assert bf16["document"]["equal"] < bf16["document"]["within_one"] <= 1
    assert of["plain formula"]["document"]["holds"]
    assert of["plain formula"]["query"]["weights"] <= 1e-5
    loss = max(-of["rows"][1]["difference"]["nDCG@10"] for of in found["collections"])
    assert found["verdicts"]["bf16"]["largest loss"] == pytest.approx(loss, abs=1e-9)
    text = (tmp_path / "results" / "fidelity.md").read_text(encoding="utf-8")
    assert text == page(found) + "\n"
    assert "--pooled msmarco-mini" in text
    assert "| bf16  | 12 queries" in text
    assert "- bf16 m" in text


@pytest.mark.jvm
def test_all_dtypes_have_the_quantisers_of_fp32(
    tmp_home: Path, tmp_path: Path, data: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums without log have no fixed factor: each encoding would be calibrated on its own weights."""
    name = checkpoint(tmp_path / "sums", tiny_bert, saturation="none")
    model = Model(checkpoint=name, device="cpu", anew=False)
    place = Place(collection=str(data / "scifact"), name="scifact", split="test")
    found = compare(model, place, ["bf16"])
    stored = [Manifest.load(tmp_home / "vectors" / "scifact" / f"sums-{dtype}") for dtype in ("fp32", "bf16")]
    assert stored[0].quantizer == stored[1].quantizer
    assert stored[0].quantizer.bits == 8
    assert found["quantizers"]["document"] == stored[0].quantizer.to_json()
    ours, others = (dict(read_vectors(tmp_home / "vectors" / "scifact" / f"sums-{d}")) for d in ("fp32", "bf16"))
    both = agreement(zip(ours.values(), others.values(), strict=True))
    assert found["rows"][1]["document"]["equal"] == both.equal

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("encoded again")

    monkeypatch.setattr("encoders.encoding.encoder.CheckpointEncoder._weigh", forbidden)
    monkeypatch.setattr("eval.fidelity.run._speed", lambda *_: 1.0)
    monkeypatch.setattr("eval.fidelity.run.against_naive", lambda *_, **__: None)
    monkeypatch.setattr("eval.fidelity.steps.encode_queries", lambda *_, **__: None)
    assert compare(model, place, ["bf16"])["rows"][1]["scores"] == found["rows"][1]["scores"]


@pytest.mark.parametrize("pooling", ["sum", "max"])
@pytest.mark.parametrize("saturation", ["log", "none"])
def test_fp32_equals_the_plain_formula(pooling: str, saturation: str, tiny_bert: Path, tmp_path: Path) -> None:
    name = checkpoint(tmp_path, tiny_bert, pooling=pooling, saturation=saturation)
    found = against_naive(name, "document", TEXTS, Quantizer(100.0), device="cpu")
    assert found is not None
    assert found["texts"] == len(TEXTS)
    assert found["weights"] <= 1e-5
    assert found["holds"]


def test_another_formula_is_seen(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain formula that pools a text less shows in weights and integers."""
    name = checkpoint(tmp_path, tiny_bert, pooling="max")
    true = fidelity_naive._naive_weights

    def wrong(*given: Any) -> Any:
        for row, weights in enumerate(true(*given)):
            yield weights * (0.9 if row == 2 else 1.0)

    monkeypatch.setattr(fidelity_naive, "_naive_weights", wrong)
    found = against_naive(name, "document", TEXTS, Quantizer(100.0), device="cpu")
    assert found is not None
    assert not found["holds"]
    assert found["weights"] == pytest.approx(1 / 9, abs=1e-4)  # 0.1 of 0.9
    assert found["integers"] > 1


@pytest.mark.parametrize(
    ("architecture", "settings", "side"),
    [
        ("sparterm", {}, "document"),
        ("splade", {"expansion": "lexical"}, "document"),
        ("splade", {"query": "bag-of-words"}, "query"),
    ],
)
def test_elsewhere_there_is_no_plain_formula(
    architecture: str, settings: dict[str, Any], side: Any, tiny_bert: Path, tmp_path: Path
) -> None:
    name = checkpoint(tmp_path, tiny_bert, architecture, **settings)
    assert against_naive(name, side, TEXTS, Quantizer(100.0), device="cpu") is None


def test_agreement_by_hand() -> None:
    pairs = [({"a": 3, "b": 4}, {"a": 4, "c": 3}), ({"a": 5}, {"a": 5}), ({}, {"a": 1}), ({}, {})]
    found = agreement(pairs)
    assert found.texts == 4
    assert found.cosine == pytest.approx((12 / 25 + 1 + 0 + 1) / 4)
    assert found.jaccard == pytest.approx((1 / 3 + 1 + 0 + 1) / 4)
    assert found.equal == 1 / 5  # of a, b, c; a; a
    assert found.within_one == 3 / 5
    assert agreement([({}, {})]).equal == 1.0


def test_the_top_by_hand() -> None:
    run = {"q1": [("d1", 3), ("d2", 2), ("d3", 1)], "q2": [], "q3": [("d1", 1)]}
    other = {"q1": [("d2", 9), ("d4", 8), ("d1", 7)], "q2": [], "q3": []}
    assert shared_at_the_top(run, other, 2) == pytest.approx((1 / 2 + 1 + 0) / 3)
    assert shared_at_the_top(run, other, 3) == pytest.approx((2 / 3 + 1 + 0) / 3)


@pytest.mark.parametrize(
    ("differences", "loss", "on", "may"),
    [
        ((0.0004, -0.0011), 0.0011, "two", True),
        ((-0.002, 0.5), 0.002, "one", True),  # the very most; a gain elsewhere is no help
        ((-0.0021, 0.5), 0.0021, "one", False),
        ((0.001, 0.002), -0.001, "one", True),
    ],
)
def test_the_verdict_is_on_the_worst_collection(
    differences: tuple[float, float], loss: float, on: str, may: bool
) -> None:
    compared = [
        {
            "collection": name,
            "rows": [{"dtype": "fp32"}, {"dtype": "bf16", "difference": {"nDCG@10": difference, "MRR@10": -1.0}}],
        }
        for name, difference in zip(("one", "two"), differences, strict=True)
    ]
    assert verdict("bf16", compared) == {"largest loss": loss, "on": on, "may be a default": may}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dtypes", "bf16", "fp32"], "what the others are compared with"),
        (["--collections", "scifact", "--pooled", "msmarco-mini"], "not one of --collections scifact"),
        (["--collections", "vaswani"], r"vaswani/corpus\.jsonl: no such file"),
    ],
)
def test_mistakes_are_found_first(words: list[str], message: str, data: Path) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        fidelity.main(["--checkpoint", "none", "--data", str(data), *words])


def test_a_model_scored_by_bm25_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    name = checkpoint(tmp_path, tiny_bert, "sparterm", mode="expansion-only", query="tf")
    with pytest.raises(LearnedSparseError, match="scored by BM25"):
        Model(checkpoint=name, device="cpu", anew=False).description()
