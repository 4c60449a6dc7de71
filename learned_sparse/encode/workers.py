"""One process for each device: they share the parts of a collection and write them into one folder."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from learned_sparse.core import LearnedSparseError
from learned_sparse.encode.documents import Progress
from learned_sparse.encode.options import EncodeOptions
from learned_sparse.encode.outcome import Outcome, finish, merged
from learned_sparse.encode.parts import PartFolder
from learned_sparse.encode.setup import document_encoding, load_side, plan_run
from learned_sparse.encode.source import Source, open_source
from learned_sparse.jsonvector import Manifest

_SHARED = ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")  # threads of matrix products, and of tokenizers


@dataclass(frozen=True)
class _Job:
    options: EncodeOptions
    checkpoint: str
    devices: Sequence[str]
    worker: int


@dataclass(frozen=True)
class _Worker:
    device: str
    process: BaseProcess
    pipe: Connection


def encode_on_devices(
    options: EncodeOptions,
    checkpoint: str,
    source: Source,
    devices: Sequence[str],
    *,
    say: Callable[[str], None],
    progress: Progress,
) -> Manifest:
    """Encode ``source``, which ``options`` name, with a process for each of ``devices``; the finished manifest.

    Worker ``w`` of ``n`` writes the parts ``w``, ``w + n``, and so on. If the quantiser has to be calibrated, the first
    one does that for all. The error of a worker ends the run; a run with ``resume`` keeps the parts finished by then.
    """
    with _started([_Job(options, checkpoint, devices, worker) for worker in range(len(devices))]) as workers:
        manifest, outcomes = _supervise(workers, say, progress)
    return finish(PartFolder(source.output, compress=options.gzip), manifest, merged(outcomes), say)


@contextlib.contextmanager
def _started(jobs: Sequence[_Job]) -> Iterator[list[_Worker]]:
    context = multiprocessing.get_context("spawn")  # a fork would copy threads' locks, CUDA and Java in mid-flight
    workers: list[_Worker] = []
    try:
        with _threads_shared(len(jobs)):
            for job in jobs:
                ours, theirs = context.Pipe()
                process = context.Process(target=_work, args=(job, theirs), name=f"encode-{job.worker}", daemon=True)
                process.start()
                theirs.close()  # so that our end hears of it when the worker is gone
                workers.append(_Worker(job.devices[job.worker], process, ours))
        yield workers
    except BaseException:
        for worker in workers:
            worker.process.terminate()
        raise
    finally:
        for worker in workers:
            worker.process.join()
            worker.pipe.close()


@contextlib.contextmanager
def _threads_shared(workers: int) -> Iterator[None]:
    """Processes that start in this block have their share of the cores, unless the user said how many threads."""
    share = str(max(len(os.sched_getaffinity(0)) // workers, 1))
    ours = [name for name in _SHARED if name not in os.environ]
    os.environ.update(dict.fromkeys(ours, share))
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


def _supervise(
    workers: Sequence[_Worker], say: Callable[[str], None], progress: Progress
) -> tuple[Manifest, list[Outcome]]:
    """The manifest that the first worker began, and the outcomes of all."""
    working = {worker.pipe: worker for worker in workers}
    manifest: Manifest | None = None
    outcomes: list[Outcome] = []
    while working:
        for pipe in wait(list(working)):
            worker = working[pipe]  # type: ignore[index]  # nothing but these pipes is waited for
            message = _received(worker)
            match message:
                case ("progress", documents):
                    progress.update(documents)
                case ("say", remark):
                    say(remark)
                case ("begun", manifest):
                    _hand_on(manifest.quantizer, workers[1:])
                case ("error", error):
                    raise error
                case ("outcome", outcome):
                    outcomes.append(outcome)
                    del working[worker.pipe]
    if manifest is None:
        raise RuntimeError("no worker began the folder")
    return manifest, outcomes


def _received(worker: _Worker) -> tuple[str, Any]:
    try:
        message: tuple[str, Any] = worker.pipe.recv()
    except (EOFError, ConnectionError):
        worker.process.join()
        raise LearnedSparseError(
            f"the process for {worker.device} ended with {_status(worker.process.exitcode)}; mend the cause "
            "(what it said is above; SIGKILL is mostly for want of memory), then go on with --resume"
        ) from None
    return message


def _status(code: int | None) -> str:
    return signal.Signals(-code).name if code is not None and code < 0 else f"status {code}"


def _hand_on(quantizer: Any, workers: Sequence[_Worker]) -> None:
    for worker in workers:
        with contextlib.suppress(ConnectionError):  # it is gone: its pipe will say so
            worker.pipe.send(quantizer)


class _Parent:
    """What a worker tells its parent; the threads of a worker share it."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._lock = pipe, threading.Lock()

    def tell(self, kind: str, content: Any) -> None:
        with self._lock:
            self._pipe.send((kind, content))

    def say(self, remark: str) -> None:
        self.tell("say", remark)

    def update(self, n: int) -> None:
        self.tell("progress", n)


def _work(job: _Job, pipe: Connection) -> None:
    """What a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which ends its workers
    parent = _Parent(pipe)
    try:
        parent.tell("outcome", _encode(job, pipe, parent))
    except ConnectionError:
        return  # the parent is gone, and nobody waits for the rest
    except (LearnedSparseError, OSError) as error:
        parent.tell("error", error)


def _encode(job: _Job, pipe: Connection, parent: _Parent) -> Outcome:
    source = open_source(job.options)
    encoder = load_side(job.options, job.checkpoint, job.devices[job.worker])
    quantizer, describe = (
        plan_run(job.options, job.checkpoint, source, encoder) if job.worker == 0 else (pipe.recv(), None)
    )
    encoding = document_encoding(
        job.options,
        source,
        encoder,
        quantizer,
        workers=len(job.devices),
        worker=job.worker,
        say=parent.say,
        progress=parent,
    )
    if describe is not None:
        parent.tell("begun", encoding.begin(describe))
    return encoding.encode_parts()
