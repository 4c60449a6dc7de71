"""The encode command: options and output; a run continued after a kill or damage has the bytes of a whole run."""

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
from learned_sparse.core.records import SparseBatch
from learned_sparse.encode import pipeline
from learned_sparse.encode.__main__ import main
from learned_sparse.jsonvector.__main__ import main as check
from learned_sparse.jsonvector.manifest import Manifest
from learned_sparse.jsonvector.queries import read_topics
from learned_sparse.jsonvector.reader import read_vectors
from learned_sparse.jsonvector.writer import open_part
from learned_sparse.search.query_encoder import QueryEncoder
from tests.fake_encoder import FakeEncoder, install_loader
from tests.learned_sparse.input_files import encode_file, files, parts, write_texts
from tests.toy_data import save_collection

TEXTS = [f"w{number % 7} w{number} v{number * number % 31}" for number in range(25)] + ["empty"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_texts(tmp_path / "corpus.jsonl", TEXTS)


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    install_loader(monkeypatch)


def test_documents(tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    impacts, _ = Quantizer(20.0).quantize(FakeEncoder("document").encode(TEXTS))
    folder, vectors = tmp_path / "out", {f"d{number}": impacts.row(number) for number in range(len(TEXTS))}
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


def test_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    topics = tmp_path / "topics.tsv"
    topics.write_text("1\tw1 w2\n02\tempty\n")
    folder = tmp_path / "out"
    manifest = encode_file(topics, folder, "--queries")
    impacts, _ = Quantizer(100.0).quantize(FakeEncoder("query").encode(["w1 w2", "empty"]))
    assert read_topics(folder / "queries.tsv") == {"1": impacts.row(0), "02": {}}
    assert (manifest.kind, manifest.complete, manifest.counts.empty_vectors) == ("queries", True, 1)
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
    monkeypatch.setattr(FakeEncoder, "encode", lambda *_: SparseBatch.from_dicts([{"t0": float("nan")}] * 2))
    for options in ([], ["--bits", "8"]):
        with pytest.raises(LearnedSparseError, match=r"^query '1': term 't0' has the weight nan"):
            encode_file(topics, folder, "--queries", "--overwrite", *options)
    with pytest.raises(LearnedSparseError, match=r"^query 'rash': "):
        QueryEncoder(FakeEncoder("query")).encode_batch(["rash", "w1"])


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


def test_changes_of_settings_reach_both_sides_and_the_manifest(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: dict[str, Any] = {}

    def load(_: str, side: str, **options: Any) -> FakeEncoder:
        received[side] = options["settings"], options.get("weights", True)
        return FakeEncoder(side)

    install_loader(monkeypatch, load)
    encode_file(corpus, tmp_path / "out", "--set", "alpha=0.3")
    assert received == {"document": ({"alpha": 0.3}, True), "query": ({"alpha": 0.3}, False)}


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


LONG_TEXTS = [f"w{number} w{number + 1} v" for number in range(50)]


@pytest.fixture
def long_corpus(tmp_path: Path) -> Path:
    return write_texts(tmp_path / "long_corpus.jsonl", LONG_TEXTS)


def encode_in_tens(long_corpus: Path, out: Path, *more: str) -> Manifest:
    return encode_file(long_corpus, out, "--part-size", "10", *more)


def interrupt(monkeypatch: pytest.MonkeyPatch, long_corpus: Path, out: Path) -> dict[str, bytes]:
    """Encode until the third part; the files of the first two."""

    def stop_at_third(path: Path) -> Any:
        if path.name == "part-00002.jsonl":
            raise KeyboardInterrupt
        return open_part(path)

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "open_part", stop_at_third)
        with pytest.raises(KeyboardInterrupt):
            encode_in_tens(long_corpus, out)
    written = {name: data for name, data in files(out).items() if "part-" in name}
    assert len(written) == 4
    return written


def test_partial_output_is_completed(tmp_path: Path, long_corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encode_in_tens(long_corpus, tmp_path / "whole")
    complete = files(tmp_path / "whole")
    names = [name for n in range(5) for name in (f"vectors/part-{n:05d}.jsonl", f"progress/part-{n:05d}.json")]
    written = ["manifest.json", *names]
    assert set(written) == set(complete)
    incomplete = {**json.loads(complete["manifest.json"]), "complete": False, "parts": [], "warnings": []}
    incomplete.pop("sha256", None)
    for count in (0, 1, 2, 3, 7, len(written)):
        if count == len(written):
            monkeypatch.setattr(FakeEncoder, "encode", lambda *_: pytest.fail("encoded again"))
        folder = tmp_path / f"out-{count}"
        for name in written[:count]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(complete[name])
        if count:
            (folder / "manifest.json").write_text(json.dumps(incomplete))
        encode_in_tens(long_corpus, folder, "--resume")
        assert files(folder) == complete


@pytest.mark.parametrize("damage", [b"", b"{}\n"])
def test_damaged_parts_are_written_again(
    tmp_path: Path, long_corpus: Path, caplog: pytest.LogCaptureFixture, damage: bytes
) -> None:
    folder = tmp_path / "out"
    encode_in_tens(long_corpus, folder)
    complete = files(folder)
    (folder / "vectors" / "part-00001.jsonl").write_bytes(complete["vectors/part-00001.jsonl"][:100] + damage)
    (folder / "vectors" / "part-00002.jsonl").unlink()
    (folder / "progress" / "part-00004.json").write_bytes(complete["progress/part-00004.json"][:50])
    assert len(list(Manifest.load(folder).problems(folder))) == 2
    encode_in_tens(long_corpus, folder, "--resume")
    assert files(folder) == complete
    assert "part-00001.jsonl: missing or changed since it was written; writing this part again" in caplog.text
    assert "part-00002.jsonl: missing or changed" in caplog.text
    assert "part-00004.json:" in caplog.text


def test_parts_without_a_manifest_are_refused(tmp_path: Path, long_corpus: Path) -> None:
    encode_in_tens(long_corpus, tmp_path / "out")
    complete = files(tmp_path / "out")
    (tmp_path / "out" / "manifest.json").unlink()
    with pytest.raises(LearnedSparseError, match=r"part files but no manifest.json; encode with --overwrite"):
        encode_in_tens(long_corpus, tmp_path / "out", "--resume")
    encode_in_tens(long_corpus, tmp_path / "out", "--overwrite")
    assert files(tmp_path / "out") == complete


def test_overwriting_keeps_the_old_vectors_until_the_new_input_has_a_document(
    tmp_path: Path, long_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise LearnedSparseError("unreadable checkpoint")

    folder, bad = tmp_path / "out", tmp_path / "bad.jsonl"
    encode_in_tens(long_corpus, folder)
    whole = files(folder)
    bad.write_text('{"text": "no id"}\n')
    with pytest.raises(LearnedSparseError, match=r"bad\.jsonl:1"):
        encode_in_tens(bad, folder, "--overwrite")
    assert files(folder) == whole
    monkeypatch.setattr(FakeEncoder, "encode", fail)
    with pytest.raises(LearnedSparseError, match="unreadable checkpoint"):
        encode_in_tens(long_corpus, folder, "--overwrite")
    assert files(folder) == whole


def test_bad_lines_are_skipped_after_the_error_that_says_so(tmp_path: Path, long_corpus: Path) -> None:
    lines = long_corpus.read_text().splitlines(keepends=True)
    long_corpus.write_text("".join([*lines[:25], "not JSON\n", *lines[25:]]))
    with pytest.raises(LearnedSparseError, match=r"long_corpus.jsonl:26: .*--on-bad-line skip"):
        encode_in_tens(long_corpus, tmp_path / "out")
    manifest = encode_in_tens(long_corpus, tmp_path / "out", "--on-bad-line", "skip", "--resume")
    assert (manifest.counts.written, sum(manifest.counts.skipped.values())) == (50, 1)
    encode_in_tens(long_corpus, tmp_path / "whole", "--on-bad-line", "skip")
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_the_parts_of_an_input_that_has_changed_are_written_again(
    tmp_path: Path, long_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode_in_tens(long_corpus, tmp_path / "out")
    lines = long_corpus.read_text().splitlines(keepends=True)
    lines[15] = lines[15].replace("v", "u")  # the same size
    lines.append(lines[0].replace("d0", "d50"))
    long_corpus.write_text("".join(lines))
    texts: list[str] = []
    real = FakeEncoder.encode

    def recorded(encoder: FakeEncoder, batch: Any) -> Any:
        texts.extend(batch)
        return real(encoder, batch)

    with monkeypatch.context() as patch:
        patch.setattr(FakeEncoder, "encode", recorded)
        after = encode_in_tens(long_corpus, tmp_path / "out", "--resume")
    assert len(texts) == 10 + 1  # the second part and the new one
    assert [part.documents for part in after.parts] == [10] * 5 + [1]
    encode_in_tens(long_corpus, tmp_path / "whole")
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    write_texts(long_corpus, LONG_TEXTS[:15])
    encode_in_tens(long_corpus, tmp_path / "out", "--resume")
    encode_in_tens(long_corpus, tmp_path / "whole", "--overwrite")
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_other_versions_and_paths_leave_what_is_complete(
    tmp_path: Path, long_corpus: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("learned_sparse.encode.parts.versions", lambda: {"torch": "1.0"})
    finished = interrupt(monkeypatch, long_corpus, tmp_path / "out")
    monkeypatch.setattr("learned_sparse.encode.parts.versions", lambda: {"torch": "2.0"})
    long_corpus = long_corpus.rename(tmp_path / "moved.jsonl")
    encode_in_tens(long_corpus, tmp_path / "out", "--resume")
    assert "torch: '1.0' before, '2.0' now" in caplog.text
    whole = files(tmp_path / "out")
    assert finished.items() <= whole.items()
    monkeypatch.setattr("learned_sparse.encode.parts.versions", lambda: {"torch": "99"})
    encode_in_tens(long_corpus, tmp_path / "out", "--resume", "--checkpoint", "moved")
    assert files(tmp_path / "out") == whole


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--part-size", "11"], "options.part_size: 10 before, 11 now"),
        (["--num-shards", "2"], "options.num_shards: 1 before, 2 now"),
        (["--max-length", "64"], "encoder.max_length: absent before, 64 now"),
    ],
)
def test_what_changes_vectors_or_files_is_refused(
    tmp_path: Path, long_corpus: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], named: str
) -> None:
    finished = interrupt(monkeypatch, long_corpus, tmp_path / "out")
    with pytest.raises(LearnedSparseError, match=rf"made with other settings \({named}"):
        encode_in_tens(long_corpus, tmp_path / "out", "--resume", *options)
    assert finished.items() <= files(tmp_path / "out").items()
