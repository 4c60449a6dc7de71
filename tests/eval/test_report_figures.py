"""The figures of a report: readable, the same for the same results, and absent where there is nothing to draw."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from eval.report.__main__ import write
from eval.report.figures import NAMES, figures
from learned_sparse.core.errors import LearnedSparseError
from tests.eval import report_results
from tests.eval.report_results import HOSTILE, made_up_found, published_alone

pytest.importorskip("matplotlib")


def _texts(svg: bytes) -> list[str]:
    return [text.strip() for text in ElementTree.fromstring(svg).itertext()]  # noqa: S314  (our own)


def test_figures_are_readable_svg() -> None:
    drawn = figures(made_up_found())
    assert set(drawn) == set(NAMES)
    for name in NAMES:
        if name.endswith(".svg"):
            assert {"UHD-BERT", "scifact"} <= set(_texts(drawn[name]))


def test_published_rows_alone_are_drawn() -> None:
    assert list(figures(published_alone())) == [
        f"{name}.{end}" for name in ("scores", "tradeoff-flops") for end in ("svg", "png")
    ]


def test_costs_far_apart_have_plain_numbers_on_their_axis() -> None:
    found = made_up_found()
    for place, cell in enumerate(found.results["cells"]):
        if cell["costs"]:
            cell["costs"]["FLOPS"] = 0.002 * 3 ** (place % 8)
    texts = _texts(figures(found)["tradeoff-flops.svg"])
    assert {"0.01", "0.1", "1"} <= set(texts)
    assert not [text for text in texts if "mathdefault" in text]


def test_hostile_names_can_be_drawn() -> None:
    drawn = figures(made_up_found(names=HOSTILE))
    assert {*HOSTILE[:2], "| `x` *y* $z$"} <= set(_texts(drawn["scores.svg"]))
    assert "_under" in _texts(drawn["tradeoff-flops.svg"])


def test_a_figure_of_nothing_is_removed(tmp_path: Path) -> None:
    results, per_query = report_results.made_up(queries=2)
    (tmp_path / "tradeoff-flops.svg").write_text("of other results", encoding="utf-8")
    (tmp_path / "mine.svg").write_text("not ours", encoding="utf-8")
    for cell in results["cells"]:
        cell.update({"scores": {}, "costs": None, "verdicts": {}})
    write(report_results.write(tmp_path, results, per_query))
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"README.md", "index.html", "mine.svg", "per_query.json", "results.json"}


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    folder = report_results.write(tmp_path, *report_results.made_up(queries=2))
    with pytest.raises(LearnedSparseError, match=r"learned-sparse\[report\]"):
        write(folder)
    assert (folder / "index.html").exists()
