"""Number and size of the workers that fit into a cluster, and options that cannot be meant."""

from __future__ import annotations

import argparse
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from learned_sparse.core import LearnedSparseError
from learned_sparse.distribute import Engine, add_engine_options
from learned_sparse.distribute import engine as engine_module

GPU_NODE, NODE, HEAD = {"CPU": 16.0, "GPU": 4.0}, {"CPU": 6.0}, {"CPU": 0.0}


def cluster(*nodes: dict[str, float]) -> Any:
    """A stand-in for the module ``ray`` that knows its nodes; the last one has died."""
    listed = [{"Alive": True, "Resources": node} for node in nodes] + [{"Alive": False, "Resources": GPU_NODE}]
    return SimpleNamespace(nodes=lambda: listed)


@pytest.mark.parametrize(
    ("nodes", "engine", "workers", "cpus", "gpus"),
    [
        ((HEAD, GPU_NODE, GPU_NODE), Engine(), 8, 4, 1),
        ((GPU_NODE, NODE), Engine(gpus_per_worker=0.5), 8, 2, 0.5),
        ((GPU_NODE, NODE), Engine(workers=2), 2, 8, 1),
        ((GPU_NODE, NODE), Engine(workers=3, gpus_per_worker=0), 3, 6, 0),
        ((HEAD, NODE, NODE), Engine(), 2, 6, 0),
        ((NODE, NODE), Engine(workers=5), 5, 2, 0),
        ((GPU_NODE,), Engine(gpus_per_worker=2), 2, 8, 2),
    ],
)
def test_the_largest_equal_share(nodes: Any, engine: Engine, workers: int, cpus: int, gpus: float) -> None:
    assert engine.resources(cluster(*nodes)) == (workers, {"num_cpus": cpus, "num_gpus": gpus})


@pytest.mark.parametrize(
    ("nodes", "engine", "message"),
    [
        ((NODE,), Engine(workers=7), "7 workers with 1 processor and 0 GPUs each do not fit into the 1 nodes"),
        ((NODE,), Engine(gpus_per_worker=1), "1 workers with 1 processor and 1 GPUs each do not fit"),
        ((GPU_NODE,), Engine(gpus_per_worker=8), r"\(16 processors, 4 GPUs\)"),
        ((GPU_NODE,), Engine(gpus_per_worker=1.5), "give a whole number, or a share below 1"),
    ],
)
def test_workers_that_do_not_fit(nodes: Any, engine: Engine, message: str) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        engine.resources(cluster(*nodes))


@pytest.mark.parametrize("address", ["ray://10.0.0.1:10001", "host", "host:port"])
def test_addresses_of_another_form(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "import_ray", lambda: SimpleNamespace(is_initialized=lambda: False))
    with (
        pytest.raises(LearnedSparseError, match="give HOST:PORT of the head node"),
        Engine(address=address).connected(),
    ):
        pass


def test_sigterm_keeps_its_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def init(**_: object) -> None:
        signal.signal(signal.SIGTERM, lambda *_: calls.append("Ray's own handler"))

    stand_in = SimpleNamespace(is_initialized=lambda: False, init=init, shutdown=lambda: calls.append("shut down"))
    monkeypatch.setattr(engine_module, "import_ray", lambda: stand_in)
    before = signal.signal(signal.SIGTERM, lambda number, _: signal.signal(number, signal.SIG_DFL))
    try:
        with pytest.raises(SystemExit) as end, Engine().connected():
            signal.raise_signal(signal.SIGTERM)  # the handler of a command then raises SystemExit
            raise SystemExit(1)  # which Ray replaces
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (end.value.code, calls) == (143, ["shut down"])


def test_options() -> None:
    parser = argparse.ArgumentParser()
    add_engine_options(parser)
    assert Engine.from_options(parser.parse_args([])) is None
    words = ["--engine", "ray", "--address", "auto", "--workers", "3", "--gpus-per-worker", "0.5"]
    assert Engine.from_options(parser.parse_args(words)) == Engine(address="auto", workers=3, gpus_per_worker=0.5)
    with pytest.raises(LearnedSparseError, match=r"--gpus-per-worker 1.0: belongs to --engine ray"):
        Engine.from_options(parser.parse_args(["--gpus-per-worker", "1"]))
