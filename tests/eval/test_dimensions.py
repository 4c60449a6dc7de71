"""Dimensions of vectors: numbers by hand, and what texts say."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.encoding.model import new_model, save_checkpoint
from eval.costs import TermCounts, count_terms
from eval.dimensions import chart, expansion_section, main, meanings, stop_section, usage_sections
from learned_sparse.core.encoder import encode_texts, load_encoder
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.encode import __main__ as encode
from learned_sparse.jsonvector.queries import topic_text
from tests.learned_sparse.encoded_folder import write_folder
from tests.tiny_models import WORDS, tokenizer
from tests.toy_data import save_beir

COUNTED = count_terms([["the", "rash"], ["the", "hives"], ["the", "rash", "skin"], ["the"], []])
ASKED = count_terms([["the", "rash"], ["wing"], ["rash"]])
DOCUMENTS = {"d1": "hives of the skin", "d2": "garbage collector in python", "d3": "wing lifted", "d4": "rain"}
VECTORS: dict[str, dict[str, int]] = {
    "d1": {"hives": 4, "skin": 2, "rash": 3, "the": 1},
    "d2": {"garbage": 5, "python": 1, "the": 1},
    "d3": {"wing": 2, "##ed": 2, "drag": 6, "the": 1},
    "d4": {},
}
QUERIES: dict[str, dict[str, int]] = {
    "q1": {"hives": 2, "rash": 1, "skin": 1, "drag": 1},
    "q2": {"python": 3, "the": 1},
    "q3": {},
}


def counted(counts: Mapping[str, int], texts: int) -> TermCounts:
    return TermCounts(counts, texts, sum(counts.values()), np.zeros(texts, np.int32))


def test_usage_and_stop_dimensions_by_hand() -> None:
    usage, _ = usage_sections({"documents": COUNTED, "queries": ASKED})
    assert usage.rows[0] == ["documents", 5, 8 / 5, 4, 2, 1]
    assert usage.remarks == ["2 dimensions are active in documents only."]  # hives, skin
    # "rash" has a share of exactly 0.4, which is not above 0.4
    stop = stop_section(COUNTED, ASKED, 0.4, 9)
    assert stop.rows == [["the", 80.0, 100 / 3]]
    flops, equal = (4 * 1 + 2 * 2) / 15, 8 / 5 * 4 / 3 / 4
    postings, remark = stop.remarks
    assert postings == "They have 50.0% of the postings."
    assert f"would be {flops - 4 / 15:.4f} instead of {flops:.4f}" in remark
    assert remark.endswith(f"gives {equal:.4f}.")
    assert [row[0] for row in stop_section(COUNTED, None, 0.39, 9).rows] == ["the", "rash"]
    assert usage_sections({"documents": count_terms([[]])})[0].rows[0][-1] == 0
    assert stop_section(counted({}, 3), None, 0.1, 5).rows == []


def test_the_chart_has_a_line_for_each_kind_of_text() -> None:
    counts = counted({f"t{rank}": 10_000 - rank for rank in range(5000)}, 10_000)
    drawn = chart({"documents": counts, "queries": ASKED})
    assert drawn.count('id="line-') == 2
    assert drawn.count("<use") < 300  # 120 ranks of each at most


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory with vectors, encoded queries and a tokenizer."""
    monkeypatch.chdir(tmp_path)
    tokenizer().save_pretrained(tmp_path / "tokenizer")
    write_folder(tmp_path / "vectors", VECTORS, checkpoint="tokenizer")
    save_queries(tmp_path / "queries", QUERIES)
    return tmp_path


def save_queries(folder: Path, queries: Mapping[str, Mapping[str, int]]) -> None:
    folder.mkdir(parents=True)
    (folder / "queries.tsv").write_text("".join(f"{name}\t{topic_text(row)}\n" for name, row in queries.items()))


def tables(words: str, folder: Path) -> dict[str, Any]:
    """Rows of each table of ``--output`` by its title, and the title of all."""
    assert main([*words.split(), "--output", str(folder / "out")]) == 0
    content = json.loads((folder / "out" / "dimensions.json").read_text())
    found = {
        one["title"]: [dict(zip(one["columns"], row, strict=True)) for row in one["rows"]] for one in content["tables"]
    }
    return found | {"title": content["title"]}


def test_dropped_and_added_terms(workspace: Path) -> None:
    texts = [("hives of the skin", {"hives": 4, "skin": 2, "rash": 3, "the": 1}), ("rain the rain", {"wing": 1})]
    # of the first text "of" is dropped and rash added, of the second rain and the are dropped and wing added
    assert expansion_section(texts, str(workspace / "tokenizer")).rows == [[6 / 2, 5 / 2, 3 / 2, 2 / 2]]
    with pytest.raises(LearnedSparseError, match="a dimension is no word piece of"):
        expansion_section([("rain", {"b12d7": 1})], str(workspace / "tokenizer"))
    found = tables("vectors --expansion 2", workspace)["Terms dropped and added"]
    assert found[0]["terms"] == 8 / 2  # d1 and d3


def test_vectors_with_queries(workspace: Path) -> None:
    content = tables("vectors --queries queries --stop-share 0.5", workspace)
    assert content["title"] == "vectors: 4 documents, 11 postings; expected FLOPS 0.6667"  # 8 shared terms of 12 pairs
    lengths = {row["texts"]: row for row in content["Dimensions per text"]}
    assert (lengths["documents"]["mean"], lengths["documents"]["empty"], lengths["queries"]["empty"]) == (11 / 4, 1, 1)
    (stop,) = content["Stop-dimensions: 1 in more than 50% of the documents"]
    assert stop == {"dimension": "the", "% of the documents": 75.0, "% of the queries": 100 / 3}


