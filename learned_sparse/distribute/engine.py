"""Which Ray a command uses, the workers that fit into it, and errors where Ray itself would wait without an end."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from learned_sparse.core import LearnedSparseError, positive, processors

OBJECT_STORE_BYTES = 2**28
"""Shared memory of a Ray that a command starts: results are small, texts and vectors travel as files."""
CONNECT_SECONDS = 10.0
FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
SIGACTION_BYTES = 256
"""More than a ``struct sigaction`` has on any system."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Where the workers of a command run."""

    address: str | None = None
    """``HOST:PORT`` of a running Ray, or ``auto`` for that of this machine; None: start one for this command."""
    workers: int | None = None
    """Number of workers; None: one for each GPU, or for each node of a cluster without GPUs."""
    gpus_per_worker: float | None = None
    """None: 1 if the cluster has GPUs, else 0. Shares such as 0.5 put several workers on one GPU."""
    start_seconds: float = 600.0
    """Longest wait for a first worker, for instance while other jobs use the cluster."""

    @classmethod
    def from_options(cls, options: argparse.Namespace) -> Engine | None:
        """The engine of the options of ``add_engine_options``; None for one process."""
        given = {name: getattr(options, name) for name in ("address", "workers", "gpus_per_worker")}
        if options.engine == "ray":
            return cls(**given)
        for name, value in given.items():
            if value is not None:
                raise LearnedSparseError(f"--{name.replace('_', '-')} {value}: belongs to --engine ray; give that too")
        return None

    @contextlib.contextmanager
    def connected(self) -> Iterator[Any]:
        """The module ``ray``, connected; the connection ends with the block, and with it all workers."""
        ray = import_ray()
        if ray.is_initialized():  # by the caller, who also ends it
            yield ray
            return
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address is None:
            options |= {
                "address": "local", "num_cpus": processors(), "include_dashboard": False,
                "object_store_memory": OBJECT_STORE_BYTES,
            }  # fmt: skip
        else:
            _check_reachable(self.address)
            options["address"] = self.address
        before = signal.getsignal(signal.SIGTERM)
        try:
            with fault_handlers_kept():
                ray.init(**options)
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)  # Ray's own handler would change the exit status
        except (ConnectionError, RuntimeError, TimeoutError, ValueError) as error:
            where = f"--address {self.address}" if self.address else "a Ray of this machine"
            raise LearnedSparseError(f"{where}: Ray does not start: {first_line(error)}") from error
        try:
            yield ray
        except SystemExit as end:  # Ray turns that of a handler of signals into another one, with status 1
            if before != signal.SIG_DFL and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                raise SystemExit(128 + signal.SIGTERM) from end
            raise
        finally:
            with fault_handlers_kept():
                ray.shutdown()

    def resources(self, ray: Any) -> tuple[int, Mapping[str, float]]:
        """Number of workers, and the processors and GPUs of each: the largest equal share that the nodes can give."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        nodes = [node for node in nodes if node.get("CPU", 0) >= 1]
        all_gpus = sum(node.get("GPU", 0) for node in nodes)
        gpus = (1 if all_gpus else 0) if self.gpus_per_worker is None else self.gpus_per_worker
        if gpus < 0 or (gpus > 1 and gpus != int(gpus)):
            raise LearnedSparseError(f"--gpus-per-worker {gpus}: give a whole number, or a share below 1")
        workers = self.workers or (sum(int(node.get("GPU", 0) / gpus) for node in nodes) if gpus else len(nodes))
        for cpus in range(int(max((node["CPU"] for node in nodes), default=0)), 0, -1):
            if sum(_fitting(node, cpus, gpus) for node in nodes) >= workers > 0:
                return workers, {"num_cpus": cpus, "num_gpus": gpus}
        cores = sum(node["CPU"] for node in nodes)
        raise LearnedSparseError(
            f"{workers or 1} workers with 1 processor and {gpus:g} GPUs each do not fit into the {len(nodes)} nodes of "
            f"this Ray ({cores:g} processors, {all_gpus:g} GPUs); give fewer --workers or --gpus-per-worker"
        )


def add_engine_options(parser: argparse.ArgumentParser, about: str = "") -> None:
    """Add ``--engine``, ``--address``, ``--workers`` and ``--gpus-per-worker``, for ``Engine.from_options``.

    ``about`` opens the help of ``--engine``, if only a part of the command runs in the workers.
    """
    add = parser.add_argument_group("several processes or machines").add_argument
    add(
        "--engine", choices=["process", "ray"], default="process", help=f"{about}this process (default), or workers of "
        "Ray: on the processors and GPUs of this machine, or on a cluster",
    )  # fmt: skip
    add("--address", metavar="HOST:PORT", help="a running Ray (or auto); default: one is started for this command")
    add("--workers", type=positive, metavar="N", help="default: one for each GPU, or for each machine without GPUs")
    add("--gpus-per-worker", type=float, metavar="G", help="default: 1 if there are GPUs; 0.5: two workers on a GPU")


@contextlib.contextmanager
def fault_handlers_kept() -> Iterator[None]:
    """Keep the handlers of memory faults: Java needs its own, which Ray replaces and, at its end, removes."""
    system = ctypes.CDLL(None)
    handlers = {number: ctypes.create_string_buffer(SIGACTION_BYTES) for number in FAULTS}
    for number, handler in handlers.items():
        system.sigaction(number, None, handler)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            system.sigaction(number, handler, None)


def import_ray() -> Any:
    """The module ``ray``; it reports nothing to its makers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise LearnedSparseError("--engine ray: Ray is not installed; pip install 'learned-sparse[ray]'") from None
    return ray


def first_line(error: BaseException) -> str:
    """The first line of the message of an error of Ray, without colours."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".:")


def _fitting(node: Mapping[str, float], cpus: int, gpus: float) -> int:
    """Workers of so many processors and GPUs that one node can hold."""
    count = int(node["CPU"] // cpus)
    return min(count, int(node.get("GPU", 0) / gpus)) if gpus else count


def _check_reachable(address: str) -> None:
    """Raise if nothing listens there: Ray would try for minutes."""
    if address in {"auto", "local"}:
        return
    host, colon, port = address.rpartition(":")
    if "/" in address or not colon or not port.isdecimal():
        raise LearnedSparseError(
            f"--address {address}: give HOST:PORT of the head node, such as 10.0.0.5:6379, or auto"
        )
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise LearnedSparseError(
            f"--address {address}: no Ray answers there ({error}); start one with ray start --head, or leave the "
            "option out"
        ) from error
