"""``ir_datasets:ID`` for every command that takes a collection: encoding, training, measuring, indexing, searching."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from encoders.training import Negatives, Source, Validation
from encoders.training import data_source as source
from encoders.training.data.examples import JudgedExamples
from encoders.training.data.sources import load_source as load
from encoders.training.validation import Validator
from eval.reproduce.matrix import BM25Row, Column, Matrix
from eval.reproduce.plan import make_plan
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import index_folder, queries_folder, run_file, vectors_folder
from learned_sparse.encode import __main__ as encode
from learned_sparse.index import __main__ as index
from learned_sparse.jsonvector.manifest import Manifest
from learned_sparse.jsonvector.reader import read_vectors
from tests.catalogue_data import catalogued
from tests.fake_encoder import install_loader
from tests.toy_data import TEXTS

FILED = "ir_datasets--learned-sparse-test--tiny"

COMMANDS = """
import runpy, sys
from tests.catalogue_data import catalogued
with catalogued():
    for command in open(sys.argv[1], encoding="utf-8").read().splitlines():
        module, *sys.argv[1:] = command.split()
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            assert not end.code, command
"""


@pytest.fixture(autouse=True)
def name(tmp_home: Path) -> Iterator[str]:
    """Name of the data set with parts for ``--collection``; the home folder is empty."""
    with catalogued() as name:
        yield f"ir_datasets:{name}"


def test_documents_are_encoded_once_for_all_parts(
    name: str, tmp_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install_loader(monkeypatch)
    words = ["--model", "fake", "--checkpoint", "nowhere", "--collection", f"{name}/dev/small"]
    assert encode.main(words) == 0
    vectors = vectors_folder(FILED, "fake")
    assert sorted(dict(read_vectors(vectors))) == sorted(f"d{i}" for i in range(len(TEXTS)))
    assert (
        f"next: python -m learned_sparse.index --model fake --collection {name}/dev/small\n" in capsys.readouterr().out
    )
    assert encode.main([*words, "--queries"]) == 0
    queries = Manifest.load(queries_folder(FILED, "dev-small", "fake"))
    assert (queries.collection, queries.split, queries.counts.written) == (FILED, "dev-small", 12)
    words[-1] = name  # the parent name: its parts are splits
    assert encode.main([*words, "--queries"]) == 0
    assert Manifest.load(queries_folder(FILED, "test", "fake")).complete
    written = (vectors / "vectors" / "part-00000.jsonl").stat().st_mtime_ns
    assert encode.main(words) == 0  # equal documents: nothing to encode
    assert (vectors / "vectors" / "part-00000.jsonl").stat().st_mtime_ns == written
    assert {path.name for path in (tmp_home / "vectors").iterdir()} == {FILED}


def test_missing_vectors_are_an_error_with_the_users_spelling_of_the_name(name: str) -> None:
    with pytest.raises(LearnedSparseError, match=f"no vectors yet; run .* --collection {name}/test, or name"):
        index.main(["--model", "fake", "--collection", f"{name}/test"])


@pytest.mark.parametrize(
    ("suffix", "split"),
    [("", "train"), ("/train", "train"), ("/dev/small", "dev-small"), (":dev-small", "dev-small"), (":test", "test")],
)
def test_training_data(name: str, suffix: str, split: str) -> None:
    loaded = load(Source(**source(name + suffix)), Negatives(kind="none"))
    assert loaded.name == f"{FILED}/{split}"
    assert isinstance(loaded.examples, JudgedExamples)
    assert loaded.examples.positives["q3"] == ["d3"]
    assert loaded.examples.queries["q3"] == " ".join(TEXTS[3].split()[:2])


def test_an_explicit_split_is_not_replaced(name: str) -> None:
    with pytest.raises(LearnedSparseError, match="no split 'test'; known: dev-small"):
        load(Source(collection=f"{name}/dev/small", split="test"), Negatives(kind="none"))


def test_validation(name: str) -> None:
    validator = Validator(Validation(collection=f"{name}/test", every=1), seed=0)
    assert validator.positives == {f"q{i}": [f"d{i}"] for i in range(len(TEXTS))}
    with pytest.raises(LearnedSparseError, match="no split 'dev'; known: dev-small, test, train"):
        Validator(Validation(collection=name, every=1), seed=0)


def test_columns_of_a_leaderboard_share_documents(name: str) -> None:
    """Two parts of one data set: each has its own queries, documents are indexed once in any order of the columns."""
    columns = {
        part: Column(collection=f"{name}/{part}", split=part.replace("/", "-")) for part in ("test", "dev/small")
    }
    matrix = Matrix(title="", columns=columns, rows={"BM25": BM25Row(bm25="text")}, plain_names=True)
    plan = make_plan(matrix, "m", None)
    assert [step.kind for step in plan.steps if step.kind == "index-bm25"] == ["index-bm25"]
    assert plan.steps[0].command == (
        f"python -m learned_sparse.index --bm25 --collection {name} --index {index_folder(FILED, 'bm25')}"
    )
    assert {cell.run for cell in plan.cells} == {run_file(FILED, split, "bm25") for split in ("test", "dev-small")}
    searches = [step.command for step in plan.steps if step.kind == "search"]
    assert f"--collection {name}/dev/small --split dev-small" in searches[1]
    backwards = dataclasses.replace(matrix, columns=dict(reversed(columns.items())))
    assert make_plan(backwards, "m", None).steps[0].key == plan.steps[0].key


@pytest.mark.jvm
def test_bm25_of_a_name_of_the_catalogue(name: str, tmp_home: Path, tmp_path: Path, python: Callable[..., Any]) -> None:
    """The commands index, search and measure."""
    commands = tmp_path / "commands"
    commands.write_text(
        f"learned_sparse.index --bm25 --collection {name}/test\n"
        f"learned_sparse.search --bm25 --collection {name}/dev/small\n"
        f"eval.evaluate --collection {name}/dev/small --measures MRR@10 --json\n",
        encoding="utf-8",
    )
    done = python("-c", COMMANDS, commands)
    assert done.returncode == 0, done.stderr
    assert (index_folder(FILED, "bm25") / "learned_sparse.json").is_file()
    assert run_file(FILED, "dev-small", "bm25").is_file()
    result = json.loads(done.stdout[done.stdout.index("{\n") :])
    assert (result["collection"], result["split"]) == (FILED, "dev-small")
    assert result["runs"][0]["scores"]["MRR@10"] > 0.3
