"""Several processes write one folder: the same bytes as one process, and a worker that dies is named."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from learned_sparse.encode.outcome import Outcome, merged

COUNT = 60
Encode = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    lines = (json.dumps({"_id": f"d{number}", "text": f"w{number} w{number % 7} v"}) for number in range(COUNT))
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def encode(root: Path, corpus: Path) -> Encode:
    """The command with a fake encoder; ``pause`` seconds for each call of it."""

    def run(out: Path, *more: str, pause: float = 0.0) -> subprocess.CompletedProcess[str]:
        with start(root, corpus, out, *more, pause=pause) as process:
            said, complained = process.communicate(timeout=120)
            return subprocess.CompletedProcess(process.args, process.returncode, said, complained)

    return run


def start(root: Path, corpus: Path, out: Path, *more: str, pause: float = 0.0) -> subprocess.Popen[str]:
    command = [sys.executable, str(root / "tests" / "fake_encoder.py"), "--model", "fake", "--checkpoint", "nowhere"]
    return subprocess.Popen(
        [*command, "--input", str(corpus), "--output", str(out), "--part-size", "5", *more],
        cwd=root,
        env={**os.environ, "FAKE_PAUSE": str(pause), "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("more", [["--bits", "6"], ["--quantization-factor", "9", "--num-shards", "2", "--gzip"]])
def test_the_bytes_of_one_process(tmp_path: Path, encode: Encode, more: list[str]) -> None:
    alone, shared = encode(tmp_path / "alone", "--device", "cpu", *more), tmp_path / "shared"
    assert alone.returncode == 0, alone.stderr
    done = encode(shared, "--devices", "cpu", "cpu", "cpu", *more)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == alone.stdout.splitlines()[0]
    assert files(shared) == files(tmp_path / "alone")
    assert done.stderr.count("quantiser calibrated") == ("--bits" in more)


def test_a_dead_worker_ends_the_run_and_the_rest_is_resumed(
    tmp_path: Path, encode: Encode, root: Path, corpus: Path
) -> None:
    assert encode(tmp_path / "whole", "--device", "cpu").returncode == 0
    out = tmp_path / "out"
    with start(root, corpus, out, "--devices", "cpu", "cpu", pause=0.2) as process:
        while process.poll() is None and len(list(out.glob("progress/*.json"))) < 2:
            time.sleep(0.01)
        workers = spawned(process.pid)
        assert len(workers) == 2
        os.kill(workers[-1], signal.SIGKILL)
        _, complained = process.communicate(timeout=60)
    assert process.returncode == 2, complained
    assert "error: the process for cpu ended with SIGKILL; mend the cause" in complained
    assert "Traceback" not in complained
    deadline = time.monotonic() + 20
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))
    assert 0 < len(list(out.glob("progress/*.json"))) < COUNT // 5
    assert encode(out, "--devices", "cpu", "cpu", "--resume").returncode == 0
    assert files(out) == files(tmp_path / "whole")
    shutil.rmtree(out / "vectors")
    assert encode(out, "--device", "cpu", "--resume").returncode == 0  # by one process, too
    assert files(out) == files(tmp_path / "whole")


def spawned(parent: int) -> list[int]:
    """Processes of multiprocessing below ``parent``, but for its resource tracker."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            own, its_parent = (
                status.read_text().rsplit(")", 1)[0].split(" ", 1)[0],
                status.read_text().rsplit(") ", 1)[1],
            )
            command = status.with_name("cmdline").read_bytes()
            if int(its_parent.split()[1]) == parent and b"spawn_main" in command:
                found.append(int(own))
    return sorted(found)


def alive(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def test_an_error_of_a_worker_is_that_of_the_command(tmp_path: Path, encode: Encode, corpus: Path) -> None:
    with corpus.open("a") as file:
        file.write("not JSON\n")
    done = encode(tmp_path / "out", "--devices", "cpu", "cpu")
    assert done.returncode == 2
    assert f"error: {corpus}:{COUNT + 1}: " in done.stderr
    assert "--on-bad-line skip" in done.stderr
    assert "Traceback" not in done.stderr
    assert encode(tmp_path / "out", "--devices", "cpu", "cpu", "--overwrite", "--on-bad-line", "skip").returncode == 0


def test_nothing_is_written_over_what_is_there(tmp_path: Path, encode: Encode) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter.txt").write_text("mine")
    done = encode(tmp_path / "out", "--devices", "cpu", "cpu")
    assert (done.returncode, "give --resume, --overwrite or another --output" in done.stderr) == (2, True)


def test_workers_that_read_different_documents_are_noticed() -> None:
    one = Outcome(
        notes={}, read=3, elsewhere=0, skipped={}, segmented=0, largest_segments=0, reads_expanded=False
    )  # fmt: skip
    assert merged([one, one]) == one
    with pytest.raises(RuntimeError, match="read different documents"):
        merged([one, Outcome(**{**vars(one), "read": 4})])
