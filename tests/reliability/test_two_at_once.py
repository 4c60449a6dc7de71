"""Two of one command at once, and searches while the index is replaced: each result is one of the whole ones."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.reliability.commands import Run, Server, World, everything
from tests.reliability.killing import assert_same
from tests.reliability.scale import FULL, record

PAIRS = 20 if FULL else 1
SEARCHES = 60 if FULL else 4
COMMANDS = [
    *((name, replacing) for name in ("train", "encode") for replacing in (False, True)),
    *(pytest.param(name, replacing, marks=pytest.mark.jvm)
      for name in ("index",) for replacing in (False, True)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "replacing"), COMMANDS)
def test_two_of_one_command(
    name: str, replacing: bool, world: World, server: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    case = getattr(world, name)()
    if replacing:
        assert case.replace or case.before
    whole, draw = everything(world.result(case)), random.Random(name)
    for number in range(PAIRS):
        folder = tmp_path / str(number)
        folder.mkdir()
        if replacing and case.before:
            world.copy_result(case.before, folder)
        more = case.replace if replacing else ()
        delay = draw.uniform(0, 0.2)
        results = server.run(case.run(folder, *more), case.run(folder, *more, delay=delay))
        for result in results:
            assert not result.hung
            errors = [line for line in result.output.splitlines() if line.startswith("error: ")]
            assert (result.status, len(errors)) in {(0, 0), (2, 1)}, f"delay {delay}: {result.output}"
        assert any(result.status == 0 for result in results), f"delay {delay}: {results}"
        assert_same(everything(folder / "out"), whole)
    record("race", case.name, PAIRS, "one wins, the other says so or does the same", request.node.nodeid)


@pytest.mark.jvm
def test_searches_while_the_index_is_replaced(
    world: World, server: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    old, new, draw = world.index(4), world.index(), random.Random("searches")
    shutil.copytree(world.result(old), tmp_path / "out")

    def search(number: int, delay: float = 0.0) -> Run:
        arguments = ("--index", "out/index", "--topics", str(world.topics), "--output", f"run-{number}.txt")
        return Run(module="learned_sparse.search", arguments=arguments, folder=tmp_path, delay=delay)

    expected = []
    for case in (old, new):
        (result, again) = (server.run(run)[0] for run in (case.run(tmp_path, "--overwrite"), search(0)))
        assert (result.status, again.status) == (0, 0), result.output + again.output
        expected.append((tmp_path / "run-0.txt").read_bytes())
    assert expected[0] != expected[1]
    outcomes = []
    for number in range(1, SEARCHES + 1):
        replacing = (old, new)[number % 2].run(tmp_path, "--overwrite")
        results = server.run(replacing, search(number, draw.uniform(0, 1.5)))
        assert results[0].status == 0, results[0].output
        if results[1].status == 0:
            outcomes.append(expected.index((tmp_path / f"run-{number}.txt").read_bytes()))
        else:
            errors = [line for line in results[1].output.splitlines() if line.startswith("error: ")]
            assert (results[1].status, len(errors)) == (2, 1), results[1].output
            assert not (tmp_path / f"run-{number}.txt").exists()
    outcome = f"{outcomes.count(0)} old runs, {outcomes.count(1)} new runs, the others one line"
    record("race", "search while index is replaced", SEARCHES, outcome, request.node.nodeid)
