"""Commands on a cluster of two nodes give the bytes of one process, whichever process is killed."""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eval.reproduce.runner import Runner, on_cluster
from eval.reproduce.steps import Step, is_done
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.encode import __main__ as encode
from learned_sparse.jsonvector.manifest import Manifest
from learned_sparse.lucene.jvm import start_jvm
from learned_sparse.ray import Engine, Resources
from tests.learned_sparse.input_files import files, write_texts
from tests.ray_nodes import Nodes

COUNT = 400


@pytest.fixture(scope="module")
def cluster_of_nodes() -> Iterator[Nodes]:
    """The Ray cluster, started once."""
    nodes = Nodes()
    yield nodes
    nodes.shutdown()


@pytest.fixture
def nodes(cluster_of_nodes: Nodes) -> Nodes:
    """Both nodes of the cluster, alive."""
    cluster_of_nodes.restore()
    return cluster_of_nodes


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    texts = [f"w{number % 5} w{number % 3} w{number % 7}" for number in range(COUNT)]
    return write_texts(tmp_path / "corpus.jsonl", texts)


def encode_with(tiny: Path, corpus: Path, output: Path, *more: str) -> Path:
    words = ["--checkpoint", str(tiny), "--model", "tiny", "--input", str(corpus), "--output", str(output)]
    assert encode.main([*words, "--part-size", "5", "--bits", "8", "--dtype", "fp32", "--device", "cpu", *more]) == 0
    return output


def on(nodes: Nodes) -> list[str]:
    return ["--engine", "ray", "--address", nodes.address, "--workers", "2"]


def test_a_node_killed_in_the_middle(nodes: Nodes, tiny_bert: Path, corpus: Path, tmp_path: Path) -> None:
    output, killed = tmp_path / "ray", threading.Event()
    segments = ["--segment-length", "2", "--segment-overlap", "1"]

    def kill() -> None:
        while not all(list(output.glob(f"shards/{shard}-of-2/progress/part-*.json")) for shard in range(2)):
            time.sleep(0.002)
        nodes.kill()
        killed.set()

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    encode_with(tiny_bert, corpus, output, *on(nodes), *segments)
    assert killed.is_set()
    one = encode_with(tiny_bert, corpus, tmp_path / "one", *segments)
    assert files(output) == files(one)
    assert Manifest.load(one).counts.segmented == COUNT
    encode_with(tiny_bert, corpus, output, "--resume", *on(nodes), *segments)  # is complete: nothing is encoded again
    assert files(output) == files(one)


def test_an_error_in_a_shard(nodes: Nodes, corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match=r"nowhere: no such folder.*--shard-id . --output"):
        encode_with(tmp_path / "nowhere", corpus, tmp_path / "ray", *on(nodes))


@pytest.mark.usefixtures("nodes")
def test_clusters_that_do_not_answer() -> None:
    for address in ("127.0.0.1:9", "ray://10.0.0.1:10001", "host"):
        with pytest.raises(LearnedSparseError, match="no Ray answers there"), Engine(address=address).tasks():
            pass


def test_steps_of_a_leaderboard(nodes: Nodes, tiny_bert: Path, corpus: Path, tmp_path: Path, tmp_home: Path) -> None:
    vectors = encode_with(tiny_bert, corpus, tmp_path / "vectors")

    def step(name: str, source: Path, *needs: Step) -> Step:
        words = ("prune", "--vectors", str(source), "--output", str(tmp_home / name), "--top-dimensions", "1")
        return Step(
            name=name, kind="prepare", module="learned_sparse.jsonvector", arguments=words, needs=needs,
            output=tmp_home / name,
        )  # fmt: skip

    first = step("first", vectors)
    second, broken = step("second", tmp_home / "first", first), step("broken", tmp_path)
    steps = [first, second, broken]
    with nodes.engine.tasks() as tasks:
        runner = Runner(steps, partial(on_cluster, tasks))
        runner.run(jobs=4)
    assert [is_done(one) for one in steps] == [True, True, False]
    assert Manifest.load(tmp_home / "second").complete
    assert "exit status 2" in runner.failed[broken]
    assert "manifest.json is missing" in runner.failed[broken]


@pytest.mark.jvm
def test_handlers_of_faults_and_signals_stay(nodes: Nodes) -> None:
    def fault() -> bytes:
        action = ctypes.create_string_buffer(256)
        ctypes.CDLL(None).sigaction(signal.SIGSEGV, None, action)
        return action.raw[:16]

    start_jvm()
    before = fault(), signal.getsignal(signal.SIGTERM)
    with nodes.engine.connected():
        assert (fault(), signal.getsignal(signal.SIGTERM)) == before
    assert (fault(), signal.getsignal(signal.SIGTERM)) == before


GPU_NODE, NODE, HEAD = {"CPU": 16.0, "GPU": 4.0}, {"CPU": 6.0}, {"CPU": 0.0}


def cluster(*nodes: dict[str, float]) -> Any:
    """A stand-in for the module ``ray`` that knows its nodes; the last one has died."""
    listed = [{"Alive": True, "Resources": node} for node in nodes] + [{"Alive": False, "Resources": GPU_NODE}]
    return SimpleNamespace(nodes=lambda: listed)


@pytest.mark.parametrize(
    ("nodes", "engine", "share"),
    [
        ((HEAD, GPU_NODE, GPU_NODE), Engine(), (8, 4, 1)),
        ((GPU_NODE, NODE), Engine(gpus_per_worker=0.5), (8, 2, 0.5)),
        ((GPU_NODE, NODE), Engine(workers=2), (2, 8, 1)),
        ((GPU_NODE, NODE), Engine(workers=3, gpus_per_worker=0), (3, 6, 0)),
        ((HEAD, NODE, NODE), Engine(), (2, 6, 0)),
        ((NODE, NODE), Engine(workers=5), (5, 2, 0)),
        ((GPU_NODE,), Engine(gpus_per_worker=2), (2, 8, 2)),
        ((NODE,), Engine(workers=7), "7 workers with 1 processor and 0 GPUs each do not fit into the 1 nodes"),
        ((NODE,), Engine(gpus_per_worker=1), "1 workers with 1 processor and 1 GPUs each do not fit"),
        ((GPU_NODE,), Engine(gpus_per_worker=8), r"\(16 processors, 4 GPUs\)"),
        ((GPU_NODE,), Engine(gpus_per_worker=1.5), "give a whole number, or a share below 1"),
    ],
)
def test_the_largest_equal_share(nodes: Any, engine: Engine, share: tuple[int, int, float] | str) -> None:
    if isinstance(share, str):
        with pytest.raises(LearnedSparseError, match=share):
            engine.share(cluster(*nodes))
    else:
        assert engine.share(cluster(*nodes)) == (share[0], Resources(cpus=share[1], gpus=share[2]))
