"""``python -m tests.benchmarks.report``: the results as tables, a summary in the README and all beside the results."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import atomic_write, read_json
from tests.benchmarks import run
from tests.benchmarks.harness import ROOT
from tests.benchmarks.targets import TARGETS, Target

BEGIN, END = "<!-- benchmarks: written by python -m tests.benchmarks.report -->", "<!-- end of benchmarks -->"
_SECTION = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
_SHOWN = ("torch", "transformers", "sentence-transformers", "pyserini", "pyseismic-lsr")


def main(argv: list[str] | None = None) -> int:
    """Write both texts, or see whether they are as they would be written."""
    options = _parser().parse_args(argv)
    results = read_results(options.results)
    texts = {
        options.readme: with_section(options.readme, summary(results)),
        options.results / "README.md": full(results),
    }
    for path, text in texts.items():
        if options.check:
            if not path.is_file() or path.read_text("utf-8") != text:
                raise LearnedSparseError(f"{path}: not what the results say; run python -m tests.benchmarks.report")
        else:
            with atomic_write(path) as file:
                file.write(text.encode("utf-8"))
    return 0


def read_results(folder: Path) -> dict[str, dict[str, Any]]:
    """By name, in the order of the benchmarks; results of toy size are refused."""
    found = {name: read_json(folder / f"{name}.json") for name in run.BENCHMARKS if (folder / f"{name}.json").is_file()}
    for name, result in found.items():
        if result["toy"]:
            raise LearnedSparseError(f"{folder / name}.json: of toy size, which says nothing; run it without --toy")
    return found


def with_section(readme: Path, section: str) -> str:
    """The text of ``readme`` with ``section`` between its two markers."""
    before = readme.read_text("utf-8")
    if len(_SECTION.findall(before)) != 1:
        raise LearnedSparseError(f"{readme}: no place for the table; put these two lines there once:\n{BEGIN}\n{END}")
    return _SECTION.sub(lambda _: f"{BEGIN}\n{section}\n{END}", before)


def summary(results: Mapping[str, Mapping[str, Any]]) -> str:
    """All targets in one table, and the machine."""
    if not results:
        return "Nothing has been measured yet."
    lines = ["| | ours | theirs | ratio | target | |", "|---|---:|---:|---:|---:|---|"]
    lines += [_line(target, results.get(target.benchmark)) for target in TARGETS]
    machines = dict.fromkeys(machine(result) for result in results.values())
    return "\n".join([*lines, "", *machines])


def machine(result: Mapping[str, Any]) -> str:
    """Where it was measured and with what, in a sentence."""
    where, versions = result["environment"], result["versions"]
    shown = ", ".join(f"{name} {versions[name]}" for name in _SHOWN if name in versions)
    flags = ", ".join(where["flags"]) or "no instructions of note"
    return f"{where['cpu']}, {where['cores']} cores ({flags}); Python {where['python']}, Java {where['java']}; {shown}."


def full(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Every benchmark's own tables, with what else was known of its run."""
    lines = [
        "# Results of the benchmarks",
        "",
        "Written by `python -m tests.benchmarks.report`; see `run.py` beside it.",
    ]
    for name, result in results.items():
        loads = ", ".join(f"{load:.2f}" for load in result["environment"]["load_before"])
        about = (
            f"{machine(result)} Torch's threads: {result['environment']['torch_threads'] or 'not used'}; load before: "
            f"{loads}; {result['seconds']:.0f} s; peak memory {result['peak_mb']:.0f} MB."
        )
        what = (run.load(name).__doc__ or "").strip()
        lines += ["", f"## {name}", "", what, "", run.load(name).markdown(result), "", about]
    return "\n".join(lines) + "\n"


def _line(target: Target, result: Mapping[str, Any] | None) -> str:
    found = "not measured" if result is None else target.find(result)
    unit = "" if target.unit == "×" and target.most else f" {target.unit}"  # a share has none
    bound = f"{'≤' if target.most else '≥'} {target.bound:g}{unit}"
    if isinstance(found, str):
        return f"| {target.what} | | | | {bound} | {found} |"
    ratio = f"{found.ratio:.{2 if target.unit == '×' else 0}f}{unit}"
    verdict = "met" if target.met(found.ratio) else "not met"
    return f"| {target.what} | {found.ours} | {found.peer} | {ratio} | {bound} | {verdict} |"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.report",
        description="Turn the results into the table of the README, and into results/README.md.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something would change")
    parser.add_argument(
        "--results", type=Path, default=run.RESULTS, metavar="DIR", help="default: tests/benchmarks/results"
    )
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md", metavar="FILE", help="default: README.md")
    return parser


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
