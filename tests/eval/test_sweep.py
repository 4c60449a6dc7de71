"""A sweep gives the numbers of encode, index, search and evaluate, from one pass of the towers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from encoders.encoding import new_model, save_checkpoint
from eval.costs import sparsity_of_files
from eval.measures import evaluate
from eval.sweep import __main__ as sweep
from eval.sweep.encoding import encode_documents, encode_queries
from eval.sweep.model import SweepModel
from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.trec import read_run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.encode import __main__ as encode
from learned_sparse.index import __main__ as index
from learned_sparse.jsonvector import read_topics, read_vectors
from learned_sparse.search import __main__ as search
from tests.tiny_models import WORDS
from tests.toy_data import save_beir

MEASURES = ("nDCG@10", "R@5", "MRR@10")
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "threshold": ("sparterm", {"gate_pool": "max"}, {"threshold": 0.55}),
    "both": ("sparterm", {"gate_pool": "max", "query": "tf"}, {"threshold": 0.9, "max_terms": 4}),
    "spade": ("spade", {}, {"alpha": 0.3, "k": 3}),
    "uhd": ("uhd", {"dimensions": 64, "layers": [1, 2], "k": 6}, {"k": 4, "query_k": 9, "bucket_weights": [2, 1]}),
    "uhd layers": (
        "uhd",
        {"dimensions": 64, "layers": [1, 2], "encoders": "joint", "k": 6},
        {"layers": [2], "binarize": True},
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of thirty documents of three to twenty words; the first words of some are the queries."""
    folder = tmp_path_factory.mktemp("tiny-collection")
    texts = [" ".join(WORDS[i : i + 3 + 7 * i % 18]) for i in range(30)]
    documents = {f"d{i}": text for i, text in enumerate(texts)}
    queries = {f"q{i}": " ".join(text.split()[:2]) for i, text in enumerate(texts[:12])}
    judged = [(f"q{i}", f"d{i + further}", grade) for i in range(12) for further, grade in ((0, 2), (9, 1))]
    save_beir(folder, documents, queries, {"test": judged}, {"d4": "what causes rash? is it hot in april"})
    return folder


def checkpoint(folder: Path, backbone: Path, architecture: str, settings: dict[str, Any]) -> str:
    """The same weights whatever the settings."""
    save_checkpoint(folder, new_model(architecture, settings, str(backbone)))
    return str(folder)


def encoded(model: str, collection: Path, output: Path, *more: str) -> tuple[Path, Path]:
    """What ``learned_sparse.encode`` writes for documents and queries."""
    words = ["--model", "m", "--checkpoint", model, "--collection", str(collection), "--device", "cpu", *more]
    words += ["--dtype", "fp32"]
    assert encode.main([*words, "--output", str(output / "documents")]) == 0
    assert encode.main([*words, "--output", str(output / "queries"), "--queries"]) == 0
    return output / "documents", output / "queries"


