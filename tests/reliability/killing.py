"""Kill a command at random moments, give it again, and compare the end with that of an undisturbed run."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.reliability.commands import Case, Result, Server, Tree, World, everything, is_temporary, tree
from tests.reliability.scale import FULL, record

SIGNALS = tuple(
    signal.Signals[name] for name in os.environ.get("RELIABILITY_SIGNALS", "SIGKILL SIGTERM SIGINT").split()
)
"""``RELIABILITY_SIGNALS=SIGTERM`` kills with this one only: three processes can share the work."""
ENDINGS = {signal.SIGKILL: {-9}, signal.SIGTERM: {-15, 130, 143}, signal.SIGINT: {130}}
"""Exit statuses after each signal; 130 and 143 are those of a command that handles it, -15 comes before."""
CHAINS = (1, 2, 3, 4, 4, 12) if FULL else (1, 2, 3, 4)
"""Kills of one run and its resumptions before it is left in peace."""
MAX_WAITS = 300
"""Tenths of a second, and more, that the processes which a killed command has started may go on."""
_INCOMPLETE = b'"complete": false'
"""In a manifest of vectors or queries that are still being encoded."""
REPLAY = "RELIABILITY_REPLAY"
"""Environment variable with the chain of kills that a failed test has printed; the test then tries only this chain."""


@dataclass(frozen=True)
class Chain:
    """Kills of one command, one after the other, each as fields of ``Run``."""

    replacing: bool
    kills: list[dict[str, Any]]


class Killing:
    """Kills of one case."""

    def __init__(self, case: Case, world: World, server: Server, folder: Path) -> None:
        self._case, self._world, self._server, self._folder = case, world, server, folder
        self._new = compared(case, everything(world.result(case)))
        self._old = compared(case, everything(world.result(case.before))) if case.before else {}
        self.landed: Counter[int] = Counter()
        """Kills that came before the end of a run, by signal."""
        (self._length,) = server.run(case.run(self._start_folder(replacing=False)))
        assert_same(compared(case, everything(folder / "out")), self._new)  # two undisturbed runs

    def run(self, kills: int, test: str) -> None:
        """Land ``kills`` kills of each signal; ``test`` is the id of the test, for the record."""
        if replay := os.environ.get(REPLAY):
            self._run_chain(Chain(**json.loads(replay)))
            return
        draw = random.Random(self._case.name)
        for number in range(20 * kills):
            if all(self.landed[each] >= kills for each in SIGNALS):
                break
            self._run_chain(self._draw_chain(draw, number, kills))
        else:
            raise AssertionError(f"too few kills came in time: {self.landed}")
        for each in SIGNALS:
            outcome = "old or new result whole at every moment, same bytes at the end"
            record("kill", f"{self._case.name}, {each.name}", self.landed[each], outcome, test)

    def _draw_chain(self, draw: random.Random, number: int, kills: int) -> Chain:
        missing = [each for each in SIGNALS if self.landed[each] < kills]
        chosen = [draw.choice(missing) for _ in range(draw.choice(CHAINS))]
        return Chain(bool(self._case.before) and number % 2 == 1, [self._draw_kill(draw, each) for each in chosen])

    def _draw_kill(self, draw: random.Random, number: int) -> dict[str, Any]:
        """Half of the kills come before a file operation, half at any time."""
        target = "group" if number == signal.SIGINT else draw.choice(["top", "group"])
        if draw.random() < 0.5:
            return {"signal": int(number), "target": target, "event": draw.randint(1, self._length.events)}
        return {"signal": int(number), "target": target, "after": round(draw.uniform(0, self._length.seconds), 4)}

    def _run_chain(self, chain: Chain) -> None:
        with repeatable(chain, self._case.name):
            folder = self._start_folder(replacing=chain.replacing)
            more = self._case.replace if chain.replacing else ()
            for kill in chain.kills:
                result = self._run(folder, *more, **kill)
                more = (self._case.replace if chain.replacing else self._case.again) or self._case.again
                self._check_moment(result, kill["signal"], tree(folder / "out"), chain)
                if result.status == 0:  # it ended before the kill
                    break
            result = self._run(folder, *more)
            assert result.status == 0, result.output
            assert_same(compared(self._case, everything(folder / "out")), self._new)
            left = [name for name in everything(folder) if is_temporary(name)]
            assert not left, f"temporary files stay: {left}"

    def _run(self, folder: Path, *more: str, **kill: Any) -> Result:
        """Give the command, again while a process that a killed one has started still writes."""
        for _ in range(MAX_WAITS):
            (result,) = self._server.run(self._case.run(folder, *more, **kill))
            if result.status == 0 or "writes here; wait until it ends" not in result.output:
                break
            time.sleep(0.1)
        return result

    def _start_folder(self, *, replacing: bool) -> Path:
        """The working directory, empty or with an earlier result."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        if replacing and self._case.before is not None:
            self._world.copy_result(self._case.before, self._folder)
        return self._folder

    def _check_moment(self, result: Result, number: int, now: Tree, chain: Chain) -> None:
        assert not result.hung, "hangs"
        assert result.status in ENDINGS[signal.Signals(number)] | {0}, f"status {result.status}: {result.output}"
        assert "Traceback" not in result.output, result.output
        self.landed[number] += result.status != 0
        old = files(self._old) if chain.replacing else {}
        if problem := moment_problem(self._case, old, files(self._new), compared(self._case, files(now))):
            raise AssertionError(f"{problem}; output:\n{result.output}")


