"""Queries against Lucene: scores, ties, limits, and the encoder an index asks for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.collections.trec import read_run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import Document, Query
from learned_sparse.index import build_bm25_index
from learned_sparse.index.vectors import build_index, encoded_files
from learned_sparse.lucene import stock as lucene
from learned_sparse.search import ExactSearcher, QueryEncoder, encoder_named
from learned_sparse.search import __main__ as search
from tests.learned_sparse.encoded_folder import WordCounts, description, dot_products, write_folder

WIDE = {f"w{number}": 1 + number % 5 for number in range(3_000)}
VECTORS: dict[str, dict[str, int]] = {
    "d10": {"all": 1, "hives": 3, "itch": 2},
    "d9": {"all": 2, "hives": 3, "rash": 200},
    "B": {"all": 1, "hives": 3, "##ing": 1},
    "a": {"all": 1, "hives": 1, "日本": 40_000},
    "e": {},
    "wide": {"all": 5, **WIDE},
}
QUERIES: dict[str, dict[str, int]] = {
    "ties": {"hives": 2},
    "many": {"hives": 3, "rash": 7, "##ing": 100, "日本": 11, "not-there": 4},
    "all": {"all": 9},
    "none": {"not-there": 1},
    "empty": {},
    "1,500 terms": dict(list(WIDE.items())[:1_500]) | {"itch": 3},
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("search")
    build_index(encoded_files([write_folder(folder / "encoded", VECTORS)]), folder / "index")
    return folder / "index"


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Make ``load_encoder`` give ``WordCounts``; what is put into the dict changes its description."""
    changes: dict[str, Any] = {}
    module = importlib.import_module("encoders.encoding.loading")
    monkeypatch.setattr(module, "load_encoder", lambda *_, **__: WordCounts(**changes))
    return changes


@pytest.mark.jvm
def test_scores_are_the_dot_products(index: Path) -> None:
    found = lucene.search_impacts(index, QUERIES)
    expected = {name: dot_products(query, VECTORS) for name, query in QUERIES.items()}
    assert found == expected
    assert found == ExactSearcher.from_vectors(VECTORS.items()).search_batch(QUERIES)


@pytest.mark.jvm
def test_ties_are_in_the_order_of_ids_at_the_cut_too(index: Path) -> None:
    best = lucene.search_impacts(index, QUERIES, k=2)["ties"]
    assert best == dot_products(QUERIES["ties"], VECTORS)[:2] == [("B", 6.0), ("d10", 6.0)]


@pytest.mark.jvm
def test_an_index_of_one_document(tmp_path: Path) -> None:
    """A term of every document has no idf, and stock Pyserini would drop it."""
    build_index(encoded_files([write_folder(tmp_path / "in", {"only": {"a": 3}})]), tmp_path / "index")
    assert lucene.search_impacts(tmp_path / "index", {"q": {"a": 2}}) == {"q": [("only", 6.0)]}
    run = tmp_path / "run.txt"
    outcome = search.search(tmp_path / "index", "impact", [Query("q", "a a")], [{"a": 2}], run)
    assert outcome == search.Outcome(1, ())
    assert read_run(run) == {"q": [("only", 6.0)]}


