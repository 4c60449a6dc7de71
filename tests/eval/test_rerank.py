"""Re-ranking: the order at each depth, cross-encoders with one and two labels, and exact dot products."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tqdm import tqdm
from transformers import BertForSequenceClassification

from encoders.encoding.model import new_model, save_checkpoint
from encoders.teach.scorers import CrossEncoder, DotProducts
from eval.rerank import main, rerank
from learned_sparse.collections.documents import Document
from learned_sparse.collections.trec import read_run
from learned_sparse.core.encoder import load_encoder
from learned_sparse.core.errors import LearnedSparseError
from tests.tiny_models import save_classifier, tokenizer
from tests.toy_data import save_beir

DOCUMENTS = {
    "d1": Document("d1", "hives are caused by allergic reactions of the skin"),
    "d2": Document("d2", "wing"),
    "d3": Document(
        "d3", "the garbage collector frees memory of cycles of objects " * 9
    ),  # longer than the maximum length
    "d4": Document("d4", "rain in bali", "what is the weather in april"),
}
QUERIES = {"q1": "can hives be a sign of pregnancy", "q2": "wing lift", "q3": "weather in april"}
PAIRS = [(query, document) for document in DOCUMENTS for query in QUERIES]
RUN = {"q1": [("d2", 9.0), ("d1", 8.0), ("d3", 7.0)], "q2": [("d2", 3.0)]}


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def classifiers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[int, Path]:
    folder = tmp_path_factory.mktemp("classifiers")
    return {labels: save_classifier(folder / str(labels), labels) for labels in (1, 2, 3)}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Mapping[str, str]:
    folder = tmp_path_factory.mktemp("checkpoints")
    for name in ("splade", "spade"):
        save_checkpoint(folder / name, new_model(name, {}, str(tiny_bert)))
    return {name: str(folder / name) for name in ("splade", "spade")}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory with a collection and a run."""
    monkeypatch.chdir(tmp_path)
    texts, expanded = (
        {name: getattr(record, key) for name, record in DOCUMENTS.items()} for key in ("text", "expanded")
    )
    save_beir(tmp_path / "tiny", texts, QUERIES, {"test": [("q1", "d1", 1), ("q2", "d2", 1)]}, expanded)
    lines = [f"{query} Q0 {document} 0 {score} t\n" for query, hits in RUN.items() for document, score in hits]
    (tmp_path / "first.txt").write_text("".join([*lines, "q3 Q0 d1 1 1.0 t\n"]))
    return tmp_path


def all_scores(scorer: Any, pairs: Sequence[tuple[str, str]] = PAIRS) -> np.ndarray:
    with tqdm(disable=False, file=io.StringIO()) as progress:
        scores: np.ndarray = scorer.scores(QUERIES, DOCUMENTS, pairs, progress)
    assert progress.n == len(pairs)
    return scores


def test_hits_below_the_depth_keep_their_order() -> None:
    run = {"q": [("d1", 9.0), ("d2", 8.0), ("d3", 7.0), ("d4", 6.0)]}
    scores = {("q", "d1"): -2.0, ("q", "d2"): -1.0, ("q", "d3"): 5.0}
    order = {depth: [document for document, _ in rerank(run, scores, depth)["q"]] for depth in (1, 2, 3)}
    assert order == {1: ["d1", "d2", "d3", "d4"], 2: ["d2", "d1", "d3", "d4"], 3: ["d3", "d2", "d1", "d4"]}
    assert rerank(run, scores, 2)["q"] == [("d2", -1.0), ("d1", -2.0), ("d3", -3.0), ("d4", -4.0)]
    assert rerank({"q": run["q"][:1]}, scores, 10) == {"q": [("d1", -2.0)]}  # fewer results than the depth


@pytest.mark.parametrize("labels", [1, 2])
def test_scores_equal_those_of_transformers(classifiers: Mapping[int, Path], labels: int) -> None:
    """The expected scores are of one pair at a time, without padding."""
    model = BertForSequenceClassification.from_pretrained(classifiers[labels])
    expected = []
    for query, document in PAIRS:
        words = tokenizer()(
            QUERIES[query], DOCUMENTS[document].text, truncation=True, max_length=64, return_tensors="pt"
        )
        with torch.inference_mode():
            logits = model(**words).logits[0].double()
        expected.append(float(logits[0] if labels == 1 else logits[1] - logits[0]))
    assert np.ptp(expected) > 0.1
    scorer = CrossEncoder(str(classifiers[labels]), device="cpu", batch_size="5")
    assert all_scores(scorer) == pytest.approx(expected, abs=1e-5)
    assert scorer.description["max_length"] == 64