def moment_problem(case: Case, old: Tree, new: Tree, now: Tree) -> str:
    """What is wrong with the files ``now`` of a killed run; empty if they are allowed.

    They are the old result, the new one, or nothing. A result of which files appear one by one may be incomplete while
    the file that is written last is absent or says so (``"complete": false``).
    """
    if now in ({}, old, new):
        return ""
    if not case.incremental:
        return f"neither nothing nor the old nor the new result: {sorted(now)}"
    if not case.finished:
        torn = [
            name
            for name, content in now.items()
            if content not in (new.get(name), old.get(name)) and _INCOMPLETE not in content
        ]
        return f"neither old nor new: {torn}" if torn else ""
    last = now.get(case.finished, b"")
    if not last or _INCOMPLETE in last:
        return ""
    for whole in (old, new):
        if last == whole.get(case.finished):
            wrong = [name for name in result_files(whole) if now.get(name) != whole[name]]
            return f"complete by {case.finished}, but different: {wrong}" if wrong else ""
    return f"{case.finished} is neither the old nor the new one"


def result_files(whole: Tree) -> list[str]:
    """The files of a result without those that only a resumed run reads."""
    return [name for name in whole if "/training/" not in name and "/progress/" not in name]


def compared(case: Case, folder: Tree) -> Tree:
    """The files that are compared."""
    return {name: content for name, content in folder.items() if not case.compared or re.search(case.compared, name)}


def files(folder: Tree) -> Tree:
    """A tree without its empty folders."""
    return {name: content for name, content in folder.items() if not name.endswith("/")}


def assert_same(now: Mapping[str, bytes], whole: Mapping[str, bytes]) -> None:
    """Raise with the names of the files that differ."""
    different = [name for name in sorted(now.keys() | whole.keys()) if now.get(name) != whole.get(name)]
    details = [f"{name}: {_difference(now.get(name), whole.get(name))}" for name in different]
    assert not different, "different at the end:\n" + "\n".join(details)


def _difference(now: bytes | None, whole: bytes | None) -> str:
    """The first different bytes of two files."""
    if now is None or whole is None:
        return "missing" if now is None else "should not be there"
    same = next((at for at, pair in enumerate(zip(now, whole, strict=False)) if pair[0] != pair[1]), len(now))
    start = max(0, same - 40)
    return f"{now[start : start + 120]!r}, not {whole[start : start + 120]!r}"


@contextlib.contextmanager
def repeatable(chain: Chain, name: str) -> Iterator[None]:
    """Name the chain of kills in an error."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{name}: {error}\nrepeat with {REPLAY}='{json.dumps(vars(chain))}'") from None
