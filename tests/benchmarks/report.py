"""``python -m tests.benchmarks.report``: write the table of README.md and results/README.md."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from learned_sparse.core.errors import LearnedSparseError, run_main
from learned_sparse.core.files import atomic_write, read_json
from tests.benchmarks import quality_table
from tests.benchmarks.run import BENCHMARKS, RESULTS, ROOT

README, PAGE = ROOT / "README.md", RESULTS / "README.md"
BEGIN, END = "<!-- benchmarks: written by python -m tests.benchmarks.report -->", "<!-- end of benchmarks -->"
HEAD = """\
# Results of the benchmarks

Written by `python -m tests.benchmarks.report` from the JSON files beside this page, which have each engine, size and
round with the conditions. `make bench` measures again and prints all tables.

## Targets

"""
QUALITY = "## quality\n\nMeasured by `python -m tests.benchmarks.quality WORK --data DIR --longer 4`."
_SHOWN = ("torch", "transformers", "sentence-transformers", "pyserini", "pyseismic-lsr")
Result = Mapping[str, Any]
Measured = tuple[str, str, float]
"""Ours and the peer's value as text, and the number to compare with the bound."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """``find`` reads the result of ``benchmark``; it returns the reason as text if there is no measurement."""

    what: str
    benchmark: str
    bound: float
    find: Callable[[Result], Measured | str]
    is_maximum: bool = False
    """Whether ``bound`` is a maximum; otherwise a minimum."""
    unit: str = " ×"
    in_readme: bool = False
    """Whether README.md has the target; ``results/README.md`` has all."""

    def shown(self, number: float) -> str:
        """A ratio with its unit."""
        return f"{number:.0f}{self.unit}" if self.unit == " MB" else f"{number:.2f}{self.unit}"


def encoding(model: str, kind: str, result: Result) -> Measured | str:
    """Documents per second against the fastest other engine, both in ``kind`` (fp32, bf16), or each in its fastest."""
    rows = [row for row in result["rows"] if row["model"] == model and row["contender"].endswith(kind)]
    sides = [[row for row in rows if row["contender"].startswith("learned_sparse") is ours] for ours in (True, False)]
    if not all(sides):
        return "; ".join(f"{name}: {reason}" for name, reason in result["missing"].get(model, {}).items())
    ours, theirs = (max(side, key=lambda row: row["documents_per_second"]) for side in sides)
    rate = f"{ours['documents_per_second']:.1f} documents/s ({ours['contender'].rpartition(' ')[2]})"
    ratio = result["ratios"][model][f"{ours['contender']}/{theirs['contender']}"]
    return rate, f"{theirs['documents_per_second']:.1f} ({theirs['contender']})", ratio


def head(model: str, result: Result) -> Measured:
    """Milliseconds a passage of the plain and the screened head, both in fp32."""
    rows = [row for row in result["rows"] if (row["model"], row["dtype"]) == (model, "fp32")]
    times = {row["head"]: f"{row['ms']:.2f} ms" for row in rows}
    return times["screened"], times["plain"], result["ratios"][model]["fp32"]


def training(measure: str, result: Result) -> Measured:
    """``time`` or ``memory`` of a training step with max pooling, as a share of plain PyTorch's."""
    naive, ours = (
        f"{row['peak_mb']:.0f} MB" if measure == "memory" else f"{statistics.median(row['seconds']):.2f} s"
        for row in result["rows"]
        if row["case"] == "max pooling"
    )
    return ours, naive, result["ratios"]["max pooling"][measure]


def memory(result: Result) -> Measured:
    """Megabytes in addition to the model and the libraries: our largest row against theirs."""
    ours = max((row for row in result["rows"] if row["contender"] == "learned_sparse"), key=lambda row: row["extra_mb"])
    theirs = [f"{row['extra_mb']:.0f}" for row in result["rows"] if row["contender"] != "learned_sparse"]
    description = f"{ours['extra_mb']:.0f} MB ({ours['documents']:,} {ours['texts']})"
    return description, "".join(theirs[:1]), ours["extra_mb"]


def indexing(vectors: str, result: Result) -> Measured:
    """Documents per second without process start-up, each side with its best number of threads."""
    ours, theirs = (
        max(
            row["net_documents_per_second"]
            for row in result["rows"]
            if (row["vectors"], row["contender"]) == (vectors, contender)
        )
        for contender in ("direct", "anserini")
    )
    return f"{ours:,.0f} documents/s", f"{theirs:,.0f}", result["ratios"][vectors]["net"]


def searching(result: Result) -> Measured:
    """Milliseconds per query in a batch on two threads, 20 terms and 1,000 hits."""
    rows = [row for row in result["rows"] if (row["terms"], row["hits"]) == (20, 1_000)]
    times = {row["contender"]: row["ms_per_query"] for row in rows}
    (pair,) = (name for name in result["ratios"] if name.startswith("20 terms, 1000 hits: "))
    stock, ours = pair.partition(": ")[2].split(" / ")
    return f"{times[ours]:.1f} ms a query", f"{times[stock]:.1f}", result["ratios"][pair]


def startup(result: Result) -> Measured:
    """Seconds to the first hits in an index with many terms."""
    rows = [row for row in result["rows"] if row["what"].startswith("a searcher")]
    stock, ours = (statistics.median(row["seconds"]) for row in rows)
    return f"{ours:.2f} s", f"{stock:.2f}", stock / ours