@pytest.mark.parametrize("case", CASES)
def test_impacts_are_those_of_encode(case: str, folder: Path, tiny_bert: Path, tmp_path: Path) -> None:
    architecture, settings, changes = CASES[case]
    own = checkpoint(tmp_path / "own", tiny_bert, architecture, settings)
    asked = [word for key, value in changes.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    documents, queries = encoded(own, folder, tmp_path / "encoded", *asked)
    model, collection = SweepModel(own, device="cpu", dtype="fp32"), load_collection(folder)
    sides = model.sides("document", [{}, changes])
    ids, (before, found) = encode_documents(sides, collection.documents(), model.batch_size, lambda _: None)
    vectors = {name: found.impacts.row(place) for place, name in enumerate(ids)}
    assert list(vectors.items()) == list(read_vectors(documents))
    assert vectors != {name: before.impacts.row(place) for place, name in enumerate(ids)}
    topics = collection.queries("test")
    (of_queries,) = encode_queries(model.sides("query", [changes]), topics, model.batch_size)
    rows = {query.id: of_queries.impacts.row(place) for place, query in enumerate(topics)}
    assert rows == read_topics(queries / "queries.tsv")


@pytest.mark.jvm
def test_numbers_are_those_of_the_pipeline(
    folder: Path, tiny_bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    architecture, settings, changes = CASES["threshold"]
    changed = checkpoint(tmp_path / "changed", tiny_bert, architecture, settings | changes)
    documents, queries = encoded(changed, folder, tmp_path / "encoded")
    assert index.main(["--input", str(documents), "--index", str(tmp_path / "index")]) == 0
    where = ["--index", str(tmp_path / "index"), "--collection", str(folder), "--split", "test"]
    assert search.main([*where, "--output", str(tmp_path / "run.txt"), "--hits", "7"]) == 0
    scores = evaluate(tmp_path / "run.txt", load_collection(folder).qrels("test"), MEASURES)
    sparsity = sparsity_of_files(documents, queries)

    own = checkpoint(tmp_path / "own", tiny_bert, architecture, settings)
    words = [
        "--checkpoint",
        own,
        "--collection",
        str(folder),
        "--hits",
        "7",
        "--dtype",
        "fp32",
        "--measures",
        *MEASURES,
    ]
    words += ["--set", "threshold=0.7,0.55", "--runs", str(tmp_path / "runs"), "--output", str(tmp_path / "output")]
    assert sweep.main(words) == 0
    result = json.loads((tmp_path / "output" / "sweep.json").read_text())
    first, second = result["rows"]
    assert (first["settings"], first["own"]) == ({"threshold": 0.7}, True)
    assert (second["settings"], second["own"]) == ({"threshold": 0.55}, False)
    assert second["scores"] == dict(scores.mean)
    assert first["scores"] != second["scores"]
    assert second["flops"] == sparsity.flops
    assert (second["documents"]["mean"], second["queries"]["mean"]) == (sparsity.documents.mean, sparsity.queries.mean)
    assert read_run(tmp_path / "runs" / "threshold=0.55.txt") == read_run(tmp_path / "run.txt")
    assert result["weights_sha256"].keys() == {"importance", "gate"}
    assert f"{sparsity.flops:.4f}" in capsys.readouterr().out
    page = (tmp_path / "output" / "sweep.md").read_text()
    assert page.splitlines()[2].split("|")[1].strip() == "0.7"
    assert page.splitlines()[2].split("|")[-2].strip() == "*"
    charts = sorted(path.name for path in (tmp_path / "output").glob("*.svg"))
    assert charts == ["sweep-MRR-10.svg", "sweep-R-5.svg", "sweep-nDCG-10.svg"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "query=tf"], "belongs to how the model was trained"),
        (["--set", "treshold=1"], "unknown key 'treshold'; did you mean 'threshold'"),
        (["--set", "threshold"], "expected KEY=VALUE"),
        (["--set", "max_terms=[2"], "not readable"),
        (["--set", "threshold=0.5", "--set", "threshold=0.6"], "given twice"),
        (["--set", "threshold=0.5", "--hits", "0"], "at least 1"),
        (["--set", "threshold=0.5", "--measures", "MRP"], "unknown"),
        (["--set", "threshold=0.5", "--split", "tset"], "no split 'tset'"),
    ],
)
def test_mistakes_are_found_before_anything_is_encoded(
    words: list[str], message: str, folder: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    name = checkpoint(tmp_path, tiny_bert, "sparterm", {})
    with pytest.raises(LearnedSparseError, match=message):
        sweep.main(["--checkpoint", name, "--collection", str(folder), *words])


def test_word_counts_are_no_impacts(tiny_bert: Path, tmp_path: Path) -> None:
    name = checkpoint(tmp_path, tiny_bert, "sparterm", {"mode": "expansion-only", "query": "tf"})
    with pytest.raises(LearnedSparseError, match="scored by BM25"):
        SweepModel(name)
