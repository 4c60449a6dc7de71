"""Teachers: scores of pairs in files, resumed and in shards; and a cross-encoder that is trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from encoders import load
from encoders.backbone.towers import save_random_bert
from encoders.teach import __main__ as command
from encoders.teach.__main__ import main
from encoders.teach.cross_encoder import CrossEncoderRecipe, train_cross_encoder
from encoders.teach.scorers import CrossEncoder
from encoders.train import main as train_main
from encoders.training.files import TeacherScores
from encoders.training.recipe import Negatives, Source, recipe_values
from encoders.training.sources import load_source
from learned_sparse.collections.collection import load_collection
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.settings import parse
from tests.encoders.training.conftest import WORDS, tiny_backbone, tiny_collection

__all__ = ["tiny_backbone", "tiny_collection"]  # fixtures


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cross-encoder of random weights."""
    folder = tmp_path_factory.mktemp("classifier")
    save_random_bert(folder, WORDS, "classifier", 2)
    return folder


def lines_of(path: Path) -> dict[tuple[str, str], float]:
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return {(query, document): float(score) for query, document, score in rows}


@pytest.fixture
def teach(tiny_collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """``teach(*options, output=...)`` runs the command on the training run of the tiny collection."""

    def run(*options: str, output: Path = tmp_path / "scores.tsv") -> str:
        where = ["--collection", str(tiny_collection), "--run", str(tiny_collection / "train.run")]
        assert main([*where, "--depth", "3", "--output", str(output), "--device", "cpu", *options]) == 0
        return capsys.readouterr().out

    return run


def test_scores_are_those_of_the_cross_encoder(
    teach: Callable[..., str], classifier: Path, tiny_collection: Path, tmp_path: Path
) -> None:
    out = teach("--cross-encoder", str(classifier))
    path, run = tmp_path / "scores.tsv", tiny_collection / "train.run"
    assert out.startswith(f"{path}: 90 pairs of 30 queries\n")  # the relevant document is the first hit
    scores = lines_of(path)
    assert {document for query, document in scores if query == "q4"} == {"d4", "d5", "d6"}
    collection = load_collection(str(tiny_collection))
    queries = {query.id: query.text for query in collection.queries("train")}
    documents = {document.id: document.text for document in collection.documents()}
    peer = pytest.importorskip("sentence_transformers").CrossEncoder(str(classifier), device="cpu")
    texts = [(queries[query], documents[document]) for query, document in scores]
    logits = peer.predict(texts, activation_fn=torch.nn.Identity())
    assert list(scores.values()) == pytest.approx(logits.tolist(), abs=1e-4)
    loaded = load_source(Source(collection=str(tiny_collection), run=run, scores=path), Negatives())
    assert loaded.scored
    assert len(loaded) == 30


def test_a_stopped_scoring_goes_on(
    teach: Callable[..., str], classifier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "BLOCK", 20)
    teach("--cross-encoder", str(classifier), output=tmp_path / "whole.tsv")
    score, calls = CrossEncoder.scores, []

    def stopped(self: CrossEncoder, *arguments: Any) -> Any:
        calls.append(len(arguments[2]))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return score(self, *arguments)

    monkeypatch.setattr(CrossEncoder, "scores", stopped)
    with pytest.raises(KeyboardInterrupt):
        teach("--cross-encoder", str(classifier))
    assert not (tmp_path / "scores.tsv").exists()
    (part,) = tmp_path.glob(".scores.tsv.*.part")
    with part.open("ab") as file:
        file.write(b"q7\td1")  # a line that a kill has cut off
    with pytest.raises(LearnedSparseError, match="a scoring was started; continue with --resume, or start again"):
        teach("--cross-encoder", str(classifier))
    other = tmp_path / "other" / "scores.tsv"  # another teacher has none of these scores
    other.parent.mkdir()
    (other.parent / part.name).write_bytes(part.read_bytes())
    out = teach("--cross-encoder", str(classifier), "--max-length", "9", "--resume", output=other)
    assert "90 pairs of 30 queries\n" in out
    assert "90 pairs of 30 queries (40 were there)" in teach("--cross-encoder", str(classifier), "--resume")
    assert (tmp_path / "scores.tsv").read_bytes() == (tmp_path / "whole.tsv").read_bytes()
    assert not part.exists()
    assert "(90 were there)" in teach("--cross-encoder", str(classifier), "--resume")
    with pytest.raises(LearnedSparseError, match="exists already; continue with --resume"):
        teach("--cross-encoder", str(classifier))
    assert "90 pairs of 30 queries\n" in teach("--cross-encoder", str(classifier), "--overwrite")


def test_shards_together_are_the_whole(teach: Callable[..., str], classifier: Path, tmp_path: Path) -> None:
    teach("--cross-encoder", str(classifier), output=tmp_path / "whole.tsv")
    whole, joined = lines_of(tmp_path / "whole.tsv"), dict[tuple[str, str], float]()
    for number in range(3):
        shard = ["--num-shards", "3", "--shard-id", str(number)]
        teach("--cross-encoder", str(classifier), *shard, output=tmp_path / "parts" / f"{number}.tsv")
        part = lines_of(tmp_path / "parts" / f"{number}.tsv")
        assert not joined.keys() & part.keys()
        joined |= part
    assert {pair: joined[pair] for pair in whole} == pytest.approx(whole, abs=1e-5)
    assert len(TeacherScores(tmp_path / "parts")) == len(whole) == len(joined)


def test_an_ensemble_is_the_mean(teach: Callable[..., str], classifier: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    save_random_bert(other, WORDS, "classifier", 3)
    for name, models in (("a", [classifier]), ("b", [other]), ("both", [classifier, other])):
        teach("--cross-encoder", *map(str, models), output=tmp_path / f"{name}.tsv")
    first, second, both = (lines_of(tmp_path / f"{name}.tsv") for name in ("a", "b", "both"))
    assert list(both.values()) == pytest.approx([(first[pair] + second[pair]) / 2 for pair in both])


def test_a_checkpoint_teaches_by_dot_products(
    teach: Callable[..., str], tiny_backbone: Path, tiny_collection: Path, tmp_path: Path
) -> None:
    teach("--checkpoint", str(tiny_backbone), output=tmp_path / "dots.tsv")
    collection = load_collection(str(tiny_collection))
    queries = {query.id: query.text for query in collection.queries("train")}
    documents = {document.id: document.text for document in collection.documents()}
    (pair, score), *_ = lines_of(tmp_path / "dots.tsv").items()
    query = load(str(tiny_backbone), "query", dtype="fp32").encode([queries[pair[0]]]).to_scipy()
    document = load(str(tiny_backbone), "document", dtype="fp32").encode([documents[pair[1]]]).to_scipy()
    assert score == pytest.approx(float((query @ document.T).toarray().item()), rel=1e-5)


def test_runs_of_another_collection_are_refused(teach: Callable[..., str], classifier: Path, tmp_path: Path) -> None:
    (tmp_path / "other.run").write_text("x Q0 y 1 1 t\n", encoding="utf-8")
    with pytest.raises(LearnedSparseError, match=r"other.run: no query of .* train with a relevant document"):
        teach("--cross-encoder", str(classifier), "--run", str(tmp_path / "other.run"))
    (tmp_path / "other.run").write_text("q1 Q0 y 1 1 t\n", encoding="utf-8")
    with pytest.raises(LearnedSparseError, match=r"1 of \d+ documents are missing .for instance 'y'"):
        teach("--cross-encoder", str(classifier), "--run", str(tmp_path / "other.run"))


@pytest.fixture
def teacher_recipe(tmp_path: Path, tiny_backbone: Path, tiny_collection: Path) -> Path:
    """A recipe of a small cross-encoder."""
    values = {
        "base": "_cross-encoder", "model": "teacher", "backbone": str(tiny_backbone), "max_length": 20, "steps": 150,
        "batch_size": 16, "learning_rate": 3e-3, "warm_up_steps": 0,
        "negatives": {"kind": "given", "per_query": 2},
        "data": [{"collection": str(tiny_collection), "run": str(tiny_collection / "train.run")}],
    }  # fmt: skip
    path = tmp_path / "teacher.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def test_a_cross_encoder_is_trained(
    teacher_recipe: Path, tiny_collection: Path, teach: Callable[..., str], tmp_path: Path
) -> None:
    output = tmp_path / "teacher"
    where = ["--output", str(output), "--device", "cpu", "--quiet"]
    assert train_main(["--recipe", str(teacher_recipe), *where]) == 0
    assert not list(output.glob("**/*.bin"))
    assert not list(output.glob("**/*.pt"))
    teach("--cross-encoder", str(output))
    scores = lines_of(tmp_path / "scores.tsv")
    relevant = [score for (query, document), score in scores.items() if query[1:] == document[1:]]
    others = [score for (query, document), score in scores.items() if query[1:] != document[1:]]
    assert np.mean(relevant) - np.mean(others) > np.std(others)
    with pytest.raises(LearnedSparseError, match="exists already; replace it with --overwrite"):
        train_main(["--recipe", str(teacher_recipe), *where])
    with pytest.raises(LearnedSparseError, match="a cross-encoder is trained in one go"):
        train_main(["--recipe", str(teacher_recipe), *where, "--resume"])
    recipe = parse(CrossEncoderRecipe, recipe_values(teacher_recipe, changes=["steps=5"]), "teacher")
    for name in ("one", "two"):
        train_cross_encoder(recipe, tmp_path / name, device="cpu", quietly=True)
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert first == second


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("negatives.kind=self", "kind: self: a cross-encoder does not search"),
        ("negatives.per_query=0", "at least one for each query"),
        ("stage=1", "unknown key 'stage'"),
    ],
)
def test_recipes_of_cross_encoders_are_checked(teacher_recipe: Path, change: str, message: str) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        parse(CrossEncoderRecipe, recipe_values(teacher_recipe, changes=[change]), "teacher")
