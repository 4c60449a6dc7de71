"""Query encoders: the encoder recorded in an index, its settings and quantiser, use in Pyserini, and without torch."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.encode.__main__ import main as encode
from learned_sparse.index.note import IndexNote
from learned_sparse.jsonvector.manifest import Manifest
from learned_sparse.search import query_encoder
from learned_sparse.search.query_encoder import QueryEncoder, encoder_named, find_checkpoint
from tests.learned_sparse.encoded_folder import WordCounts, description, write_folder

SETTINGS = {"alpha": 0.3, "query_k": None, "pooling": "max"}


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Make ``load_encoder`` return ``WordCounts`` with the given settings; the options of each call are recorded."""
    calls: list[dict[str, Any]] = []

    def load(checkpoint: str, side: str, settings: Any = None, **options: Any) -> WordCounts:
        assert side == "query"
        calls.append({"checkpoint": checkpoint, **options})
        if "pooling" in (settings or {}) and settings["pooling"] != "max":
            raise LearnedSparseError("'pooling' cannot be changed")
        encoder = WordCounts(**({"settings": settings} if settings else {}))
        encoder.query_only_settings = frozenset({"query_k"})
        return encoder

    monkeypatch.setattr(query_encoder, "load_encoder", load)
    return calls


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """The ``IndexNote`` of an index of documents encoded with ``SETTINGS``."""
    encoded = write_folder(
        tmp_path / "encoded", {"d1": {"hives": 1}}, query_encoder=description(settings=SETTINGS, dtype="fp32")
    )
    (tmp_path / "index").mkdir()
    IndexNote("impact", (Manifest.load(encoded),), {}).save(tmp_path / "index")
    return tmp_path / "index"


def test_the_encoder_of_an_index(index: Path, loaded: list[dict[str, Any]]) -> None:
    encoder = QueryEncoder.from_index(index)
    assert loaded == [{"checkpoint": "words", "model": "words", "max_length": 64, "dtype": "fp32"}]
    assert encoder.encoder.description["settings"] == SETTINGS
    assert encoder.quantizer == Quantizer(1.0)
    QueryEncoder.from_index(str(index), tmp := "elsewhere", device="cpu")
    assert (loaded[1]["checkpoint"], loaded[1]["device"]) == (tmp, "cpu")
    matching = WordCounts(settings=SETTINGS)
    assert QueryEncoder.from_index(index, matching).encoder is matching


