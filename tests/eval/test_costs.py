"""Costs checked by hand and by a double loop over the definition, and times with a fake clock."""

from __future__ import annotations

import contextlib
import json
import math
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.encoding.model import new_model, save_checkpoint
from eval.costs import (
    ROUNDS,
    WARM_UP,
    count_terms,
    expected_flops,
    index_bytes,
    main,
    milliseconds,
    time_searches,
)
from eval.reproduce.claims import COSTS
from learned_sparse.collections.documents import Document
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.encode import __main__ as encode
from learned_sparse.index.build import build_bm25_index, build_index, open_vectors
from learned_sparse.index.note import IndexNote
from learned_sparse.jsonvector.manifest import Counts, Manifest
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
    build_index(open_vectors([folder]), index)
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
    build_index(open_vectors([folder]), tmp_path / "index")
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


class Clock:
    """Advances only when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr("eval.costs.time", fake)
    return fake


def test_times_exclude_the_warm_up_and_outliers(clock: Clock) -> None:
    """Query n takes n milliseconds, except a second during warm-up, and two queries a minute in one round."""
    calls: list[int] = []

    def ask(number: int) -> None:
        calls.append(number)
        count = calls.count(number)
        clock.now += 1.0 if count <= 2 else 60.0 if count == 4 and number < 2 else number / 1000

    times = milliseconds(ask, range(100))
    assert calls == list(range(100)) * 5  # WARM_UP is twice each; then three rounds
    assert len(calls) == WARM_UP + ROUNDS * 100
    # p99 is of 300 calls: 0.99 * 299 = 296.01, the 297th; a tail of 3 would show
    assert times == pytest.approx({"ms/query": 49.5, "mean ms/query": 49.5, "p99 ms/query": 99.0})


def test_more_hits_are_searched_in_an_index_of_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    depths: list[tuple[int, int]] = []

    def search(queries: Mapping[str, Any], hits: int, threads: int) -> None:
        assert (len(queries), threads) == (1, 1)
        depths.append((hits, threads))

    searcher = contextlib.nullcontext(SimpleNamespace(search_batch=search))
    monkeypatch.setattr("eval.costs.ImpactSearcher", lambda *_, **__: searcher)
    cut = {"segment_length": 5, "segments": "all", "segment_overlap": 0, "segment_delimiter": "#"}
    folder = write_folder(
        tmp_path / "encoded", {"d1#0": {"a": 1}}, options=cut, counts=Counts(written=5000, largest_segments=40)
    )
    index_note = IndexNote("impact", (Manifest.load(folder),), {})
    for hits, segments in ((10, 100), (2, 20), (1, 1)):
        options = Namespace(hits=hits, k1=None, b=None)
        time_searches(options, Path("index"), index_note, {"q1": {"hives": 2, "itch": 1}, "q2": {"skin": 3}}, None)
        assert depths[-1] == (segments, 1)


texts = st.lists(st.sets(st.sampled_from("abcdefg"), max_size=5), min_size=1, max_size=6)


@given(documents=texts, queries=texts)
def test_flops_are_the_mean_number_of_shared_terms(documents: list[set[str]], queries: list[set[str]]) -> None:
    shared = [len(query & document) for query in queries for document in documents]
    counts = count_terms(documents)
    assert expected_flops(counts, count_terms(queries)) == sum(shared) / len(shared)
    assert counts.lengths.tolist() == [len(document) for document in documents]
    assert (counts.texts, counts.postings) == (len(documents), sum(map(len, documents)))
    assert all(count == sum(term in text for text in documents) for term, count in counts.document_frequency.items())


def test_repeated_terms_and_empty_vectors() -> None:
    assert count_terms([["b", "b", "c"]]).document_frequency == {"b": 1, "c": 1}
    assert math.isnan(expected_flops(count_terms([]), count_terms([["b", "c"], [], ["z"]])))
    assert expected_flops(count_terms([[]]), count_terms([["b", "c"], [], ["z"]])) == 0
