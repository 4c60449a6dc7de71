"""Costs of searching checked by hand and by a double loop over the definition, for every kind of index."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from encoders.encoding.model import new_model, save_checkpoint
from eval.costs import index_bytes, main
from eval.reproduce.claims import COSTS
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import Document
from learned_sparse.encode import __main__ as encode
from learned_sparse.index.build import build_bm25_index, build_index
from learned_sparse.index.vectors import encoded_files
from learned_sparse.lucene.searchers import english_tokens
from tests.learned_sparse.encoded_folder import Vectors, write_folder
from tests.toy_data import save_beir

DOCUMENTS: Vectors = {"d1": {"a": 2, "b": 1}, "d2": {"b": 3}, "d3": {}, "d4": {"a": 1, "c": 5, "e": 1}}
QUERIES = "q1\tb b c\nq2\ta a a\nq3\t[no-terms]\n"  # each term is repeated impact times


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    """Encoded queries: only the file that these tests read."""
    folder = tmp_path / "queries"
    folder.mkdir()
    (folder / "queries.tsv").write_text(QUERIES, encoding="utf-8")
    return folder


def shared(documents: Mapping[str, Any], queries: Mapping[str, Any]) -> float:
    """Expected FLOPS by definition: the mean number of shared terms over all pairs."""
    pairs = [len(set(document) & set(query)) for document in documents.values() for query in queries.values()]
    return sum(pairs) / len(pairs)


def costs(*words: str | Path, output: Path) -> dict[str, Any]:
    assert main([*map(str, words), "--output", str(output)]) == 0
    content: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    # eval.costs does not measure the speed of encoding
    assert list(content["costs"]) == sorted(set(COSTS) - {"documents/s"})
    assert 0 < content["costs"]["ms/query"] <= content["costs"]["p99 ms/query"]
    assert content["costs"]["mean ms/query"] > 0
    return content


def test_vectors_searched_in_memory(tmp_path: Path, queries: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_folder(tmp_path / "encoded", DOCUMENTS)
    content = costs("--vectors", folder, "--queries", queries, "--timed", "2", output=tmp_path / "costs.json")
    assert content["costs"]["FLOPS"] == pytest.approx((2 + 1 + 2) / 12, abs=1e-6)  # b and c of q1, a of q2
    assert content["costs"]["terms/document"] == 6 / 4
    assert content["costs"]["terms/query"] == 1.0
    assert content["costs"]["index bytes"] is None
    assert content["costs"]["mean ms/query with encoding"] is None  # without --encoding
    assert {key: content[key] for key in ("documents", "queries", "timed", "hits")} == {
        "documents": 4, "queries": 3, "timed": 2, "hits": 1000,
    }  # fmt: skip
    message = f"{tmp_path / 'costs.json'}: 0.416667 FLOPS, 1.5 terms/document, 1.0 terms/query, "
    assert capsys.readouterr().out.startswith(message)
    assert main(["--vectors", str(folder), "--queries", str(queries), "--timed", "2"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed.keys() == content.keys()
    assert printed["costs"]["FLOPS"] == content["costs"]["FLOPS"]


@pytest.mark.parametrize(("backend", "module"), [("pisa", "pyterrier_pisa"), ("seismic", "seismic")])
def test_other_backends_are_timed(backend: str, module: str, tmp_path: Path, queries: Path) -> None:
    pytest.importorskip(module, reason=f"the extra {backend} is not installed")
    folder = write_folder(tmp_path / "encoded", DOCUMENTS)
    where = ("--vectors", folder, "--queries", queries)
    exact = costs(*where, output=tmp_path / "exact.json")
    content = costs(*where, "--backend", backend, output=tmp_path / "costs.json")
    assert (exact["backend"], content["backend"]) == ("exact", backend)
    assert content["costs"]["FLOPS"] == exact["costs"]["FLOPS"]
    assert content.get("recall") == (1.0 if backend == "seismic" else None)


@pytest.mark.jvm
def test_an_index_costs_the_same_terms_as_its_vectors(tmp_path: Path, queries: Path) -> None:
    folder, index = write_folder(tmp_path / "encoded", DOCUMENTS), tmp_path / "index"
    build_index(encoded_files([folder]), index)
    of_vectors = costs("--vectors", folder, "--queries", queries, output=tmp_path / "vectors.json")
    of_index = costs("--index", index, "--vectors", folder, "--queries", queries, output=tmp_path / "index.json")
    for name in ("FLOPS", "terms/document", "terms/query"):
        assert of_index["costs"][name] == of_vectors["costs"][name]
    lucene_files = [path for path in index.iterdir() if path.suffix not in {".json", ".log"}]
    assert of_index["costs"]["index bytes"] == sum(path.stat().st_size for path in lucene_files) == index_bytes(index)


@pytest.mark.jvm
def test_bm25_over_text_counts_analysed_words(tmp_path: Path) -> None:
    documents = {"d1": "The hives of the skins", "d2": "rain, rain, rain", "d3": "the", "d4": "skin in the rain"}
    queries = {"q1": "skin hives", "q2": "raining", "q3": "the weather"}
    save_beir(tmp_path / "toy", documents, queries, {"test": [(name, "d1", 1) for name in queries]})
    documents["d5"] = ""  # readers can return empty documents, which the index does not contain
    build_bm25_index([Document(*document) for document in documents.items()], tmp_path / "index")
    where = ("--collection", tmp_path / "toy", "--split", "test")
    content = costs("--index", tmp_path / "index", *where, output=tmp_path / "costs.json")
    words, of_queries = (
        {name: {term for term, _, _ in english_tokens(text)} for name, text in texts.items()}
        for texts in (documents, queries)
    )
    assert words["d1"] == {"hive", "skin"}
    assert words["d3"] == words["d5"] == set()
    assert content["costs"]["FLOPS"] == pytest.approx(shared(words, of_queries), abs=1e-6)
    assert content["costs"]["terms/document"] == 5 / 5
    assert content["costs"]["terms/query"] == pytest.approx(4 / 3, abs=1e-4)
    assert content["documents"] == 5
    assert content["costs"]["mean ms/query with encoding"] == content["costs"]["mean ms/query"]
    (tmp_path / "more.tsv").write_text("a\tskin hives\nb\train\nc\tsnow\nd\tfog\n", encoding="utf-8")
    more = ("--flops-queries", tmp_path / "more.tsv")
    again = costs("--index", tmp_path / "index", *where, *more, output=tmp_path / "more.json")
    assert (again["queries"], again["FLOPS queries"]) == (3, 4)
    assert again["costs"]["FLOPS"] == pytest.approx((1 + 2 + 2) / 20, abs=1e-6)  # hive, skin and rain, of 4 × 5 pairs
    assert again["costs"]["terms/query"] == content["costs"]["terms/query"]


@pytest.mark.jvm
def test_bm25_over_word_pieces(tmp_path: Path, queries: Path) -> None:
    folder = write_folder(tmp_path / "encoded", DOCUMENTS, scoring="bm25")
    build_index(encoded_files([folder]), tmp_path / "index")
    values = costs("--index", tmp_path / "index", "--queries", queries, output=tmp_path / "costs.json")["costs"]
    assert values["FLOPS"] == pytest.approx(5 / 12, abs=1e-6)
    with pytest.raises(LearnedSparseError, match="scored by BM25; give the index"):
        main(["--vectors", str(folder), "--queries", str(queries)])


def test_the_encoding_of_queries_is_timed(tmp_path: Path, tiny_bert: Path) -> None:
    texts = {"d1": "hives and rash", "d2": "wing drag"}
    save_beir(tmp_path / "toy", texts, {"q1": "rash", "q2": "wing"}, {"test": [("q1", "d1", 1), ("q2", "d2", 1)]})
    save_checkpoint(tmp_path / "model", new_model("splade", {}, str(tiny_bert)))
    words = ["--model", "m", "--checkpoint", str(tmp_path / "model"), "--collection", str(tmp_path / "toy")]
    assert encode.main([*words, "--output", str(tmp_path / "documents")]) == 0
    assert encode.main([*words, "--output", str(tmp_path / "queries"), "--queries"]) == 0
    folders = ("--vectors", tmp_path / "documents", "--queries", tmp_path / "queries")
    where = ("--collection", tmp_path / "toy", "--split", "test")
    values = costs(*folders, *where, "--encoding", output=tmp_path / "costs.json")["costs"]
    assert values["mean ms/query with encoding"] > values["mean ms/query"]
    with pytest.raises(LearnedSparseError, match="--encoding: give the queries to encode with --collection and"):
        main([*map(str, folders), "--encoding"])


def test_errors_say_what_is_missing(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "encoded", DOCUMENTS)
    for words, message in (
        ([], "give --index DIR, or --vectors DIR"),
        (["--vectors", str(folder)], "give --queries DIR"),
        (["--vectors", str(folder), "--set", "k=1"], "--set is for the encoder that --encoding times"),
        (["--index", str(folder)], "encoded documents, not an index; make the index"),
        (["--index", str(folder), "--backend", "pisa"], "searches --vectors, not --index"),
        (["--vectors", str(folder), "--backend", "lucene"], "searches an index"),
    ):
        with pytest.raises(LearnedSparseError, match=message):
            main(words)