SMALL, BASE = "6 layers, 384", "BERT-base, 12 layers, 768"
TINY = "splade-tiny, 2 layers, 128"
TARGETS = (
    *(Target(what=f"encode, {model}{kinds}: against the fastest other engine{others}", benchmark="encoding",
             bound=bound, find=partial(encoding, model, kind), in_readme=in_readme)
      for model, kind, kinds, others, bound, in_readme in (
          (SMALL, "fp32", ", both fp32", "", 1.5, True), (SMALL, "bf16", ", both bf16", "", 1.25, False),
          (SMALL, "", "", ", int8 too", 1.25, True), (TINY, "fp32", ", both fp32", "", 2.8, False),
          (TINY, "", "", ", int8 too", 1.8, True), (BASE, "fp32", ", both fp32", "", 1.25, False),
          (BASE, "bf16", ", both bf16", "", 1.2, True),
      )),
    *(Target(what=f"vocabulary head, {model}, fp32: screened against plain", benchmark="head", bound=3.5,
             find=partial(head, model)) for model in (SMALL, TINY)),
    Target(what=f"extra memory while encoding, {SMALL}: beside sentence-transformers", benchmark="memory", bound=200,
           is_maximum=True, unit=" MB", find=memory, in_readme=True),
    *(Target(what=f"training step, {measure}: share of plain PyTorch's", benchmark="training", bound=bound,
             is_maximum=True, unit="", find=partial(training, measure))
      for measure, bound in (("time", 0.45), ("memory", 0.4))),
    Target(what="index, 8-bit weights: against Anserini", benchmark="indexing", bound=3,
           find=partial(indexing, "8 bits"), in_readme=True),
    Target(what="index, weights up to 1,000: against Anserini", benchmark="indexing", bound=10,
           find=partial(indexing, "up to 1,000")),
    Target(what="search, 1,000 hits, 20 terms: against Pyserini's batch_search", benchmark="searching", bound=2,
           find=searching, in_readme=True),
    Target(what="open 500,000 distinct terms: against Pyserini", benchmark="startup", bound=5, find=startup,
           in_readme=True),
)  # fmt: skip
"""All targets, in the order of the summary."""


def main(argv: list[str] | None = None) -> int:
    """Write summaries of the results into README.md and results/README.md; with --check, compare them instead."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.report", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file would change")
    options = parser.parse_args(argv)
    files = {name: RESULTS / f"{name}.json" for name in (*BENCHMARKS, "quality")}
    results = {name: read_json(file) for name, file in files.items() if file.is_file()}
    if toys := [str(files[name]) for name, result in results.items() if result["toy"]]:
        raise LearnedSparseError(f"{', '.join(toys)}: a toy result; run the benchmark without --toy")
    quality = results.pop("quality", None)
    texts = {README: readme(results), PAGE: page(results)}
    if quality:
        texts[PAGE] += f"\n{QUALITY}\n\n{quality_table.markdown(quality)}\n"
    for path, text in texts.items():
        if not options.check:
            with atomic_write(path) as file:
                file.write(text.encode("utf-8"))
        elif not path.is_file() or path.read_text("utf-8") != text:
            raise LearnedSparseError(f"{path}: differs from the results; run python -m tests.benchmarks.report")
    return 0


def page(results: Mapping[str, Result]) -> str:
    """Table of all targets, and the machines."""
    lines = ["| | ours | theirs | ratio | target | |", "|---|---:|---:|---:|---:|---|"]
    for target in TARGETS:
        bound = f"{'≤' if target.is_maximum else '≥'} {target.bound:g}{target.unit}"
        found = target.find(results[target.benchmark]) if target.benchmark in results else "not measured"
        if isinstance(found, str):
            lines.append(f"| {target.what} | | | | {bound} | {found} |")
        else:
            ours, theirs, ratio = found
            met = ratio <= target.bound if target.is_maximum else ratio >= target.bound
            cells = f"{target.what} | {ours} | {theirs} | {target.shown(ratio)} | {bound}"
            lines.append(f"| {cells} | {'met' if met else 'not met'} |")
    measured = (results[target.benchmark] for target in TARGETS if target.benchmark in results)
    return HEAD + "\n".join([*lines, "", *dict.fromkeys(map(machine, measured))]) + "\n"


def readme(results: Mapping[str, Result]) -> str:
    """README.md with the table of what was measured on the machine of the benchmark ``encoding``."""
    processors = {name: (of["environment"]["cpu"], of["environment"]["flags"]) for name, of in results.items()}
    lines = ["| | ours | theirs | ratio |", "|---|---:|---:|---:|"]
    for target in TARGETS:
        if target.in_readme and processors.get(target.benchmark) == processors["encoding"]:
            found = target.find(results[target.benchmark])
            if not isinstance(found, str):
                lines.append(f"| {target.what} | {found[0]} | {found[1]} | {target.shown(found[2])} |")
    text = README.read_text("utf-8")
    start, end = text.index(BEGIN), text.index(END)
    return "\n".join([text[:start] + BEGIN, *lines, "", machine(results["encoding"]), text[end:]])


def machine(result: Result) -> str:
    """Machine and versions in one sentence."""
    where, versions = result["environment"], result["versions"]
    listed = ", ".join(f"{name} {versions[name]}" for name in _SHOWN if name in versions)
    flags = ", ".join(where["flags"]) or "no instructions of note"
    return (
        f"{where['cpu']}, {where['cores']} cores ({flags}); Python {where['python']}, Java {where['java']}; {listed}."
    )


if __name__ == "__main__":
    run_main(main)
