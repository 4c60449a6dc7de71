"""The demo at toy size, as ``make demo`` runs it: every step runs exactly once."""

from __future__ import annotations

import dataclasses
import logging
import re
from pathlib import Path

import pytest

from encoders.training import recipe as recipe_file
from eval.reproduce import __main__ as reproduce
from eval.reproduce.matrix import load_matrix
from learned_sparse.collections import pydoc
from learned_sparse.core.files import checkpoint_folder, home, index_folder, run_file, vectors_folder
from tests.toy_data import MODULES, save_library, save_recipes


@pytest.mark.jvm
def test_the_demo_runs_every_step_once(
    tmp_home: Path,
    tmp_path: Path,
    tiny_headless: Path,
    root: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two steps on a tiny BERT for each recipe, a part of the library, and runs of 100 hits, which R@100 needs."""
    library = save_library(tmp_path / "library", MODULES[:4])
    monkeypatch.setattr(pydoc, "LIBRARY", library)
    matrix = dataclasses.replace(load_matrix("demo"), hits=100)
    recipes = [f"demo-{name}" for name in ("sparterm", "splade", "spade", "uhd")]
    monkeypatch.setattr(recipe_file, "RECIPES", save_recipes(tmp_path / "recipes", recipes, tiny_headless, -1.0))
    monkeypatch.setattr(reproduce, "load_matrix", lambda *_: matrix)
    caplog.set_level(logging.INFO, "eval.reproduce")
    ready = "--matrix demo --in-process --row BM25 splade-tiny hybrid"
    makefile = (root / "Makefile").read_text("utf-8")
    assert "--matrix demo --in-process --output" in makefile
    assert "--row BM25 splade-tiny hybrid\n" in makefile

    def run(words: str) -> tuple[str, dict[str, list[str]]]:
        """What is printed, and the cells of the table by row."""
        assert reproduce.main([*words.split(), "--output", str(tmp_path / "results")]) == 0
        output = capsys.readouterr().out
        return output, {line.split()[0]: re.split(" {2,}", line)[1:] for line in output.splitlines() if line}

    _, table = run(ready)
    assert "splade" not in table
    output, table = run(f"{ready} splade")
    assert re.search(r"4 of 4 cells run, 0 of \d+ steps failed\n", output)
    assert any(message.startswith("[ 1/16] index-bm25 indexes/pydoc/bm25: ") for message in caplog.messages)
    assert 0.3 < float(table["BM25"][0]) < 0.6
    assert 0.7 < float(table["BM25"][1]) < 1
    score, difference, *others = table["splade"]
    assert len(others) == 6
    assert 0 <= float(score.rstrip("▼")) < float(table["BM25"][0])  # a random BERT
    assert re.fullmatch(r"−0\.\d+ \(−0\.\d+ to −0\.\d+\)", difference)
    for path in (checkpoint_folder("splade"), vectors_folder("pydoc", "splade"), index_folder("pydoc", "splade")):
        assert path.is_dir()
    assert run_file("pydoc", "test", "splade").is_file()

    (home() / "runs" / "pydoc" / "test" / "bm25.txt").unlink()
    caplog.clear()
    _, again = run(f"{ready} splade")
    assert sum(message.endswith(" s") for message in caplog.messages) == 3  # search, evaluate and costs of BM25
    assert {name: again[name][:-2] for name in ("BM25", "splade")} == {
        name: table[name][:-2] for name in ("BM25", "splade")
    }  # but for two times that are measured again
