"""A sweep is a leaderboard whose rows are the combinations of settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from encoders.encoding.model import new_model, save_checkpoint
from eval.reproduce.__main__ import main
from learned_sparse.core.errors import LearnedSparseError
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


def matrix(path: Path, collection: Path, stored: str) -> list[str]:
    """Options that choose the only row of a new leaderboard."""
    column = f"{{collection: {collection}, split: test, measures: [{', '.join(MEASURES)}]}}"
    text = f"{{title: Mine, hits: 10, columns: {{toy: {column}}}, rows: {{stored: {{checkpoint: {stored}}}}}}}"
    (path / "mine.yaml").write_text(text)
    return ["--matrix", str(path / "mine.yaml"), "--row", "stored", "--in-process"]


@pytest.mark.jvm
def test_settings_of_queries_do_not_encode_documents_again(
    folder: Path, tiny_bert: Path, tmp_path: Path, tmp_home: Path
) -> None:
    stored = checkpoint(tmp_path / "stored", tiny_bert, "uhd", {"dimensions": 64, "layers": [1, 2], "k": 6})
    words = ["--set", "query_k=2,null", "--set", "k=6,4", "--output", str(tmp_path / "sweep")]
    assert main([*matrix(tmp_path, folder, stored), *words]) == 0
    assert [len(list((tmp_home / kind).rglob("manifest.json"))) for kind in ("vectors", "queries")] == [2, 4]
    cells = json.loads((tmp_path / "sweep" / "results.json").read_text())["cells"]
    names = ["query_k=2, k=6", "query_k=2, k=4", "query_k=null, k=6 *", "query_k=null, k=4"]  # *: the checkpoint's own
    assert [cell["row"] for cell in cells] == names
    terms = [(cell["costs"]["terms/document"], cell["costs"]["terms/query"]) for cell in cells]
    assert terms[0][0] == terms[2][0] > terms[1][0] == terms[3][0]
    assert terms[0][1] == terms[1][1] < terms[3][1] < terms[2][1]


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
