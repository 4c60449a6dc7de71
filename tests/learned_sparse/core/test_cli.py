"""Commands end with a readable error and an exit status."""

from __future__ import annotations

import errno
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from learned_sparse.core import run_main
from learned_sparse.core.errors import LearnedSparseError


def end(error: BaseException) -> int | str | None:
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
        (PermissionError(errno.EACCES, "Permission denied", "runs/a.txt"), 2, "error: runs/a.txt: Permission denied\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "error: output: No space left on device\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_errors_of_the_user_are_printed(
    error: BaseException, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end(error) == status
    assert capsys.readouterr() == ("", message)


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


@pytest.mark.parametrize("error", [ValueError("a bug"), FileNotFoundError(errno.ENOENT, "No such file", "x")])
def test_other_errors_keep_their_traceback(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        run_main(lambda argv: (_ for _ in ()).throw(error))
    assert raised.value is error


def test_a_closed_output_pipe(root: Path) -> None:
    program = "from learned_sparse.core import run_main\nrun_main(lambda a: print('line\\n' * 100_000) or 0)"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"line\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
