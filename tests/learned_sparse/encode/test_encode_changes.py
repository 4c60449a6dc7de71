"""What may change between an interrupted encoding and its continuation, and what may not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core import Document, LearnedSparseError, Quantizer
from learned_sparse.encode import parts, write_vectors
from learned_sparse.encode.__main__ import main
from learned_sparse.jsonvector import Manifest
from tests.fake_encoder import FakeEncoder, install_loader


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    install_loader(monkeypatch)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "corpus.jsonl", range(50))


def write_lines(path: Path, numbers: range) -> Path:
    path.parent.mkdir(exist_ok=True)
    lines = [json.dumps({"_id": f"d{number}", "text": f"w{number} w{number + 1} v"}) for number in numbers]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def encode(corpus: Path, out: Path, *more: str) -> Manifest:
    named = ["--model", "fake", "--checkpoint", "nowhere", "--input", str(corpus), "--output", str(out)]
    assert main([*named, "--part-size", "10", *more]) == 0
    return Manifest.load(out)


def interrupt(monkeypatch: pytest.MonkeyPatch, corpus: Path, out: Path, *more: str) -> dict[str, bytes]:
    """Encode until the third part; the files of the first two."""
    real, opened = parts.PartFolder.open, 0

    def stop_at_third(folder: Any, number: int) -> Any:
        nonlocal opened
        opened += 1
        if opened == 3:
            raise KeyboardInterrupt
        return real(folder, number)

    with monkeypatch.context() as patch:
        patch.setattr(parts.PartFolder, "open", stop_at_third)
        with pytest.raises(KeyboardInterrupt):
            encode(corpus, out, *more)
    written = {name: data for name, data in files(out).items() if "part-" in name}
    assert len(written) == 4
    return written


def test_bad_lines_are_skipped_after_the_error_that_says_so(tmp_path: Path, corpus: Path) -> None:
    lines = corpus.read_text().splitlines(keepends=True)
    corpus.write_text("".join([*lines[:25], "not JSON\n", *lines[25:]]))
    with pytest.raises(LearnedSparseError, match=r"corpus.jsonl:26: .*--on-bad-line skip"):
        encode(corpus, tmp_path / "out")
    first = files(tmp_path / "out")["vectors/part-00000.jsonl"]
    manifest = encode(corpus, tmp_path / "out", "--on-bad-line", "skip", "--resume")
    assert (manifest.counts.written, sum(manifest.counts.skipped.values())) == (50, 1)
    encode(corpus, tmp_path / "whole", "--on-bad-line", "skip")
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert files(tmp_path / "out")["vectors/part-00000.jsonl"] == first


def test_a_moved_input_and_checkpoint(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(monkeypatch, corpus, tmp_path / "out")
    moved = write_lines(tmp_path / "elsewhere" / "documents.jsonl", range(50))
    encode(moved, tmp_path / "out", "--resume", "--checkpoint", "moved")
    encode(moved, tmp_path / "whole", "--checkpoint", "moved")
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_an_input_that_has_grown_keeps_its_finished_parts(
    tmp_path: Path, corpus: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    write_lines(corpus, range(45))
    before = encode(corpus, tmp_path / "out")
    write_lines(corpus, range(73))
    after = encode(corpus, tmp_path / "out", "--resume")
    assert after.parts[:4] == before.parts[:4]
    assert [part.documents for part in after.parts] == [10] * 7 + [3]
    assert after.quantizer == before.quantizer
    assert "part-00004.jsonl: the input has grown; writing this part again" in caplog.text


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ([], "torch: '1.0' before, '2.0' now"),
        (["--batch-size", "4"], "batch_size: absent before, '4' now"),
        (["--device", "cuda:1"], "device: absent before, 'cuda:1' now"),
    ],
)
def test_what_changes_weights_by_rounding_is_a_warning(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], named: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(parts, "versions", lambda: {"torch": "1.0"})
    finished = interrupt(monkeypatch, corpus, tmp_path / "out")
    if not options:
        monkeypatch.setattr(parts, "versions", lambda: {"torch": "2.0"})
    manifest = encode(corpus, tmp_path / "out", "--resume", *options)
    assert f"continued with other versions or options: {named}" in caplog.text
    assert finished.items() <= files(tmp_path / "out").items()
    (warning,) = manifest.warnings
    assert warning.startswith("vectors/part-00002.jsonl and later parts were encoded with other versions or options")
    assert named in warning


def test_a_complete_folder_stays_as_it_is_after_an_upgrade(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode(corpus, tmp_path / "out")
    whole = files(tmp_path / "out")
    monkeypatch.setattr(parts, "versions", lambda: {"torch": "99"})
    encode(corpus, tmp_path / "out", "--resume", "--checkpoint", "moved")
    assert files(tmp_path / "out") == whole


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--part-size", "11"], "--part-size: 10 before, 11 now"),
        (["--gzip"], "--gzip: False before, True now"),
        (["--bits", "6"], "--bits: absent before, 6 now"),
        (["--calibration", "99"], "--calibration: 100.0 before, 99.0 now"),
        (["--quantization-factor", "7"], "quantizer.bits: 8 before, absent now; quantizer.scale: .* before, 7.0 now"),
        (["--num-shards", "2"], "--num-shards: 1 before, 2 now"),
        (["--max-length", "64"], "encoder.max_length: absent before, 64 now"),
    ],
)
def test_what_changes_vectors_or_files_is_refused(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], named: str
) -> None:
    finished = interrupt(monkeypatch, corpus, tmp_path / "out")
    with pytest.raises(LearnedSparseError, match=rf"made with other settings \({named}"):
        encode(corpus, tmp_path / "out", "--resume", *options)
    assert finished.items() <= files(tmp_path / "out").items()


def test_the_calibrated_quantiser_may_be_given_by_its_value(tmp_path: Path, corpus: Path) -> None:
    quantizer = encode(corpus, tmp_path / "out").quantizer
    same = ["--quantization-factor", repr(quantizer.scale), "--bits", str(quantizer.bits)]
    assert encode(corpus, tmp_path / "out", "--resume", *same).quantizer == quantizer


@pytest.mark.parametrize("key", ["tokenizer_sha256", "weights_sha256", "dtype", "settings"])
def test_another_encoder_is_refused(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    interrupt(monkeypatch, corpus, tmp_path / "out")

    def changed(_: str, side: str, **settings: Any) -> FakeEncoder:
        encoder = FakeEncoder(side, **settings)
        encoder.description |= {key: "changed"}
        return encoder

    install_loader(monkeypatch, changed)
    with pytest.raises(LearnedSparseError, match=f"encoder.{key}: absent before, 'changed' now"):
        encode(corpus, tmp_path / "out", "--resume")


def test_write_vectors_resumes_after_an_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [Document(f"d{number}", f"w{number} v") for number in range(30)]

    def unreadable() -> Any:
        yield from documents[:25]
        raise OSError("connection lost")

    arguments: dict[str, Any] = {"encoder": FakeEncoder("document"), "quantizer": Quantizer(9.0), "part_size": 10}
    with pytest.raises(OSError, match="connection lost"):
        write_vectors(tmp_path / "out", unreadable(), **arguments)
    monkeypatch.setattr(parts, "versions", lambda: {"torch": "99"})
    manifest = write_vectors(tmp_path / "out", documents, resume=True, **arguments)
    assert [part.documents for part in manifest.parts] == [10, 10, 10]
    assert "torch: " in manifest.warnings[0]


def test_queries_that_have_changed_are_refused(tmp_path: Path) -> None:
    topics, out = tmp_path / "topics.tsv", tmp_path / "out"
    topics.write_text("q1\thives itch\nq2\trash\n")
    encode(topics, out, "--queries")
    whole = files(out)
    encode(topics, out, "--queries", "--resume")
    assert files(out) == whole
    topics.write_text("q1\thives itch\nq2\tother\n")
    with pytest.raises(LearnedSparseError, match=r"ids or texts of the queries have changed .*--overwrite"):
        encode(topics, out, "--queries", "--resume")
    assert files(out) == whole
    encode(topics, out, "--queries", "--overwrite")
    assert files(out) != whole


Loader = Callable[..., FakeEncoder]


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoders on device ``second`` give weights that are a little larger."""

    class Rounded(FakeEncoder):
        def encode(self, texts: Any) -> Any:
            batch = super().encode(texts)
            batch.values[:] *= 1.000001
            return batch

    def load(_: str, side: str, device: str | None = None, **settings: Any) -> FakeEncoder:
        return (Rounded if device == "second" else FakeEncoder)(side, **settings)

    install_loader(monkeypatch, load)


