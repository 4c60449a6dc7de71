"""Damaged input: the command says so in one line, or the damage is in bytes that change nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.reliability.commands import Case, World, everything
from tests.reliability.processes import run_one
from tests.reliability.scale import FULL, damaged

DAMAGES = settings(max_examples=12 if FULL else 2, suppress_health_check=list(HealthCheck))
"""Damages of each file besides its removal."""


class Damaged:
    """A command whose inputs are copied to the working directory, where they can be damaged."""

    def __init__(self, folder: Path, command: str, *inputs: Path) -> None:
        self._folder, self._inputs = folder / "work", inputs
        self._case = Case(name=command, command=command)
        assert not self.notices(lambda _: None)
        self._whole = everything(self._folder / "out")
        assert self._whole

    def try_all(self, *patterns: str, harmless: str = "-") -> None:
        """Damage every file that is not empty; those that end in ``harmless`` may be removed."""
        paths = [path for pattern in patterns for path in self._folder.glob(pattern) if path.is_file()]
        contents = {str(path.relative_to(self._folder)): content for path in paths if (content := path.read_bytes())}
        assert contents
        for name, content in sorted(contents.items()):
            self._try(name, content, may_be_removed=name.endswith(harmless))

    def _try(self, name: str, content: bytes, *, may_be_removed: bool) -> None:
        removed = self.notices(lambda folder: (folder / name).unlink())
        assert removed or may_be_removed, f"{name}: its removal is not noticed"

        @DAMAGES
        @given(damaged(content))
        def check(changed: bytes) -> None:
            self.notices(lambda folder: (folder / name).write_bytes(changed))

        check()

    def notices(self, damage: Callable[[Path], object]) -> bool:
        """Whether the ``damage`` is refused in one line; raises if it changes the result."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        for path in self._inputs:
            (shutil.copytree if path.is_dir() else shutil.copy)(path, self._folder / path.name)
        damage(self._folder)
        result = run_one(self._case.run(self._folder))
        if result.status:
            return bool(result.error())
        assert not hasattr(self, "_whole") or everything(self._folder / "out") == self._whole, "not noticed"
        return False


PRUNE = "learned_sparse.jsonvector prune --vectors vectors --output out/pruned --top-dimensions 3"


def test_vectors(world: World, tmp_path: Path) -> None:
    damaged = Damaged(tmp_path, PRUNE, world["encode"] / "vectors")
    damaged.try_all("vectors/manifest.json", "vectors/vectors/*1.*")


def test_vectors_and_queries_of_exact_search(world: World, tmp_path: Path) -> None:
    inputs = [world["encode"] / "vectors", world["queries"] / "queries"]
    command = "learned_sparse.search --backend exact --vectors vectors --query-vectors queries/queries.tsv"
    damaged = Damaged(tmp_path, f"{command} --output out/run.txt", *inputs)
    damaged.try_all("queries/[mq]*", "vectors/manifest.json", "vectors/vectors/*1.*", harmless="manifest.json")


@pytest.mark.jvm
def test_index(world: World, tmp_path: Path) -> None:
    command = f"learned_sparse.search --index index --topics {world['topics']} --output out/run.txt"
    damaged = Damaged(tmp_path, command, world["index"] / "index")
    files = ["index/*"] if FULL else ["index/learned_sparse.json", "index/*.doc"]
    damaged.try_all(*files)


def test_parts_of_another_run(world: World, tmp_path: Path) -> None:
    mine, others = (world[name] / "vectors" for name in ("encode", "earlier-encode"))
    damaged = Damaged(tmp_path, PRUNE, mine)
    first, second, third, *_ = sorted(path.relative_to(mine.parent) for path in (mine / "vectors").iterdir())

    def swap(work: Path) -> None:
        shutil.move(work / first, work / "other")
        shutil.move(work / second, work / first)
        shutil.move(work / "other", work / second)

    assert damaged.notices(swap)
    assert damaged.notices(lambda work: shutil.copy(others / "manifest.json", work / "vectors"))
    assert damaged.notices(lambda work: (work / third).unlink())
    assert damaged.notices(lambda work: shutil.copy(work / first, (work / first).with_name("part-00099.jsonl.gz")))
