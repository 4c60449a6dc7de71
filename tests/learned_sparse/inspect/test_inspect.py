"""``learned_sparse.inspect``: texts, documents of an index, and scores equal to Lucene's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from learned_sparse.collections.documents import Document
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.index.build import build_bm25_index, build_index
from learned_sparse.inspect import __main__ as inspect
from learned_sparse.inspect.inspection import IndexInspector
from learned_sparse.jsonvector.manifest import Counts
from learned_sparse.lucene.searchers import ImpactSearcher, search_impacts
from tests.learned_sparse.encoded_folder import WordCounts, dot_products, write_folder
from tests.learned_sparse.inspect.explaining import (
    DOCUMENTS,
    EXPANSION,
    LOADED,
    Explaining,
    as_json,
    impacts,
    replace_encoders,
    save_index,
    shown,
    vectors,
)  # fmt: skip


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_index(tmp_path_factory.mktemp("inspect"))


@pytest.fixture(autouse=True)
def encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_encoders(monkeypatch)


def refused(*arguments: str | Path) -> str:
    with pytest.raises(LearnedSparseError) as error:
        inspect.main([str(argument) for argument in arguments])
    return str(error.value)


def test_a_text_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    printed = shown(capsys, "--checkpoint", "here", "--text", "hives are hives").splitlines()
    assert printed[2:5] == ["document", "hives[8] are[4] hives[8]", "3 terms, 2 of the text itself (+: an expansion)"]
    expansion = "3  +  ##allergy  are 67% (expansion), hives 33% (expansion)  (gate 0.88: [CLS] 1.25, hives 0.75)"
    assert printed[-1].strip() == expansion


def test_options_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    text = ("--model", "words", "--checkpoint", "here", "--side", "query", "--set", "k=3", "--device", "cpu")
    content = as_json(capsys, *text, "--text", "hives\x1fare")  # the separator of expanded text is a space here
    assert {"settings": {"k": 3}, "device": "cpu", "side": "query", "model": "words"}.items() <= LOADED[0].items()
    query = content.pop("query")
    assert content == {"model": "words", "index": None, "document": None, "score": None}
    assert (query["text"], query["expanded"]) == ("hives are", "")
    assert [(term["term"], term["weight"], term["impact"], term["literal"]) for term in query["terms"]] == [
        ("are", 2.0, 4, True), ("hives", 2.0, 4, True), (EXPANSION, 1.5, 3, False),
    ]  # fmt: skip


@pytest.mark.jvm
def test_the_score_of_every_pair_is_lucenes(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "hives and rash"
    query = impacts(text)
    hits = dict(search_impacts(index, {"q": query})["q"])
    assert hits == dict(dot_products(query, vectors()))
    for name in DOCUMENTS:
        content = as_json(capsys, "--index", index, "--query", text, "--document", name)
        score = content["score"]
        assert score["total"] == score["lucene"] == hits[name]
        assert score["total"] == sum(term["query"] * term["document"] for term in score["terms"])
        both = {term["term"] for term in score["terms"]}
        assert both | score["only_in_query"].keys() == query.keys()
        assert both | score["only_in_document"].keys() == vectors()[name].keys()
        assert not both & (score["only_in_query"].keys() | score["only_in_document"].keys())
        document = content["document"]
        assert (document["id"], document["text"], document["notes"]) == (name, DOCUMENTS[name], [])
        assert sum(word["score"] for word in document["words"]) == pytest.approx(score["total"])


@pytest.mark.jvm
def test_vectors_without_a_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_folder(tmp_path / "in", {"d": {"a": 2}})
    (tmp_path / "in" / "manifest.json").unlink()
    build_index(tmp_path / "in", tmp_path / "index")
    content = as_json(capsys, "--index", tmp_path / "index", "--document", "d")
    assert [(term["term"], term["impact"]) for term in content["document"]["terms"]] == [("a", 2)]
    assert "does not record what it was made from" in content["document"]["notes"][0]
    assert "does not say which encoder" in refused("--index", tmp_path / "index", "--document", "d", "--query", "a")


@pytest.mark.jvm
def test_a_text_that_changed_or_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The terms are those of the postings; a note says what is missing."""
    index = save_index(tmp_path, collection=None)
    inspected = ("--index", index, "--document", "d10")
    (tmp_path / "corpus.tsv").write_text("d10\titch and more\n", encoding="utf-8")
    changed = as_json(capsys, *inspected)["document"]
    (tmp_path / "corpus.tsv").unlink()
    gone = as_json(capsys, *inspected)["document"]
    for view in (changed, gone):
        assert {term["term"]: term["impact"] for term in view["terms"]} == vectors()["d10"]
    assert changed["notes"] == ["2 of 4 impacts of the index differ from the encoder's now"]
    assert "corpus.tsv: the encoded documents are not there; name them with --collection" in gone["notes"][0]


