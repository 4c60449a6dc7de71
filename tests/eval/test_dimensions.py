"""Profiles, lengths and meanings of dimensions by pencil, and the command on an encoded collection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.checkpoints.checkpoint import new_model, save_checkpoint
from eval import dimensions
from eval.costs.sparsity import TermCounts, count_terms
from eval.profile.density import LengthGroup, by_length, density_chart
from eval.profile.dimension_analysis import analyse
from eval.profile.dimension_profile import StopDimension, frequency_chart, profile, ranks, usage
from eval.profile.dimension_words import meanings
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.encode import __main__ as encode
from tests.tiny_models import VOCABULARY, WORDS
from tests.toy_data import save_beir

DOCUMENTS = [["the", "rash"], ["the", "hives"], ["the", "rash", "skin"], ["the"], []]
QUERIES = [["the", "rash"], ["wing"], ["rash"]]


def test_profile_by_pencil() -> None:
    found = profile(count_terms(DOCUMENTS), count_terms(QUERIES), stop_share=0.4)
    assert found.stop_dimensions == (StopDimension("the", 4 / 5, 1 / 3),)  # rash is in 0.4, which is not more
    assert found.never_asked == 2  # hives, skin
    assert found.flops == pytest.approx((4 * 1 + 2 * 2) / 15)
    assert found.flops_without == pytest.approx(2 * 2 / 15)
    used = found.documents
    assert (used.texts, used.dimensions, used.singletons, used.postings, used.half) == (5, 4, 2, 8, 1)
    assert profile(count_terms(DOCUMENTS), count_terms(QUERIES), 0.39).stop_dimensions[1].dimension == "rash"


def test_a_zipf_distribution_has_slope_minus_one() -> None:
    counts = TermCounts({f"t{rank}": 5040 // rank for rank in range(1, 11)}, np.array([100] * 10_000, np.int32))
    assert usage(counts).slope == pytest.approx(-1, abs=0.01)
    assert ranks(counts) == [(float(rank), 5040 // rank) for rank in range(1, 11)]
    assert frequency_chart(counts, count_terms(QUERIES)).count('id="line-') == 2


def test_few_dimensions_have_no_slope() -> None:
    assert usage(count_terms([["a"], ["a"]])).slope is None
    assert usage(count_terms([[]])).half == 0


def test_many_ranks_are_thinned_out() -> None:
    counts = TermCounts({f"t{rank}": 10_000 - rank for rank in range(5000)}, np.zeros(1, np.int32))
    found = ranks(counts)
    assert found[0] == (1, 10_000)
    assert found[-1] == (5000, 10_000 - 4999)
    assert len(found) <= 120


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


def test_a_dimension_means_the_words_that_come_with_it() -> None:
    texts = [*["What do kids eat?"] * 5, *["what do kids play"] * 2, *["what is rust"] * 20, "kids!"]
    active = [*[{"b1", "b2"}] * 6, *[{"b2"}] * 22]
    first, *rest = meanings(texts, active)
    assert (first.dimension, first.queries) == ("b1", 6)
    # "kids" is in 8 of 28 queries and in all 6 that activate b1: 6 / (6 * 8 / 28); "what" is no more often there
    assert [(word.word, word.queries, round(word.lift, 3)) for word in first.words] == [
        ("do", 6, 4.0),
        ("eat", 5, 4.667),
        ("kids", 6, 3.5),
    ]
    assert all(meaning.dimension != "b2" for meaning in rest)  # it is active in every query
    assert meanings(texts, active, at_least=7) == []
    assert meanings([], []) == []


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """Documents and queries of a made-up collection, by a tiny SPLADE."""
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
    return dimensions.main(["--vectors", str(folder / "documents"), "--queries", str(folder / "queries"), *words])


def test_command(encoded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(encoded, "--output", str(tmp_path), "--at-least", "2", "--stop-share", "0.5") == 0
    found: dict[str, Any] = json.loads((tmp_path / "dimensions.json").read_text())
    assert (found["profile"]["documents"]["texts"], found["profile"]["queries"]["texts"]) == (40, 18)
    lengths = found["lengths"]["documents"]
    assert sum(group["texts"] for group in lengths) == 40
    # one to twelve words, no suffixes, [CLS] and [SEP]; cut at eight tokens
    assert (lengths[0]["shortest"], lengths[-1]["longest"]) == (3, 8)
    assert sum(group["texts"] for group in found["lengths"]["queries"]) == 9  # the same nine texts twice
    assert all(one["documents"] > 0.5 for one in found["profile"]["stop_dimensions"])
    assert found["dimensions"] == len(VOCABULARY)
    printed = capsys.readouterr().out
    assert "stop-dimensions; without them FLOPS would be" in printed
    for name in ("dimensions-frequency.svg", "dimensions-density.svg", "dimensions.md"):
        assert (tmp_path / name).stat().st_size > 500


def test_chosen_dimensions_and_samples(encoded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sampled = analyse(encoded / "documents", encoded / "queries", lengths_of=10, at_least=2)
    assert sum(group.texts for group in sampled.lengths["documents"]) == 10
    chosen = sampled.meanings[-1].dimension
    assert run(encoded, "--dimension", chosen, "--at-least", "2", "--markdown") == 0
    printed = capsys.readouterr().out.split("## Words")[1]
    assert len([line for line in printed.splitlines() if line.startswith("|")]) == 3
    assert f"| {chosen}" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--stop-share", "1.5"], "share of the documents"),
        (["--at-least", "0"], "--at-least 0"),
        (["--checkpoint", "/no/such/folder"], "no such folder"),
        (["--queries", "/no/such/folder"], "no such file"),
    ],
)
def test_mistakes(words: list[str], message: str, encoded: Path) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        run(encoded, *words)


def test_folders_must_be_named() -> None:
    with pytest.raises(LearnedSparseError, match="which vectors"):
        dimensions.main(["--vectors", "somewhere"])


def test_torch_is_not_needed(encoded: Path, python: Any) -> None:
    program = "import sys; from eval import dimensions; dimensions.main(sys.argv[1:]); print('torch' in sys.modules)"
    words = ["--vectors", encoded / "documents", "--queries", encoded / "queries"]
    done = python("-c", program, *words)
    assert done.stdout.endswith("False\n"), done.stderr
