"""Damaged input: the command says so in one line, or the damage is in bytes that change nothing."""

from __future__ import annotations

import gzip
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.reliability.commands import Case, Server, Tree, World, everything
from tests.reliability.scale import FULL, record

DAMAGES = 40 if FULL else 3
"""Damages of each file: two thirds are single bits, the others are cuts."""


class Damaged:
    """A command whose input is in the working directory, where it can be damaged."""

    def __init__(self, server: Server, folder: Path, case: Case, inputs: Sequence[Path], reads: Sequence[str]) -> None:
        """``inputs`` are copied to ``folder``; ``reads`` are patterns of the files below it that are damaged."""
        self._server, self._folder, self.case, self._inputs = server, folder, case, inputs
        self._copy()
        self.files = sorted(
            str(path.relative_to(folder))
            for pattern in reads
            for path in folder.glob(pattern)
            if path.is_file() and path.stat().st_size
        )
        (result,) = server.run(case.run(folder))
        assert result.status == 0, result.output
        self._whole = self._output()
        assert self.files

    def check(self, name: str, damage: Callable[[Path], str]) -> bool:
        """Whether the ``damage`` to the file ``name`` is noticed; raises if it changes the result."""
        self._copy()
        what = damage(self._folder / name)
        (result,) = self._server.run(self.case.run(self._folder))
        assert not result.hung
        if result.status == 0:
            now = self._output()
            different = [path for path in now.keys() | self._whole.keys() if now.get(path) != self._whole.get(path)]
            assert not different, f"{name}: {what}: not noticed, and {sorted(different)} differ"
            return False
        errors = [line for line in result.output.splitlines() if line.startswith("error: ")]
        assert (result.status, len(errors)) == (2, 1), f"{name}: {what}: {result.output}"
        assert "Traceback" not in result.output, f"{name}: {what}: {result.output}"
        return True

    def _copy(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        for path in self._inputs:
            (shutil.copytree if path.is_dir() else shutil.copy)(path, self._folder / path.name)

    def _output(self) -> Tree:
        return everything(self._folder / "out")


def flip(position: float, bit: int) -> Callable[[Path], str]:
    """Change one bit at a share of the length of the file."""

    def damage(path: Path) -> str:
        content = bytearray(path.read_bytes())
        where = int(position * len(content))
        content[where] ^= 1 << bit
        path.write_bytes(content)
        return f"bit {bit} of byte {where}"

    return damage


def cut(share: float) -> Callable[[Path], str]:
    """Cut the file at a share of its length."""

    def damage(path: Path) -> str:
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])
        return f"cut to {int(share * len(content))} bytes"

    return damage


def remove(path: Path) -> str:
    """Remove the file."""
    path.unlink()
    return "removed"


def damages(name: str, count: int) -> list[Callable[[Path], str]]:
    """``count`` damages of the file ``name``, the same at each call, and its removal."""
    draw = random.Random(name)
    return [
        remove, *(cut(draw.random()) if number % 3 == 2 else flip(draw.random(), draw.randrange(8))
                  for number in range(count)),
    ]  # fmt: skip


def try_all(damaged: Damaged, test: str, *, harmless: Sequence[str] = ()) -> None:
    """Damage every file; files that end in ``harmless`` may be removed."""
    for name in damaged.files:
        noticed = [damaged.check(name, damage) for damage in damages(name, DAMAGES)]
        assert noticed[0] or name.endswith(tuple(harmless)), f"{name}: its removal is not noticed"
        outcome = f"{sum(noticed)} noticed, the others without effect"
        record("corruption", f"{damaged.case.name} reads {Path(name).name}", len(noticed), outcome, test)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "work"


def test_vectors(world: World, server: Server, work: Path, request: pytest.FixtureRequest) -> None:
    vectors = world.result(world.encode()) / "vectors"
    arguments = ("prune", "--vectors", "vectors", "--output", "out/pruned", "--top-dimensions", "3")
    case = Case(name="prune", module="learned_sparse.jsonvector", arguments=arguments)
    reads = ["vectors/manifest.json", "vectors/vectors/*1.*"]
    try_all(Damaged(server, work, case, [vectors], reads), request.node.nodeid)


