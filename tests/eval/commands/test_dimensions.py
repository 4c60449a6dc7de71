"""Densities and meanings of dimensions checked by hand, and the command on an encoded collection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from encoders.encoding import new_model, save_checkpoint
from eval.costs import count_terms
from eval.dimensions import analyse, main
from eval.profile import LengthGroup, density_chart, meanings
from eval.profile.texts import by_length
from learned_sparse.core.encoder import encode_texts, load_encoder
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.encode import __main__ as encode
from tests.tiny_models import VOCABULARY, WORDS
from tests.toy_data import save_beir


def test_flops_without_stop_dimensions_by_hand() -> None:
    documents = count_terms([["the", "rash"], ["the", "hives"], ["the", "rash", "skin"], ["the"], []])
    queries = count_terms([["the", "rash"], ["wing"], ["rash"]])
    analysis = analyse(documents, queries, 0.4, dimensions=9, lengths={}, meanings=())
    assert analysis.only_in_documents == 2  # hives, skin
    assert analysis.flops == pytest.approx((4 * 1 + 2 * 2) / 15)
    assert analysis.flops_without == pytest.approx(2 * 2 / 15)  # the stop-dimension is "the"
    assert analysis.complexity == pytest.approx(8 / 5 * 4 / 3 / 9)  # UHD-BERT, Eq. 9


def test_groups_of_equal_lengths_stay_together() -> None:
    groups = by_length([5, 5, 5, 5, 5, 9, 30, 31], [1, 2, 3, 4, 5, 10, 20, 30], groups=4)
    assert sum(group.texts for group in groups) == 8
    assert groups[0] == LengthGroup(texts=5, shortest=5, longest=5, mean_length=5, mean_active=3)
    assert [(group.shortest, group.longest) for group in groups[1:]] == [(9, 30), (31, 31)]
    cut = by_length([3, 4, 8, 8, 8, 8, 8, 8], [1, 1, 2, 2, 2, 2, 2, 2], groups=4)
    assert [(group.shortest, group.longest, group.mean_active) for group in cut] == [(3, 4, 1), (8, 8, 2)]
    assert by_length([], []) == []
    chart = density_chart({"documents": groups}, 1000)
    assert "% of 1,000 dimensions" in chart
    assert chart.count("<use") >= len(groups)


def test_words_that_activate_a_dimension() -> None:
    texts = [*["What do kids eat?"] * 5, *["what do kids play"] * 2, *["what is rust"] * 20, "kids!"]
    active = [*[{"b1", "b2"}] * 6, *[{"b2"}] * 22]
    first, *others = meanings(texts, active)
    assert (first.dimension, first.queries) == ("b1", 6)
    # "kids" is in 8 of 28 queries and in all 6 that activate b1: lift 6 / (6 * 8 / 28); the lift of "what" is near 1
    assert [(word.word, word.queries, round(word.lift, 3)) for word in first.words] == [
        ("do", 6, 4.0),
        ("eat", 5, 4.667),
        ("kids", 6, 3.5),
    ]
    assert all(meaning.dimension != "b2" for meaning in others)  # b2 is active in every query
    assert meanings(texts, active, min_queries=7) == []
    assert meanings([], []) == []


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """Documents and queries of a small collection, encoded by a tiny SPLADE."""
    folder = tmp_path_factory.mktemp("dimensions")
    texts = [" ".join(WORDS[i : i + 1 + i % 12]) for i in range(40)]
    documents = {f"d{number}": text for number, text in enumerate(texts)}
    queries = {f"q{number}": text for number, text in enumerate([*texts[:9], *texts[:9]])}
    save_beir(folder / "data", documents, queries, {"test": [(f"q{i}", f"d{i}", 1) for i in range(18)]})
    save_checkpoint(folder / "model", new_model("splade", {}, str(tiny_bert), max_length={"document": 8}))
    words = ["--model", "m", "--checkpoint", str(folder / "model"), "--collection", str(folder / "data")]
    assert encode.main([*words, "--output", str(folder / "documents"), "--part-size", "7"]) == 0
    assert encode.main([*words, "--output", str(folder / "queries"), "--queries"]) == 0
    return folder


def run(folder: Path, *words: str) -> int:
    return main(["--vectors", str(folder / "documents"), "--queries", str(folder / "queries"), *words])


def test_command(encoded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(encoded, "--output", str(tmp_path), "--at-least", "2", "--stop-share", "0.5") == 0
    content: dict[str, Any] = json.loads((tmp_path / "dimensions.json").read_text())
    assert (content["usage"]["documents"]["texts"], content["usage"]["queries"]["texts"]) == (40, 18)
    lengths = content["lengths"]["documents"]
    assert sum(group["texts"] for group in lengths) == 40
    # one to twelve words without suffixes, plus [CLS] and [SEP], truncated at eight tokens
    assert (lengths[0]["shortest"], lengths[-1]["longest"]) == (3, 8)
    assert sum(group["texts"] for group in content["lengths"]["queries"]) == 9  # nine distinct texts, each twice
    assert all(dimension["documents"] > 0.5 for dimension in content["stop_dimensions"])
    assert content["dimensions"] == len(VOCABULARY)
    printed = capsys.readouterr().out
    assert "Without them FLOPS would be" in printed
    for name in ("dimensions-frequency.svg", "dimensions-density.svg", "dimensions.md"):
        assert (tmp_path / name).stat().st_size > 500


def test_chosen_dimensions_and_samples(
    encoded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eval.dimensions._LENGTHS", 10)
    assert run(encoded, "--at-least", "2", "--output", str(tmp_path)) == 0
    sampled = json.loads((tmp_path / "dimensions.json").read_text())
    assert sum(group["texts"] for group in sampled["lengths"]["documents"]) == 10
    chosen = sampled["meanings"][-1]["dimension"]
    assert run(encoded, "--dimension", chosen, "--at-least", "2", "--markdown") == 0
    printed = capsys.readouterr().out.split("## Words")[-1]
    assert len([line for line in printed.splitlines() if line.startswith("|")]) == 3
    assert f"| {chosen}" in printed


def test_values_are_those_of_the_encoder(encoded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(encoded, "--values", "3", "--output", str(tmp_path)) == 0
    values = json.loads((tmp_path / "dimensions.json").read_text())["values"]
    encoder = load_encoder(str(encoded / "model"), "document", dtype="fp32")
    weights = encode_texts(encoder, [" ".join(WORDS[i : i + 1 + i]) for i in range(3)]).values
    assert (values["documents"], values["count"]) == (3, len(weights))
    assert values["mean"] == pytest.approx(float(weights.mean()), rel=0.01)  # in the dtype of the vectors
    assert sum(count for _, _, count in values["histogram"]) == len(weights)
    assert "Weights before quantisation" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--checkpoint", "/no/such/folder"], "no such folder"),
        (["--queries", "/no/such/folder"], "no such file"),
    ],
)
def test_invalid_paths_are_errors(words: list[str], message: str, encoded: Path) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        run(encoded, *words)


def test_folders_must_be_named() -> None:
    with pytest.raises(LearnedSparseError, match="no vectors: give"):
        main(["--vectors", "somewhere"])


def test_the_command_does_not_import_torch(encoded: Path, python: Any) -> None:
    program = "import sys; from eval.dimensions import main; main(sys.argv[1:]); print('torch' in sys.modules)"
    words = ["--vectors", encoded / "documents", "--queries", encoded / "queries"]
    done = python("-c", program, *words)
    assert done.stdout.endswith("False\n"), done.stderr
