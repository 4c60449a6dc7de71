"""The command eval.profile: numbers checked by hand, from vectors and from Lucene; page and errors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eval.profile.__main__ import main
from eval.profile.frequencies import read_counts
from eval.profile.scores import KINDS, score_parts
from eval.profile.texts import expansion
from learned_sparse.collections.trec import write_run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.index.build import build_index
from learned_sparse.index.vectors import encoded_files
from learned_sparse.jsonvector.queries import topic_text
from tests.learned_sparse.encoded_folder import dot_products, write_folder
from tests.tiny_models import tokenizer
from tests.toy_data import save_beir

BOTH, IN_QUERY, IN_DOCUMENT, NEITHER = KINDS.values()
DOCUMENTS = {"d1": "hives of the skin", "d2": "garbage collector in python", "d3": "wing lifted", "d4": "rain"}
VECTORS: dict[str, dict[str, int]] = {
    "d1": {"hives": 4, "skin": 2, "rash": 3, "the": 1},
    "d2": {"garbage": 5, "python": 1, "the": 1},
    "d3": {"wing": 2, "##ed": 2, "drag": 6, "the": 1},
    "d4": {},
}
TEXTS = {"q1": "hives rash", "q2": "garbage", "q3": "skin"}
QUERIES: dict[str, dict[str, int]] = {
    "q1": {"hives": 2, "rash": 1, "skin": 1, "drag": 1},
    "q2": {"python": 3, "the": 1},
    "q3": {},
}
# q1 and d1: hives 8 in both texts, rash 3 in the query's, skin 2 in the document's; q1 and d3: drag 6 in neither.
# q2 and d2: python 3 and the 1; the rest of its hits share "the" alone, which is in d1's text.
EXPECTED = {
    BOTH: (8 / 13) / 5,
    IN_QUERY: (3 / 13) / 5,
    IN_DOCUMENT: (2 / 13 + 3 / 4 + 1) / 5,
    NEITHER: (1 + 1 / 4 + 1) / 5,
}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory with a collection, its vectors, encoded queries, a run and a tokenizer."""
    monkeypatch.chdir(tmp_path)
    tokenizer().save_pretrained(tmp_path / "tokenizer")
    save_beir(tmp_path / "tiny", DOCUMENTS, TEXTS, {"test": [(query, "d1", 1) for query in TEXTS]})
    write_folder(tmp_path / "vectors", VECTORS, checkpoint="tokenizer")
    save_queries(tmp_path / "queries", QUERIES)
    run = {query: dot_products(vector, VECTORS) for query, vector in QUERIES.items()}
    write_run("run.txt", {query: hits for query, hits in run.items() if hits})
    return tmp_path


def save_queries(folder: Path, queries: Mapping[str, Mapping[str, int]]) -> None:
    folder.mkdir()
    (folder / "queries.tsv").write_text("".join(f"{name}\t{topic_text(row)}\n" for name, row in queries.items()))