@pytest.mark.jvm
def test_encoders_that_cannot_explain(index: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Another encoder than that of the documents, and one without ``explain``."""
    replace_encoders(monkeypatch, lambda *_, **__: Explaining(side="document", max_length=8))
    (message,) = as_json(capsys, "--index", index, "--document", "d1")["document"]["notes"]
    assert "not the encoder of these vectors: max_length" in message
    replace_encoders(monkeypatch, lambda _, side, **__: WordCounts(**({"side": side} if side == "document" else {})))
    content = as_json(capsys, "--index", index, "--query", "rash", "--document", "d10")
    assert (content["score"]["total"], content["query"]["words"]) == (2 * 4, [])
    assert "no sources: this encoder does not explain its weights" in content["query"]["notes"]


@pytest.mark.jvm
def test_the_best_segment_of_a_document_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = {"d#0": {"hives": 1}, "d#1": {"hives": 5}, "d#2": {"rash": 9}, "e#0": {"hives": 7}, "f#0": {}}
    options = {"segment_length": 5, "segments": "all", "segment_overlap": 0, "segment_delimiter": "#"}
    counts = Counts(read=5, segmented=3, written=5, postings=4, empty_vectors=1, largest_segments=3)
    build_index(write_folder(tmp_path / "in", documents, options=options, counts=counts), tmp_path / "index")
    pair = ("--index", tmp_path / "index", "--query", "hives", "--document")
    content = as_json(capsys, *pair, "d")
    assert (content["document"]["id"], content["score"]["total"]) == ("d#1", 10)
    assert content["document"]["notes"][0] == "the best of the 3 segments of d"
    assert "'d' is cut into segments; name one of them: d#0, d#1, d#2" in refused(*pair[:2], "--document", "d")
    assert "no document 'g'; name one of" in refused(*pair[:2], "--document", "g")
    empty = as_json(capsys, *pair, "f")
    assert empty["document"]["terms"] == []
    assert "an empty vector: no query matches it" in empty["document"]["notes"]
    assert empty["score"]["total"] == empty["score"]["lucene"] == 0

    encoder = Explaining(side="document")
    encoder.word_spans = lambda texts: [[(0, 5, 1)] for _ in texts]  # type: ignore[method-assign]
    shorter = IndexInspector(
        tmp_path / "index", documents=lambda id: Document(id, "hives"), load=lambda *_, **__: encoder
    )
    view = shorter.document("d#2").document
    assert view is not None
    assert "the text of document 'd' has only 1 segment now" in view.notes[0]


@pytest.mark.jvm
def test_the_parts_of_a_bm25_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Encoded terms scored by BM25, and plain text: each term has its own BM25; they add up to the searcher's score."""
    encoded = write_folder(tmp_path / "in", {"d": {"hives": 2, "rash": 1}, "e": {"itch": 3}}, scoring="bm25")
    build_index(encoded, tmp_path / "bm25")
    with ImpactSearcher(tmp_path / "bm25", "bm25") as searcher:
        hits = dict(searcher.search({"hives": 2, "rash": 2}))
        alone = dict(searcher.search({"rash": 2}))
    score = as_json(capsys, "--index", tmp_path / "bm25", "--query", "hives rash", "--document", "d")["score"]
    assert score["total"] == pytest.approx(hits["d"], rel=1e-6)
    assert {term["term"]: term["product"] for term in score["terms"]}["rash"] == pytest.approx(alone["d"], rel=1e-6)

    document = Document("d", "\U0001f600 Running the runners ran, running")
    build_bm25_index([document, Document("e", "another text")], tmp_path / "text")
    with ImpactSearcher(tmp_path / "text", "bm25") as searcher:
        hits = dict(searcher.search("the running man"))
    inspector = IndexInspector(tmp_path / "text", documents={"d": document}.get)
    pair = inspector.pair("the running man", "d")
    assert pair.score is not None
    assert pair.document is not None
    assert pair.score.total == pytest.approx(hits["d"], rel=1e-6)
    (term,) = pair.score.terms
    assert (term.term, term.query, term.document, term.word_in_document) == ("run", 1, 2, "Running")
    assert pair.document.notes == ()
    parts = {word.text: word.score for word in pair.document.words}
    half = pytest.approx(hits["d"] / 2)
    assert parts == {"\U0001f600": 0, "Running": half, "runners": 0, "ran": 0, "running": half}
