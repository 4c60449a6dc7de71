"""``python -m tests.benchmarks.report``: write the table of README.md and results/README.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from eval.stats import average_of_trainings, difference
from eval.tables import Cell, Column, format_table
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import new_file, read_json
from tests.benchmarks.run import BENCHMARKS, PACKAGES, RESULTS

README, PAGE = RESULTS.parents[2] / "README.md", RESULTS / "README.md"
BEGIN, END = "<!-- benchmarks: written by python -m tests.benchmarks.report -->", "<!-- end of benchmarks -->"
HEAD = """\
# Results of the benchmarks

Written by `python -m tests.benchmarks.report` from the JSON files beside this page, which have each engine, size and
round with the conditions. `make bench` measures again.

## Targets"""
OURS = ("learned_sparse", "screened", "direct")
"""How the names of our contenders begin."""
COLUMNS = (Column(""), *(Column(name, right=True) for name in ("ours", "theirs", "ratio", "target")), Column("met"))
Row = Mapping[str, Any]
Result = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Target:
    """The best of our rows and the best of the others, of those rows of ``benchmark`` that have the values ``where``.

    Their ratio is compared with ``bound``: how much faster ours is, or its share of the others' time or memory.
    """

    what: str
    benchmark: str
    value: str
    shown: str
    """Format of the value with its unit."""
    bound: float
    where: Mapping[str, object] = field(default_factory=dict)
    kind: str = ""
    """How the names of the contenders end."""
    at_most: bool = False
    """Whether the ratio is a share of the others' time or memory, which must be at most ``bound``; in MB, our value."""
    unit: str = " ×"
    in_readme: bool = False
    """Whether README.md has the target; ``results/README.md`` has all."""

    def cells(self, result: Result) -> list[Cell]:
        """A row of the table."""
        rows: list[Row] = [row for row in result["rows"] if self.where.items() <= row.items()]
        rows = [row for row in rows if contender(row).endswith(self.kind)]
        sides = [[row for row in rows if contender(row).startswith(OURS) is ours] for ours in (True, False)]
        bound = f"{'≤' if self.at_most else '≥'} {self.bound:g}{self.unit}"
        if not all(sides):
            return [self.what, "", "", "", bound, "not measured"]
        more_is_faster, alone = self.value.endswith("per_second"), self.unit == " MB"
        best = max if more_is_faster or alone else min
        ours, theirs = (best(side, key=lambda row: number(row, self.value)) for side in sides)
        mine, other = number(ours, self.value), number(theirs, self.value)
        ratio = mine if alone else mine / other if more_is_faster or self.at_most else other / mine
        met = ratio <= self.bound if self.at_most else ratio >= self.bound
        shown = f"{ratio:.{0 if alone else 2}f}{self.unit}"
        texts = [f"{self.shown.format(number(row, self.value))} ({contender(row)})" for row in (ours, theirs)]
        return [self.what, texts[0].replace("learned_sparse ", ""), texts[1], shown, bound, "yes" if met else "no"]


def number(row: Row, name: str) -> float:
    """A value of a row; of a list of measured values the median."""
    return float(median(row[name]) if isinstance(row[name], list) else row[name])


def contender(row: Row) -> str:
    """Who was measured."""
    return str(row.get("contender") or row.get("head") or row["who"])


