"""Steps that are skipped, repeated, confirmed or failed, with stand-ins for their commands."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from eval.reproduce import runner
from eval.reproduce.runner import Runner, check_disk_space, in_this_process, own_process, run_step
from eval.reproduce.steps import VERSIONS, Step, is_done, log_of, other_versions, record_of, status_of, write_end
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import home

pytestmark = pytest.mark.usefixtures("tmp_home")


def step(name: str, *needs: Step, **settings: object) -> Step:
    defaults = {"kind": "search", "module": "nothing", "arguments": ("--name", name), "output": home() / name}
    return Step(name=name, needs=needs, **{**defaults, **settings})  # type: ignore[arg-type]


class StandIn:
    """Writes the output of a step and records the order; steps named in ``broken`` fail."""

    def __init__(self, *broken: str) -> None:
        self.broken, self.ran = set(broken), list[str]()

    def __call__(self, step: Step) -> int:
        self.ran.append(step.name)
        if step.name in self.broken:
            log_of(step).write_text("it broke", encoding="utf-8")
            return 1
        step.output.write_text(step.key, encoding="utf-8")
        return 0


@pytest.fixture
def progress(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Progress messages of the runner."""
    caplog.set_level(logging.INFO, "eval.reproduce")
    return caplog


def run(steps: Sequence[Step], execute: Callable[[Step], int], jobs: int = 1) -> Runner:
    running = Runner(steps, execute)
    running.run(jobs)
    return running


def test_a_step_that_is_done_is_skipped(progress: pytest.LogCaptureFixture) -> None:
    first = step("first")
    steps, execute = [first, step("second", first)], StandIn()
    run(steps, execute)
    assert execute.ran == ["first", "second"]
    assert progress.messages == [
        "[0/2] search first ...", "[1/2] search first: 0.0 s", "[1/2] search second ... (about 0 s left)",
        "[2/2] search second: 0.0 s",
    ]  # fmt: skip
    progress.clear()
    run(steps, execute)
    assert execute.ran == ["first", "second"]
    assert progress.messages == []


def test_another_commit_and_other_versions_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eval.reproduce.steps.versions", lambda: {"torch": "1"})
    monkeypatch.setattr("eval.reproduce.steps._commit", lambda: "abc")
    run([step("first")], StandIn())
    assert other_versions([step("first")]) == []
    monkeypatch.setattr("eval.reproduce.steps.versions", lambda: {"torch": "2"})
    monkeypatch.setattr("eval.reproduce.steps._commit", lambda: "def")
    assert other_versions([step("first")]) == ["commit: 'abc' before, 'def' now", "torch: '1' before, '2' now"]
    assert is_done(step("first"))


