"""``python -m tests.benchmarks.report``: write the table of README.md and results/README.md, or all tables."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import atomic_write, read_json
from tests.benchmarks import quality_table, run
from tests.benchmarks.harness import ROOT
from tests.benchmarks.targets import TARGETS, Measurement, Target

BEGIN, END = "<!-- benchmarks: written by python -m tests.benchmarks.report -->", "<!-- end of benchmarks -->"
HEAD = """\
# Results of the benchmarks

Written by `python -m tests.benchmarks.report` from the JSON files beside this page. `make bench` measures again;
`python -m tests.benchmarks.report --tables FILE` writes every table: each engine, size and round, with the conditions.

## Targets

"""
QUALITY = "## quality\n\nMeasured by `python -m tests.benchmarks.quality WORK --data DIR --longer 4`."
_SHOWN = ("torch", "transformers", "sentence-transformers", "pyserini", "pyseismic-lsr")


def main(argv: list[str] | None = None) -> int:
    """Write both summaries; with --check, compare them with the files instead; with --tables, write all tables."""
    options = _parser().parse_args(argv)
    results = read_results(options.results)
    if options.tables:
        _write(options.tables, tables(results))
        return 0
    readme = with_section(options.readme.read_text("utf-8"), (BEGIN, END), ratios(results), options.readme)
    page = HEAD + summary(results) + "\n"
    for quality in read_results(options.results, ["quality"]).values():
        page += f"\n{QUALITY}\n\n{quality_table.markdown(quality)}\n"
    texts = {options.readme: readme, options.results / "README.md": page}
    for path, text in texts.items():
        if not options.check:
            _write(path, text)
        elif not path.is_file() or path.read_text("utf-8") != text:
            raise LearnedSparseError(f"{path}: differs from the results; run python -m tests.benchmarks.report")
    return 0


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text.encode("utf-8"))


def read_results(folder: Path, names: Iterable[str] = run.BENCHMARKS) -> dict[str, dict[str, Any]]:
    """Results by name, of the benchmarks that have been measured; toy results are refused."""
    results = {name: read_json(file) for name in names if (file := folder / f"{name}.json").is_file()}
    for name, result in results.items():
        if result["toy"]:
            raise LearnedSparseError(f"{folder / name}.json: a toy result; run the benchmark without --toy")
    return results


def with_section(text: str, markers: tuple[str, str], section: str, path: Path) -> str:
    """``text`` of the file ``path`` with ``section`` between the two markers."""
    begin, end = markers
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise LearnedSparseError(f"{path}: the two markers of the table are missing; add them once:\n{begin}\n{end}")
    return pattern.sub(lambda _: f"{begin}\n{section}\n{end}", text)


def summary(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Table of all targets, and the machines."""
    if not results:
        return "Nothing has been measured yet."
    lines = ["| | ours | theirs | ratio | target | |", "|---|---:|---:|---:|---:|---|"]
    lines += [_line(target, results.get(target.benchmark)) for target in TARGETS]
    measured = (results[target.benchmark] for target in TARGETS if target.benchmark in results)
    return "\n".join([*lines, "", *dict.fromkeys(map(machine, measured))])


def ratios(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Table for README.md: what was measured on the machine of the benchmark ``encoding``."""
    if "encoding" not in results:
        return "Nothing has been measured yet."
    same = {name: result for name, result in results.items() if _processor(result) == _processor(results["encoding"])}
    lines = ["| | ours | theirs | ratio |", "|---|---:|---:|---:|"]
    for target in TARGETS:
        found = target.find(same[target.benchmark]) if target.in_readme and target.benchmark in same else ""
        if isinstance(found, Measurement):
            lines.append(f"| {target.what} | {found.ours} | {found.peer} | {_ratio(target, found)} |")
    return "\n".join([*lines, "", machine(results["encoding"])])


def _processor(result: Mapping[str, Any]) -> tuple[str, ...]:
    return (result["environment"]["cpu"], *result["environment"]["flags"])


def machine(result: Mapping[str, Any]) -> str:
    """Machine and versions in one sentence."""
    where, versions = result["environment"], result["versions"]
    listed = ", ".join(f"{name} {versions[name]}" for name in _SHOWN if name in versions)
    flags = ", ".join(where["flags"]) or "no instructions of note"
    return (
        f"{where['cpu']}, {where['cores']} cores ({flags}); Python {where['python']}, Java {where['java']}; {listed}."
    )


def tables(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Tables of every benchmark, with machine, duration and memory."""
    lines = ["# Tables of the benchmarks"]
    for name, result in results.items():
        loads = ", ".join(f"{load:.2f}" for load in result["environment"]["load_before"])
        conditions = (
            f"{machine(result)} Torch's threads: {result['environment']['torch_threads'] or 'not used'}; load before: "
            f"{loads}; {result['seconds']:.0f} s; peak memory {result['peak_mb']:.0f} MB."
        )
        description = (run.load(name).__doc__ or "").strip()
        lines += ["", f"## {name}", "", description, "", run.load(name).markdown(result), "", conditions]
    return "\n".join(lines) + "\n"


def _line(target: Target, result: Mapping[str, Any] | None) -> str:
    measured = "not measured" if result is None else target.find(result)
    bound = f"{'≤' if target.is_maximum else '≥'} {target.bound:g}{_unit(target)}"
    if isinstance(measured, str):
        return f"| {target.what} | | | | {bound} | {measured} |"
    verdict = "met" if target.met(measured.ratio) else "not met"
    return f"| {target.what} | {measured.ours} | {measured.peer} | {_ratio(target, measured)} | {bound} | {verdict} |"


def _ratio(target: Target, measured: Measurement) -> str:
    return f"{measured.ratio:.{2 if target.unit == '×' else 0}f}{_unit(target)}"


def _unit(target: Target) -> str:
    return "" if target.unit == "×" and target.is_maximum else f" {target.unit}"  # a share has no unit


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.report",
        description="Write summaries of the results into README.md and results/README.md, or all tables into a file.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file would change")
    parser.add_argument("--tables", type=Path, metavar="FILE", help="write all tables to this file, and nothing else")
    parser.add_argument(
        "--results", type=Path, default=run.RESULTS, metavar="DIR", help="default: tests/benchmarks/results"
    )
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md", metavar="FILE", help="default: README.md")
    return parser


if __name__ == "__main__":
    from learned_sparse.core.errors import run_main

    run_main(main)