def test_vectors_and_queries_of_exact_search(
    world: World, server: Server, work: Path, request: pytest.FixtureRequest
) -> None:
    inputs = [world.result(world.encode()) / "vectors", world.result(world.queries()) / "queries"]
    arguments = ("--vectors", "vectors", "--query-vectors", "queries/queries.tsv", "--output", "out/run.txt")
    case = Case(name="exact", module="learned_sparse.search", arguments=("--backend", "exact", *arguments))
    reads = ["vectors/manifest.json", "vectors/vectors/*1.*", "queries/manifest.json", "queries/queries.tsv"]
    try_all(Damaged(server, work, case, inputs, reads), request.node.nodeid, harmless=["manifest.json"])


def test_checkpoint(world: World, server: Server, work: Path, request: pytest.FixtureRequest) -> None:
    shutil.copytree(world.checkpoint, work.with_name("model"), ignore=shutil.ignore_patterns("training"))
    arguments = ("--model", "tiny", "--checkpoint", "model", "--input", str(world.collection / "corpus.jsonl"))
    case = Case(
        name="encode", module="learned_sparse.encode",
        arguments=(*arguments, "--output", "out/vectors", "--device", "cpu", "--dtype", "fp32"),
    )  # fmt: skip
    reads = ["model/learned_sparse.json", "model/*.json", "model/towers/*/*"]
    try_all(Damaged(server, work, case, [work.with_name("model")], reads), request.node.nodeid)


def test_compressed_documents(world: World, server: Server, work: Path, request: pytest.FixtureRequest) -> None:
    packed = work.with_name("corpus.jsonl.gz")
    packed.write_bytes(gzip.compress((world.collection / "corpus.jsonl").read_bytes(), mtime=0))
    case = Case(
        name="encode", module="learned_sparse.encode",
        arguments=(
            "--model", "tiny", "--checkpoint", str(world.checkpoint), "--input", "corpus.jsonl.gz", "--output",
            "out/vectors", "--device", "cpu", "--dtype", "fp32",
        ),
    )  # fmt: skip
    try_all(Damaged(server, work, case, [packed], ["corpus.jsonl.gz"]), request.node.nodeid)


def test_training_state(world: World, server: Server, work: Path, request: pytest.FixtureRequest) -> None:
    case = world.train()
    interrupted = work.with_name("out")
    folder = work.with_name("first")
    folder.mkdir()
    server.run(case.run(folder, "--max-seconds", "0"))
    shutil.move(folder / "out", interrupted)
    resumed = Case(name="train --resume", module=case.module, arguments=(*case.arguments, "--resume"))
    reads = ["out/model/training/state/state.json"]
    try_all(Damaged(server, work, resumed, [interrupted], reads), request.node.nodeid)


@pytest.mark.jvm
def test_index(world: World, server: Server, work: Path, request: pytest.FixtureRequest) -> None:
    index = world.result(world.index()) / "index"
    arguments = ("--index", "index", "--topics", str(world.topics), "--output", "out/run.txt")
    case = Case(name="search", module="learned_sparse.search", arguments=arguments)
    reads = ["index/*"] if FULL else ["index/learned_sparse.json", "index/*.doc"]
    try_all(Damaged(server, work, case, [index], reads), request.node.nodeid)


def test_parts_of_another_run(world: World, server: Server, work: Path, request: pytest.FixtureRequest) -> None:
    mine, others = (world.result(world.encode(bits)) / "vectors" for bits in (8, 4))
    arguments = ("prune", "--vectors", "vectors", "--output", "out/pruned", "--top-dimensions", "3")
    case = Case(name="prune", module="learned_sparse.jsonvector", arguments=arguments)
    damaged = Damaged(server, work, case, [mine], ["vectors/manifest.json"])
    parts = sorted(path.name for path in (mine / "vectors").iterdir())

    def swap(manifest: Path) -> str:
        first, second = (manifest.parent / "vectors" / name for name in parts[:2])
        first.rename(first.with_suffix(".other"))
        second.rename(first)
        first.with_suffix(".other").rename(second)
        return "two parts change places"

    def replace_manifest(manifest: Path) -> str:
        shutil.copy(others / "manifest.json", manifest)
        return "the manifest of another run"

    def lose_part(manifest: Path) -> str:
        return remove(manifest.parent / "vectors" / parts[2])

    def add_part(manifest: Path) -> str:
        shutil.copy(manifest.parent / "vectors" / parts[0], manifest.parent / "vectors" / "part-00099.jsonl.gz")
        return "one part more"

    for damage in (swap, replace_manifest, lose_part, add_part):
        assert damaged.check("vectors/manifest.json", damage), damage.__name__
    record("corruption", "parts of another run", 4, "4 noticed", request.node.nodeid)
