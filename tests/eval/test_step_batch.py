"""Steps left out, done again, taken over and failing, with commands that only pretend."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from eval.reproduce import plan_estimate
from eval.reproduce.plan import CellPlan, Step
from eval.reproduce.plan_estimate import Rates, check_room, room
from eval.reproduce.step_batch import Batch, only_one
from eval.reproduce.step_marker import changes, is_done, marker_of, status
from eval.reproduce.step_run import OwnProcess, in_this_process, run_step
from learned_sparse.core import home
from learned_sparse.core.errors import LearnedSparseError

pytestmark = pytest.mark.usefixtures("tmp_home")


def step(name: str, *needs: Step, **more: object) -> Step:
    usual = {"kind": "search", "module": "nothing", "arguments": ("--name", name), "writes": (home() / name,)}
    return Step(about=name, place=name, needs=needs, **{**usual, "size": 10, **more})  # type: ignore[arg-type]


class Pretended:
    """Writes what a step writes, and remembers the order; the names in ``broken`` fail."""

    def __init__(self, *broken: str) -> None:
        self.broken, self.ran = set(broken), list[str]()

    def __call__(self, step: Step) -> str | None:
        self.ran.append(step.about)
        if step.about in self.broken:
            return "it broke"
        for path in step.writes:
            path.write_text(step.key, encoding="utf-8")
        return None


def run(steps: Sequence[Step], execute: Callable[[Step], str | None], jobs: int = 1) -> tuple[Batch, list[str]]:
    said: list[str] = []
    batch = Batch(steps, execute, said.append)
    batch.run(jobs)
    return batch, said


def test_what_is_done_is_left_out() -> None:
    first = step("first")
    steps, execute = [first, step("second", first)], Pretended()
    _, said = run(steps, execute)
    assert execute.ran == ["first", "second"]
    assert said[0] == "[0/2] first ..."
    assert said[1].startswith("[1/2] first: 0.0 s; about ")
    assert said[3].startswith("[2/2] second: 0.0 s")
    _, said = run(steps, execute)
    assert execute.ran == ["first", "second"]
    assert said == []


def test_what_was_changed_or_lost_is_done_again() -> None:
    first = step("first")
    second = step("second", first)
    execute = Pretended()
    run([first, second], execute)
    (home() / "first").write_text("something else", encoding="utf-8")
    assert not is_done(first)
    assert is_done(second)
    run([first, second], execute)
    assert execute.ran == ["first", "second", "first"]


def test_another_setting_removes_what_was_done_and_says_what_changed() -> None:
    run([step("first")], Pretended())
    seen: list[bool] = []

    def execute(step: Step) -> str | None:
        seen.append(step.writes[0].exists())
        return Pretended()(step)

    other = step("first", arguments=("--name", "first", "--bits", "4"))
    _, said = run([other], execute)
    assert seen == [False]
    assert said[1] == "  first: done anew: nothing before, --bits 4 now"
    found = marker_of(other)
    assert found is not None
    assert found.fresh
    assert changes(found, other) == []
    later = step("second", other)
    run([later], Pretended())
    marked = marker_of(later)
    assert marked is not None
    assert changes(marked, step("second", step("first"))) == ["first changed"]


def test_what_stands_without_a_marker_is_confirmed_by_the_command() -> None:
    (home() / "first").write_text("from before", encoding="utf-8")
    kept: list[str] = []

    def confirm(step: Step) -> str | None:
        kept.append(step.writes[0].read_text(encoding="utf-8"))
        return None

    run([step("first")], confirm)
    assert kept == ["from before"]
    found = marker_of(step("first"))
    assert found is not None
    assert not found.fresh  # its seconds tell nothing of the work


def test_a_failure_stops_what_needs_it_and_nothing_else() -> None:
    broken = step("broken")
    fine = step("fine")
    steps = [broken, step("needs it", broken), fine, step("goes on", fine)]
    execute = Pretended("broken")
    batch, said = run(steps, execute)
    assert execute.ran == ["broken", "fine", "goes on"]
    assert {step.about for step in batch.failed} == {"broken", "needs it"}
    assert "[0/4] broken: FAILED\nit broke" in said
    assert status(_cell(*steps[:2])) == ("failed", "it broke")
    assert status(_cell(*steps[2:])) == ("done", None)
    assert status(_cell(step("another"))) == ("absent", None)
    run(steps, Pretended())
    assert status(_cell(*steps[:2])) == ("done", None)


def test_a_command_that_writes_nothing_has_failed() -> None:
    batch, _ = run([step("first")], lambda _: None)
    assert "first: not written" in next(iter(batch.failed.values()))


def test_a_missing_input_fails_only_what_reads_it() -> None:
    reads = step("reads", reads=(Path("nowhere.txt"),))
    execute = Pretended()
    batch, _ = run([reads, step("needs", reads), step("fine")], execute)
    assert execute.ran == ["fine"]
    assert batch.failed[reads] == "nowhere.txt: no such file or folder"
    assert status(_cell(reads)) == ("failed", "nowhere.txt: no such file or folder")


def test_an_interruption_leaves_no_marker() -> None:
    def interrupted(_: Step) -> str | None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([step("first")], interrupted)
    assert marker_of(step("first")) is None
    assert status(_cell(step("first"))) == ("absent", None)


def test_several_at_once_but_costs_alone() -> None:
    together, at_once = threading.Barrier(2), set[str]()
    most: list[int] = []

    def execute(step: Step) -> str | None:
        at_once.add(step.about)
        if step.kind != "costs":
            together.wait(timeout=20)
        most.append(len(at_once))
        at_once.discard(step.about)
        return Pretended()(step)

    costs = [step(f"costs {n}", kind="costs") for n in range(2)]
    batch, _ = run([costs[0], step("a"), step("b"), costs[1]], execute, jobs=2)
    assert not batch.failed
    assert most[0] == 1
    assert most[-1] == 1


def test_a_process_of_its_own_keeps_its_log() -> None:
    one = step(
        "one",
        module="eval.reproduce.step_expanded",
        arguments=("--input", "nowhere.jsonl", "--output", str(home() / "x")),
    )
    outcome = run_step(one, OwnProcess(threads=1))
    assert outcome.error is not None
    assert outcome.error.startswith("python -m eval.reproduce.step_expanded --input nowhere.jsonl")
    assert "error: nowhere.jsonl: no such file or folder" in outcome.error
    log = (home() / "reproduce" / "logs" / "one.log").read_text(encoding="utf-8")
    assert log.startswith("$ python -m eval.reproduce.step_expanded")


def test_in_this_process(capsys: pytest.CaptureFixture[str]) -> None:
    one = step("one", module="eval.reproduce.step_expanded", arguments=("--input", "nowhere.jsonl", "--output", "x"))
    with pytest.raises(LearnedSparseError, match=r"nowhere\.jsonl"):
        in_this_process(one)
    assert "$ python -m eval.reproduce.step_expanded --input nowhere.jsonl --output x" in capsys.readouterr().out


def test_only_one_runner_and_its_steps() -> None:
    with only_one() as lock:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(lock,))
    with pytest.raises(LearnedSparseError, match="another run, or a step that it started"), only_one():
        pass
    child.communicate(b"\n")
    with only_one():
        pass


def test_times_are_learnt_from_what_was_done() -> None:
    done = step("done", size=100)
    run([done], Pretended())
    assert Rates.of([done]).seconds == {"search": 0.0}
    slow = Rates({"search": 0.5})
    assert slow.time([step("a"), step("b")]) == 2 * (3 + 5)
    assert Rates.of([step("never")]).seconds == {}


def test_a_full_disk_is_known_before(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = step("encoded", kind="encode", size=1000, terms=100)
    assert room([encoded]) == 1_400_000
    assert check_room([encoded]) > 0
    monkeypatch.setattr(plan_estimate, "free_room", lambda: 1e6)
    with pytest.raises(LearnedSparseError, match="about 1 MB are needed and 1 MB are free; make room"):
        check_room([encoded])


def _cell(*steps: Step) -> CellPlan:
    return CellPlan(
        row="r", column="c", seed=None, steps=steps, run=Path("run"), evaluated=Path("e"), costs=None,
        collection="c", checkpoint=None,
    )  # fmt: skip
