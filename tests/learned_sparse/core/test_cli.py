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

from learned_sparse.core.errors import LearnedSparseError, run_main
from learned_sparse.core.settings import command_line


def exit_status(error: BaseException) -> int | str | None:
    """The exit status of a command that raises ``error``."""

    def main(argv: list[str] | None) -> int:
        assert argv is None  # the parser reads the process's own arguments
        raise error

    with pytest.raises(SystemExit) as exit_:
        run_main(main)
    return exit_.value.code


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (LearnedSparseError("corpus.jsonl:3: no text"), "corpus.jsonl:3: no text"),
        (UnicodeEncodeError("utf-8", "caf\udce9.txt", 3, 4, "surrogates not allowed"), "'caf\\udce9.txt': not text"),
        (FileNotFoundError(errno.ENOENT, "No such file", "runs/x"), "runs/x: No such file or directory; check the"),
        # As the library safetensors raises it.
        (RuntimeError("I/O error: No space left on device (os error 28)"), "output: No space left on device; free"),
        (MemoryError(), "ran out of memory; free memory, or use a smaller --batch-size"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "ran out of memory; free memory"),
        (RuntimeError("JVM exception occurred: java.lang.OutOfMemoryError"), "Java ran out of memory; give it more"),
    ],
)
def test_errors_of_the_user_are_printed(error: BaseException, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status(error) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert printed.err.startswith(f"error: {message}")


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


@pytest.mark.parametrize("error", [ValueError("bug"), OSError(errno.ECONNRESET, "reset"), OSError(errno.EPIPE, "pipe")])
def test_other_errors_keep_their_traceback(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        run_main(lambda argv: (_ for _ in ()).throw(error))
    assert raised.value is error


def test_a_closed_output_pipe(root: Path) -> None:
    program = "from learned_sparse.core.errors import run_main\nrun_main(lambda a: print('line\\n' * 100_000) or 0)"
    words = ["bash", "-c", '"$0" -c "$1" | head -n 1; exit ${PIPESTATUS[0]}', sys.executable, program]
    done = subprocess.run(words, cwd=root, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (141, b"line\n", b"")


def test_text_is_printed_in_every_locale(python: Any) -> None:
    program = r"""if True:
        from learned_sparse.core.errors import LearnedSparseError, run_main
        def main(argv):
            print("d\u00e9j\u00e0 \u2603 \ud800")
            raise LearnedSparseError("caf\u00e9.jsonl: no text")
        run_main(main)
    """
    ascii_locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    done = python("-c", program, env={**os.environ, **ascii_locale}, encoding="utf-8")
    assert (done.returncode, done.stdout) == (2, "d\u00e9j\u00e0 \u2603 \\ud800\n")
    assert done.stderr == "error: caf\u00e9.jsonl: no text\n"


def test_the_next_command_names_the_python_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As ``python`` where this is the one on PATH, else by its path, relative to the current folder if it is below."""
    here = tmp_path / ".venv" / "bin" / "python"
    here.parent.mkdir(parents=True)
    here.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    for path, running, expected in (
        (here.parent, here, "python"), (tmp_path, here, ".venv/bin/python"),
        (here.parent, Path("/usr/my bin/python3"), "'/usr/my bin/python3'"),
    ):  # fmt: skip
        monkeypatch.setenv("PATH", str(path))
        monkeypatch.setattr(sys, "executable", str(running))
        print("next:", command_line("eval.evaluate --run x"))
        assert capsys.readouterr().out == f"next: {expected} -m eval.evaluate --run x\n"
