"""Two of one command at once, and searches while the index is replaced: each result is one of the whole ones."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.reliability.commands import World, assert_same, everything
from tests.reliability.processes import Run, run_all, run_one
from tests.reliability.scale import FULL

PAIRS = 6 if FULL else 1
SEARCHES = 16 if FULL else 2
COMMANDS = ["train", "encode", pytest.param("index", marks=pytest.mark.jvm)]


@pytest.mark.parametrize("replacing", [False, True])
@pytest.mark.parametrize("name", COMMANDS)
def test_two_of_one_command(name: str, replacing: bool, world: World, tmp_path: Path) -> None:
    """One wins; the other says that somebody writes here, or makes the same."""
    case = world.case(name)
    whole, draw = everything(world.result(case)), random.Random(name)
    for number in range(PAIRS):
        folder = tmp_path / str(number)
        folder.mkdir()
        if replacing:
            shutil.copytree(world[f"earlier-{name}"], folder / "out")
        more, delay = case.replace if replacing else "", draw.uniform(0, 0.2)
        results = run_all(case.run(folder, more), case.run(folder, more, delay=delay))
        assert any(result.status == 0 for result in results), f"delay {delay}: {results}"
        assert all(result.status == 0 or result.error() for result in results)
        assert_same(everything(folder / "out"), whole, f"with delay {delay}")


@pytest.mark.jvm
def test_searches_while_the_index_is_replaced(world: World, tmp_path: Path) -> None:
    """A search has the hits of the old index or of the new one, or says in one line that there is none."""
    cases, draw = (world.case("earlier-index"), world.case("index")), random.Random("searches")
    shutil.copytree(world.result(cases[0]), tmp_path / "out")

    def search(number: int, delay: float = 0.0) -> Run:
        arguments = ("--index", "out/index", "--topics", str(world["topics"]), "--output", f"run-{number}.txt")
        return Run(module="learned_sparse.search", arguments=arguments, folder=tmp_path, delay=delay)

    expected = []
    for case in cases:
        for run in (case.run(tmp_path, "--overwrite"), search(0)):
            result = run_one(run)
            assert result.status == 0, result.output
        expected.append((tmp_path / "run-0.txt").read_bytes())
    assert expected[0] != expected[1]
    for number in range(1, SEARCHES + 1):
        replacing = cases[number % 2].run(tmp_path, "--overwrite")
        replaced, searched = run_all(replacing, search(number, draw.uniform(0, 1.5)))
        assert replaced.status == 0, replaced.output
        written = tmp_path / f"run-{number}.txt"
        if searched.status == 0:
            assert written.read_bytes() in expected
        else:
            assert searched.error()
            assert not written.exists()
