"""Rows with predicted queries of docT5query: the files that their training and encoding read."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from eval.reproduce.__main__ import main
from learned_sparse.core.errors import LearnedSparseError
from tests.toy_data import save_collection


def test_the_dry_run_names_missing_files_and_the_cells_that_need_them(
    tmp_path: Path, tmp_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_collection(tmp_path / "toy", ("train", "test"))
    file = str(tmp_path / "{collection}" / "predicted.jsonl")
    content = {
        "title": "Mine",
        "columns": {"toy": {"collection": str(tmp_path / "toy"), "split": "test", "measures": ["MRR@10"]}},
        "training": {"data": [f"{tmp_path}/toy:train"]},
        "rows": {
            "BM25": {"bm25": "expanded", "expanded": file},
            "SpaDE": {"recipe": "demo-spade", "expanded": file, "changes": ["validation=null"]},
        },
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    assert main(["--matrix", str(tmp_path / "mine.yaml"), "--dry-run"]) == 0
    output = capsys.readouterr().out
    (line,) = (line for line in output.splitlines() if line.startswith("missing"))
    assert f"{tmp_path}/toy/predicted.jsonl: for BM25 on toy, SpaDE on toy" in line
    assert "msmarco_v1_passage_doc2query-t5_expansions" in output
    (tmp_path / "toy" / "predicted.jsonl").write_text('{"id": "d1", "predicted_queries": ["x"]}\n', encoding="utf-8")
    assert main(["--matrix", str(tmp_path / "mine.yaml"), "--dry-run"]) == 0
    assert not [line for line in capsys.readouterr().out.splitlines() if line.lower().startswith("missing")]


def test_rows_of_a_paper_and_of_a_curve(tmp_path: Path, tmp_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {"toy": {"collection": str(save_collection(tmp_path / "toy", ("test",))), "split": "test"}}
    columns["toy"]["measures"] = ["MRR@10"]  # type: ignore[assignment]
    rows = {
        "BM25": {"bm25": "text"},
        "SPLADE": {"recipe": "demo-splade", "changes": ["validation=null"]},
        "SPLADE [SPLADE]": {"published": "SPLADE, Table 1", "scores": {"toy": {"MRR@10": 0.322}}},
        "weak": {"recipe": "demo-splade", "curve": "lambdas", "changes": ["validation=null", "seed=1"]},
    }
    claims = [{"source": "SparTerm, Table 2: in words", "better": "weak", "worse": "BM25", "quantity": "MRR@10"}]
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"title": "x", "columns": columns, "rows": rows, "claims": claims}, sort_keys=False))

    def chosen(*words: str) -> list[str]:
        assert main(["--matrix", str(file), "--display-commands", *words]) == 0
        return [line for line in capsys.readouterr().out.splitlines() if line.startswith("#")]

    assert chosen("--paper", "SPLADE") == chosen("--paper", "SPLADE, Table 1") == ["# SPLADE, toy"]
    assert chosen("--paper", "SparTerm, Table 2") == ["# BM25, toy", "# weak, toy"]
    assert chosen("--curve", "lambdas", "--row", "BM25") == ["# BM25, toy", "# weak, toy"]
    for words in (("--paper", "SPLAED"), ("--curve", "lambda")):
        with pytest.raises(LearnedSparseError, match="no row"):
            chosen(*words)
