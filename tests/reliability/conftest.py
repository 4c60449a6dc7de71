"""Toy data with a result of each command, for the reliability tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.commands import World


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory, tiny_headless: Path) -> World:
    """Toy data and what the commands make of it."""
    return World(tmp_path_factory.mktemp("reliability"), tiny_headless)
