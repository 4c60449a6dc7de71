"""Toy data with a result of each command, for the reliability tests, and the time of all these tests."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.reliability.commands import Server, World
from tests.reliability.scale import record

STARTED = pytest.StashKey[float]()


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory, tiny_headless: Path, server: Server) -> World:
    """Toy data and what the commands make of it."""
    return World(tmp_path_factory.mktemp("reliability"), tiny_headless, server)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Note the time, for ``pytest_sessionfinish``."""
    session.config.stash[STARTED] = time.monotonic()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Record the time of the whole run, in the process that starts the others."""
    if not hasattr(session.config, "workerinput") and STARTED in session.config.stash:
        seconds = round(time.monotonic() - session.config.stash[STARTED])
        record("time", "all tests", seconds, "seconds", "tests/reliability")
