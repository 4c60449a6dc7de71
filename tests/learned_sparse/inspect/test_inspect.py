"""``learned_sparse.inspect``: texts, documents of an index, and scores equal to Lucene's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from learned_sparse import lucene
from learned_sparse.collections import read_documents
from learned_sparse.core import Document, LearnedSparseError, Query
from learned_sparse.index import build_bm25_index, build_index, encoded_files, plain_files
from learned_sparse.inspect import IndexInspector, word_contributions
from learned_sparse.inspect import __main__ as inspect
from learned_sparse.inspect.explanation import Word
from learned_sparse.jsonvector import Counts
from tests.learned_sparse.encoded_folder import WordCounts, dot_products, write_folder
from tests.learned_sparse.inspect.explaining import (
    DOCUMENTS,
    EXPANSION,
    Explaining,
    as_json,
    explain_everything,
    replace_encoders,
    save_index,
    shown,
    vectors,
)  # fmt: skip


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_index(tmp_path_factory.mktemp("inspect"))


@pytest.fixture(autouse=True)
def encoder(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Replace the encoders; returns the arguments of the calls of ``load_encoder``."""
    return explain_everything(monkeypatch)


def refused(*arguments: str | Path) -> str:
    with pytest.raises(LearnedSparseError) as error:
        inspect.main([str(argument) for argument in arguments])
    return str(error.value)


def test_a_text_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "--checkpoint", "here", "--text", "hives are hives") == (
        "here\n"
        "\n"
        "document\n"
        "hives[8] are[4] hives[8]\n"
        "3 terms, 2 of the text itself (+: an expansion)\n"
        "weight     term       words it comes from\n"
        "     8     hives      hives\n"
        "     4     are        are\n"
        "     3  +  ##allergy  are 67% (expansion), hives 33% (expansion)  (gate 0.88: [CLS] 1.25, hives 0.75)\n"
    )


def test_a_text_without_a_quantiser(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Explaining, "quantizer", None)
    (term, *_), notes = (
        as_json(capsys, "--checkpoint", "c", "--text", "a")["document"][key] for key in ("terms", "notes")
    )
    assert (term["weight"], term["impact"]) == (2.0, None)
    assert notes == ["no impacts: no quantiser is stored"]
    assert "     2    a     a\n" in shown(capsys, "--checkpoint", "c", "--text", "a")


def test_a_text_with_the_expansion_mark_is_one_text(capsys: pytest.CaptureFixture[str]) -> None:
    view = as_json(capsys, "--checkpoint", "here", "--text", "a\x1fb")["document"]
    assert (view["text"], view["expanded"]) == ("a b", None)


def test_a_text_as_json(capsys: pytest.CaptureFixture[str], encoder: list[dict[str, Any]]) -> None:
    text = ("--model", "words", "--checkpoint", "here", "--side", "query", "--set", "k=3", "--device", "cpu")
    content = as_json(capsys, *text, "--text", "hives are")
    assert encoder[0] | {"settings": {"k": 3}, "device": "cpu", "side": "query", "model": "words"} == encoder[0]
    query = content.pop("query")
    assert content == {"model": "words", "index": None, "document": None, "score": None}
    assert [token["text"] for token in query["tokens"]] == ["[CLS]", "hives", "are"]
    assert query["words"][1] == {"text": "are", "start": 6, "end": 9, "sequence": 0, "weight": 4.0}
    assert [(term["term"], term["weight"], term["impact"], term["literal"]) for term in query["terms"]] == [
        ("are", 2.0, 4, True), ("hives", 2.0, 4, True), (EXPANSION, 1.5, 3, False),
    ]  # fmt: skip
    assert query["terms"][2]["sources"] == [
        {"token": 1, "part": "expansion", "weight": 0.5},
        {"token": 2, "part": "expansion", "weight": 1.0},
    ]
    assert query["terms"][2]["gate"]["probability"] == 0.875
    assert query["terms"][0]["gate"] is None


