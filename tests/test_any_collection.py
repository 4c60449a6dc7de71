"""Collections that are named, or hold empty texts or malformed lines, through every command that takes them."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from encoders.training import Negatives, Source, Validation, data_source, load_recipe
from encoders.training.data.examples import JudgedExamples
from encoders.training.data.files import ExampleFile
from encoders.training.data.sources import load_source
from encoders.training.data.texts import TextStores
from encoders.training.validation import Validator
from eval.dimensions import main as dimensions
from eval.dimensions import read_encoded
from eval.evaluate import main as evaluate
from eval.reproduce import prepare
from eval.reproduce.matrix import Column, Matrix, Row, Training
from eval.reproduce.plan import make_plan
from learned_sparse.collections.trec import read_run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import index_folder, queries_folder, run_file, vectors_folder
from learned_sparse.core.records import SparseBatch
from learned_sparse.encode import __main__ as encode
from learned_sparse.index import __main__ as index
from learned_sparse.index.note import IndexNote
from learned_sparse.inspect import __main__ as inspect
from learned_sparse.jsonvector.__main__ import main as jsonvector
from learned_sparse.jsonvector.manifest import Manifest
from learned_sparse.jsonvector.queries import read_topics
from learned_sparse.jsonvector.reader import read_vectors, vector_files
from learned_sparse.search import __main__ as search
from tests.catalogue_data import catalogued
from tests.fake_encoder import FakeEncoder, install_loader
from tests.toy_data import TEXTS, save_beir, save_collection

FILED = "ir_datasets--learned-sparse-test--tiny"


@pytest.fixture
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
    loaded = load_source(Source(**data_source(name + suffix)), Negatives(kind="none"))
    assert loaded.name == f"{FILED}/{split}"
    assert isinstance(loaded.examples, JudgedExamples)
    assert loaded.examples.positives["q3"] == ["d3"]
    assert loaded.examples.queries["q3"] == " ".join(TEXTS[3].split()[:2])


def test_an_explicit_split_is_not_replaced(name: str) -> None:
    with pytest.raises(LearnedSparseError, match="no split 'test'; known: dev-small"):
        load_source(Source(collection=f"{name}/dev/small", split="test"), Negatives(kind="none"))


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
    matrix = Matrix(title="", columns=columns, rows={"BM25": Row(bm25="text")}, plain_names=True)
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
def test_bm25_of_a_name_of_the_catalogue(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands index, search and measure."""
    index.main(["--bm25", "--collection", f"{name}/test"])
    search.main(["--bm25", "--collection", f"{name}/dev/small"])
    assert (index_folder(FILED, "bm25") / "learned_sparse.json").is_file()
    assert run_file(FILED, "dev-small", "bm25").is_file()
    capsys.readouterr()
    evaluate(["--collection", f"{name}/dev/small", "--measures", "MRR@10", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert (result["collection"], result["split"]) == (FILED, "dev-small")
    assert result["runs"][0]["scores"]["MRR@10"] > 0.3


DOCUMENTS = {"d1": "w1 w2", "d2": "", "d3": "w1 w3", "d4": " \n\t"}
QUERIES = {"q1": "w1", "q2": "", "q3": "w3"}
JUDGED = [("q1", "d1", 1), ("q2", "d3", 1), ("q3", "d3", 1), ("q3", "d2", 1)]


class WithSpecialToken(FakeEncoder):
    """Gives every text a weight for the same term, as a model does for [CLS]."""

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        return super().encode([f"[CLS] {text}" for text in texts])


@pytest.fixture
def collection(tmp_path: Path, tmp_home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Folder of a collection; the encoder of every checkpoint is ``WithSpecialToken``."""
    install_loader(monkeypatch, lambda _, side, **settings: WithSpecialToken(side, **settings))
    save_beir(tmp_path / "toy", DOCUMENTS, QUERIES, {"test": JUDGED})
    return str(tmp_path / "toy")


@pytest.mark.parametrize("options", [[], ["--segment-length", "4"]])
def test_encoded_documents(
    collection: str,
    tmp_home: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        FakeEncoder, "word_spans", lambda _, texts: [[(0, len(t), 1)] if t.strip() else [] for t in texts]
    )
    assert encode.main(["--model", "m", "--checkpoint", "c", "--collection", collection, *options]) == 0
    folder = tmp_home / "vectors" / "toy" / "m"
    counts = Manifest.load(folder).counts
    assert (counts.read, counts.written, counts.empty_texts, counts.empty_vectors) == (4, 4, 2, 2)
    assert [bool(vector) for _, vector in read_vectors(folder)] == [True, False, True, False]
    assert "  2 without text" in capsys.readouterr().out
    assert [len(vector) for _, vector in read_encoded(vector_files(folder))][1::2] == [0, 0]


@pytest.mark.jvm
def test_index_search_and_measures(
    collection: str, tmp_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    on = ["--collection", collection]
    for extra in ([], ["--queries"]):
        encode.main(["--model", "m", "--checkpoint", "c", *on, *extra])
    assert read_topics(tmp_home / "queries" / "toy" / "test" / "m")["q2"] == {}
    index.main(["--model", "m", *on])
    assert IndexNote.load(tmp_home / "indexes" / "toy" / "m").facts["documents"] == 4
    for backend in ("lucene", "exact"):
        search.main(["--model", "m", *on, "--backend", backend, "--output", str(tmp_path / backend)])
        assert "3 queries (1 without text), 1 without a hit" in capsys.readouterr().out
    run = read_run(tmp_path / "lucene")
    assert run == read_run(tmp_path / "exact")
    assert {query: {document for document, _ in hits} for query, hits in run.items()} == {
        "q1": {"d1", "d3"},
        "q3": {"d1", "d3"},
    }
    evaluate([*on, "--run", str(tmp_path / "lucene"), "--measures", "R@10", "--per-query", "--json"])
    result = json.loads(capsys.readouterr().out)["runs"][0]
    assert result["per_query"]["R@10"] == {"q1": 1.0, "q2": 0.0, "q3": 0.5}
    assert result["scores"]["R@10"] == 0.5
    vectors = tmp_home / "vectors" / "toy" / "m"
    jsonvector(["prune", "--vectors", str(vectors), "--output", str(tmp_path / "pruned"), "--top-dimensions", "1"])
    assert Manifest.load(tmp_path / "pruned").counts.empty_texts == 2
    capsys.readouterr()
    dimensions([str(vectors), "--json"])
    lengths = json.loads(capsys.readouterr().out)["tables"][1]
    assert dict(zip(lengths["columns"], lengths["rows"][0], strict=True))["empty"] == 2
    inspect.main(["--index", str(tmp_home / "indexes" / "toy" / "m"), "--document", "d2"])
    assert "the text is empty" in capsys.readouterr().out


@pytest.mark.jvm
def test_empty_texts_in_bm25(
    collection: str, tmp_home: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "learned_sparse")
    index.main(["--bm25", "--collection", collection])
    assert "2 documents of plain text" in capsys.readouterr().out
    assert "2 documents without text: not in the index" in caplog.messages
    search.main(["--bm25", "--collection", collection])
    assert sorted(read_run(tmp_home / "runs" / "toy" / "test" / "bm25.txt")) == ["q1", "q3"]


def test_training_leaves_out_judgements_without_text(collection: str, caplog: pytest.LogCaptureFixture) -> None:
    loaded = load_source(Source(collection=collection, split="test"), Negatives(kind="none", per_query=1))
    assert isinstance(loaded.examples, JudgedExamples)
    assert loaded.examples.positives == {"q1": ["d1"], "q3": ["d3"]}
    assert f"data: {collection}:test: left out 2 judgements whose query or document has no text" in caplog.messages
    examples = load_source(Source(collection=collection, split="test"), Negatives(kind="self", per_query=3)).examples
    drawn = {text for seed in range(20) for text in examples.get(0, np.random.default_rng(seed)).negatives}
    assert drawn == {"w1 w3"}


@pytest.mark.parametrize("ids", [False, True])
def test_triples_without_text_are_left_out(
    collection: str, tmp_path: Path, ids: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "triples.tsv"
    lines = [("q1", "d1", "d3"), ("q1", "d2", "d1"), ("q1", "d1", "d4"), ("q2", "d1", "d3")]
    texts = {**DOCUMENTS, **QUERIES, "d4": " "}
    path.write_text("".join("\t".join(line if ids else map(texts.__getitem__, line)) + "\n" for line in lines))
    source = Source(triples=path, collection=collection, split="test") if ids else Source(triples=path)
    examples = load_source(source, Negatives()).examples
    assert isinstance(examples, ExampleFile)
    assert len(examples) == 1
    assert examples.get(0, np.random.default_rng(0)).positive == "w1 w2"
    assert f"{path}: left out 3 triples with an empty text" in caplog.messages


ERROR = r"corpus\.jsonl:13: malformed JSON .*; skip such lines with --on-bad-line skip"


@pytest.fixture
def damaged(tmp_path: Path, tmp_home: Path) -> Path:
    """Twelve documents and a malformed line."""
    folder = save_collection(tmp_path / "toy", ["test", "dev"])
    with (folder / "corpus.jsonl").open("a") as file:
        file.write("{\n")
    return folder


@pytest.mark.jvm
def test_bad_lines_in_bm25(damaged: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    for source in (["--collection", str(damaged)], ["--input", str(damaged / "corpus.jsonl")]):
        with pytest.raises(LearnedSparseError, match=ERROR):
            index.main(["--bm25", *source])
        index.main(["--bm25", *source, "--on-bad-line", "skip", "--overwrite"])
        assert "12 documents of plain text" in capsys.readouterr().out
        assert "12 documents read, 1 skipped: malformed JSON" in caplog.text


def test_bad_lines_in_small_steps_of_leaderboards(damaged: Path, tmp_path: Path) -> None:
    run = tmp_path / "run.txt"
    run.write_text("q0 Q0 d1 1 1.0 t\n")
    on, out = ["--collection", str(damaged), "--split", "test"], ["--output", str(tmp_path / "out")]
    for words in (
        ["sample", *on, "--run", str(run), "--depth", "1", *out],
        ["expand", "--collection", str(damaged), *out],
    ):
        with pytest.raises(LearnedSparseError, match=ERROR):
            prepare.main(words)
        assert prepare.main([*words, "--on-bad-line", "skip"]) == 0


def test_bad_lines_in_training(damaged: Path) -> None:
    source, none = Source(collection=str(damaged), split="test"), Negatives(kind="none")
    validation = Validation(collection=str(damaged), split="test", every=1)
    for read in (lambda stores: load_source(source, none, stores), lambda s: Validator(validation, 0, stores=s)):
        with pytest.raises(LearnedSparseError, match=ERROR):
            read(TextStores())
        read(TextStores(on_bad_line="skip"))
    assert load_recipe("demo-splade", changes=["on_bad_line=skip"]).on_bad_line == "skip"


def test_bad_lines_in_matrices(damaged: Path) -> None:
    columns = {"c": Column(collection=str(damaged), split="test", measures=("MRR@10",), pool=10)}
    rows = {
        "text": Row(bm25="text"),
        "expanded": Row(bm25="expanded", expanded=str(damaged / "corpus.jsonl")),
        "trained": Row(recipe="demo-splade"),
    }
    training = Training(data=(f"{damaged}:test",), validation=str(damaged))
    matrix = Matrix(title="", columns=columns, rows=rows, training=training)
    for on_bad_line, count in (("error", 0), ("skip", 1)):
        plan = make_plan(dataclasses.replace(matrix, on_bad_line=on_bad_line), "m", None)  # type: ignore[arg-type]
        for step in plan.steps:
            reads = step.kind in {"encode", "pool", "train"} or "expand" in step.arguments
            reads |= step.kind == "index-bm25" and "--collection" in step.arguments
            words = " ".join(step.arguments).replace("on_bad_line=skip", "--on-bad-line skip")
            assert words.count("--on-bad-line skip") == (count if reads else 0), step