@pytest.mark.jvm
def test_the_command_writes_the_run_that_the_dot_products_give(
    index: Path, tmp_path: Path, words: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {
        "007": "hives hives",
        "7": "hives\\thives rash",
        "q3": "all nothing é",
        "q4": "nothing",
        "q5": "all w1 w2 " + " ".join(f"v{number}" for number in range(1_200)),
    }
    topics = tmp_path / "topics.tsv"
    topics.write_text("".join(f"{name}\t{text}\n" for name, text in texts.items()), encoding="utf-8")
    run = tmp_path / "runs" / "run.txt"
    arguments = [
        "--index",
        str(index),
        "--topics",
        str(topics),
        "--output",
        str(run),
        "--impact",
        "--encode-batch",
        "2",
    ]
    assert search.main([*arguments, "--hits", "3", "--threads", "2", "--batch-size", "4"]) == 0
    expected: dict[str, list[tuple[str, Any]]] = {}
    for name, text in texts.items():
        counted: Mapping[str, int] = {word: text.split().count(word) for word in text.split()}
        if hits := dot_products(counted, VECTORS)[:3]:
            expected[name] = [(document, pytest.approx(score, abs=1e-4)) for document, score in hits]
    found = {name: sorted(hits) for name, hits in read_run(run).items()}
    assert found == {k: sorted(v) for k, v in expected.items()}
    said = capsys.readouterr().out
    assert "5 queries, 1 without a hit" in said
    assert "without a hit: q4" in said
    assert [path.name for path in run.parent.iterdir()] == ["run.txt"]


@pytest.mark.jvm
def test_an_encoder_that_does_not_match_is_refused(index: Path, words: dict[str, Any]) -> None:
    words.update(max_length=32, weights="abc")
    message = "max_length: 64 in the index, 32 in the encoder; weights: absent in the index, 'abc' in the encoder"
    with pytest.raises(LearnedSparseError, match=message):
        QueryEncoder.from_index(index)


@pytest.mark.jvm
def test_the_encoder_in_pyserini(index: Path, words: dict[str, Any]) -> None:
    encoder = QueryEncoder.from_index(index)
    from pyserini.search.lucene import LuceneImpactSearcher

    assert encoder.encode("rash rash hives") == {"rash": 2, "hives": 1}
    searcher = LuceneImpactSearcher(str(index), encoder, -1)
    hits = searcher.search("rash hives rash", 2)
    assert [(hit.docid, hit.score) for hit in hits] == dot_products({"rash": 2, "hives": 1}, VECTORS)[:2]
    assert len(searcher.search(" ".join(WIDE), 2)) == 1  # 3,000 terms


@pytest.mark.jvm
def test_encoders_by_name(index: Path, words: dict[str, Any], tmp_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyserini.search.lucene import LuceneImpactSearcher

    stock = LuceneImpactSearcher._init_query_encoder_from_str
    checkpoint = tmp_home / "checkpoints" / "splade"
    checkpoint.mkdir(parents=True)
    (checkpoint / "learned_sparse.json").write_text('{"architecture": "words"}')
    monkeypatch.setattr(LuceneImpactSearcher, "_init_query_encoder_from_str", staticmethod(stock))
    lucene.make_encoders_known(encoder_named)
    made = LuceneImpactSearcher._init_query_encoder_from_str
    for name in ("splade", str(checkpoint), str(index), "learned_sparse:splade", "learned_sparse:some/hub-id"):
        assert isinstance(made(name), QueryEncoder), name
    assert type(made(None)).__name__ == "TokFreqQueryEncoder"
    assert made("nothing/known") is None


@pytest.mark.jvm
def test_terms_scored_by_bm25(tmp_path: Path, words: dict[str, Any]) -> None:
    vectors = {"d1": {"##ing": 2, "the": 1}, "d2": {"wing": 1}, "d3": {"drag": 1, "wing": 1, "lift": 1}}
    bm25 = description(scoring="bm25")
    words.update(scoring="bm25")
    folder = write_folder(tmp_path / "in", vectors, scoring="bm25", query_encoder=bm25)
    note = build_index(encoded_files([folder]), tmp_path / "index")
    assert "-impact" not in note.facts["options"]
    encoded = QueryEncoder.from_index(tmp_path / "index").encode_batch(["wing wing", "##ing the", "x"])
    queries = [Query("q1", "wing wing"), Query("q2", "##ing the"), Query("q3", "x")]
    outcome = search.search(tmp_path / "index", "bm25", queries, encoded, tmp_path / "run.txt")
    assert outcome == search.Outcome(3, ("q3",))
    lines = (tmp_path / "run.txt").read_text().splitlines()
    # A shorter document comes first, and no stop word or symbol is lost.
    assert [line.split()[:3] for line in lines] == [["q1", "Q0", "d2"], ["q1", "Q0", "d3"], ["q2", "Q0", "d1"]]


@pytest.mark.jvm
def test_bm25_of_plain_text_and_a_failing_option(tmp_path: Path) -> None:
    documents = [Document("d1", "hives and wings"), Document("d2", "hives hives"), Document("d3", "other")]
    build_bm25_index(documents, tmp_path / "index")
    queries = [Query("q", "Hives!"), Query("stop", "the and of")]
    found = lucene.search_bm25(tmp_path / "index", queries)
    assert [name for name, _ in found["q"]] == ["d2", "d1"]
    assert found["stop"] == []
    run = tmp_path / "run.txt"
    assert search.search(tmp_path / "index", "bm25-text", queries, None, run).without_hits == ("stop",)
    hits = read_run(run)["q"]
    assert [name for name, _ in hits] == ["d2", "d1"]
    assert [score for _, score in hits] == pytest.approx([score for _, score in found["q"]], abs=1e-4)
    before = run.read_text()
    with pytest.raises(LearnedSparseError, match=r"exit status 2; .*run.txt is not written"):
        search.search(tmp_path / "index", "bm25-text", queries, None, run, ["--no-such-option"])
    assert run.read_text() == before


@pytest.mark.jvm
def test_scifact_gives_the_published_score(shared_data: Path, tmp_path: Path) -> None:
    """Anserini's beir-v1.0.0-scifact.flat: nDCG@10 0.6789."""
    from eval.measures.measures import evaluate
    from learned_sparse.collections.collection import load_collection
    from learned_sparse.collections.trec import write_run

    scifact = load_collection(shared_data / "scifact")
    assert build_bm25_index(scifact.documents(), tmp_path / "index") == 5_183
    found = lucene.search_bm25(tmp_path / "index", scifact.queries("test"), threads=2)
    write_run(tmp_path / "run.txt", found, "bm25")
    scores = evaluate(scifact.qrels("test"), tmp_path / "run.txt", ["nDCG@10"], remove_query=True)
    assert scores.mean["nDCG@10"] == pytest.approx(0.6789, abs=0.001)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which index"),
        (["--index", "x", "--topics", "y"], "--output RUN"),
        (["--index", "x", "--topics", "y", "--output", "z", "--encoder", "e"], "--encoder: here the index names"),
        (["--index", "x", "--topics", "y", "--output", "z", "--output-format", "kilt"], "kilt"),
        (["--index", "gone", "--topics", "gone.tsv", "--output", "z"], "make the index with learned_sparse.index"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        search.main(arguments)


def test_the_query_encoder_is_imported_without_java_or_torch(python: Any) -> None:
    script = "from learned_sparse.search import QueryEncoder; import sys; print(*sys.modules)"
    done = python("-c", script)
    assert not {"jnius", "torch", "pyserini"} & set(done.stdout.split()), done.stderr
