"""``--on-bad-line`` on every command that reads documents, and ``on_bad_line`` in recipes and matrices."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from encoders.training import Negatives, Source, load_recipe
from encoders.training.data.sources import load_source
from encoders.training.data.texts import TextStores
from encoders.training.recipe import Validation
from encoders.training.validation import Validator
from eval.reproduce import prepare
from eval.reproduce.matrix import BM25Row, Column, Matrix, RecipeRow, Training
from eval.reproduce.plan import make_plan
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.encode import __main__ as encode
from learned_sparse.index import __main__ as index
from learned_sparse.jsonvector.manifest import Manifest
from tests.fake_encoder import install_loader
from tests.toy_data import save_collection

ERROR = r"corpus\.jsonl:13: malformed JSON .*; skip such lines with --on-bad-line skip"


@pytest.fixture
def collection(tmp_path: Path, tmp_home: Path) -> Path:
    """Twelve documents and a malformed line."""
    folder = save_collection(tmp_path / "toy", ["test", "dev"])
    with (folder / "corpus.jsonl").open("a") as file:
        file.write("{\n")
    return folder


@pytest.mark.parametrize("given", [[], ["--on-bad-line", "skip"]])
def test_encode(collection: Path, tmp_home: Path, monkeypatch: pytest.MonkeyPatch, given: list[str]) -> None:
    install_loader(monkeypatch)
    words = ["--model", "m", "--checkpoint", "c", "--collection", str(collection), *given]
    if not given:
        with pytest.raises(LearnedSparseError, match=ERROR):
            encode.main(words)
        return
    encode.main(words)
    assert Manifest.load(tmp_home / "vectors" / "toy" / "m").counts.skipped == {"malformed JSON": 1}


@pytest.mark.jvm
def test_bm25(collection: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    for source in (["--collection", str(collection)], ["--input", str(collection / "corpus.jsonl")]):
        with pytest.raises(LearnedSparseError, match=ERROR):
            index.main(["--bm25", *source])
        index.main(["--bm25", *source, "--on-bad-line", "skip", "--overwrite"])
        assert "12 documents of plain text" in capsys.readouterr().out
        assert "12 documents read, 1 skipped: malformed JSON" in caplog.text


def test_small_steps_of_leaderboards(collection: Path, tmp_path: Path) -> None:
    run = tmp_path / "run.txt"
    run.write_text("q0 Q0 d1 1 1.0 t\n")
    on, out = ["--collection", str(collection), "--split", "test"], ["--output", str(tmp_path / "out")]
    for words in (
        ["export", *on, "--documents", *out],
        ["sample", *on, "--run", str(run), "--depth", "1", *out],
        ["expand", "--collection", str(collection), *out],
    ):
        with pytest.raises(LearnedSparseError, match=ERROR):
            prepare.main(words)
        assert prepare.main([*words, "--on-bad-line", "skip"]) == 0


def test_training(collection: Path) -> None:
    source, none = Source(collection=str(collection), split="test"), Negatives(kind="none")
    validation = Validation(collection=str(collection), split="test", every=1)
    for read in (lambda stores: load_source(source, none, stores), lambda s: Validator(validation, 0, stores=s)):
        with pytest.raises(LearnedSparseError, match=ERROR):
            read(TextStores())
        read(TextStores(on_bad_line="skip"))
    assert load_recipe("demo-splade", changes=["on_bad_line=skip"]).on_bad_line == "skip"


def test_matrices(collection: Path) -> None:
    columns = {"c": Column(collection=str(collection), split="test", measures=("MRR@10",), pool=10)}
    rows = {
        "text": BM25Row(bm25="text"),
        "expanded": BM25Row(bm25="expanded", expanded=str(collection / "corpus.jsonl")),
        "trained": RecipeRow(recipe="demo-splade"),
    }
    training = Training(data=(f"{collection}:test",), validation=str(collection))
    matrix = Matrix(title="", columns=columns, rows=rows, training=training)
    for on_bad_line, count in (("error", 0), ("skip", 1)):
        plan = make_plan(dataclasses.replace(matrix, on_bad_line=on_bad_line), "m", None)  # type: ignore[arg-type]
        for step in plan.steps:
            reads = step.kind in {"encode", "pool", "train"} or "expand" in step.arguments
            reads |= step.kind == "index-bm25" and "--collection" in step.arguments
            words = " ".join(step.arguments).replace("on_bad_line=skip", "--on-bad-line skip")
            assert words.count("--on-bad-line skip") == (count if reads else 0), step