def test_a_row_of_a_leaderboard_names_its_vectors_and_queries(workspace: Path, tmp_home: Path) -> None:
    save_beir(workspace / "tiny", DOCUMENTS, {"q1": "hives rash"}, {"test": [("q1", "d1", 1)]})
    write_folder(tmp_home / "vectors" / "tiny" / "words", VECTORS, checkpoint="tokenizer")
    save_queries(tmp_home / "queries" / "tiny" / "test" / "words", QUERIES)
    columns = "columns: {toy: {collection: tiny, split: test, measures: [MRR@10]}}"
    rows = "rows: {words: {checkpoint: tokenizer}, BM25: {bm25: text}}"
    (workspace / "mine.yaml").write_text(f"{{title: Mine, plain_names: true, {columns}, {rows}}}")
    found = tables("mine.yaml:words", workspace)
    assert found["title"] == "words: 4 documents, 11 postings; expected FLOPS 0.6667"
    with pytest.raises(LearnedSparseError, match=r"mine\.yaml:BM25: no model encodes 'toy'"):
        main(["mine.yaml:BM25", "--column", "toy"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nothing.jsonl", "nothing.jsonl: no vectors in it"),
        ("vectors/vectors --texts", "manifest.json is missing"),
        ("vectors --stop-share 2", "--stop-share 2.0"),
    ],
)
def test_what_cannot_be_counted(words: str, message: str, workspace: Path) -> None:
    (workspace / "nothing.jsonl").touch()
    with pytest.raises(LearnedSparseError, match=re.escape(message)):
        main(words.split())


def test_words_that_activate_a_dimension() -> None:
    texts = [*["What do kids eat?"] * 5, *["what do kids play"] * 2, *["what is rust"] * 20, "kids!"]
    active = [*[{"b1", "b2"}] * 6, *[{"b2"}] * 22]
    (first,) = meanings(texts, active)  # b2 is active in every query
    # "kids" is in 8 of 28 queries and in all 6 that activate b1: lift 3.5; of "do" 4, of "eat" 4.667, of "what" near 1
    assert first == ("b1", 6, [("do", 6), ("eat", 5), ("kids", 6)])
    assert meanings(texts, active, min_queries=7) == []
    assert meanings([], []) == []


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """Documents and queries of a small collection, encoded by a tiny SPLADE."""
    folder = tmp_path_factory.mktemp("dimensions")
    texts = [" ".join(WORDS[i : i + 1 + i % 12]) for i in range(40)]
    documents = {f"d{number}": text for number, text in enumerate(texts)}
    queries = {f"q{number}": text for number, text in enumerate([*texts[:9], *texts[:9]])}
    save_beir(folder / "data", documents, queries, {"test": [(f"q{i}", f"d{i}", 1) for i in range(18)]})
    save_checkpoint(folder / "model", new_model("splade", {}, str(tiny_bert), max_length={"document": 8}))
    words = ["--model", "m", "--checkpoint", str(folder / "model"), "--collection", str(folder / "data")]
    assert encode.main([*words, "--output", str(folder / "documents"), "--part-size", "7"]) == 0
    assert encode.main([*words, "--output", str(folder / "queries"), "--queries"]) == 0
    return folder


def test_texts_of_an_encoded_collection(encoded: Path, tmp_path: Path) -> None:
    words = f"{encoded / 'documents'} --queries {encoded / 'queries'} --texts --at-least 2"
    assert main([*words.split(), "--output", str(tmp_path)]) == 0
    content = json.loads((tmp_path / "dimensions.json").read_text())
    rows = {one["title"]: one["rows"] for one in content["tables"]}
    lengths = rows["Active dimensions of documents by length in tokens"]
    # one to twelve words without suffixes, plus [CLS] and [SEP], truncated at eight tokens
    assert (sum(row[1] for row in lengths), lengths[0][0], lengths[-1][0]) == (40, "3", "8")
    assert sum(row[1] for row in rows["Active dimensions of queries by length in tokens"]) == 9  # distinct texts
    assert {path.name for path in tmp_path.iterdir()} == {"dimensions.json", "dimensions.md", "frequency.svg"}
    chosen = rows["Words of the queries that activate a dimension"][-1][0]
    assert len(tables(f"{words} --dimension {chosen}", tmp_path)["Words of the queries that activate a dimension"]) == 1
    with pytest.raises(LearnedSparseError, match="no such folder"):
        main([*words.split(), "--tokenizer", "/no/such/folder"])


def test_values_are_those_of_the_encoder(encoded: Path, tmp_path: Path) -> None:
    assert main([str(encoded / "documents"), "--values", "3", "--output", str(tmp_path)]) == 0
    table = json.loads((tmp_path / "dimensions.json").read_text())["tables"][-1]
    encoder = load_encoder(str(encoded / "model"), "document", dtype="fp32")
    weights = encode_texts(encoder, [" ".join(WORDS[i : i + 1 + i]) for i in range(3)]).values
    assert sum(count for _, _, count in table["rows"]) == len(weights)
    (mean,) = re.findall(r"mean ([\d.]+)", table["remarks"][0])
    assert float(mean) == pytest.approx(float(weights.mean()), rel=0.01)  # in the dtype of the vectors


def test_the_command_does_not_import_torch(workspace: Path, python: Any, root: Path) -> None:
    program = "import sys; from eval.dimensions import main; main(sys.argv[1:]); print('torch' in sys.modules)"
    words = ["vectors", "--queries", "queries", "--expansion", "2"]
    done = python("-c", program, *words, cwd=workspace, env={"PYTHONPATH": str(root), "HF_HUB_OFFLINE": "1"})
    assert done.stdout.endswith("False\n"), done.stderr
