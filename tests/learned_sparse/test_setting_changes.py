"""``--set``: read, handed to the encoder, recorded, and refused where an index was made otherwise."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core import parse_changes
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.encode.__main__ import main as encode
from learned_sparse.index.note import IndexNote
from learned_sparse.jsonvector import Manifest
from tests.fake_encoder import FakeEncoder

STORED = {"alpha": 0.5, "query_k": None, "pooling": "max"}


class _Adjustable(FakeEncoder):
    """Has settings: ``alpha`` and ``query_k`` may be changed, the latter at search."""

    def __init__(self, side: str, settings: Any = None, **others: Any) -> None:
        super().__init__(side, **others)
        self.query_only_settings = frozenset({"query_k"})
        changes = settings or {}
        if wrong := {key for key, value in changes.items() if STORED.get(key, value) != value} - {"alpha", "query_k"}:
            raise LearnedSparseError(f"{min(wrong)!r} cannot be changed")
        self.description = {**self.description, "settings": {**STORED, **changes}}


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("encoders.encoding.loading")
    module.load_encoder = lambda _, side, **given: _Adjustable(side, **given)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "encoders.encoding.loading", module)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """The note of an index of documents encoded with ``--set alpha=0.3``."""
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "d1", "text": "hives itch"}\n')
    out = tmp_path / "out"
    named = ["--model", "fake", "--checkpoint", "nowhere", "--input", str(corpus), "--output", str(out)]
    assert encode([*named, "--set", "alpha=0.3"]) == 0
    (tmp_path / "index").mkdir()
    IndexNote("impact", (Manifest.load(out),), {}).save(tmp_path / "index")
    return tmp_path / "index"


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ([], {}),
        (["alpha=1", "k=[2, 3]"], {"alpha": 1, "k": [2, 3]}),
        (["a=b=c", "b=null", "c=true"], {"a": "b=c", "b": None, "c": True}),
    ],
)
def test_reading(words: list[str], changes: dict[str, Any]) -> None:
    assert parse_changes(words) == changes


@pytest.mark.parametrize(
    "words", [["alpha"], ["=1"], ["alpha="], ["a=1", "a=1"], ["a=[1"], ["a=2020-01-01"], ["a=.nan"]]
)
def test_what_cannot_be_read(words: list[str]) -> None:
    with pytest.raises(LearnedSparseError, match="--set " + words[-1].replace("[", r"\[")):
        parse_changes(words)


def test_both_sides_are_encoded_with_the_changes_and_the_manifest_says_so(index: Path) -> None:
    manifest = IndexNote.load(index).manifests[0]
    assert manifest.options["changes"] == {"alpha": 0.3}
    for side in (manifest.encoder, manifest.query_encoder or {}):
        assert side["settings"] == {**STORED, "alpha": 0.3}


def test_without_changes_the_manifest_is_as_before(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"id": "d1", "text": "hives itch"}\n')
    out = ["--input", str(tmp_path / "corpus.jsonl"), "--output", str(tmp_path / "out")]
    encode(["--model", "fake", "--checkpoint", "nowhere", *out])
    assert "changes" not in Manifest.load(tmp_path / "out").options
