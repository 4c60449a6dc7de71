"""``python -m eval.reproduce``: a whole leaderboard from one file, doing what is not done yet."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from learned_sparse.collections import data_root
from learned_sparse.core import LearnedSparseError, home

if TYPE_CHECKING:
    from eval.reproduce.plan import Plan
    from eval.reproduce.step_batch import Batch

RESULTS = Path(__file__).parent.parent / "results"
EPILOG = """\
Each step is a command of its own (training, encoding, indexing, searching, measuring). It is left out when it was done
with the same inputs and settings, resumed when it was killed, and done anew when a setting has changed. Results that
stand at their usual place, as make demo leaves them, are confirmed and taken over. The output of each step is in
reproduce/logs below the home folder. A step that fails leaves the cells that need it empty; the others go on.
The exit status is 1 if a cell failed, or is worse than the matrix expects.

examples:
  python -m eval.reproduce --matrix demo
  python -m eval.reproduce --matrix small-real --data DIR --dry-run         what is to be done, and how long it takes
  python -m eval.reproduce --matrix mine.yaml --row splade --column scifact --display-commands
"""


def main(argv: list[str] | None = None) -> int:
    """Run the steps and write the leaderboard."""
    options = _parser().parse_args(argv)
    if options.jobs < 1 or (options.threads or 1) < 1:
        raise LearnedSparseError(f"--jobs {options.jobs} --threads {options.threads}: give at least 1")
    from eval.reproduce.matrix_file import load_matrix
    from eval.reproduce.plan_make import make_plan

    matrix, name = load_matrix(options.matrix, options.data), Path(options.matrix).stem
    data = options.data or data_root()
    plan = make_plan(matrix, name, data, rows=options.row, columns=options.column, threads=options.threads)
    if options.display_commands:
        _display(plan)
        return 0
    if options.dry_run:
        _show(plan)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    failed = _run(plan, options.jobs, options.threads)
    whole = make_plan(matrix, name, data, threads=options.threads, lenient=True)
    return _write(whole, options.output or RESULTS / name, _command(options)) or int(failed)


def _run(plan: Plan, jobs: int, threads: int | None) -> bool:
    """Do what is to be done; whether a step failed."""
    from eval.reproduce.step_batch import Batch, only_one
    from eval.reproduce.step_run import OwnProcess

    with only_one() as lock:
        execute = OwnProcess(threads=threads, keep_open=lock)
        batch = Batch(plan.steps, execute, _say, execute.stop)
        _say(_outlook(plan, batch))
        batch.run(jobs)
    return bool(batch.failed)


def _show(plan: Plan) -> None:
    from eval.reproduce.plan_estimate import Rates, as_time
    from eval.reproduce.step_batch import Batch
    from eval.reproduce.step_marker import changes, marker_of

    batch = Batch(plan.steps, lambda _: None, _say)
    rates = Rates.of(step for step in plan.steps if step not in batch.todo and step not in batch.failed)
    said: set[str] = set()
    for step in plan.steps:
        if step in batch.failed:
            if batch.failed[step] not in said:
                said.add(batch.failed[step])
                _say(f"cannot be done  {step.about}, nor what needs it: {batch.failed[step]}")
        elif step not in batch.todo:
            _say(f"done            {step.about}")
        else:
            found = marker_of(step)
            anew = f" (anew: {'; '.join(changes(found, step)[:3])})" if found and found.key != step.key else ""
            _say(f"about {as_time(rates.time([step])):>9} {step.about}{anew}\n                {step.command}")
    _say(_outlook(plan, batch))


def _outlook(plan: Plan, batch: Batch) -> str:
    """How much there is to do; an error if the disk is too full for it."""
    from eval.reproduce.plan_estimate import Rates, as_bytes, as_time, check_room, room

    free = check_room(batch.todo)
    time = Rates.of(step for step in plan.steps if step not in batch.todo and step not in batch.failed)
    done = len(plan.steps) - len(batch.todo) - len(batch.failed)
    return (
        f"{plan.matrix.title}: {len(plan.cells)} cells, {len(plan.steps)} steps, {done} done; "
        f"about {as_time(time.time(batch.todo))} and {as_bytes(room(batch.todo))} of {as_bytes(free)} free in {home()}"
    )


def _display(plan: Plan) -> None:
    from eval.reproduce.plan_commands import commands

    for cell in plan.cells:
        seed = "" if cell.seed is None else f", seed {cell.seed}"
        print("\n".join([f"# {cell.row}, {cell.column}{seed}", *commands(plan, cell), ""]))


def _write(plan: Plan, output: Path, command: str) -> int:
    """Write the leaderboard and its page; 1 if a cell failed or is worse than expected."""
    from eval.report import write_report
    from eval.reproduce.leaderboard import exit_status, write_leaderboard

    status = exit_status(write_leaderboard(plan, output, command))
    write_report(output)
    _say(f"written: {output}")
    return status


def _command(options: argparse.Namespace) -> str:
    """What was typed, without places of this machine."""
    name = options.matrix if "/" not in options.matrix else Path(options.matrix).name
    data = ["--data", "DIR"] if options.data else []
    return shlex.join(["python", "-m", "eval.reproduce", "--matrix", name, *data])


def _say(line: str) -> None:
    print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval.reproduce",
        description=main.__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    many: dict[str, Sequence[str] | str] = {"nargs": "+", "action": "extend", "default": []}
    add = parser.add_argument
    add("--matrix", required=True, metavar="NAME|FILE", help="a leaderboard of the package, or a YAML file")
    add("--data", type=Path, metavar="DIR", help='what the matrix calls "{data}" (default: the data folder)')
    add("--row", metavar="ROW", help="only these rows", **many)  # type: ignore[arg-type]
    add("--column", metavar="COLUMN", help="only these columns", **many)  # type: ignore[arg-type]
    add("--dry-run", action="store_true", help="show the steps, what is done, and about how long the rest takes")
    add("--display-commands", action="store_true", help="print, for each cell, what to type to get its numbers by hand")
    add("--output", type=Path, metavar="DIR", help="of the leaderboard (default: results/MATRIX beside this module)")
    add("--jobs", type=int, default=1, metavar="N", help="steps at once (default %(default)s)")
    add("--threads", type=int, metavar="N", help="of each step (default: as each command has it)")
    return parser


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
