"""A run resumed after a kill, damage or a full disk has the bytes of an uninterrupted run, or raises an error."""

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
from typing import Any

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.encode.__main__ import main
from learned_sparse.jsonvector.manifest import Manifest
from tests.fake_encoder import FakeEncoder, install_loader

KILLS = 6
MAX_KILLS = 40  # on a busy machine more kills come at the same moments


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


def arguments(corpus: Path, folder: Path, *options: str) -> list[str]:
    named = ["--model", "fake", "--checkpoint", "nowhere", "--input", str(corpus), "--output", str(folder)]
    return [*named, "--part-size", "20", *options]


def test_killed_runs(tmp_path: Path, corpus: Path, root: Path) -> None:
    folder, complete = tmp_path / "out", tmp_path / "whole"
    main(arguments(corpus, complete, "--part-size", "10"))
    draw = random.Random(int(os.environ.get("KILL_SEED", "2")))
    parts_at_kill: list[int] = []
    incomplete_runs = 0
    while len(parts_at_kill) < MAX_KILLS and (
        len(parts_at_kill) < KILLS or len(set(parts_at_kill)) <= KILLS // 2 or not incomplete_runs
    ):
        process = start(root, arguments(corpus, folder, "--part-size", "10", "--resume"))
        parts_wanted = len(list(folder.glob("progress/*.json"))) + draw.randrange(6)
        while process.poll() is None and len(list(folder.glob("progress/*.json"))) < parts_wanted:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        if process.wait(60) == -signal.SIGKILL:
            parts_at_kill.append(len(list(folder.glob("progress/*.json"))))
            incomplete_runs += any(folder.rglob("*.tmp"))
        else:  # the run ended before the kill
            assert (process.returncode, files(folder)) == (0, files(complete))
            shutil.rmtree(folder)
    assert start(root, arguments(corpus, folder, "--part-size", "10", "--resume")).wait(60) == 0
    assert files(folder) == files(complete)
    assert len(set(parts_at_kill)) > KILLS // 2, f"the kills came at different times: {parts_at_kill}"
    assert incomplete_runs, "no kill came while a file was being written"


def start(root: Path, command_line: list[str], stderr: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(root / "tests" / "fake_encoder.py"), *command_line],
        cwd=root,
        env={**os.environ, "FAKE_PAUSE": "0.005", "PYTHONPATH": str(root)},
        stdout=subprocess.DEVNULL,
        stderr=stderr,
    )


def test_ctrl_c_says_how_to_go_on(tmp_path: Path, corpus: Path, root: Path) -> None:
    folder = tmp_path / "out"
    process = start(root, arguments(corpus, folder, "--part-size", "1"), subprocess.PIPE)
    while process.poll() is None and not any(folder.glob("progress/*.json")):
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors.splitlines()[-1]) == (130, b"interrupted; go on with --resume")
    assert b"Traceback" not in errors
    assert start(root, arguments(corpus, folder, "--part-size", "1", "--resume")).wait(60) == 0


