"""Commands that write are killed at any moment: nothing half-written stays, and given again they end the same."""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.commands import World, assert_same, everything, is_temporary
from tests.reliability.processes import Result, run_one
from tests.reliability.scale import FULL

ENDINGS = {signal.SIGKILL: {-9}, signal.SIGTERM: {-15, 130, 143}, signal.SIGINT: {130}}
"""Exit statuses after each signal; 130 and 143 are those of a command that handles it, -15 comes before."""
CHAINS = {"train": (1, 24), "encode": (2, 24), "index": (0, 16)}
"""How many chains of kills each command with a writer of its own gets in CI, and in a whole run."""
KILLED = [
    pytest.param(name, number, marks=[pytest.mark.jvm] if name == "index" else [])
    for name, chains in CHAINS.items()
    for number in range(chains[FULL])
]


@pytest.mark.parametrize(("name", "number"), KILLED)
def test_a_killed_command_leaves_a_whole_result(name: str, number: int, world: World, tmp_path: Path) -> None:
    """Each of three runs in the same folder is killed by another signal, then one is left in peace.

    In odd chains the command replaces an earlier result.
    """
    case, draw, kills, old, more = world.case(name), random.Random(f"{name} {number}"), [], {}, ""
    new = everything(world.result(case))
    if number % 2:
        before = shutil.copytree(world[f"earlier-{name}"], tmp_path / "out", symlinks=True)
        old, more = everything(before), "--overwrite"
    for place in range(3):
        kill = draw_kill(draw, list(ENDINGS)[(number + place) % 3], world.undisturbed(case), timed=place > 0)
        result = run_one(case.run(tmp_path, more, **kill))
        kills.append(kill)
        assert not result.hung, kills
        assert result.status in ENDINGS[kill["signal"]] | {0}, f"{kills}: {result.output}"
        assert "Traceback" not in result.output, f"{kills}: {result.output}"
        case.check_moment(old, new, everything(tmp_path / "out"), f"after {kills}; output:\n{result.output}")
        more = more or case.again
        if result.status == 0:  # it ended before the kill
            break
    result = run_one(case.run(tmp_path, more))
    assert result.status == 0, f"{kills}: {result.output}"
    assert_same(everything(tmp_path / "out"), new, f"after {kills}")
    assert not any(map(is_temporary, everything(tmp_path))), f"temporary files after {kills}: {[*everything(tmp_path)]}"


def draw_kill(draw: random.Random, number: signal.Signals, undisturbed: Result, *, timed: bool) -> dict[str, Any]:
    """A kill before a file operation, or half of the time at any time if it may be ``timed``, which reaches Java."""
    if not timed or draw.random() < 0.5:
        return {"signal": number, "event": draw.randint(1, undisturbed.events)}
    return {"signal": number, "after": round(draw.uniform(0, undisturbed.seconds), 4)}
