"""Collections that are named, or hold empty texts or malformed lines, through every command that takes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from encoders.training.examples import JudgedExamples
from encoders.training.files import ExampleFile
from encoders.training.recipe import Negatives, Source, Validation, data_source
from encoders.training.sources import Corpora, load_source
from encoders.training.validation import Validator
from learned_sparse.collections.trec import read_run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import queries_folder, vectors_folder
from learned_sparse.core.records import SparseBatch
from learned_sparse.index.note import IndexNote
from learned_sparse.jsonvector.manifest import Manifest
from learned_sparse.jsonvector.queries import read_topics
from learned_sparse.jsonvector.reader import read_vectors
from learned_sparse.ray import command_of
from tests.catalogue_data import catalogued
from tests.fake_encoder import FakeEncoder, install_loader
from tests.toy_data import TEXTS, save_beir, save_collection

FILED = "ir_datasets--learned-sparse-test--tiny"


@pytest.fixture
def name(tmp_home: Path) -> Iterator[str]:
    """Name of the data set with parts for ``--collection``; the home folder is empty."""
    with catalogued() as name:
        yield f"ir_datasets:{name}"


def run(words: str) -> None:
    """Run a command, which must succeed."""
    module, *arguments = words.split()
    assert command_of(module)(arguments) == 0


def test_documents_are_encoded_once_for_all_parts(name: str, tmp_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_loader(monkeypatch)
    words = f"learned_sparse.encode --model fake --checkpoint nowhere --collection {name}"
    run(f"{words}/dev/small")
    vectors = vectors_folder(FILED, "fake")
    assert sorted(dict(read_vectors(vectors))) == sorted(f"d{i}" for i in range(len(TEXTS)))
    written = (vectors / "vectors" / "part-00000.jsonl").stat().st_mtime_ns
    run(words)  # the parent name: equal documents, so nothing to encode
    assert (vectors / "vectors" / "part-00000.jsonl").stat().st_mtime_ns == written
    assert {path.name for path in (tmp_home / "vectors").iterdir()} == {FILED}
    for part, split in (("/dev/small", "dev-small"), ("", "test")):  # the parts of the parent are its splits
        run(f"{words}{part} --queries")
        queries = Manifest.load(queries_folder(FILED, split, "fake"))
        assert (queries.collection, queries.split, queries.counts.written) == (FILED, split, 12)


@pytest.mark.parametrize(
    ("suffix", "split"),
    [("", "train"), ("/train", "train"), ("/dev/small", "dev-small"), (":dev-small", "dev-small"), (":test", "test")],
)
def test_training_data(name: str, suffix: str, split: str) -> None:
    loaded = load_source(Source(**data_source(name + suffix)), Negatives(per_query=0))
    assert loaded.name == f"{FILED}/{split}"
    assert isinstance(loaded, JudgedExamples)
    assert loaded.positives["q3"] == ["d3"]
    assert loaded.queries["q3"] == " ".join(TEXTS[3].split()[:2])


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


@pytest.mark.jvm
def test_index_search_and_measures(
    collection: str, tmp_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for extra in ("", "--queries"):
        run(f"learned_sparse.encode --model m --checkpoint c --collection {collection} {extra}")
    assert read_topics(tmp_home / "queries" / "toy" / "test" / "m")["q2"] == {}
    run(f"learned_sparse.index --model m --collection {collection}")
    assert IndexNote.load(tmp_home / "indexes" / "toy" / "m").facts["documents"] == 4
    for backend in ("lucene", "exact"):
        on = f"--collection {collection} --backend {backend} --output {tmp_path}/{backend}"
        run(f"learned_sparse.search --model m {on}")
        assert "3 queries (1 without text), 1 without a hit" in capsys.readouterr().out
    hits = read_run(tmp_path / "lucene")
    assert hits == read_run(tmp_path / "exact")
    both = {"d1", "d3"}
    assert {query: {name for name, _ in found} for query, found in hits.items()} == {"q1": both, "q3": both}
    run(f"eval.evaluate --collection {collection} --run {tmp_path}/lucene --measures R@10 --per-query --json")
    result = json.loads(capsys.readouterr().out)["runs"][0]
    assert result["per_query"]["R@10"] == {"q1": 1.0, "q2": 0.0, "q3": 0.5}
    assert result["scores"]["R@10"] == 0.5


def test_training_leaves_out_judgements_without_text(collection: str, caplog: pytest.LogCaptureFixture) -> None:
    loaded = load_source(Source(collection=collection, split="test"), Negatives(per_query=0))
    assert isinstance(loaded, JudgedExamples)
    assert loaded.positives == {"q1": ["d1"], "q3": ["d3"]}
    assert f"data: {collection}:test: left out 2 judgements whose query or document has no text" in caplog.messages
    examples = load_source(Source(collection=collection, split="test"), Negatives(kind="self", per_query=3))
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
    source = Source(examples=path, collection=collection, split="test") if ids else Source(examples=path)
    examples = load_source(source, Negatives())
    assert isinstance(examples, ExampleFile)
    assert len(examples) == 1
    assert examples.get(0, np.random.default_rng(0)).positive == "w1 w2"
    assert f"{path}: left out 3 triples with an empty text" in caplog.messages


ERROR = r"corpus\.jsonl:13: malformed JSON .*; skip such lines with --on-bad-line skip"


@pytest.mark.jvm
def test_bad_lines(tmp_path: Path, tmp_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands and training, which stop at the line or skip it."""
    damaged = save_collection(tmp_path / "toy", ["test", "dev"])
    with (damaged / "corpus.jsonl").open("a") as file:
        file.write("{\n")
    hits, output = tmp_path / "run.txt", f"--output {tmp_path}/out"
    hits.write_text("q0 Q0 d1 1 1.0 t\n")
    for words, overwrite in (
        (f"learned_sparse.index --bm25 --collection {damaged}", " --overwrite"),
        (f"learned_sparse.index --bm25 --input {damaged}/corpus.jsonl", " --overwrite"),
        (f"eval.reproduce.prepare sample --collection {damaged} --split test --run {hits} --depth 1 {output}", ""),
        (f"eval.reproduce.prepare expand --collection {damaged} {output}", ""),
    ):
        with pytest.raises(LearnedSparseError, match=ERROR):
            run(words)
        run(f"{words} --on-bad-line skip{overwrite}")
    assert capsys.readouterr().out.count("12 documents") == 3
    source, none = Source(collection=str(damaged), split="test"), Negatives(per_query=0)
    validation = Validation(collection=str(damaged), split="test", every=1)
    for read in (lambda corpora: load_source(source, none, corpora), lambda c: Validator(validation, 0, corpora=c)):
        with pytest.raises(LearnedSparseError, match=ERROR):
            read(Corpora())
        read(Corpora(on_bad_line="skip"))