def test_shards_share_the_quantiser_of_the_first(tmp_path: Path, corpus: Path, devices: None) -> None:
    from learned_sparse.index import encoded_files

    shards = ["--bits", "8", "--num-shards", "2", "--shard-id"]
    first = encode(corpus, tmp_path / "0", *shards, "0")
    second = encode(corpus, tmp_path / "1", *shards, "1", "--device", "second")
    assert first.quantizer == second.quantizer
    assert sum(encoded_files([tmp_path / "0", tmp_path / "1"]).documents) == 50
    assert len(list(tmp_path.glob(".quantizer-*.json*"))) == 1
    other = encode(corpus, tmp_path / "4", "--bits", "4", *shards[2:], "1", "--device", "second")
    assert other.quantizer.bits == 4


def test_shards_without_a_common_folder_are_told_the_factor(tmp_path: Path, corpus: Path, devices: None) -> None:
    from learned_sparse.index import encoded_files

    folders = [tmp_path / "a" / "shard", tmp_path / "b" / "shard"]
    shards = ["--num-shards", "2", "--shard-id"]
    factor = encode(corpus, folders[0], "--bits", "8", *shards, "0").quantizer.scale
    encode(corpus, folders[1], "--bits", "8", *shards, "1", "--device", "second")
    options = ["--quantization-factor", repr(factor), "--bits", "8", "--overwrite"]
    with pytest.raises(LearnedSparseError, match=f"one quantiser: encode {folders[1]} with {' '.join(options)}"):
        encoded_files(folders)
    encode(corpus, folders[1], *shards, "1", "--device", "second", *options)
    assert sum(encoded_files(folders).documents) == 50


def test_the_progress_bar_counts_finished_parts(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from learned_sparse.encode.run import Source

    assert Source("corpus", tmp_path, files=(corpus,)).count() == 50
    assert Source("corpus", tmp_path, files=(corpus,), documents=7).count() == 7
    documents = [Document(f"d{number}", f"w{number} v") for number in range(30)]
    arguments: dict[str, Any] = {"encoder": FakeEncoder("document"), "quantizer": Quantizer(9.0), "part_size": 10}
    write_vectors(tmp_path / "out", documents, **arguments)
    (tmp_path / "out" / "vectors" / "part-00001.jsonl").unlink()
    counts: list[int] = []
    write_vectors(tmp_path / "out", documents, resume=True, progress=counts.append, **arguments)
    assert sum(counts) == 30
