"""The encode command, its options and output, with an encoder that needs no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.collections import collection
from learned_sparse.collections.collection import load_collection
from learned_sparse.core.encoder import choose_quantizer, query_quantizer
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.encode.__main__ import main
from learned_sparse.jsonvector.__main__ import main as check
from learned_sparse.jsonvector.manifest import Manifest
from learned_sparse.jsonvector.queries import read_topics
from learned_sparse.jsonvector.reader import read_vectors
from tests.fake_encoder import FakeEncoder, install_loader
from tests.learned_sparse.encode.commands import encode_file, files, parts, write_texts
from tests.toy_data import save_collection

TEXTS = [f"w{number % 7} w{number} v{number * number % 31}" for number in range(25)] + ["empty"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_texts(tmp_path / "corpus.jsonl", TEXTS)


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    install_loader(monkeypatch)


def expected(quantizer: Quantizer) -> dict[str, dict[str, int]]:
    impacts, _ = quantizer.quantize(FakeEncoder("document").encode(TEXTS))
    return {f"d{number}": impacts.row(number) for number in range(len(TEXTS))}


def test_documents(tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, vectors = tmp_path / "out", expected(Quantizer(20.0))
    manifest = encode_file(corpus, folder, "--part-size", "10", "--quantization-factor", "20")
    assert dict(read_vectors(folder)) == vectors
    assert {part.file: part.documents for part in manifest.parts} == {
        "vectors/part-00000.jsonl": 10, "vectors/part-00001.jsonl": 10, "vectors/part-00002.jsonl": 6
    }  # fmt: skip
    counts = manifest.counts
    assert (counts.read, counts.written, counts.empty_vectors) == (26, 26, 1)
    assert (manifest.complete, counts.postings) == (True, sum(map(len, vectors.values())))
    assert (manifest.encoder["side"], (manifest.query_encoder or {})["side"]) == ("document", "query")
    assert check(["check", str(folder)]) == 0
    assert f"next: python -m learned_sparse.index --input {folder} --index {folder}-index" in capsys.readouterr().out


@pytest.mark.parametrize("quantisation", [[], ["--bits", "6"], ["--quantization-factor", "9"]])
def test_shards_write_the_parts_of_a_complete_run(tmp_path: Path, corpus: Path, quantisation: list[str]) -> None:
    options = ["--part-size", "4", *quantisation]
    whole = encode_file(corpus, tmp_path / "whole", *options)
    union: dict[str, bytes] = {}
    for shard in range(3):
        folder = tmp_path / f"shard-{shard}"
        manifest = encode_file(corpus, folder, *options, "--num-shards", "3", "--shard-id", str(shard))
        assert manifest.quantizer == whole.quantizer
        assert manifest.counts.written + manifest.counts.other_shards == len(TEXTS)
        numbers = range(shard, 7, 3)
        assert [part.file for part in manifest.parts] == [f"vectors/part-{number:05d}.jsonl" for number in numbers]
        union |= parts(folder)
    assert union == parts(tmp_path / "whole")


def test_times_are_those_of_the_documents_encoded_now(tmp_path: Path, corpus: Path) -> None:
    options = ["--part-size", "4", "--times", str(tmp_path / "times.json")]
    encode_file(corpus, tmp_path / "out", *options)
    whole = json.loads((tmp_path / "times.json").read_bytes())
    assert whole["documents"] == len(TEXTS)
    assert whole["seconds"] > 0
    (tmp_path / "out" / "progress" / "part-00002.json").unlink()
    encode_file(corpus, tmp_path / "out", *options, "--resume")
    assert json.loads((tmp_path / "times.json").read_bytes())["documents"] == 4


def test_queries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topics = tmp_path / "topics.tsv"
    topics.write_text("1\tw1 w2\n02\tempty\n")
    folder = tmp_path / "out"
    manifest = encode_file(topics, folder, "--queries")
    impacts, _ = Quantizer(100.0).quantize(FakeEncoder("query").encode(["w1 w2", "empty"]))
    assert read_topics(folder / "queries.tsv") == {"1": impacts.row(0), "02": {}}
    assert (manifest.kind, manifest.complete, manifest.counts.empty_vectors) == ("queries", True, 1)
    assert list(manifest.problems(folder)) == []
    captured = capsys.readouterr()
    assert "'02' becomes 2" in captured.err
    assert str(folder / "queries.jsonl") in captured.out
    before = files(folder)
    encode_file(topics, folder, "--queries", "--resume")
    assert files(folder) == before
    topics.write_text("1\tw1 w2\n02\tw3\n")
    encode_file(topics, folder, "--queries", "--resume")
    assert read_topics(folder / "queries.tsv")["02"]
    with pytest.raises(LearnedSparseError, match=r"quantizer.scale: 100.0 before, 50.0 now"):
        encode_file(topics, folder, "--queries", "--resume", "--quantization-factor", "50")


def test_default_folders_are_below_home(
    tmp_path: Path, tmp_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"pydoc": save_collection(tmp_path / "toy", ["dev", "test"])}
    monkeypatch.setattr(collection, "load_collection", lambda name, data: load_collection(small[name], data=data))
    (tmp_home / "checkpoints" / "sparterm").mkdir(parents=True)
    assert main(["--model", "sparterm"]) == 0
    manifest = Manifest.load(tmp_home / "vectors" / "toy" / "sparterm")
    assert (manifest.collection, manifest.counts.written) == ("toy", 12)
    assert "learned_sparse.index --model sparterm --collection pydoc" in capsys.readouterr().out
    assert main(["--model", "sparterm", "--queries"]) == 0
    assert (tmp_home / "queries" / "toy" / "test" / "sparterm" / "queries.tsv").is_file()
    assert "learned_sparse.search --model sparterm --collection pydoc --split test" in capsys.readouterr().out


def test_output_folders_that_are_not_empty(tmp_path: Path, corpus: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "letter.txt").write_text("text")
    with pytest.raises(LearnedSparseError, match=r"not empty; give --resume, --overwrite or another --output"):
        encode_file(corpus, folder)
    encode_file(corpus, folder, "--overwrite", "--part-size", "5")
    encode_file(corpus, folder, "--overwrite", "--part-size", "20")
    assert sorted(path.name for path in (folder / "vectors").iterdir()) == ["part-00000.jsonl", "part-00001.jsonl"]
    assert (folder / "letter.txt").read_text() == "text"
    (folder / "vectors" / ".DS_Store").write_text("Anserini does not read this file")
    encode_file(corpus, folder, "--overwrite", "--part-size", "20")
    (folder / "vectors" / "more.jsonl").write_text("")
    for option in ("--resume", "--overwrite"):
        with pytest.raises(LearnedSparseError, match=r"more.jsonl: not written by learned_sparse.encode; remove it"):
            encode_file(corpus, folder, option, "--part-size", "20")
    assert any("more.jsonl: not in the manifest" in problem for problem in Manifest.load(folder).problems(folder))
    with pytest.raises(LearnedSparseError, match="is a file"):
        encode_file(corpus, corpus)


def test_changes_of_settings_reach_both_sides_and_the_manifest(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: dict[str, Any] = {}

    def load(_: str, side: str, **options: Any) -> FakeEncoder:
        received[side] = options["settings"]
        return FakeEncoder(side)

    install_loader(monkeypatch, load)
    encode_file(corpus, tmp_path / "out", "--set", "alpha=0.3")
    assert received == {"document": {"alpha": 0.3}, "query": {"alpha": 0.3}}


def test_choice_of_the_quantiser() -> None:
    stored, encoder = Quantizer(7.0, 8), FakeEncoder("document")
    assert choose_quantizer("document", encoder) is None
    assert choose_quantizer("query", encoder) == query_quantizer(encoder) == Quantizer(100.0)
    encoder.quantizer = stored
    assert choose_quantizer("document", encoder) == query_quantizer(encoder) == stored
    assert choose_quantizer("document", encoder, bits=4) is None
    assert choose_quantizer("document", encoder, bits=4, factor=3.0) == Quantizer(3.0, 4)
    # BM25 counts words: a stored factor or a calibration would multiply the counts.
    encoder.description["scoring"] = "bm25"
    assert choose_quantizer("document", encoder) == query_quantizer(encoder) == Quantizer(1.0)
    with pytest.raises(LearnedSparseError, match="counts words: omit --bits"):
        choose_quantizer("document", encoder, bits=4)