@pytest.mark.parametrize("name", ["splade", "spade"])
def test_dot_products_equal_those_of_the_encoders(
    checkpoints: Mapping[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("encoders.teach.scorers._DOCUMENTS", 3)
    scorer = DotProducts(checkpoints[name], device="cpu", dtype="fp32")
    query, document = (
        load_encoder(checkpoints[name], side, device="cpu", dtype="fp32") for side in ("query", "document")
    )
    assert document.uses_expanded is (name == "spade")
    expected = []
    for query_id, document_id in PAIRS:
        record = DOCUMENTS[document_id]
        query_weights = query.encode([QUERIES[query_id]]).row(0)
        document_weights = document.encode([record.with_expanded if name == "spade" else record.text]).row(0)
        expected.append(sum(weight * document_weights.get(term, 0.0) for term, weight in query_weights.items()))
    assert np.ptp(expected) > 0.1
    assert all_scores(scorer) == pytest.approx(expected, rel=1e-5)
    order = np.random.default_rng(0).permutation(len(PAIRS))
    shuffled = all_scores(scorer, [PAIRS[index] for index in order])
    assert shuffled == pytest.approx([expected[index] for index in order], rel=1e-5)


@pytest.mark.jvm
def test_the_command(workspace: Path, classifiers: Mapping[int, Path], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--collection", "./tiny", "--run", "one=first.txt", "--device", "cpu"]
    words += ["--cross-encoder", str(classifiers[1]), "--depth", "2", "1"]
    assert main([*words, "--output", "out"]) == 0
    assert capsys.readouterr().out == "out: 2 runs, 3 pairs scored\n"
    pairs = [("q1", "d1"), ("q1", "d2")]
    better, worse = all_scores(CrossEncoder(str(classifiers[1]), device="cpu"), pairs)
    run = read_run("out/one-top2.txt")
    assert dict(run["q1"][:2]) == pytest.approx({"d1": better, "d2": worse}, abs=1e-6)
    assert [document for document, _ in run["q1"]][2] == "d3"
    assert [document for document, _ in read_run("out/one-top1.txt")["q1"]] == ["d2", "d1", "d3"]
    assert list(run) == ["q1", "q2"]  # q3 has no judgement
    content = json.loads((workspace / "out" / "rerank.json").read_text())
    assert (content["pairs"], content["max_length"], content["dtype"]) == (3, 64, "fp32")
    assert list(content["weights_sha256"]) == ["model.safetensors"]


@pytest.mark.jvm
def test_a_checkpoint_can_rerank(workspace: Path, checkpoints: Mapping[str, str]) -> None:
    words = ["--collection", "./tiny", "--run", "first.txt", "--device", "cpu"]
    words += ["--checkpoint", checkpoints["spade"], "--set", "alpha=0", "--depth", "3", "--output", "out"]
    assert main(words) == 0
    content = json.loads((workspace / "out" / "rerank.json").read_text())
    assert content["document_encoder"]["settings"]["alpha"] == 0
    run = (workspace / "out" / "first-top3.txt").read_text()
    texts = {name: record.text for name, record in DOCUMENTS.items()}
    save_beir(workspace / "plain", texts, QUERIES, {"test": [("q1", "d1", 1), ("q2", "d2", 1)]})
    lines = [f"{name}\t{record.expanded}\n" for name, record in DOCUMENTS.items()]
    (workspace / "predicted.tsv").write_text("".join(lines), encoding="utf-8")
    predicted = ["--expanded", "predicted.tsv"]
    assert main([*words[:-1], "again", "--collection", "./plain", *predicted]) == 0
    assert (workspace / "again" / "first-top3.txt").read_text() == run
    with pytest.raises(LearnedSparseError, match="--expanded: this model does not read expanded text"):
        main([*words[:-7], checkpoints["splade"], "--output", "out", *predicted])


def test_invalid_arguments_are_errors(workspace: Path, classifiers: Mapping[int, Path], tiny_bert: Path) -> None:
    (workspace / "none.txt").write_text("q3 Q0 d1 1 1.0 t\n")
    (workspace / "stranger.txt").write_text("q1 Q0 d9 1 1.0 t\n")
    cross_encoder = f"--cross-encoder {classifiers[1]}"
    for text, message in {
        f"--cross-encoder {tiny_bert} --run first.txt": "not a trained cross-encoder, but",
        f"--cross-encoder {classifiers[3]} --run first.txt": "3 labels",
        f"{cross_encoder} --run first.txt --max-length 65": "give 3 to 64 tokens",
        f"{cross_encoder} --run first.txt --set alpha=1": "--set changes a checkpoint of this package",
        f"{cross_encoder} --run none.txt": "no run has a hit for a judged query",
        f"{cross_encoder} --run stranger.txt": "1 of 1 documents are missing (for instance 'd9')",
    }.items():
        with pytest.raises(LearnedSparseError) as error:
            main(["--collection", "./tiny", "--output", "out", *text.split()])
        assert message in str(error.value)


def test_a_score_that_is_not_finite_is_an_error(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        description: Mapping[str, Any] = {}

        def scores(self, queries: Any, documents: Any, pairs: Sequence[Any], progress: Any) -> np.ndarray:
            return np.array([1.0, np.nan, 2.0, 3.0])[: len(pairs)]

    monkeypatch.setattr("eval.rerank.CrossEncoder", lambda name, **_: Broken())
    with pytest.raises(LearnedSparseError, match="query 'q1', document 'd2': the score is not finite"):
        main(["--collection", "./tiny", "--run", "first.txt", "--cross-encoder", "any", "--output", "out"])
