"""A sweep is a leaderboard: the same numbers as encode, index, search and evaluate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from encoders.encoding.model import new_model, save_checkpoint
from eval.costs import count_documents, count_queries, expected_flops
from eval.measures import evaluate
from eval.reproduce.__main__ import main
from learned_sparse.collections.collection import load_collection
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.encode import __main__ as encode
from learned_sparse.index import __main__ as index
from learned_sparse.search import __main__ as search
from tests.tiny_models import WORDS
from tests.toy_data import save_beir

MEASURES = ("nDCG@10", "R@5", "MRR@10")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of thirty documents of three to twenty words; queries are the first words of documents."""
    folder = tmp_path_factory.mktemp("tiny-collection")
    texts = [" ".join(WORDS[i : i + 3 + 7 * i % 18]) for i in range(30)]
    documents = {f"d{i}": text for i, text in enumerate(texts)}
    queries = {f"q{i}": " ".join(text.split()[:2]) for i, text in enumerate(texts[:12])}
    judged = [(f"q{i}", f"d{i + further}", grade) for i in range(12) for further, grade in ((0, 2), (9, 1))]
    save_beir(folder, documents, queries, {"test": judged}, {"d4": "what causes rash? is it hot in april"})
    return folder


def checkpoint(folder: Path, backbone: Path, architecture: str, settings: dict[str, Any]) -> str:
    """A checkpoint whose weights do not depend on the settings."""
    save_checkpoint(folder, new_model(architecture, settings, str(backbone)))
    return str(folder)


def matrix(path: Path, collection: Path, stored: str, more: str = "hits: 10") -> list[str]:
    """Options that choose the only row of a new leaderboard."""
    column = f"{{collection: {collection}, split: test, measures: [{', '.join(MEASURES)}]}}"
    text = f"{{title: Mine, {more}, columns: {{toy: {column}}}, rows: {{stored: {{checkpoint: {stored}}}}}}}"
    (path / "mine.yaml").write_text(text)
    return ["--matrix", str(path / "mine.yaml"), "--row", "stored", "--in-process"]


@pytest.mark.jvm
def test_numbers_equal_those_of_the_pipeline(
    folder: Path, tiny_bert: Path, tmp_path: Path, tmp_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A checkpoint saved with the changed settings is encoded, indexed, searched by Lucene and measured."""
    settings, changes = {"gate_pool": "max"}, {"threshold": 0.55}
    changed = checkpoint(tmp_path / "changed", tiny_bert, "sparterm", settings | changes)
    words = ["--model", "m", "--checkpoint", changed, "--collection", str(folder), "--device", "cpu", "--dtype", "fp32"]
    documents, queries = str(tmp_path / "documents"), str(tmp_path / "queries")
    assert encode.main([*words, "--output", documents]) == 0
    assert encode.main([*words, "--output", queries, "--queries"]) == 0
    assert index.main(["--input", documents, "--index", str(tmp_path / "index")]) == 0
    where = ["--index", str(tmp_path / "index"), "--collection", str(folder), "--split", "test"]
    assert search.main([*where, "--output", str(tmp_path / "run.txt"), "--hits", "12"]) == 0
    scores = evaluate(tmp_path / "run.txt", load_collection(folder).qrels("test"), MEASURES)
    counts = count_documents(documents), count_queries(queries)

    stored = checkpoint(tmp_path / "stored", tiny_bert, "sparterm", settings)

    words = [*matrix(tmp_path, folder, stored, "hits: 12, dtype: fp32"), "--set", "threshold=0.7,0.55"]
    assert main([*words, "--output", str(tmp_path / "sweep")]) == 0
    first, second = json.loads((tmp_path / "sweep" / "results.json").read_text())["cells"]
    assert (first["row"], second["row"]) == ("threshold=0.7 *", "threshold=0.55")  # the first is the checkpoint's own
    assert second["scores"] == dict(scores.mean)
    assert first["scores"] != second["scores"]
    sizes = [of.postings / of.texts for of in counts]
    expected = {"FLOPS": expected_flops(*counts), "terms/document": sizes[0], "terms/query": sizes[1]}
    assert {name: second["costs"][name] for name in expected} == pytest.approx(expected, abs=1e-4)
    assert f"threshold=0.55    {scores.mean['nDCG@10']:.4f}" in capsys.readouterr().out


@pytest.mark.jvm
def test_settings_of_queries_do_not_encode_documents_again(
    folder: Path, tiny_bert: Path, tmp_path: Path, tmp_home: Path
) -> None:
    stored = checkpoint(tmp_path / "stored", tiny_bert, "uhd", {"dimensions": 64, "layers": [1, 2], "k": 6})
    words = ["--set", "query_k=2,9", "--set", "k=6,4", "--output", str(tmp_path / "sweep")]
    assert main([*matrix(tmp_path, folder, stored), *words]) == 0
    assert [len(list((tmp_home / kind).rglob("manifest.json"))) for kind in ("vectors", "queries")] == [2, 4]
    cells = json.loads((tmp_path / "sweep" / "results.json").read_text())["cells"]
    names = ["query_k=2, k=6", "query_k=2, k=4", "query_k=9, k=6", "query_k=9, k=4"]
    assert [cell["row"] for cell in cells] == names
    terms = [(cell["costs"]["terms/document"], cell["costs"]["terms/query"]) for cell in cells]
    assert terms[0][0] == terms[2][0] > terms[1][0] == terms[3][0]
    assert terms[0][1] == terms[1][1] < terms[2][1] == terms[3][1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "query=tf"], "belongs to how the model was trained"),
        (["--set", "treshold=1"], "unknown key 'treshold'; did you mean 'threshold'"),
        (["--set", "threshold=0.5", "--split", "tset"], "no split 'tset'; did you mean 'test'"),
    ],
)
def test_invalid_arguments_are_errors_before_anything_is_encoded(
    words: list[str], message: str, folder: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    stored = checkpoint(tmp_path / "stored", tiny_bert, "sparterm", {})
    with pytest.raises(LearnedSparseError, match=message):
        main([*matrix(tmp_path, folder, stored), *words])
