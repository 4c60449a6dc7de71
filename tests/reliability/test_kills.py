"""Commands that write files are killed at any moment: nothing half-written stays, and given again they end the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.commands import Server, World
from tests.reliability.killing import Killing
from tests.reliability.scale import KILLS


@pytest.mark.parametrize("name", ["train", "encode", "prune"])
def test_killed_commands_leave_a_whole_result(
    name: str, world: World, server: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    Killing(getattr(world, name)(), world, server, tmp_path / "work").run(KILLS, request.node.nodeid)
