"""Commands that use Java, and a leaderboard, are killed at any moment, as in ``test_kills.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.commands import Server, World
from tests.reliability.killing import Killing
from tests.reliability.scale import KILLS


@pytest.mark.jvm
@pytest.mark.parametrize("name", ["index", "reproduce"])
def test_killed_java_commands_leave_a_whole_result(
    name: str, world: World, server: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    Killing(getattr(world, name)(), world, server, tmp_path / "work").run(KILLS, request.node.nodeid)
