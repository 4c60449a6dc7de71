"""A run that is continued after a kill, damage or a change of its input has the bytes of a whole run, or is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.encode import parts, pipeline
from learned_sparse.jsonvector.manifest import Manifest
from learned_sparse.jsonvector.writer import open_part
from tests.fake_encoder import FakeEncoder, install_loader
from tests.learned_sparse.encode.commands import encode_file, files, write_texts

TEXTS = [f"w{number} w{number + 1} v" for number in range(50)]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_texts(tmp_path / "corpus.jsonl", TEXTS)


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    install_loader(monkeypatch)


def encode(corpus: Path, out: Path, *more: str) -> Manifest:
    return encode_file(corpus, out, "--part-size", "10", *more)


def interrupt(monkeypatch: pytest.MonkeyPatch, corpus: Path, out: Path) -> dict[str, bytes]:
    """Encode until the third part; the files of the first two."""

    def stop_at_third(path: Path) -> Any:
        if path.name == "part-00002.jsonl":
            raise KeyboardInterrupt
        return open_part(path)

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "open_part", stop_at_third)
        with pytest.raises(KeyboardInterrupt):
            encode(corpus, out)
    written = {name: data for name, data in files(out).items() if "part-" in name}
    assert len(written) == 4
    return written


def test_partial_output_is_completed(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encode(corpus, tmp_path / "whole")
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
        encode(corpus, folder, "--resume")
        assert files(folder) == complete


@pytest.mark.parametrize("damage", [b"", b"{}\n"])
def test_damaged_parts_are_written_again(
    tmp_path: Path, corpus: Path, caplog: pytest.LogCaptureFixture, damage: bytes
) -> None:
    folder = tmp_path / "out"
    encode(corpus, folder)
    complete = files(folder)
    (folder / "vectors" / "part-00001.jsonl").write_bytes(complete["vectors/part-00001.jsonl"][:100] + damage)
    (folder / "vectors" / "part-00002.jsonl").unlink()
    (folder / "progress" / "part-00004.json").write_bytes(complete["progress/part-00004.json"][:50])
    assert len(list(Manifest.load(folder).problems(folder))) == 2
    encode(corpus, folder, "--resume")
    assert files(folder) == complete
    assert "part-00001.jsonl: missing or changed since it was written; writing this part again" in caplog.text
    assert "part-00002.jsonl: missing or changed" in caplog.text
    assert "part-00004.json:" in caplog.text


def test_parts_without_a_manifest_are_refused(tmp_path: Path, corpus: Path) -> None:
    encode(corpus, tmp_path / "out")
    complete = files(tmp_path / "out")
    (tmp_path / "out" / "manifest.json").unlink()
    with pytest.raises(LearnedSparseError, match=r"part files but no manifest.json; encode with --overwrite"):
        encode(corpus, tmp_path / "out", "--resume")
    encode(corpus, tmp_path / "out", "--overwrite")
    assert files(tmp_path / "out") == complete


def test_overwriting_keeps_the_old_vectors_until_the_new_input_has_a_document(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise LearnedSparseError("unreadable checkpoint")

    folder, bad = tmp_path / "out", tmp_path / "bad.jsonl"
    encode(corpus, folder)
    whole = files(folder)
    bad.write_text('{"text": "no id"}\n')
    with pytest.raises(LearnedSparseError, match=r"bad\.jsonl:1"):
        encode(bad, folder, "--overwrite")
    assert files(folder) == whole
    monkeypatch.setattr(FakeEncoder, "encode", fail)
    with pytest.raises(LearnedSparseError, match="unreadable checkpoint"):
        encode(corpus, folder, "--overwrite")
    assert files(folder) == whole


def test_bad_lines_are_skipped_after_the_error_that_says_so(tmp_path: Path, corpus: Path) -> None:
    lines = corpus.read_text().splitlines(keepends=True)
    corpus.write_text("".join([*lines[:25], "not JSON\n", *lines[25:]]))
    with pytest.raises(LearnedSparseError, match=r"corpus.jsonl:26: .*--on-bad-line skip"):
        encode(corpus, tmp_path / "out")
    manifest = encode(corpus, tmp_path / "out", "--on-bad-line", "skip", "--resume")
    assert (manifest.counts.written, sum(manifest.counts.skipped.values())) == (50, 1)
    encode(corpus, tmp_path / "whole", "--on-bad-line", "skip")
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_the_parts_of_an_input_that_has_changed_are_written_again(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode(corpus, tmp_path / "out")
    lines = corpus.read_text().splitlines(keepends=True)
    lines[15] = lines[15].replace("v", "u")  # the same size
    lines.append(lines[0].replace("d0", "d50"))
    corpus.write_text("".join(lines))
    texts: list[str] = []
    real = FakeEncoder.encode

    def recorded(encoder: FakeEncoder, batch: Any) -> Any:
        texts.extend(batch)
        return real(encoder, batch)

    with monkeypatch.context() as patch:
        patch.setattr(FakeEncoder, "encode", recorded)
        after = encode(corpus, tmp_path / "out", "--resume")
    assert len(texts) == 10 + 1  # the second part and the new one
    assert [part.documents for part in after.parts] == [10] * 5 + [1]
    encode(corpus, tmp_path / "whole")
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    write_texts(corpus, TEXTS[:15])
    encode(corpus, tmp_path / "out", "--resume")
    encode(corpus, tmp_path / "whole", "--overwrite")
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_other_versions_and_paths_leave_what_is_complete(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(parts, "versions", lambda: {"torch": "1.0"})
    finished = interrupt(monkeypatch, corpus, tmp_path / "out")
    monkeypatch.setattr(parts, "versions", lambda: {"torch": "2.0"})
    corpus = corpus.rename(tmp_path / "moved.jsonl")
    encode(corpus, tmp_path / "out", "--resume")
    assert "torch: '1.0' before, '2.0' now" in caplog.text
    whole = files(tmp_path / "out")
    assert finished.items() <= whole.items()
    monkeypatch.setattr(parts, "versions", lambda: {"torch": "99"})
    encode(corpus, tmp_path / "out", "--resume", "--checkpoint", "moved")
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
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], named: str
) -> None:
    finished = interrupt(monkeypatch, corpus, tmp_path / "out")
    with pytest.raises(LearnedSparseError, match=rf"made with other settings \({named}"):
        encode(corpus, tmp_path / "out", "--resume", *options)
    assert finished.items() <= files(tmp_path / "out").items()
