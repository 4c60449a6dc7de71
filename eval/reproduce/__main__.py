"""``python -m eval.reproduce``: run the steps of a leaderboard that are not done, and write its results and pages."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path

from eval.reproduce.matrix import Matrix, load_matrix
from eval.reproduce.pages import PAGE, scores, write_report
from eval.reproduce.plan import Plan, make_plan, plan_cell, swept
from eval.reproduce.results import exit_status, kept_cells, write_leaderboard
from eval.reproduce.runner import Runner, run_steps
from eval.tables import format_table, heading
from learned_sparse.collections.collection import data_root
from learned_sparse.collections.documents import add_bad_line_option
from learned_sparse.core.errors import LearnedSparseError, did_you_mean, run_main
from learned_sparse.core.files import locked
from learned_sparse.core.settings import CommandParser, add_engine_options, positive, refuse
from learned_sparse.ray import Engine

_MISSING = """\
Missing files have to be placed by hand: python -m learned_sparse.collections NAME says where a collection is from. The
predicted queries by document id of docT5query for MS MARCO are the data sets
castorini/msmarco_v1_passage_doc2query-t5_expansions and castorini/msmarco_v1_doc_doc2query-t5_expansions of the Hugging
Face Hub, to be unpacked (gunzip)."""
_MEASURES = ("MRR", "MAP", "nDCG", "R", "P@", "Success")
_PRINTED = ("row", "minus", *_MEASURES, "FLOPS", "terms", "Lucene ms/query, mean", "ms/query with encoding, mean")
"""Beginnings of the headings of the first column's scores that are printed; the pages have all."""
EPILOG = """\
A step that was done with the same inputs and settings is skipped, and a killed step is resumed. A step that fails
leaves the cells that need it empty; its output is in reproduce/logs below the home folder. The exit status is 1 if one
of the chosen cells failed or has other scores than the matrix expects, worse or better.

--engine ray runs each step as a task of a Ray cluster whose nodes share the home folder, several at a time. A step
takes the processors of one worker (--workers), and its GPUs if it trains, encodes or re-ranks.

examples:
  python -m eval.reproduce --matrix msmarco-doc --rehearse
  python -m eval.reproduce --matrix mine.yaml --row splade --column scifact --dry-run
  python -m eval.reproduce --matrix demo --row spade --split dev --set alpha=0,0.5,1 --set k=5,10
"""


def main(argv: list[str] | None = None) -> int:
    """Run the steps of a leaderboard that are not done, and write its results, pages and figures."""
    options = parser().parse_args(argv)
    if options.report:
        write_report(options.report)
        print(f"written: {options.report}")
        return 0
    engine, one_process = Engine.from_options(options), options.rehearse or options.in_process
    refuse(
        (engine and (options.jobs or one_process), "--engine ray: omit --jobs, --in-process and --rehearse"),
        (options.jobs and one_process, "--jobs: omit --in-process and --rehearse"),
    )
    data, name = options.data or data_root(), Path(options.matrix).stem
    matrix = load_matrix(options.matrix, data if options.rehearse else options.data)  # a rehearsal needs no data
    matrix = dataclasses.replace(matrix, on_bad_line=options.on_bad_line or matrix.on_bad_line)
    if options.set:
        refuse((len(options.row) != 1 or len(options.column) > 1, "--set: name one row with --row, and one --column"))
        cell = plan_cell(f"{options.matrix}:{options.row[0]}", next(iter(options.column), None), options.data)
        matrix, name = swept(matrix, cell, options.set, options.split), "sweep"
    if not options.rehearse:
        return _run_matrix(matrix, name, data, options.output or Path("results") / name, options, engine)
    from eval.reproduce.rehearsal import rehearsal

    with rehearsal(matrix, name) as (small, made_up, output):
        return _run_matrix(small, name, made_up, output, options, engine)


def _run_matrix(
    matrix: Matrix, name: str, data: Path, output: Path, options: argparse.Namespace, engine: Engine | None
) -> int:
    """Print the steps of the chosen cells; or run them, and write results and pages to ``output``."""
    rows = [] if options.set else chosen_rows(matrix, options)
    plan = make_plan(matrix, name, data, rows=rows, columns=options.column, threads=options.threads)
    if options.check_data:
        print(*(lines := list(data_lines(plan))), sep="\n")
        return int(any(line.startswith("missing") for line in lines))
    title = f"{matrix.title}: {len(plan.cells)} cells"
    if options.dry_run:
        runner = Runner(plan.steps, lambda _: 0)
        for step in plan.steps:
            state = "to do" if step in runner.todo else "impossible" if step in runner.failed else "done"
            print(f"{state:12}{step.title}\n            {step.command}")
        print(*dict.fromkeys(runner.failed.values()), *data_lines(plan), runner.summary(title, runner.todo), sep="\n")
        return 0
    whole = make_plan(matrix, name, data, threads=options.threads, lenient=True)
    chosen = {(cell.row, cell.column) for cell in plan.cells}
    kept = kept_cells(whole, output, chosen, drop=options.drop or options.rehearse)
    failed = run_steps(title, plan.steps, options, engine)
    cells = sum(failed.keys().isdisjoint(cell.steps) for cell in plan.cells)
    print(f"{cells} of {len(plan.cells)} cells run, {len(failed)} of {len(plan.steps)} steps failed")
    with locked(output):
        status = exit_status(write_leaderboard(whole, output, _command_line(options), kept), chosen)
        results = write_report(output)
    if table := scores(results, results.content["columns"][0]):
        places = [place for place, one in enumerate(table.columns) if heading(one).startswith(_PRINTED)]
        print(format_table([table.columns[i] for i in places], [[row[i] for i in places] for row in table.rows]))
    if matrix.about:
        print(textwrap.fill(matrix.about, 120))
    print(f"written: {output / PAGE}")
    return status or int(bool(failed))


