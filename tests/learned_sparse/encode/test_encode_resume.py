"""A run resumed after a kill, damage or a full disk gives the bytes of an undisturbed run, or an error."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.encode.__main__ import main
from learned_sparse.jsonvector import Manifest
from tests.fake_encoder import FakeEncoder, install_loader

KILLS = 6


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus.jsonl", 300)


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    install_loader(monkeypatch)


def write_corpus(path: Path, count: int) -> Path:
    draw = random.Random(5)
    lines = (
        json.dumps({"_id": f"d{number}", "text": " ".join(f"w{draw.randrange(90)}" for _ in range(12))})
        for number in range(count)
    )
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def arguments(corpus: Path, out: Path, *more: str) -> list[str]:
    named = ["--model", "fake", "--checkpoint", "nowhere", "--input", str(corpus), "--output", str(out)]
    return [*named, "--part-size", "20", *more]


def test_killed_runs(tmp_path: Path, corpus: Path, root: Path) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    main(arguments(corpus, whole, "--part-size", "10"))
    draw = random.Random(int(os.environ.get("KILL_SEED", "2")))
    parts_at_kill: list[int] = []
    torn = 0
    while len(parts_at_kill) < KILLS:
        process = start(root, arguments(corpus, out, "--part-size", "10", "--resume"))
        wanted = len(list(out.glob("progress/*.json"))) + draw.randrange(6)
        while process.poll() is None and len(list(out.glob("progress/*.json"))) < wanted:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        if process.wait(60) == -signal.SIGKILL:
            parts_at_kill.append(len(list(out.glob("progress/*.json"))))
            torn += any(out.rglob("*.tmp"))
        else:  # the run ended before the kill
            assert (process.returncode, files(out)) == (0, files(whole))
            shutil.rmtree(out)
    assert start(root, arguments(corpus, out, "--part-size", "10", "--resume")).wait(60) == 0
    assert files(out) == files(whole)
    assert len(set(parts_at_kill)) > KILLS // 2, f"the kills came at different times: {parts_at_kill}"
    assert torn, "no kill came while a file was being written"


def start(root: Path, command_line: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(root / "tests" / "fake_encoder.py"), *command_line],
        cwd=root,
        env={**os.environ, "FAKE_PAUSE": "0.005", "PYTHONPATH": str(root)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def test_partial_output_is_completed(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main(arguments(corpus, tmp_path / "whole"))
    whole = files(tmp_path / "whole")
    written = ["manifest.json", *(name for number in range(15) for name in (
        f"vectors/part-{number:05d}.jsonl", f"progress/part-{number:05d}.json"))]  # fmt: skip
    assert set(written) == set(whole)
    incomplete = {**json.loads(whole["manifest.json"]), "complete": False, "parts": [], "warnings": []}
    for count in (0, 1, 2, 3, 12, len(written)):
        if count == len(written):
            monkeypatch.setattr(FakeEncoder, "encode", lambda *_: pytest.fail("encoded again"))
        out = tmp_path / f"out-{count}"
        for name in written[:count]:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_bytes(whole[name])
        if count:
            (out / "manifest.json").write_text(json.dumps(incomplete))
        main(arguments(corpus, out, "--resume"))
        assert files(out) == whole


@pytest.mark.parametrize("damage", [b"", b"{}\n"])
def test_damaged_parts_are_written_again(
    tmp_path: Path, corpus: Path, caplog: pytest.LogCaptureFixture, damage: bytes
) -> None:
    out = tmp_path / "out"
    main(arguments(corpus, out))
    whole = files(out)
    (out / "vectors" / "part-00003.jsonl").write_bytes(whole["vectors/part-00003.jsonl"][:100] + damage)
    (out / "vectors" / "part-00005.jsonl").unlink()
    (out / "progress" / "part-00007.json").write_bytes(whole["progress/part-00007.json"][:50])
    assert len(list(Manifest.load(out).problems(out))) == 2
    main(arguments(corpus, out, "--resume"))
    assert files(out) == whole
    messages = caplog.text
    assert "part-00003.jsonl: missing or changed since it was written; writing this part again" in messages
    assert "part-00005.jsonl: missing or changed" in messages
    assert "part-00007.json:" in messages


def test_other_settings_are_refused_and_named(tmp_path: Path, corpus: Path) -> None:
    out = tmp_path / "out"
    main(arguments(corpus, out))
    whole = files(out)
    with pytest.raises(LearnedSparseError) as error:
        main([*arguments(corpus, out, "--resume"), "--max-length", "64", "--part-size", "10", "--model", "other"])
    assert str(error.value).endswith(
        "manifest.json: made with other settings (encoder.max_length: absent before, 64 now; model: 'fake' before, "
        "'other' now; --part-size: 20 before, 10 now); resume with the same settings, write to another --output, or "
        "encode everything again with --overwrite"
    )
    assert files(out) == whole


def test_another_input_is_refused(tmp_path: Path, corpus: Path) -> None:
    out = tmp_path / "out"
    main(arguments(corpus, out))
    before = corpus.read_text()
    lines = before.splitlines(keepends=True)
    lines[45] = lines[45].replace("w1", "v1")  # the same size
    corpus.write_text("".join(lines))
    assert corpus.stat().st_size == len(before)
    with pytest.raises(
        LearnedSparseError, match=r"part-00002.jsonl: the input has changed since this part was written"
    ):
        main(arguments(corpus, out, "--resume"))


def test_parts_without_a_manifest_are_refused(tmp_path: Path, corpus: Path) -> None:
    out = tmp_path / "out"
    main(arguments(corpus, out))
    whole = files(out)
    (out / "manifest.json").unlink()
    with pytest.raises(LearnedSparseError, match=r"part files but no manifest.json; encode with --overwrite"):
        main(arguments(corpus, out, "--resume"))
    main(arguments(corpus, out, "--overwrite"))
    assert files(out) == whole


def test_a_full_disk_leaves_complete_parts_only(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main(arguments(corpus, tmp_path / "whole"))
    out, flushed, fsync = tmp_path / "out", 0, os.fsync

    def full_after_a_while(descriptor: int) -> None:
        nonlocal flushed
        flushed += 1
        if flushed > 9:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_after_a_while)
        with pytest.raises(LearnedSparseError, match=r"cannot be written \(No space left on device\); free disk space"):
            main(arguments(corpus, out))
    assert 0 < len(files(out)) < len(files(tmp_path / "whole"))
    assert not Manifest.load(out).complete
    left = {name: data for name, data in files(out).items() if name != "manifest.json"}
    assert left.items() <= files(tmp_path / "whole").items()
    main(arguments(corpus, out, "--resume"))
    assert files(out) == files(tmp_path / "whole")
