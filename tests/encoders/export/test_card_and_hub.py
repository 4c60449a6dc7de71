"""Model cards say where a model comes from, without folders of the machine; uploads go through huggingface_hub."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, ClassVar

import huggingface_hub
import pytest
import yaml
from huggingface_hub.errors import HFValidationError

from encoders.encoding.model import new_model, save_checkpoint
from encoders.export import __main__ as command
from encoders.export.hub import push_to_hub
from learned_sparse.core.errors import LearnedSparseError

RECIPE = {
    "model": "splade",
    "backbone": "prajjwal1/bert-tiny",
    "data": [{"collection": "scifact", "split": "train", "triples": None}, {"triples": "/mnt/secret/triples.tsv"}],
}


class FakeHub:
    """Stands in for ``huggingface_hub.HfApi`` and keeps what it was asked to do."""

    calls: ClassVar[list[tuple[str, dict[str, Any]]]] = []
    error: Exception | None = None

    def __init__(self, token: str | None = None) -> None:
        self.calls.append(("token", {"token": token}))

    def create_repo(self, repo_id: str, **options: Any) -> Any:
        self.calls.append(("create_repo", {"repo_id": repo_id, **options}))
        if self.error is not None:
            raise self.error
        return huggingface_hub.RepoUrl(f"https://huggingface.co/{repo_id}")

    def upload_folder(self, **options: Any) -> Any:
        files = sorted(path.name for path in Path(options.pop("folder_path")).iterdir())
        self.calls.append(("upload_folder", {**options, "files": files}))
        url = f"https://huggingface.co/{options['repo_id']}/commit/1"
        return huggingface_hub.CommitInfo(commit_url=url, commit_message="", commit_description="", oid="1")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> type[FakeHub]:
    monkeypatch.setattr(FakeHub, "calls", [])
    monkeypatch.setattr(FakeHub, "error", None)
    monkeypatch.setattr(huggingface_hub, "HfApi", FakeHub)
    return FakeHub


@pytest.fixture
def checkpoint(tiny_bert: Path, tmp_path: Path) -> Path:
    model = new_model("splade", {"pooling": "max"}, str(tiny_bert))
    save_checkpoint(tmp_path / "mine", dataclasses.replace(model, recipe=RECIPE, training={"MRR@10": 0.25}))
    return tmp_path / "mine"


def test_the_command_exports_with_a_card_and_uploads(
    checkpoint: Path, hub: type[FakeHub], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scores.json").write_text(json.dumps({"scifact": {"nDCG@10": 0.5}}))
    words = ["--checkpoint", str(checkpoint), "--to", "sentence-transformers", "--output", str(tmp_path / "out")]
    words += ["--license", "apache-2.0", "--scores", str(tmp_path / "scores.json")]
    assert command.main([*words, "--push-to-hub", "me/splade", "--private"]) == 0
    card = (tmp_path / "out" / "README.md").read_text()
    metadata = yaml.safe_load(card.split("---\n")[1])
    assert (metadata["license"], metadata["base_model"]) == ("apache-2.0", "prajjwal1/bert-tiny")
    for text in (
        'SparseEncoder("me/splade")', "- collection: scifact, split: train\n- triples: triples.tsv\n",
        "| validation queries of the training | MRR@10 | 0.2500 |", "| scifact | nDCG@10 | 0.5000 |", "pooling: max",
    ):  # fmt: skip
        assert text in card
    assert "secret" not in card
    assert huggingface_hub.ModelCard.load(tmp_path / "out" / "README.md").data.library_name == "sentence-transformers"
    create, upload = hub.calls[1][1], hub.calls[2][1]
    assert create == {"repo_id": "me/splade", "private": True, "exist_ok": True}
    assert (upload["repo_id"], upload["create_pr"], upload["ignore_patterns"][0]) == ("me/splade", False, "training/*")
    assert {"README.md", "modules.json", "model.safetensors", "tokenizer.json"} <= set(upload["files"])
    assert capsys.readouterr().out.endswith("https://huggingface.co/me/splade/commit/1\n")


def test_uploads_that_fail(hub: type[FakeHub], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert push_to_hub(tmp_path, "me/x", token="hf_x", create_pr=True).endswith("/commit/1")
    assert hub.calls[0] == ("token", {"token": "hf_x"})
    monkeypatch.setattr(hub, "error", HFValidationError("Repo id must use alphanumeric chars\nand more"))
    with pytest.raises(
        LearnedSparseError, match=r"^me/\?: the upload to the Hugging Face Hub failed: Repo id .*chars$"
    ):
        push_to_hub(tmp_path, "me/?")
    with pytest.raises(LearnedSparseError, match="gone: no such folder; export the model first"):
        push_to_hub(tmp_path / "gone", "me/x")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--to pyserini --output x", "which model"),
        ("--to pyserini --output x --checkpoint x --scores {scores}", "expected an object of scores, got list"),
    ],
)
def test_wrong_use(words: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "scores.json").write_text("[]")
    with pytest.raises(LearnedSparseError, match=message):
        command.main(words.format(scores=tmp_path / "scores.json").split())