def profile_json(text: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main([*text.split(), "--json"]) == 0
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


def test_dropped_and_added_terms(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [("hives of the skin", {"hives": 4, "skin": 2, "rash": 3, "the": 1}), ("rain the rain", {"wing": 1})]
    found = expansion(texts, str(workspace / "tokenizer"))
    # of the first text "of" is dropped and rash added, of the second rain and the are dropped and wing added
    assert (found.documents, found.pieces, found.terms) == (2, 6 / 2, 5 / 2)
    assert (found.dropped, found.added) == (3 / 2, 2 / 2)
    with pytest.raises(LearnedSparseError, match="a dimension is no word piece of"):
        expansion([("rain", {"b12d7": 1})], str(workspace / "tokenizer"))
    content = profile_json("vectors --expansion --documents 2", capsys)["expansion"]
    assert content["documents"] == 2
    assert content["terms"] == 8 / 2  # d1 and d3
    assert main(["vectors", "--expansion"]) == 0
    assert "Terms dropped and added" in capsys.readouterr().out


def test_parts_of_scores_by_hand() -> None:
    pieces = {"q": {"a", "b"}, "d": {"a", "c"}}
    vectors = {"q": {"a": 1, "b": 2, "c": 3, "x": 4, "y": 9}, "d": {"a": 4, "b": 5, "c": 2, "x": 1, "z": 9}}
    parts = score_parts([("q", "d", 24.0)], vectors, vectors, pieces, pieces)
    assert [(part.kind, part.score, part.terms) for part in parts.parts] == [
        (BOTH, 4 / 24, 1), (IN_QUERY, 10 / 24, 1), (IN_DOCUMENT, 6 / 24, 1), (NEITHER, 4 / 24, 1),
    ]  # fmt: skip
    score_parts([("q", "d", 23.999999)], vectors, vectors, pieces, pieces)  # a tied score, as in run files
    with pytest.raises(LearnedSparseError, match="21 in the run and 24 by these vectors"):
        score_parts([("q", "d", 21.0)], vectors, vectors, pieces, pieces)


def test_vectors(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = profile_json("vectors --queries queries --run run.txt --collection tiny --stop-share 0.5", capsys)
    assert (content["usage"]["documents"]["texts"], content["usage"]["documents"]["postings"]) == (4, 11)
    assert content["terms_per_text"]["documents"]["mean"] == 11 / 4
    assert content["terms_per_text"]["documents"]["empty"] == content["terms_per_text"]["queries"]["empty"] == 1
    assert content["flops"] == (4 + 4) / 12  # hives, rash, skin, drag; python, and "the" in three documents
    assert content["stop_dimensions"] == [{"dimension": "the", "documents": 0.75, "queries": 1 / 3}]
    scores = content["scores"]
    assert (scores["queries"], scores["hits"]) == (2, 5)
    assert {part["kind"]: part["score"] for part in scores["parts"]} == pytest.approx(EXPECTED)
    assert {part["kind"]: part["terms"] for part in scores["parts"]} == pytest.approx(
        {BOTH: 1 / 5, IN_QUERY: 1 / 5, IN_DOCUMENT: 3 / 5, NEITHER: 3 / 5}
    )
    best = profile_json("vectors --queries queries --run run.txt --collection tiny --hits 1", capsys)
    assert best["scores"]["hits"] == 2


def test_without_queries(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = profile_json("vectors", capsys)
    assert content["scores"] is content["flops"] is None
    assert content["stop_dimensions"][0] == {"dimension": "the", "documents": 0.75, "queries": None}
    assert all(cut["flops"] is None for cut in content["cuts"])


@pytest.mark.jvm
def test_an_index_has_the_profile_of_its_files(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build_index(encoded_files([workspace / "vectors"]), workspace / "index")
    words = "--queries queries --run run.txt --collection tiny"
    of_files, of_index = (profile_json(f"{source} {words}", capsys) for source in ("vectors", "index"))
    assert of_index | {"index": ["vectors"]} == of_files
    assert profile_json("index --sample 2", capsys)["sampled_documents"] == 2
    sampled = read_counts([Path("index")], 3)
    assert sorted(sampled.lengths.tolist()) in [
        sorted(lengths) for lengths in ([4, 3, 4], [4, 3, 0], [4, 4, 0], [3, 4, 0])
    ]
    assert sampled.texts == 4
    assert main(["index", "--sample", "3"]) == 0
    assert "Of a sample of 3 of the 4 documents." in capsys.readouterr().out
    with pytest.raises(LearnedSparseError, match="one index at a time"):
        main(["index", "index"])


def test_default_paths(workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LEARNED_SPARSE_HOME", str(workspace / "home"))
    write_folder(workspace / "home" / "indexes" / "tiny" / "words", VECTORS, checkpoint="tokenizer")
    (workspace / "home" / "queries" / "tiny" / "test").mkdir(parents=True)
    save_queries(workspace / "home" / "queries" / "tiny" / "test" / "words", QUERIES)
    content = profile_json("--model words --collection tiny --split test --run run.txt", capsys)
    assert content["scores"]["hits"] == 5


def test_pages(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "vectors --queries queries --run run.txt --collection tiny --stop-share 0.5 --top 1"
    assert main(words.split()) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("vectors: 4 documents, 11 postings of 9 dimensions; expected FLOPS 0.6667\n")
    assert "Stop-dimensions: 1 in more than 50% of the documents" in printed
    assert re.search(r"^the +75\.0 +33\.3$", printed, re.MULTILINE)
    assert main([*words.split(), "--markdown"]) == 0
    page = capsys.readouterr().out
    assert page.count("\n## ") == 5
    assert "| literal in both texts " in page


@pytest.mark.parametrize("word", ["--stop-share=1.5", "--hits=0"])
def test_numbers_out_of_range(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["vectors", word])
    name, number = word.split("=")
    assert f"argument {name}: {number}: give" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "no index: give"),
        ("absent", "absent: no such index"),
        ("nothing.jsonl", "nothing.jsonl: no vectors in it"),
        ("vectors --run run.txt", "--run needs"),
        ("vectors --run run.txt --queries queries --collection tiny --tokenizer tiny", "no such file"),
        ("latent --run run.txt --queries queries --collection tiny", "no dimension is a word piece"),
        ("bm25 --run run.txt --queries queries --collection tiny", "scored by BM25"),
        ("vectors/vectors --run run.txt --queries queries --collection tiny", "give --tokenizer"),
        ("less --run run.txt --queries queries --collection tiny", "1 of 3 documents of the run are missing"),
        ("vectors --run run.txt --queries others --collection tiny", "'q1' of the run is not among"),
        ("vectors --run unknown.txt --queries queries --collection tiny", "no hits of these queries"),
    ],
)
def test_invalid_profile_inputs_are_errors(words: str, message: str, workspace: Path) -> None:
    write_folder(workspace / "latent", {name: {"b1d7": 1} for name in VECTORS}, checkpoint="tokenizer")
    write_folder(workspace / "bm25", VECTORS, checkpoint="tokenizer", scoring="bm25")
    write_folder(workspace / "less", {name: VECTORS[name] for name in ("d1", "d2")}, checkpoint="tokenizer")
    save_queries(workspace / "others", {"q2": QUERIES["q2"]})
    (workspace / "nothing.jsonl").touch()
    write_run("unknown.txt", {"q9": [("d1", 1.0)]})
    with pytest.raises(LearnedSparseError) as error:
        main(words.split())
    assert message in str(error.value)


def test_profile_does_not_import_torch(workspace: Path, python: Any, root: Path) -> None:
    program = "import sys; from eval.profile.__main__ import main; main(sys.argv[1:]); print('torch' in sys.modules)"
    words = ["vectors", "--queries", "queries", "--run", "run.txt", "--collection", "tiny"]
    done = python("-c", program, *words, cwd=workspace, env={"PYTHONPATH": str(root), "HF_HUB_OFFLINE": "1"})
    assert done.stdout.endswith("False\n"), done.stderr
