"""Stock Pyserini commands through the launcher, in processes that find no Java."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from learned_sparse import lucene, pyserini
from learned_sparse.collections.trec import read_run
from learned_sparse.core.errors import LearnedSparseError
from tests.learned_sparse.encoded_folder import dot_products, write_folder

VECTORS = {"d1": {"all": 1, "hives": 3}, "d2": {"all": 1, "rash": 20, "hives": 3}, "d3": {"all": 4}}


@pytest.fixture
def launch(python: Any, tmp_path: Path) -> Callable[..., Any]:
    """Run the launcher without ``java`` on PATH and without ``JAVA_HOME``."""
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment["PATH"] = str(tmp_path)
    return lambda *arguments: python("-m", "learned_sparse.pyserini", *arguments, env=environment)


@pytest.mark.jvm
def test_index_search_and_evaluate(launch: Callable[..., Any], tmp_path: Path) -> None:
    """Index, search and evaluate as Pyserini's documentation spells it."""
    vectors = write_folder(tmp_path / "encoded", VECTORS) / "vectors"
    made = launch(
        *("index.lucene", "--collection", "JsonVectorCollection", "--input", vectors, "--index", tmp_path / "index"),
        *("--generator", "DefaultLuceneDocumentGenerator", "--threads", "2", "--impact", "--pretokenized"),
    )
    assert made.returncode == 0, made.stderr
    assert "3 documents indexed" in made.stdout
    (tmp_path / "topics.tsv").write_text("1\thives hives rash all\n2\tall\n")
    searched = launch(
        *("pyserini.search.lucene", "--impact", "--min-idf", "-1", "--index", tmp_path / "index"),
        *("--topics", tmp_path / "topics.tsv", "--output", tmp_path / "run.txt"),
    )
    assert searched.returncode == 0, searched.stderr
    assert "WARNING" not in searched.stderr
    found = read_run(tmp_path / "run.txt")
    for name, query in (("1", {"hives": 2, "rash": 1, "all": 1}), ("2", {"all": 1})):
        expected = dot_products(query, VECTORS)
        assert [document for document, _ in found[name]] == [document for document, _ in expected]
        assert [score for _, score in found[name]] == pytest.approx([score for _, score in expected], abs=1e-4)
    (tmp_path / "qrels.txt").write_text("1 0 d2 1\n2 0 d1 1\n")
    measured = launch("eval.trec_eval", "-c", "-m", "recip_rank", tmp_path / "qrels.txt", tmp_path / "run.txt")
    assert measured.returncode == 0, measured.stderr
    assert measured.stdout.split() == ["recip_rank", "all", "0.7500"]  # ranks 1 and 2


@pytest.mark.jvm
@pytest.mark.parametrize(("code", "status"), [("None", 0), ("3", 3), ("'sorry'", 1)])
def test_exit_statuses_pass_through(
    code: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a module gives to ``sys.exit`` is the status, and its arguments are its own."""
    import pyserini as stock

    (tmp_path / "leaves.py").write_text(f"import sys; print(sys.argv[1:], __name__); sys.exit({code})")
    monkeypatch.setattr(stock, "__path__", [*stock.__path__, str(tmp_path)])
    assert pyserini.main(["leaves", "--help", "-x"]) == status
    said = capsys.readouterr()
    assert said.out == "['--help', '-x'] __main__\n"
    assert said.err == ("sorry\n" if status == 1 else "")


@pytest.mark.jvm
@pytest.mark.parametrize("module", ["serach.lucene", "eval", "eval.trec_evil"])
def test_a_command_pyserini_does_not_have(module: str) -> None:
    with pytest.raises(LearnedSparseError, match=f"no command pyserini.{module}; for instance search.lucene"):
        lucene.run_stock(module, [])


def test_the_launchers_own_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        pyserini.main(["--help"])
    assert "search.lucene" in capsys.readouterr().out