@pytest.mark.jvm
def test_the_score_of_every_pair_is_lucenes(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "hives and rash"
    impacts = dict(Explaining.quantizer.quantize(Explaining().encode([text]))[0].row(0))
    hits = dict(lucene.search_impacts(index, {"q": impacts})["q"])
    assert hits == dict(dot_products(impacts, vectors()))
    for name in DOCUMENTS:
        content = as_json(capsys, "--index", index, "--query", text, "--document", name)
        score = content["score"]
        assert score["total"] == score["lucene"] == hits[name]
        assert score["total"] == sum(term["query"] * term["document"] for term in score["terms"])
        assert all(term["product"] == term["query"] * term["document"] for term in score["terms"])
        both = {term["term"] for term in score["terms"]}
        assert both | score["only_in_query"].keys() == impacts.keys()
        assert both | score["only_in_document"].keys() == vectors()[name].keys()
        assert not both & (score["only_in_query"].keys() | score["only_in_document"].keys())
        assert content["document"]["text"] == DOCUMENTS[name]
        assert content["document"]["notes"] == []
        assert content["document"]["id"] == name


@pytest.mark.jvm
def test_a_pair_on_the_terminal(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--index", index, "--query", "rash and hives", "--document", "d10", "--terms", "2")
    assert text.endswith(
        "score 41, from 3 of 4 terms of the query; Lucene says 41\n"
        "term    query  document  product  share  query's word  document's word\n"
        "and         4         4       16  39.0%  and           and\n"
        "rash        4         4       16  39.0%  rash          rash\n"
        "1 more                         9\n"
        "only in the query (1): hives 4\n"
        "only in the document (1): itch 4\n"
    )


@pytest.mark.jvm
def test_a_query_by_its_id(index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topics = tmp_path / "topics.tsv"
    topics.write_text("7\trash\n8\thives\n", encoding="utf-8")
    pair = ("--index", index, "--document", "d1", "--topics", topics)
    content = as_json(capsys, *pair, "--query-id", "8", "--no-sources")
    assert (content["query"]["id"], content["query"]["text"], content["score"]["total"]) == ("8", "hives", 32)
    assert content["document"]["text"] is None
    assert "no query '9'" in refused(*pair, "--query-id", "9")
    assert "'tiny'" in refused("--index", index, "--document", "d1", "--query-id", "8")  # recorded in the index


@pytest.mark.jvm
def test_vectors_without_a_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_folder(tmp_path / "in", {"d": {"a": 2}})
    (tmp_path / "in" / "manifest.json").unlink()
    build_index(plain_files([tmp_path / "in"]), tmp_path / "index")
    content = as_json(capsys, "--index", tmp_path / "index", "--document", "d")
    assert [(term["term"], term["impact"]) for term in content["document"]["terms"]] == [("a", 2)]
    assert "does not record what it was made from" in content["document"]["notes"][0]
    assert "does not say which encoder" in refused("--index", tmp_path / "index", "--document", "d", "--query", "a")


@pytest.mark.jvm
def test_a_document_without_its_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the text, the terms of the postings are shown and a message says what is missing."""
    index = save_index(tmp_path, collection=None)
    (tmp_path / "corpus.tsv").unlink()
    content = as_json(capsys, "--index", index, "--document", "d10")
    assert {term["term"]: term["impact"] for term in content["document"]["terms"]} == vectors()["d10"]
    (message,) = content["document"]["notes"]
    assert "corpus.tsv: the encoded documents are not there; name them with --collection" in message
    quiet = as_json(capsys, "--index", index, "--document", "d10", "--no-sources")
    assert quiet["document"]["notes"] == []
    assert "     4    and" in shown(capsys, "--index", index, "--document", "d10", "--no-sources")


@pytest.mark.jvm
def test_a_changed_text_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = save_index(tmp_path)
    (tmp_path / "corpus.tsv").write_text("d10\titch and more\n", encoding="utf-8")
    content = as_json(capsys, "--index", index, "--document", "d10")
    assert content["document"]["notes"] == ["2 of 4 impacts of the index differ from those the encoder gives now"]
    assert {term["term"]: term["impact"] for term in content["document"]["terms"]} == vectors()["d10"]


@pytest.mark.jvm
def test_no_sources_of_another_encoder(index: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    load_other = lambda *_, **__: Explaining(side="document", max_length=8)  # noqa: E731
    replace_encoders(monkeypatch, load_other)
    (message,) = as_json(capsys, "--index", index, "--document", "d1")["document"]["notes"]
    assert "not the encoder of these vectors" in message
    assert "max_length" in message


@pytest.mark.jvm
def test_an_encoder_without_explain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    load_other = lambda _, side, **__: WordCounts(**({"side": side} if side == "document" else {}))  # noqa: E731
    replace_encoders(monkeypatch, load_other)
    content = as_json(capsys, "--index", save_index(tmp_path), "--query", "rash", "--document", "d10")
    assert content["score"]["total"] == 2 * 4
    assert "no sources: this encoder does not explain its weights" in content["query"]["notes"]
    assert content["query"]["tokens"] == []


@pytest.mark.jvm
def test_the_best_segment_of_a_document_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:

    documents = {"d#0": {"hives": 1}, "d#1": {"hives": 5}, "d#2": {"rash": 9}, "e#0": {"hives": 7}, "f#0": {}}
    options = {"segment_length": 5, "segments": "all", "segment_overlap": 0, "segment_delimiter": "#"}
    counts = Counts(read=5, segmented=3, written=5, postings=4, empty_vectors=1, largest_segments=3)
    folder = write_folder(tmp_path / "in", documents, options=options, counts=counts)
    build_index(encoded_files([folder]), tmp_path / "index")
    content = as_json(capsys, "--index", tmp_path / "index", "--query", "hives", "--document", "d", "--no-sources")
    assert content["document"]["id"] == "d#1"
    assert content["document"]["notes"] == ["the best of the 3 segments of d"]
    assert content["score"]["total"] == 10
    assert "'d' is cut into segments; name one of them: d#0, d#1, d#2" in refused(
        "--index", tmp_path / "index", "--document", "d"
    )
    empty = as_json(capsys, "--index", tmp_path / "index", "--query", "a", "--document", "f", "--no-sources")
    assert empty["document"]["terms"] == []
    assert "an empty vector: no query matches it" in empty["document"]["notes"]
    assert empty["score"]["total"] == empty["score"]["lucene"] == 0


@pytest.mark.jvm
def test_a_score_that_differs_from_lucenes_is_an_error(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lucene.ImpactSearcher, "score", lambda *_: 1.0)
    assert "the terms add up to 32, Lucene scores 1.0" in refused(
        "--index", index, "--query", "hives", "--document", "d1"
    )


@pytest.mark.jvm
def test_unknown_documents_and_folders(index: Path, tmp_path: Path) -> None:
    assert refused("--index", index, "--document", "d11").endswith("no document 'd11'; next ids: 'd2', 'ü/3'")
    assert refused("--index", index, "--document", "\U0001f600").endswith("; it would come after all ids of the index")
    assert "not an index; make the index" in refused("--index", tmp_path, "--document", "d1")


@pytest.mark.jvm
def test_the_parts_of_a_bm25_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Encoded terms scored by BM25, and plain text: each term has its own BM25; they add up to the searcher's score."""
    encoded = write_folder(tmp_path / "in", {"d": {"hives": 2, "rash": 1}, "e": {"itch": 3}}, scoring="bm25")
    build_index(encoded_files([encoded]), tmp_path / "bm25")
    with lucene.Bm25Searcher(tmp_path / "bm25", pretokenized=True) as searcher:
        hits = dict(searcher.search("hives hives rash rash"))
        alone = dict(searcher.search("rash rash"))
    score = as_json(capsys, "--index", tmp_path / "bm25", "--query", "hives rash", "--document", "d")["score"]
    assert score["total"] == pytest.approx(hits["d"], rel=1e-6)
    assert {term["term"]: term["product"] for term in score["terms"]}["rash"] == pytest.approx(alone["d"], rel=1e-6)

    corpus = tmp_path / "corpus.tsv"
    corpus.write_text("d\t\U0001f600 Running the runners ran, running\ne\tanother text\n", encoding="utf-8")
    build_bm25_index(read_documents(corpus), tmp_path / "text")
    with lucene.Bm25Searcher(tmp_path / "text") as searcher:
        hits = dict(searcher.search("the running man"))
    inspector = IndexInspector(tmp_path / "text", documents={"d": Document("d", corpus.read_text()[2:36])}.get)
    pair = inspector.pair(Query("", "the running man"), "d", {})
    assert pair.score is not None
    assert pair.document is not None
    assert pair.score.total == pytest.approx(hits["d"], rel=1e-6)
    (term,) = pair.score.terms
    assert (term.term, term.query, term.document, term.word_in_document) == ("run", 1, 2, "Running")
    assert pair.document.notes == ()
    parts = dict(zip(map(pair.document.texts[0].__getitem__, map(words_slice, pair.document.words)),
                     word_contributions(pair.document, pair.score), strict=True))  # fmt: skip
    assert parts == pytest.approx(
        {"\U0001f600": 0, "Running": hits["d"] / 2, "runners": 0, "ran": 0, "running": hits["d"] / 2}
    )


def words_slice(word: Word) -> slice:
    return slice(word.start, word.end)


def test_options_that_exclude_or_need_each_other() -> None:
    assert "--text TEXT --side query" in refused("--model", "m", "--text", "a", "--query", "b")
    assert "give --model NAME or --checkpoint DIR" in refused("--text", "a")
    assert refused("--document", "a").endswith("give --model NAME or --index DIR")
    assert "--side is only for --text" in refused("--model", "m", "--document", "a", "--side", "query")
    assert "--index is only for --document" in refused("--model", "m", "--text", "a", "--index", "i")
    assert "need --query-id" in refused("--model", "m", "--document", "a", "--split", "test")
    assert "--set is for" in refused("--model", "m", "--document", "a", "--set", "k=1")


def test_the_standard_librarys_inspect_stays_importable(python: Any) -> None:
    done = python("-c", "import learned_sparse.inspect, inspect; print(inspect.signature, inspect.__file__)")
    assert done.stdout.startswith("<function signature")
    assert "learned_sparse" not in done.stdout