def test_a_new_version_of_a_kind_of_step_makes_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code that computes it has changed; what needs it is made again, too."""

    def steps() -> list[Step]:
        searched = step("searched")
        return [searched, step("measured", searched, kind="evaluate"), step("encoded", kind="encode")]

    run(steps(), StandIn())
    monkeypatch.setitem(VERSIONS, "search", VERSIONS["search"] + 1)
    execute = StandIn()
    run(steps(), execute)
    assert execute.ran == ["searched", "measured"]


def test_every_input_file_is_compared(tmp_path: Path) -> None:
    """Two files with equal names in folders of equal names."""
    files = [tmp_path / place / "data" / "run.txt" for place in ("a", "b")]
    keys = set()
    for texts in (("old", "old"), ("newer", "old"), ("newer", "newest")):
        for file, text in zip(files, texts, strict=True):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        keys.add(step("first", reads=tuple(files)).key)
    assert len(keys) == 3


def test_a_step_that_is_done_again_makes_the_steps_that_need_it_stale() -> None:
    """A model that is trained again, on other threads for instance, has other weights."""
    first = step("first")
    second = step("second", first)
    execute = StandIn()
    run([first, second], execute)
    first.output.unlink()
    assert status_of([second]) == (False, None)
    run([first, second], execute)
    assert execute.ran == ["first", "second", "first", "second"]
    assert status_of([second]) == (True, None)


def test_output_under_a_plain_name_is_kept_when_its_settings_change(progress: pytest.LogCaptureFixture) -> None:
    for word in ("a", "b"):
        output_existed: list[bool] = []

        def train(step: Step, seen: list[bool] = output_existed) -> int:
            seen.append(step.output.exists())
            step.output.mkdir()
            (step.output / "weights").write_text(step.arguments[0], encoding="utf-8")
            return 0

        run([step("model", kind="train", arguments=(word,))], train)
        assert output_existed == [False]
    (kept,) = home().glob("model-20*")
    assert (kept / "weights").read_text(encoding="utf-8") == "a"
    assert (home() / "model" / "weights").read_text(encoding="utf-8") == "b"
    assert any(message.endswith(f"made with other inputs; it is now {kept}") for message in progress.messages)


def test_times_of_steps_that_ran_together_are_marked() -> None:
    run([step("first")], StandIn())
    run([step("second")], StandIn(), jobs=2)
    records = [record_of(step(name)) for name in ("first", "second")]
    assert [record.alone for record in records if record] == [True, False]


def test_output_without_a_record_is_confirmed_by_the_command() -> None:
    (home() / "first").write_text("from before", encoding="utf-8")
    contents: list[str] = []

    def confirm(step: Step) -> int:
        contents.append(step.output.read_text(encoding="utf-8"))
        return 0

    run([step("first")], confirm)
    assert contents == ["from before"]
    assert is_done(step("first"))


def test_a_failure_stops_only_dependent_steps(progress: pytest.LogCaptureFixture) -> None:
    broken = step("broken")
    independent = step("fine")
    steps = [broken, step("dependent", broken), independent, step("after fine", independent)]
    execute = StandIn("broken")
    done = run(steps, execute)
    assert execute.ran == ["broken", "fine", "after fine"]
    assert {step.name for step in done.failed} == {"broken", "dependent"}
    (message,) = (one for one in progress.messages if one.startswith("[0/4] search broken: FAILED\n"))
    assert message.endswith("ends with\n  it broke")
    assert status_of(steps[:2]) == (False, done.failed[broken])
    assert status_of(steps[2:]) == (True, None)
    assert status_of([step("another")]) == (False, None)
    run(steps, StandIn())
    assert status_of(steps[:2]) == (True, None)


def test_a_command_without_output_has_failed() -> None:
    done = run([step("first")], lambda _: 0)
    assert "first: not written" in next(iter(done.failed.values()))


def test_a_missing_input_fails_only_steps_that_read_it() -> None:
    reader = step("reads", reads=(Path("nowhere.txt"),))
    execute = StandIn()
    done = run([reader, step("needs", reader), step("fine")], execute)
    assert execute.ran == ["fine"]
    assert done.failed[reader] == "nowhere.txt: no such file or folder"
    assert status_of([reader]) == (False, "nowhere.txt: no such file or folder")


def test_steps_run_in_parallel_except_costs() -> None:
    barrier, running = threading.Barrier(2), set[str]()
    running_counts: list[int] = []

    def execute(step: Step) -> int:
        running.add(step.name)
        if step.kind != "costs":
            barrier.wait(timeout=20)
        running_counts.append(len(running))
        running.discard(step.name)
        return StandIn()(step)

    costs = [step(f"costs {n}", kind="costs") for n in range(2)]
    done = run([costs[0], step("a"), step("b"), costs[1]], execute, jobs=2)
    assert not done.failed
    assert running_counts[0] == 1
    assert running_counts[-1] == 1


@pytest.mark.parametrize("execute", [partial(own_process, 1, set()), in_this_process])
def test_the_output_of_a_failing_command_is_logged(execute: Callable[[Step], int]) -> None:
    words = ("expand", "--collection", "nowhere", "--output", str(home() / "x"))
    failing = step("one", module="eval.reproduce.prepare", arguments=words)
    error = run_step(failing, execute).error
    assert error is not None
    assert error.startswith("python -m eval.reproduce.prepare expand --collection nowhere")
    assert "collection 'nowhere': no such file, folder or name" in error
    log = (home() / "reproduce" / "logs" / "one.log").read_text(encoding="utf-8")
    assert log.startswith("$ python -m eval.reproduce.prepare")
    assert "no such file, folder or name" in log


def test_the_time_left_is_that_of_finished_steps_of_the_same_kind(progress: pytest.LogCaptureFixture) -> None:
    """Searches take 40 s and the training 320 s; a kind that has not finished yet takes the mean of all steps."""
    trained = step("trained", kind="train")
    searches = [step(f"search {number}", trained) for number in range(4)]
    for finished, seconds in ((trained, 320.0), (searches[0], 40.0)):  # by an earlier run
        finished.output.write_text("", encoding="utf-8")
        write_end(finished, seconds, alone=True)
    steps = [trained, *searches, step("encoded", trained, kind="encode")]
    for jobs, expected in ((1, "5 min"), (2, "2 min")):  # 3 searches of 40 s, and an encoding of 180 s
        progress.clear()
        with pytest.raises(RuntimeError):
            run(steps, raising, jobs)
        assert progress.messages[0] == f"[2/6] search search 1 ... (about {expected} left)"


def raising(_: Step) -> int:
    raise RuntimeError


def test_a_full_disk_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [step("encoded", disk_bytes=1_400_000), step("searched")]
    monkeypatch.setattr(runner, "free_bytes", lambda: 2_000_000)
    assert check_disk_space(steps).startswith("about 1 MB of 2 MB free in ")
    monkeypatch.setattr(runner, "free_bytes", lambda: 1_000_000)
    with pytest.raises(LearnedSparseError, match="1 MB are needed and 1 MB are free, most for search encoded"):
        check_disk_space(steps)


def test_sigterm_ends_a_run_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal raises ``SystemExit`` inside a step, which must not count as a step that failed."""

    def interrupted(_: object) -> int:
        raise SystemExit(143)

    monkeypatch.setattr(runner, "command_of", lambda _: interrupted)
    steps = [step("one"), step("two")]
    with pytest.raises(SystemExit):
        Runner(steps, in_this_process).run()
    assert not any(is_done(each) for each in steps)
