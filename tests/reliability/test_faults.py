"""Writes that fail, two of one command at once, damaged input: one line says what, and nothing half-written stays."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reliability.commands import WRITERS, Case, Tree, World, assert_same, everything
from tests.reliability.processes import Result, Run, run_all, run_one
from tests.reliability.scale import FULL, damaged

JAVA = ("index", "search")
Faults = Callable[[Tree], list[dict[str, int]]]
"""From the files of an undisturbed run to ``faults`` of ``Run``."""
FAULTS: dict[str, tuple[tuple[str, ...], str, Faults]] = {
    "a file grows too large": (
        (*WRITERS, "search"), "free disk space",
        lambda files: [{"file_bytes": size} for size in (1, max(map(len, files.values())) // 2)],
    ),
    "the disk reports an error": (
        WRITERS[:2], "disk", lambda _: [{"fsync": number} for number in range(1, 9 if FULL else 3)],
    ),
    # torch and transformers have words of their own for it
    "no memory": (WRITERS[:2], "", lambda _: [{"memory_bytes": megabytes * 2**20} for megabytes in (16, 64)]),
}  # fmt: skip
"""Commands, what the line says, and the faults."""
PAIRS, SEARCHES = (6, 16) if FULL else (1, 2)
DAMAGES = 12 if FULL else 2
"""Damages of each file besides its removal, on average."""


def marked(*values: str) -> object:
    """A parameter, the last of which is a command; those with Java are marked."""
    return pytest.param(*values, marks=[pytest.mark.jvm] if values[-1] in JAVA else [])


# -- writes that fail --------------------------------------------------------------------------------------------------


def fails(result: Result, case: Case, whole: Tree, folder: Path, way_out: str) -> bool:
    """Whether the command ended with one line that matches ``way_out``; else it was not hit and ended well."""
    now = everything(folder / "out")
    if result.status == 0:
        assert now == whole, "reported success with another result"
        return False
    assert re.search(way_out, result.error()), result.output
    case.check_moment({}, whole, now, result.output)
    assert not [name for name in now if ".tmp" in name], f"temporary files stay: {sorted(now)}"
    return True


@pytest.mark.parametrize(("fault", "name"), [marked(fault, name) for fault, of in FAULTS.items() for name in of[0]])
def test_a_write_fails(fault: str, name: str, world: World, tmp_path: Path) -> None:
    _, way_out, make = FAULTS[fault]
    case = world.case(name)
    whole, failed = everything(world.result(case)), 0
    for number, faults in enumerate(make(whole)):
        (folder := tmp_path / str(number)).mkdir()
        failed += fails(run_one(case.run(folder, faults=faults)), case, whole, folder, way_out)
    assert failed


@pytest.mark.jvm
def test_java_runs_out_of_memory(world: World, tmp_path: Path) -> None:
    case, whole = world.case("index"), everything(world["index"])
    assert fails(run_one(case.run(tmp_path, "--heap 4m")), case, whole, tmp_path, "--heap")


# -- two at once -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replacing", [False, True])
@pytest.mark.parametrize("name", [marked(name) for name in WRITERS])
def test_two_of_one_command(name: str, replacing: bool, world: World, tmp_path: Path) -> None:
    """One wins; the other says that somebody writes here, or makes the same."""
    case = world.case(name)
    whole, draw = everything(world.result(case)), random.Random(name)
    for number in range(PAIRS):
        folder = tmp_path / str(number)
        folder.mkdir()
        if replacing:
            shutil.copytree(world[f"earlier-{name}"], folder / "out")
        more, delay = "--overwrite" if replacing else "", draw.uniform(0, 0.2)
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
        command = f"{SEARCH.format(topics=world['topics'])} --output run-{number}.txt"
        return Run(command=command.replace("--index index", "--index out/index"), folder=tmp_path, delay=delay)

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
        assert written.read_bytes() in expected if searched.status == 0 else searched.error() and not written.exists()


# -- damaged input -----------------------------------------------------------------------------------------------------

EXACT = "learned_sparse.search --backend exact --vectors vectors --query-vectors queries/queries.tsv"
SEARCH = "learned_sparse.search --index index --topics {topics}"
DAMAGED: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], str]] = {
    "vectors": (
        "learned_sparse.jsonvector prune --vectors vectors --output out/pruned --top-dimensions 3",
        ("encode/vectors",), ("vectors/manifest.json", "vectors/vectors/*1.*"), "-",
    ),
    "vectors and queries": (
        f"{EXACT} --output out/run.txt", ("encode/vectors", "queries/queries"),
        ("queries/[mq]*", "vectors/manifest.json", "vectors/vectors/*1.*"), "manifest.json",
    ),
    "index": (
        f"{SEARCH} --output out/run.txt", ("index/index",),
        ("index/*",) if FULL else ("index/learned_sparse.json", "index/*.doc"), "-",
    ),
}  # fmt: skip
"""A command, its inputs, the files of them that are damaged, and how the names end of those that may be removed."""


@pytest.mark.parametrize("name", [marked(name) for name in DAMAGED])
def test_damaged_files(name: str, world: World, tmp_path: Path) -> None:
    """Each file that is not empty: the command says so in one line, or the damage is in bytes that change nothing."""
    command, inputs, patterns, harmless = DAMAGED[name]
    case, work, whole = Case(name=name, command=command.format(topics=world["topics"])), tmp_path / "work", Tree()

    def notices(damage: Callable[[], object]) -> bool:
        shutil.rmtree(work, ignore_errors=True)
        for path in inputs:
            source, _, folder = path.partition("/")
            shutil.copytree(world[source] / folder, work / folder)
        damage()
        result = run_one(case.run(work))
        if result.status:
            return bool(result.error())
        assert not whole or everything(work / "out") == whole, "not noticed"
        return False

    assert not notices(lambda: None)
    whole.update(everything(work / "out"))
    paths = [path for pattern in patterns for path in work.glob(pattern) if path.is_file()]
    contents = {path: content for path in sorted(paths) if (content := path.read_bytes())}
    assert whole
    assert contents
    for file in contents:
        assert notices(file.unlink) or file.name.endswith(harmless), f"{file}: its removal is not noticed"

    @settings(max_examples=DAMAGES * len(contents), suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(list(contents)).flatmap(lambda file: st.tuples(st.just(file), damaged(contents[file]))))
    def check(change: tuple[Path, bytes]) -> None:
        notices(lambda: change[0].write_bytes(change[1]))

    check()