def test_the_checkpoint_of_a_moved_index(
    tmp_path: Path, tmp_home: Path, loaded: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorded path, else the folder of that name in the home folder."""
    monkeypatch.chdir(tmp_path)
    manifest = Manifest.load(
        write_folder(tmp_path / "in", {"d1": {"a": 1}}, checkpoint="server/checkpoints/m", model="model")
    )
    home = tmp_home / "checkpoints"
    with pytest.raises(LearnedSparseError, match=r"index: its checkpoint server/checkpoints/m does not exist.*--check"):
        find_checkpoint(manifest, Path("index"))
    (home / "model").mkdir(parents=True)
    assert find_checkpoint(manifest, Path("index")) == str(home / "model")
    (home / "m").mkdir()
    assert find_checkpoint(manifest, Path("index")) == str(home / "m")
    Path("server/checkpoints/m").mkdir(parents=True)
    assert find_checkpoint(manifest, Path("index")) == "server/checkpoints/m"
    unknown = dataclasses.replace(manifest, query_encoder=None, checkpoint="a/b/c")
    assert find_checkpoint(unknown, Path("index")) == "a/b/c"  # nothing to compare another folder with


def test_settings_that_only_queries_depend_on(index: Path, loaded: list[dict[str, Any]]) -> None:
    changed = QueryEncoder.from_index(index, settings={"query_k": 100})
    assert changed.encoder.description["settings"] == {**SETTINGS, "query_k": 100}
    assert QueryEncoder.from_index(index, settings={"alpha": 0.3}).quantizer == changed.quantizer  # the recorded value
    with pytest.raises(LearnedSparseError, match=r"setting 'alpha' too.*--set alpha=0.5; .*depend on: query_k"):
        QueryEncoder.from_index(index, settings={"alpha": 0.5})
    with pytest.raises(LearnedSparseError, match=r"cannot load its encoder.*--checkpoint: 'pooling' cannot be changed"):
        QueryEncoder.from_index(index, settings={"pooling": "sum"})


def test_an_encoder_that_does_not_match_is_refused(index: Path, loaded: list[dict[str, Any]]) -> None:
    mismatched = WordCounts(settings={**SETTINGS, "layers": 6}, max_length=32, weights="abc")
    message = (
        "max_length: 64 in the index, 32 in the encoder; settings.layers: absent in the index, 6 in the encoder; "
        "weights: absent in the index, 'abc' in the encoder"
    )
    mismatched.query_only_settings = frozenset({"query_k"})
    for settings in (None, {"query_k": None}):
        with pytest.raises(LearnedSparseError, match=message):
            QueryEncoder.from_index(index, mismatched, settings=settings)
    with pytest.raises(LearnedSparseError, match="top_k: absent in the index, 3 in the encoder; omit top_k, or encode"):
        QueryEncoder.from_index(index, load=lambda *_, top_k, **__: WordCounts(settings=SETTINGS, top_k=top_k), top_k=3)


def test_indexes_without_a_record_need_a_checkpoint(tmp_path: Path, loaded: list[dict[str, Any]]) -> None:
    (tmp_path / "segments_1").touch()
    with pytest.raises(LearnedSparseError, match=r"an index of another tool, without learned_sparse.json; .*--checkp"):
        QueryEncoder.from_index(tmp_path)
    assert QueryEncoder.from_index(tmp_path, "mine").encode("rash") == {"rash": 100}
    IndexNote("impact", (), {}).save(tmp_path)
    with pytest.raises(LearnedSparseError, match=r"does not say which encoder its queries need; .*--checkpoint"):
        QueryEncoder.from_index(tmp_path)
    stored = WordCounts()
    stored.quantizer = Quantizer(7.0)  # type: ignore[assignment]
    assert QueryEncoder.from_index(tmp_path, stored).encode("rash rash") == {"rash": 14}
    with pytest.raises(TypeError, match="device: only for an encoder loaded"):
        QueryEncoder(stored, device="cpu")


def test_encoders_by_name(index: Path, loaded: list[dict[str, Any]], tmp_home: Path) -> None:
    checkpoint = tmp_home / "checkpoints" / "splade"
    checkpoint.mkdir(parents=True)
    (checkpoint / "learned_sparse.json").write_text('{"architecture": "words"}')
    names = {
        "splade": str(checkpoint),
        str(checkpoint): str(checkpoint),
        str(index): "words",
        "learned_sparse:splade": str(checkpoint),
        "learned_sparse:some/hub-id": "some/hub-id",
    }
    for name in names:
        assert isinstance(encoder_named(name), QueryEncoder), name
    assert [call["checkpoint"] for call in loaded] == list(names.values())
    for name in ("unknown", "naver/splade-cocondenser-ensembledistil", str(tmp_home)):
        assert encoder_named(name) is None


ENCODE_QUERIES = """
import json, sys
from pathlib import Path
from learned_sparse.search.query_encoder import QueryEncoder
impacts = QueryEncoder.from_index(sys.argv[1]).encode_batch(["Hives, hives!", ""])
print(json.dumps([impacts, sorted({"torch", "transformers", "jnius", "pyserini"} & set(sys.modules))]))
"""


def test_queries_of_spade_are_encoded_without_torch(tmp_path: Path, tiny_bert: Path, python: Any) -> None:
    """They are bags of words."""
    from encoders.encoding.model import new_model, save_checkpoint

    save_checkpoint(tmp_path / "checkpoint", new_model("spade", {}, str(tiny_bert)))
    (tmp_path / "corpus.tsv").write_text("d\thives are a rash of the skin\n")
    named = ["--model", "spade", "--checkpoint", str(tmp_path / "checkpoint"), "--device", "cpu"]
    files = ["--input", str(tmp_path / "corpus.tsv"), "--output", str(tmp_path / "out")]
    assert encode([*named, *files, "--set", "alpha=0.3"]) == 0
    IndexNote("impact", (Manifest.load(tmp_path / "out"),), {}).save(tmp_path)
    done = python("-c", ENCODE_QUERIES, str(tmp_path))
    assert done.returncode == 0, done.stderr
    impacts, loaded = json.loads(done.stdout)
    assert impacts[0].keys() == {"hives", ",", "!"}
    assert set(impacts[0].values()) == {1}
    assert impacts[1] == {}
    assert loaded == []