SMALL, BASE = "6 layers, 384", "BERT-base, 12 layers, 768"
TINY = "splade-tiny, 2 layers, 128"
TARGETS = (
    *(Target(what=f"encode, {model}{kinds}: against the fastest other engine{others}", benchmark="encoding",
             value="documents_per_second", shown="{:.1f} documents/s", bound=bound, where={"model": model}, kind=kind,
             in_readme=in_readme)
      for model, kind, kinds, others, bound, in_readme in (
          (SMALL, "fp32", ", both fp32", "", 1.5, True), (SMALL, "bf16", ", both bf16", "", 1.25, False),
          (SMALL, "", "", ", int8 too", 1.25, True), (TINY, "fp32", ", both fp32", "", 2.8, False),
          (TINY, "", "", ", int8 too", 1.8, True), (BASE, "fp32", ", both fp32", "", 1.25, False),
          (BASE, "bf16", ", both bf16", "", 1.2, True),
      )),
    *(Target(what=f"vocabulary head, {model}, fp32: screened against plain", benchmark="head", value="ms",
             shown="{:.2f} ms", bound=3.5, where={"model": model, "dtype": "fp32"}) for model in (SMALL, TINY)),
    Target(what=f"extra memory while encoding, {SMALL}: beside sentence-transformers", benchmark="memory",
           value="extra_mb", shown="{:.0f} MB", bound=200, at_most=True, unit=" MB", in_readme=True),
    *(Target(what=f"training step, {measure}: share of plain PyTorch's", benchmark="training", value=value, shown=shown,
             bound=bound, where={"case": "max pooling"}, at_most=True, unit="")
      for measure, value, shown, bound in (
          ("time", "seconds", "{:.2f} s", 0.45), ("memory", "peak_mb", "{:.0f} MB", 0.4),
      )),
    *(Target(what=f"index, {what}: against Anserini", benchmark="indexing", value="net_documents_per_second",
             shown="{:,.0f} documents/s", bound=bound, where={"vectors": vectors}, in_readme=in_readme)
      for vectors, what, bound, in_readme in (
          ("8 bits", "8-bit weights", 3, True), ("up to 1,000", "weights up to 1,000", 10, False),
      )),
    Target(what="search, 1,000 hits, 20 terms: against Pyserini's batch_search", benchmark="searching",
           value="ms_per_query", shown="{:.1f} ms a query", bound=2, where={"terms": 20, "hits": 1_000},
           in_readme=True),
    Target(what="open 500,000 distinct terms: against Pyserini", benchmark="searching", value="seconds",
           shown="{:.2f} s", bound=5, where={"what": "a searcher is made and has its first hits"}, in_readme=True),
)  # fmt: skip
"""All targets, in the order of the summary."""


def main() -> None:
    """Write summaries of the results into README.md and results/README.md."""
    for path, text in texts().items():
        with new_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


def texts() -> dict[Path, str]:
    """What README.md and results/README.md should be."""
    results = {path.stem: read_json(path) for name in (*BENCHMARKS, "quality") for path in RESULTS.glob(f"{name}.json")}
    if toys := [name for name, result in results.items() if result.get("toy")]:
        raise LearnedSparseError(f"{', '.join(toys)}: a toy result; run the benchmark without --toy")
    qualities = [results.pop("quality")] if "quality" in results else []
    return {README: readme(results), PAGE: page(results, qualities)}


def page(results: Mapping[str, Result], qualities: Sequence[Result]) -> str:
    """Table of all targets, and the machines; then the quality."""
    rows = [target.cells(results.get(target.benchmark, {"rows": []})) for target in TARGETS]
    machines = "\n".join(dict.fromkeys(map(machine, results.values())))
    parts = [HEAD, format_table(COLUMNS, rows, markdown=True), machines, *map(quality, qualities)]
    return "\n\n".join(parts) + "\n"


def readme(results: Mapping[str, Result]) -> str:
    """README.md with the table of what was measured on the machine of the benchmark ``encoding``."""
    processors = {name: (of["environment"]["cpu"], of["environment"]["flags"]) for name, of in results.items()}
    same = [target for target in TARGETS if processors.get(target.benchmark) == processors["encoding"]]
    rows = [target.cells(results[target.benchmark])[:4] for target in same if target.in_readme]
    text = README.read_text("utf-8")
    start, end = text.index(BEGIN), text.index(END)
    table = format_table(COLUMNS[:4], rows, markdown=True)
    return "\n".join([text[:start] + BEGIN, table, "", machine(results["encoding"]), text[end:]])


def machine(result: Result) -> str:
    """Machine and versions in one sentence."""
    where, versions = result["environment"], result["versions"]
    listed = ", ".join(f"{name} {versions[name]}" for name in PACKAGES if name in versions)
    flags = ", ".join(where["flags"]) or "no instructions of note"
    return (
        f"{where['cpu']}, {where['cores']} cores ({flags}); Python {where['python']}, Java {where['java']}; {listed}."
    )