def data_lines(plan: Plan) -> Iterator[str]:
    """A line for each file that is missing, or that a step downloads, with the cells that need it."""
    needed: dict[str, dict[str, None]] = {}
    for cell in plan.cells:
        for step in cell.steps:
            absent = [f"missing     {path}" for path in step.reads if not path.exists()]
            parts = step.facts.get("fetched", ())
            fetched = [f"download    {one}" if isinstance(one, str) else f"missing     {one[0]}" for one in parts]
            for line in absent + fetched:
                needed.setdefault(line, {})[f"{cell.row} on {cell.column}"] = None
    yield from (f"{line}: for {', '.join(cells)}" for line, cells in needed.items())
    if any(line.startswith("missing") for line in needed):
        yield _MISSING


def chosen_rows(matrix: Matrix, options: argparse.Namespace) -> list[str]:
    """The rows of ``--row``, ``--curve`` and ``--paper``: those of its claims, and those beside its published rows."""
    rows: dict[str, None] = dict.fromkeys(options.row)
    curves = {name: row.curve for name, row in matrix.rows.items() if row.curve}
    papers = {name.rpartition(" [")[0]: row.source for name, row in matrix.rows.items() if row.kind == "published"}
    sources = [(side, claim.source) for claim in matrix.claims for side in (claim.better, claim.worse)]
    sources += [(name, source) for name, source in papers.items() if name in matrix.rows]
    for option, word, known in (("curve", options.curve, list(curves.items())), ("paper", options.paper, sources)):
        if word is None:
            continue
        found = [name for name, value in known if value == word or (option == "paper" and value.startswith(word))]
        if not found:
            raise LearnedSparseError(f"--{option} {word}: no row{did_you_mean(word, [value for _, value in known])}")
        rows |= dict.fromkeys(name for name in found if matrix.rows[name].kind != "published")
    return list(rows)


def _command_line(options: argparse.Namespace) -> str:
    """The command as it was typed, without paths of this machine."""
    bad_lines = options.on_bad_line
    given = {"--data DIR": options.data, f"--on-bad-line {bad_lines}": bad_lines, "--rehearse": options.rehearse}
    words = [word for word, value in given.items() if value]
    if options.set:
        words += [shlex.join(["--row", *options.row]), *(f"--set {shlex.quote(change)}" for change in options.set)]
    return " ".join(["python -m eval.reproduce --matrix", shlex.quote(Path(options.matrix).name), *words])


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = CommandParser(prog="python -m eval.reproduce", description=main.__doc__, epilog=EPILOG)
    add = parser.add_argument
    what = parser.add_mutually_exclusive_group(required=True).add_argument
    what("--matrix", metavar="NAME|FILE", help="a leaderboard of the package, or a YAML file")
    what("--report", type=Path, metavar="DIR", help="judge results again by their stored values, and write their pages")
    add("--data", type=Path, metavar="DIR", help='folder for "{data}" in the matrix (default: the data folder)')
    rows = 'only these rows, for instance "SpaDE *"'
    add("--row", nargs="+", action="extend", default=[], metavar="ROW", help=rows)
    add("--paper", metavar="SOURCE", help='only the rows of a paper or of a part of it, such as "SPLADE, Figure 1"')
    add("--curve", metavar="NAME", help="only the rows of this curve")
    add("--column", nargs="+", action="extend", default=[], metavar="COLUMN", help="only these columns")
    swept = "every combination of these values of the settings of one row, as a leaderboard; repeatable"
    add("--set", action="append", default=[], metavar="KEY=V,V,...", help=swept)
    add("--split", help="with --set: another split of the column's collection, such as dev")
    add_bad_line_option(add, default=None)
    add("--drop", action="store_true", help="lose the cells that the results have and this run does not measure")
    add(
        "--dry-run",
        action="store_true",
        help="print the steps, their commands, whether they are done, and missing files",
    )
    add("--check-data", action="store_true", help="list the files that must be placed by hand, with their sources")
    add("--rehearse", action="store_true", help="run every step on made-up texts with random models")
    add("--output", type=Path, metavar="DIR", help="folder of the results (default: results/MATRIX)")
    add("--in-process", action="store_true", help="run the steps in this process, which imports torch once")
    add("--jobs", type=positive, metavar="N", help="steps at the same time on this machine (default 1)")
    add_engine_options(parser)
    add("--threads", type=positive, metavar="N", help="threads of each step (default: as each command has it)")
    return parser


if __name__ == "__main__":
    run_main(main, "the same command goes on with the steps that are left")
