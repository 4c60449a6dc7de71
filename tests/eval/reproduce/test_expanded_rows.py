"""Rows with predicted queries of docT5query: the files that their training and encoding read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from encoders.encoding.model import new_model, save_checkpoint
from eval.reproduce.__main__ import main
from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.documents import predicted_queries
from learned_sparse.collections.trec import read_run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.jsonvector.queries import read_topics
from learned_sparse.search.exact_searcher import ExactSearcher
from learned_sparse.search.maxp import best_segments
from tests.toy_data import save_beir, save_collection


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
        assert main(["--matrix", str(file), "--dry-run", *words]) == 0
        return re.findall(r"search runs/toy/test/(\S+)-\w{8}\.txt", capsys.readouterr().out)

    splade, weak = "demo-splade-validation-null", "demo-splade-validation-null-seed-1"
    assert chosen("--paper", "SPLADE") == chosen("--paper", "SPLADE, Table 1") == [splade]
    assert chosen("--paper", "SparTerm, Table 2") == ["bm25", weak]
    assert chosen("--curve", "lambdas", "--row", "BM25") == ["bm25", weak]
    for words in (("--paper", "SPLAED"), ("--curve", "lambda")):
        with pytest.raises(LearnedSparseError, match="no row"):
            chosen(*words)


@pytest.mark.jvm
def test_segments_have_expansions_of_their_own(tmp_path: Path, tmp_home: Path, tiny_bert: Path) -> None:
    """The vectors are of another collection than the column's; a document has the score of its best segment."""
    toy = load_collection(save_collection(tmp_path / "toy", ("test",)))
    texts = {f"{document.id}#{i}": document.text for document in toy.documents() for i in range(2)}
    save_beir(tmp_path / "segments", texts, {}, {})
    predicted = [json.dumps({"id": id, "predicted_queries": ["wing"] if id == "d3#1" else []}) for id in texts]
    (tmp_path / "segments" / "predicted.jsonl").write_text("\n".join(predicted))
    save_checkpoint(tmp_path / "model", new_model("spade", {"k": 4}, str(tiny_bert), output_bias=-1.0))
    row = {"checkpoint": str(tmp_path / "model"), "segments": str(tmp_path / "segments")}
    rows = {"SpaDE": row | {"expanded": f"{tmp_path}/{{collection}}/predicted.jsonl"}}
    columns = {"toy": {"collection": str(tmp_path / "toy"), "split": "test", "measures": ["MRR@10"]}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"title": "Mine", "columns": columns, "rows": rows}))
    words = ["--matrix", str(tmp_path / "mine.yaml"), "--output", str(tmp_path / "results")]
    assert main([*words, "--in-process"]) == 0
    (terms,) = tmp_home.rglob("expansions.jsonl")
    assert dict(predicted_queries(terms)) == dict.fromkeys(texts, "") | {"d3#1": "wing"}
    (run,) = (tmp_home / "runs" / "toy" / "test").glob("*.txt")
    hits = read_run(run)
    assert {hit for of_query in hits.values() for hit, _ in of_query} <= {document.id for document in toy.documents()}
    assert len(hits) > 3
    assert all(len(dict(of_query)) == len(of_query) for of_query in hits.values())
    (vectors,) = (tmp_home / "vectors" / "segments").iterdir()
    exact = ExactSearcher.load(vectors)
    (queries,) = (tmp_home / "queries" / "toy" / "test").iterdir()
    for name, impacts in read_topics(queries).items():
        assert dict(hits.get(name, ())) == dict(best_segments(exact.search(impacts, 100), "#"))