Scores = Mapping[str, Mapping[str, float]]
"""Measure of each query, by collection."""
CONDITIONS = """\
## quality

Measured by `python -m tests.benchmarks.quality WORK --data DIR`.

{table}

Above BM25 on each collection: {singly}.

- Budget: the steps of {minutes:g} minutes on one core of {timed_on}, more where the row says so. \
{sizes[training_queries]:,} training queries, or all where the row says so; batches of {sizes[batch]} queries with \
{sizes[hard_negatives]} hard negatives.
- Dev: the better of {rates} learning rates.
- Tests: whole collections; mean and standard deviation of {seeds} seeds, or one seed without a deviation.
- Differences: means of {collections}; 95 % intervals over seeds and queries.
- Teacher: {sizes[teacher_steps]} steps on the same queries. Its time is not counted; distilled rows share its scores.
- Settings: our kind of distillation was chosen in nine earlier trials, six on dev queries and three on training \
queries that are not used here. Of two rows of sentence-transformers, both with or both without a teacher, the better \
on dev is tested. Its losses have their own settings. The row with all training queries was added after the tests of \
our other rows were read, its second and third seed after those of the first.
- Measured on: {machines}, {precision}."""


def quality(result: Result) -> str:
    """BM25 and all contenders: steps, dev, means of the tests, differences from BM25 and from the reference."""
    reference, trained = result["reference"], result["trained"]
    columns = sorted(result["bm25"], key=lambda name: (name not in trained, name))
    tests: dict[str, Sequence[Scores]] = {"BM25": [result["bm25"]], **result["tests"]}
    dev = {row: max(scores.values()) for row, scores in result["dev"].items()}
    dev["BM25"] = mean(result["bm25_dev"].values())
    order = ["BM25", *result["order"]]
    longer = [row for row in tests if row not in order]
    rows = []
    for row in sorted([*order, *longer], key=lambda row: order.index(row.partition(", ")[0])):
        name, comma, times = row.partition(", ")
        scores = [_mean(tests[row], column) if row in tests else "" for column in columns]
        differences = [
            _signed(tests[one], tests[other], trained) if row in tests and one != other else ""
            for one, other in ((row, "BM25"), (reference, row))
        ]
        title, steps = result["titles"].get(name, name) + comma + times, result["steps"].get(row, "")
        rows.append([title, steps, dev.get(row, ""), *scores, *differences])
    right = (*columns, "minus BM25", "distilled minus this")
    headings = [result["measure"], "steps", Column("dev", 3), *(Column(name, right=True) for name in right)]
    singly = "; ".join(
        f"{row}: " + ", ".join(f"{name} {_signed(tests[row], tests['BM25'], [name])}" for name in trained)
        for row in (reference, *longer)
    )
    return CONDITIONS.format(
        **{**result, "machines": " and ".join(result["machines"])}, table=format_table(headings, rows, markdown=True),
        singly=singly, rates=len(result["dev"][reference]), seeds=len(tests[reference]),
        collections=" and ".join(trained),
    )  # fmt: skip


def _signed(first: Sequence[Scores], second: Sequence[Scores], collections: Sequence[str]) -> str:
    """Mean of ``first`` minus ``second`` over seeds, queries and collections, and the ends of its 95 % interval."""
    weights = dict.fromkeys(collections, 1 / len(collections))
    one, other = (
        average_of_trainings({at: [{"": seed[at]} for seed in of] for at in collections}, weights)
        for of in (first, second)
    )
    estimate = difference(one, other, "")
    return "{:+.3f} ({:+.3f} to {:+.3f})".format(estimate.value, *estimate.interval)


def _mean(seeds: Sequence[Scores], collection: str) -> str:
    """Mean over queries and seeds, and the standard deviation over seeds."""
    means = [mean(seed[collection].values()) for seed in seeds]
    return f"{mean(means):.3f}" + (f" ± {stdev(means):.3f}" if len(means) > 1 else "")


if __name__ == "__main__":
    main()