def test_partial_output_is_completed(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main(arguments(corpus, tmp_path / "whole"))
    complete = files(tmp_path / "whole")
    written = ["manifest.json", *(name for number in range(15) for name in (
        f"vectors/part-{number:05d}.jsonl", f"progress/part-{number:05d}.json"))]  # fmt: skip
    assert set(written) == set(complete)
    incomplete = {**json.loads(complete["manifest.json"]), "complete": False, "parts": [], "warnings": []}
    incomplete.pop("sha256", None)
    for count in (0, 1, 2, 3, 12, len(written)):
        if count == len(written):
            monkeypatch.setattr(FakeEncoder, "encode", lambda *_: pytest.fail("encoded again"))
        folder = tmp_path / f"out-{count}"
        for name in written[:count]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(complete[name])
        if count:
            (folder / "manifest.json").write_text(json.dumps(incomplete))
        main(arguments(corpus, folder, "--resume"))
        assert files(folder) == complete


@pytest.mark.parametrize("damage", [b"", b"{}\n"])
def test_damaged_parts_are_written_again(
    tmp_path: Path, corpus: Path, caplog: pytest.LogCaptureFixture, damage: bytes
) -> None:
    folder = tmp_path / "out"
    main(arguments(corpus, folder))
    complete = files(folder)
    (folder / "vectors" / "part-00003.jsonl").write_bytes(complete["vectors/part-00003.jsonl"][:100] + damage)
    (folder / "vectors" / "part-00005.jsonl").unlink()
    (folder / "progress" / "part-00007.json").write_bytes(complete["progress/part-00007.json"][:50])
    assert len(list(Manifest.load(folder).problems(folder))) == 2
    main(arguments(corpus, folder, "--resume"))
    assert files(folder) == complete
    messages = caplog.text
    assert "part-00003.jsonl: missing or changed since it was written; writing this part again" in messages
    assert "part-00005.jsonl: missing or changed" in messages
    assert "part-00007.json:" in messages


def test_other_settings_are_refused_and_named(tmp_path: Path, corpus: Path) -> None:
    folder = tmp_path / "out"
    main(arguments(corpus, folder))
    complete = files(folder)
    with pytest.raises(LearnedSparseError) as error:
        main([*arguments(corpus, folder, "--resume"), "--max-length", "64", "--part-size", "10", "--model", "other"])
    assert str(error.value).endswith(
        "manifest.json: made with other settings (encoder.max_length: absent before, 64 now; model: 'fake' before, "
        "'other' now; options.part_size: 20 before, 10 now); resume with the same settings, write to another --output, "
        "or encode everything again with --overwrite"
    )
    assert files(folder) == complete


def test_parts_without_a_manifest_are_refused(tmp_path: Path, corpus: Path) -> None:
    folder = tmp_path / "out"
    main(arguments(corpus, folder))
    complete = files(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(LearnedSparseError, match=r"part files but no manifest.json; encode with --overwrite"):
        main(arguments(corpus, folder, "--resume"))
    main(arguments(corpus, folder, "--overwrite"))
    assert files(folder) == complete


def test_a_full_disk_leaves_complete_parts_only(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main(arguments(corpus, tmp_path / "whole"))
    folder, flushed, fsync = tmp_path / "out", 0, os.fsync

    def full_after_a_while(descriptor: int) -> None:
        nonlocal flushed
        flushed += 1
        if flushed > 9:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_after_a_while)
        with pytest.raises(LearnedSparseError, match=r"cannot be written \(No space left on device\); free disk space"):
            main(arguments(corpus, folder))
    assert 0 < len(files(folder)) < len(files(tmp_path / "whole"))
    assert not Manifest.load(folder).complete
    remaining = {name: data for name, data in files(folder).items() if name != "manifest.json"}
    assert remaining.items() <= files(tmp_path / "whole").items()
    main(arguments(corpus, folder, "--resume"))
    assert files(folder) == files(tmp_path / "whole")


def test_overwriting_keeps_the_old_vectors_until_the_new_input_has_a_document(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, bad = tmp_path / "out", tmp_path / "bad.jsonl"
    main(arguments(corpus, folder))
    whole = files(folder)
    bad.write_text('{"text": "no id"}\n')
    with pytest.raises(LearnedSparseError, match=r"bad\.jsonl:1"):
        main(arguments(bad, folder, "--overwrite"))
    assert files(folder) == whole
    monkeypatch.setattr(FakeEncoder, "encode", fail)
    with pytest.raises(LearnedSparseError, match="unreadable checkpoint"):
        main(arguments(corpus, folder, "--overwrite"))
    assert files(folder) == whole


def fail(*_: object) -> None:
    raise LearnedSparseError("unreadable checkpoint")


def test_overwriting_removes_what_killed_runs_have_left(tmp_path: Path, corpus: Path) -> None:
    folder, whole = tmp_path / "out", tmp_path / "whole"
    main(arguments(corpus, whole))
    main(arguments(corpus, folder, "--part-size", "10"))
    for name in (".part-00020.jsonl.0123456789abcdef.tmp", ".part-00020.jsonl.lock"):
        (folder / "vectors" / name).touch()
    main(arguments(corpus, folder, "--overwrite"))
    assert files(folder) == files(whole)


def test_two_encodings_at_once(tmp_path: Path, corpus: Path, root: Path) -> None:
    """The second command says so; it stops neither the first one nor another shard beside it."""
    folder = tmp_path / "out-shard-0-of-2"
    process = start(root, arguments(corpus, folder))
    while not (folder / "manifest.json").exists():
        assert process.poll() is None
        time.sleep(0.001)
    for option in ("--resume", "--overwrite"):
        with pytest.raises(LearnedSparseError, match="shard-0-of-2: another command writes here"):
            main(arguments(corpus, folder, option))
    main(arguments(corpus, tmp_path / "out-shard-1-of-2"))
    assert process.wait(60) == 0
    assert files(folder) == files(tmp_path / "out-shard-1-of-2")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_part_that_disappears_is_noticed(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "out"
    encode = FakeEncoder.encode

    def encode_and_remove(self: FakeEncoder, texts: list[str]) -> Any:
        (folder / "vectors" / "part-00001.jsonl").unlink(missing_ok=True)
        return encode(self, texts)

    monkeypatch.setattr(FakeEncoder, "encode", encode_and_remove)
    with pytest.raises(LearnedSparseError, match=r"part-00001\.jsonl: removed while the others were written"):
        main(arguments(corpus, folder))
    monkeypatch.undo()
    install_loader(monkeypatch)
    main(arguments(corpus, folder, "--resume"))
    assert Manifest.load(folder).complete
