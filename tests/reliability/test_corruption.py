"""Damaged input: the command says so in one line, or the damage is in bytes that change nothing."""

from __future__ import annotations

import gzip
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reliability.commands import Case, Server, World, everything
from tests.reliability.scale import FULL

DAMAGES = 12 if FULL else 2
"""Damages of each file besides its removal: two thirds are single bits, the others are cuts."""
Damage = Callable[[Path], object]


class Damaged:
    """A command whose inputs are copied to the working directory, where they can be damaged."""

    def __init__(self, server: Server, folder: Path, command: str, *inputs: Path) -> None:
        self._server, self._folder, self._inputs = server, folder / "work", inputs
        self._case = Case(name=command, command=command)
        assert not self.notices("", lambda _: None)
        self._whole = everything(self._folder / "out")
        assert self._whole

    def try_all(self, *patterns: str, harmless: str = "-") -> None:
        """Damage every file that is not empty; those that end in ``harmless`` may be removed."""
        paths = [path for pattern in patterns for path in self._folder.glob(pattern) if path.is_file()]
        names = sorted(str(path.relative_to(self._folder)) for path in paths if path.stat().st_size)
        assert names
        for name in names:
            noticed = [self.notices(name, damage) for damage in damages(name)]
            assert noticed[0] or name.endswith(harmless), f"{name}: its removal is not noticed"

    def notices(self, name: str, damage: Damage) -> bool:
        """Whether the ``damage`` to the file ``name`` is refused in one line; raises if it changes the result."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        for path in self._inputs:
            (shutil.copytree if path.is_dir() else shutil.copy)(path, self._folder / path.name)
        what = damage(self._folder / name)
        (result,) = self._server.run(self._case.run(self._folder))
        if result.status:
            return bool(result.error())
        assert not name or everything(self._folder / "out") == self._whole, f"{name}, {what}: not noticed"
        return False


def damages(name: str) -> list[Damage]:
    """The removal of the file ``name``, and damages that are the same at each call."""
    draw = random.Random(name)

    def flip(position: float, bit: int) -> Damage:
        def damage(path: Path) -> str:
            content = bytearray(path.read_bytes())
            at = int(position * len(content))
            content[at] ^= 1 << bit
            path.write_bytes(content)
            return f"bit {bit} of byte {at}"

        return damage

    def cut(share: float) -> Damage:
        def damage(path: Path) -> str:
            content = path.read_bytes()[: int(share * path.stat().st_size)]
            path.write_bytes(content)
            return f"cut to {len(content)} bytes"

        return damage

    draws = [(draw.random(), draw.randrange(8)) for _ in range(DAMAGES)]
    return [Path.unlink, *(cut(at) if number % 3 == 1 else flip(at, bit) for number, (at, bit) in enumerate(draws))]


PRUNE = "learned_sparse.jsonvector prune --vectors vectors --output out/pruned --top-dimensions 3"
ENCODE = "learned_sparse.encode --model tiny --output out/vectors --device cpu --dtype fp32"


def test_vectors(world: World, server: Server, tmp_path: Path) -> None:
    damaged = Damaged(server, tmp_path, PRUNE, world.result(world.encode()) / "vectors")
    damaged.try_all("vectors/manifest.json", "vectors/vectors/*1.*")


def test_vectors_and_queries_of_exact_search(world: World, server: Server, tmp_path: Path) -> None:
    inputs = [world.result(world.encode()) / "vectors", world.result(world.queries()) / "queries"]
    command = "learned_sparse.search --backend exact --vectors vectors --query-vectors queries/queries.tsv"
    damaged = Damaged(server, tmp_path, f"{command} --output out/run.txt", *inputs)
    damaged.try_all("queries/[mq]*", "vectors/manifest.json", "vectors/vectors/*1.*", harmless="manifest.json")


def test_checkpoint(world: World, server: Server, tmp_path: Path) -> None:
    model = shutil.copytree(world.checkpoint, tmp_path / "model", ignore=shutil.ignore_patterns("training"))
    command = f"{ENCODE} --checkpoint model --input {world.collection}/corpus.jsonl"
    damaged = Damaged(server, tmp_path, command, model)
    damaged.try_all("model/*.json", "model/towers/*/*")


def test_compressed_documents(world: World, server: Server, tmp_path: Path) -> None:
    packed = tmp_path / "corpus.jsonl.gz"
    packed.write_bytes(gzip.compress((world.collection / "corpus.jsonl").read_bytes(), mtime=0))
    damaged = Damaged(server, tmp_path, f"{ENCODE} --checkpoint {world.checkpoint} --input corpus.jsonl.gz", packed)
    damaged.try_all(packed.name)


def test_training_state(world: World, server: Server, tmp_path: Path) -> None:
    server.run(world.train().run(tmp_path, "--max-seconds 0"))
    damaged = Damaged(server, tmp_path, f"{world.train().command} --resume", tmp_path / "out")
    damaged.try_all("out/model/training/state/state.json")


@pytest.mark.jvm
def test_index(world: World, server: Server, tmp_path: Path) -> None:
    command = f"learned_sparse.search --index index --topics {world.topics} --output out/run.txt"
    damaged = Damaged(server, tmp_path, command, world.result(world.index()) / "index")
    files = ["index/*"] if FULL else ["index/learned_sparse.json", "index/*.doc"]
    damaged.try_all(*files)


def test_parts_of_another_run(world: World, server: Server, tmp_path: Path) -> None:
    mine, others = (world.result(world.encode(bits)) / "vectors" for bits in (8, 4))
    damaged = Damaged(server, tmp_path, PRUNE, mine)
    first, second, third, *_ = sorted(path.name for path in (mine / "vectors").iterdir())

    def swap(folder: Path) -> None:
        shutil.move(folder / first, folder / "other")
        shutil.move(folder / second, folder / first)
        shutil.move(folder / "other", folder / second)

    changes: dict[str, Damage] = {
        "two parts change places": swap,
        "the manifest of another run": lambda folder: shutil.copy(others / "manifest.json", folder.parent),
        "a part is lost": lambda folder: (folder / third).unlink(),
        "one part more": lambda folder: shutil.copy(folder / first, folder / "part-00099.jsonl.gz"),
    }
    assert [what for what, change in changes.items() if not damaged.notices("vectors/vectors", change)] == []
