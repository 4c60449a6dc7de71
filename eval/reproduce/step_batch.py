"""All steps of a plan that are not done: one after another or several at once, whatever fails, with the time left."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

from eval.reproduce.plan import Step, ordered
from eval.reproduce.plan_estimate import Rates, as_time
from eval.reproduce.step_marker import is_done
from eval.reproduce.step_run import Execute, Outcome, run_step
from learned_sparse.core import LearnedSparseError, home

Say = Callable[[str], None]


T = TypeVar("T")


class _Here(Executor):
    """Runs what is submitted at once, in the thread that submits it: signals are for the main thread alone."""

    def submit(self, run: Callable[..., T], /, *arguments: Any, **named: Any) -> Future[T]:
        """What came of it; an exception is raised right here."""
        future: Future[T] = Future()
        future.set_result(run(*arguments, **named))
        return future


class Batch:
    """The steps of a plan, in order; ``failed`` are those that went wrong and those that needed one of them."""

    def __init__(
        self, steps: Sequence[Step], execute: Execute, say: Say, stop: Callable[[], None] = lambda: None
    ) -> None:
        """``say`` hears one line for each step; ``stop`` ends what ``execute`` has begun in other threads."""
        self._steps, self._execute, self._say, self._stop = list(ordered(steps)), execute, say, stop
        self.failed: dict[Step, str] = {}
        self._done = {step for step in self._steps if self._is_done(step)}
        self._todo = [step for step in self._steps if step not in self._done and step not in self.failed]

    @property
    def todo(self) -> Sequence[Step]:
        """What is not done yet."""
        return self._todo

    def run(self, jobs: int = 1) -> None:
        """Do what is to be done, ``jobs`` at once; costs are measured while nothing else is."""
        pool = ThreadPoolExecutor(jobs) if jobs > 1 else _Here()
        going: dict[Future[Outcome], Step] = {}
        try:
            while self._todo or going:
                while len(going) < jobs and (step := self._next(list(going.values()))):
                    self._todo.remove(step)
                    self._say(f"{self._count()} {step.about} ...")
                    going[pool.submit(run_step, step, self._execute, self._say)] = step
                for future in wait(going, return_when=FIRST_COMPLETED).done:
                    self._end(going.pop(future), future.result())
        except KeyboardInterrupt:  # reaches the processes as well, which save what they have
            raise
        except BaseException:
            self._stop()
            raise
        finally:
            pool.shutdown()

    def _is_done(self, step: Step) -> bool:
        try:
            return is_done(step)
        except LearnedSparseError as error:  # a file that it reads is not there
            self.failed[step] = str(error)
            return False

    def _next(self, going: Sequence[Step]) -> Step | None:
        """The first step all of whose needs are done; what can never be is given up on the way."""
        for step in list(self._todo):
            if broken := next((need for need in step.needs if need in self.failed), None):
                self._todo.remove(step)
                self.failed[step] = self.failed[broken]
            elif all(need in self._done for need in step.needs):
                alone = any(other.kind == "costs" for other in (step, *going))
                if not (alone and going):
                    return step
        return None

    def _end(self, step: Step, outcome: Outcome) -> None:
        if outcome.error is not None:
            self._say(f"{self._count()} {step.about}: FAILED\n{outcome.error}")
            self.failed[step] = outcome.error
            return
        self._done.add(step)
        left = Rates.of(self._done).time(self._todo)
        rest = f"; about {as_time(left)} left" if self._todo else ""
        self._say(f"{self._count()} {step.about}: {outcome.seconds:.1f} s{rest}")

    def _count(self) -> str:
        width = len(str(len(self._steps)))
        return f"[{len(self._done):{width}}/{len(self._steps)}]"


@contextmanager
def only_one() -> Iterator[int]:
    """Nobody else runs steps in this home folder meanwhile; the file whose lock says so.

    A step's process holds the file open, too: one that outlives the runner keeps the next runner out until it ends.
    """
    path = home() / "reproduce" / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LearnedSparseError(
                f"{path}: another run, or a step that it started, is at work here; wait for it, or set "
                "LEARNED_SPARSE_HOME to another folder"
            ) from None
        yield file.fileno()
