"""Commands end with a readable error and an exit status."""

from __future__ import annotations

import errno
import importlib
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core.commands import print_next
from learned_sparse.core.errors import LearnedSparseError, run_main

REMOVED = "check the path; if it was removed while the command ran, run the command again"
OUT_OF_MEMORY = "ran out of memory; free memory, or use a smaller --batch-size or fewer --threads"
TERMINATED = """
import os, signal, sys
from learned_sparse.core.errors import run_main
from learned_sparse.core.files import atomic_write
def main(argv):
    with atomic_write(sys.argv[1]) as file:
        file.write(b"half")
        os.kill(os.getpid(), signal.SIGTERM)
    return 0
run_main(main)
"""


def exit_status(error: BaseException) -> int | str | None:
    """The exit status of a command that raises ``error``."""

    def main(argv: list[str] | None) -> int:
        assert argv is None  # the parser reads the process's own arguments
        raise error

    with pytest.raises(SystemExit) as exit_:
        run_main(main)
    return exit_.value.code


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (LearnedSparseError("corpus.jsonl:3: no text"), 2, "error: corpus.jsonl:3: no text\n"),
        (
            UnicodeEncodeError("utf-8", "caf\udce9.txt", 3, 4, "surrogates not allowed"),
            2,
            "error: 'caf\\udce9.txt': not text in the encoding of this locale; use UTF-8 (LC_ALL=C.UTF-8)\n",
        ),
        (
            FileNotFoundError(errno.ENOENT, "No such file", "runs/x"),
            2,
            f"error: runs/x: No such file or directory; {REMOVED}\n",
        ),
        (  # as the library safetensors raises it
            RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"),
            2,
            "error: output: No space left on device; free disk space\n",
        ),
        (MemoryError(), 2, f"error: {OUT_OF_MEMORY}\n"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), 2, f"error: {OUT_OF_MEMORY}\n"),
        (
            RuntimeError("JVM exception occurred: Java heap space java.lang.OutOfMemoryError"),
            2,
            "error: Java ran out of memory; give it more with --heap or LEARNED_SPARSE_JAVA_HEAP\n",
        ),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_errors_of_the_user_are_printed(
    error: BaseException, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_status(error) == status
    assert capsys.readouterr() == ("", message)


def test_a_python_without_the_packages(root: Path, tmp_path: Path, python: Any) -> None:
    words = ("-S", "-m", "learned_sparse.encode")  # -S: no site-packages
    done = python(*words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(root)})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"error: {sys.executable} has no package '")


def test_a_missing_package_while_a_command_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status(ModuleNotFoundError("No module named 'jinja2'", name="jinja2")) == 2
    assert capsys.readouterr().err.startswith(f"error: {sys.executable} has no package 'jinja2'; ")
    with pytest.raises(ModuleNotFoundError):  # a bug
        run_main(lambda _: len(importlib.import_module("learned_sparse.no_such_module").__name__))


def test_messages_go_to_standard_error_while_a_command_runs(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("learned_sparse.encode.documents")

    def main(argv: list[str] | None) -> int:
        logger.debug("a detail")
        logger.info("making this part again")
        logging.getLogger("another.library").info("not ours")
        return 3

    with pytest.raises(SystemExit, match="3"):
        run_main(main)
    logger.info("after the command")
    assert capsys.readouterr() == ("", "making this part again\n")


def test_sigterm_removes_temporary_files(tmp_path: Path, python: Any) -> None:
    done = python("-c", TERMINATED, tmp_path / "runs" / "run.txt")
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "")
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize("error", [ValueError("a bug"), OSError(errno.ECONNRESET, "Connection reset by peer")])
def test_other_errors_keep_their_traceback(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        run_main(lambda argv: (_ for _ in ()).throw(error))
    assert raised.value is error


def test_a_closed_output_pipe(root: Path) -> None:
    program = "from learned_sparse.core.errors import run_main\nrun_main(lambda a: print('line\\n' * 100_000) or 0)"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"line\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


ASCII_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_text_is_printed_in_every_locale(root: Path) -> None:
    program = r"""if True:
        import sys
        from learned_sparse.core.errors import LearnedSparseError, run_main
        def main(argv):
            print("d\u00e9j\u00e0 \u2603 \ud800")
            raise LearnedSparseError("caf\u00e9.jsonl: no text")
        run_main(main)
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONIOENCODING"} | ASCII_LOCALE
    done = subprocess.run([sys.executable, "-c", program], cwd=root, env=environment, capture_output=True, check=False)
    assert done.stdout.decode("utf-8") == "d\u00e9j\u00e0 \u2603 \\ud800\n"
    assert done.stderr.decode("utf-8") == "error: caf\u00e9.jsonl: no text\n"
    assert done.returncode == 2


def test_the_next_command_names_the_python_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As ``python`` where this is the one on PATH, else by its path, relative to the current folder if it is below."""
    here, other = tmp_path / ".venv" / "bin" / "python", tmp_path / "other" / "python"
    for path in (here, other):
        path.parent.mkdir(parents=True)
        path.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    for path, running, expected in (
        (here.parent, here, "python"), (other.parent, here, ".venv/bin/python"),
        (tmp_path, Path("/usr/my bin/python3"), "'/usr/my bin/python3'"),
    ):  # fmt: skip
        monkeypatch.setenv("PATH", str(path))
        monkeypatch.setattr(sys, "executable", str(running))
        print_next("eval.evaluate --run x")
        assert capsys.readouterr().out == f"next: {expected} -m eval.evaluate --run x\n"
