"""The page of a leaderboard and its figure: every number is there, and names are escaped."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from eval.reproduce.__main__ import main
from eval.reproduce.pages import Results, markdown, tradeoff, write_report
from learned_sparse.core.errors import LearnedSparseError
from tests.eval.report.report_results import FOLDER
from tests.eval.report.report_results import results as made_up

HOSTILE = ("</script><script>alert(1)</script>", "_under", "a\"b'c & <img src=x>", "\u2028| `x` *y* $z$")
"""Names with characters that XML or matplotlib interpret. ``tests/reliability/test_pages.py`` has those of Markdown."""
MEASURE = "nDCG@10"


def test_the_committed_pages_are_those_of_their_results(tmp_path: Path) -> None:
    """``--report`` computes verdicts and pages again, and changes no byte."""
    for name in ("results.json", "values.csv.gz"):
        (tmp_path / name).write_bytes((FOLDER / name).read_bytes())
    assert main(["--report", str(tmp_path)]) == 0
    texts = {"README.md", "cells.csv", "results.json"}
    assert {path.name for path in tmp_path.iterdir()} == texts | {"tradeoff.svg", "values.csv.gz"}
    for name in texts:
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), name


def test_claims_stand_first_with_all_their_numbers() -> None:
    results = made_up()
    next(one for one in results.content["claims"] if "SpaDE" in one["source"])["unequal"] = "a second network"
    tables = markdown(results)
    line = next(line for line in tables.splitlines() if "SpaDE: MRR@10 higher than BM25 " in line)
    for part in (
        "+0.0217 (+0.0123 to +0.0311)", " 0.0166 |", " +0.1650 |", " 5,984 |", " 1,740,800 |",
        "✓ agrees, p 0.006", "unequal training: a second network",
    ):  # fmt: skip
        assert part in line
    order = ["## Claims", "## msmarco-mini", "## Expected scores", "## Failed", "## Rows", "## Versions"]
    assert [tables.index(part) for part in order] == sorted(tables.index(part) for part in order)
    assert "✗ worse" in tables
    assert "= equal" in tables
    assert "encode ended with status 137: killed" in tables


def test_the_best_of_our_systems_is_bold() -> None:
    results = made_up()
    best = max(results.value(row["name"], "msmarco-mini", MEASURE) or 0 for row in results.content["rows"])
    assert f"**{best:.4f}" in markdown(results)
    for kind, row in (("published", "Paper"), ("best_of", "splade-tiny")):  # an upper bound is no system
        cells = [dict(cell) for cell in results.content["cells"]]
        for cell in cells:
            if cell["row"] == row:
                cell.update(scores={"nDCG@10": 0.99})
        rows = [{**one, "kind": kind} if one["name"] == row else one for one in results.content["rows"]]
        changed = Results(content={**results.content, "cells": cells, "rows": rows}, trainings=results.trainings)
        assert f"**{best:.4f}" in markdown(changed) or best == results.value(row, "msmarco-mini", MEASURE)
        assert "**0.9900" not in markdown(changed)


def test_the_figure_has_every_point_once_in_one_panel() -> None:
    results = made_up(*HOSTILE)
    assert results.plotted is not None
    drawn = tradeoff(results, results.plotted)
    assert drawn == tradeoff(results, results.plotted)
    root = ET.fromstring(drawn)  # noqa: S314  (our own)
    ids = [element.get("id", "") for element in root.iter()]
    assert len([id for id in ids if id.startswith("axes_")]) == 1
    legend = {element.text for element in root.iter()}
    assert {"a curve", "Paper", " _under"} <= legend  # a curve and two rows


def test_published_rows_alone_and_results_without_optional_parts() -> None:
    content = made_up().content
    published = [row for row in content["rows"] if row["kind"] == "published"]
    cells = [cell for cell in content["cells"] if cell["row"] == "Paper"]
    columns = [{**column, "measures": []} for column in content["columns"]]
    alone = {**content, "rows": published, "cells": cells, "columns": columns, "claims": []}
    assert "0.3220" in markdown(Results(content=alone))
    for cell in content["cells"]:
        cell.update({"costs": None, "difference": {}, "p": {}, "verdicts": {}, "expected": None, "spread": None})
    results = Results(content={**content, "claims": [], "baseline": None})
    assert not {"## Claims of the papers", "## Expected scores"} & set(markdown(results).splitlines())


def test_a_folder_without_results(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text('{"rows": []}')
    with pytest.raises(LearnedSparseError, match=r"results\.json: "):
        write_report(tmp_path)
