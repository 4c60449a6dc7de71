"""Every backend gives the hits of stock search.lucene in identical files; MaxP over segments; options."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from learned_sparse import pyserini
from learned_sparse.collections.documents import Document
from learned_sparse.collections.trec import read_run, separate_ties
from learned_sparse.index.build import build_bm25_index, build_index
from learned_sparse.index.note import INDEX_MANIFEST
from learned_sparse.jsonvector.manifest import Counts
from learned_sparse.search import __main__ as search
from learned_sparse.search import query_encoder
from tests.learned_sparse.encoded_folder import WordCounts, description, dot_products, write_folder

DRAW = random.Random(5)
SEGMENTED = {"segment_length": 5, "segments": "all", "segment_overlap": 0, "segment_delimiter": "#"}
VECTORS: dict[str, dict[str, int]] = {
    f"d{name}#{number}": {f"t{DRAW.randrange(12)}": DRAW.randrange(1, 3 if name % 2 else 200) for _ in range(4)}
    for name in range(60)
    for number in range(40 if name == 7 else 1 + name % 4)
}
QUERIES: dict[str, dict[str, int]] = {
    "d7": {"t1": 3, "t2": 1}, "10": {"t3": 2, "t4": 5, "t5": 1}, "9": {"t11": 1}, "none": {"nowhere": 1}
}  # fmt: skip
WIDE = {f"w{number}": 1 for number in range(1_500)}


def text_of(query: Mapping[str, int]) -> str:
    """The text whose word counts are ``query``."""
    return " ".join(" ".join([term] * impact) for term, impact in query.items())


def write_topics(path: Path, queries: Mapping[str, Mapping[str, int]]) -> Path:
    path.write_text("".join(f"{name}\t{text_of(query)}\n" for name, query in queries.items()))
    return path


def documents_of(query: Mapping[str, int]) -> list[tuple[str, float]]:
    """Each document with the score of its best segment, by a double loop."""
    scores: dict[str, float] = {}
    for segment, score in dot_products(query, VECTORS):
        document = segment.split("#")[0]
        scores[document] = max(score, scores.get(document, 0))
    return sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    size, postings = len(VECTORS), sum(map(len, VECTORS.values()))
    counts = Counts(read=size, written=size, segmented=60, largest_segments=40, postings=postings)
    return write_folder(tmp_path_factory.mktemp("run") / "encoded", VECTORS, options=SEGMENTED, counts=counts)


@pytest.fixture(scope="module")
def index(vectors: Path) -> Path:
    build_index(vectors, vectors.parent / "index")
    return vectors.parent / "index"


@pytest.fixture(autouse=True)
def words(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Make ``load_encoder`` return ``WordCounts``; entries of the dict change its description."""
    changes: dict[str, Any] = {}
    monkeypatch.setattr(query_encoder, "load_encoder", lambda *_, **__: WordCounts(**changes))
    return changes


@pytest.fixture
def topics(tmp_path: Path) -> Path:
    return write_topics(tmp_path / "topics.tsv", QUERIES)


def run(searched_folder: Path, topics: Path, *options: str, output: str = "run.txt") -> Path:
    """Search an index, or a folder of vectors in memory; returns the path of the run."""
    path = topics.parent / output
    source = ["--index"] if searched_folder.name == "index" else ["--backend", "exact", "--vectors"]
    assert search.main([*source, str(searched_folder), "--topics", str(topics), "--output", str(path), *options]) == 0
    return path


def written(hits: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Hits in the form of a run file."""
    return [(name, round(score, 6)) for name, score in separate_ties(hits)]


@pytest.mark.jvm
def test_lucene_and_exact_backends_give_the_run_of_stock(index: Path, vectors: Path, topics: Path) -> None:
    stock = topics.parent / "stock.txt"
    words = ["--impact", "--min-idf", "-1", "--index", str(index), "--topics", str(topics), "--output", str(stock)]
    assert pyserini.run("search.lucene", [*words, "--hits", "30"]) == 0
    ours = run(index, topics, "--rank-segments", "--hits", "30", "--threads", "2", "--batch-size", "3")
    assert read_run(ours).keys() == read_run(stock).keys()
    for name, hits in read_run(stock).items():
        assert read_run(ours)[name] == hits == written(dot_products(QUERIES[name], VECTORS)[:30])
    for options in (["--rank-segments", "--hits", "30"], [], ["--hits", "3", "--output-format", "msmarco"]):
        both = [run(source, topics, *options, output=source.name).read_bytes() for source in (index, vectors)]
        assert both[0] == both[1] != b""


@pytest.mark.parametrize("hits", [1, 3, 20, 1_000])
def test_documents_by_their_best_segment(vectors: Path, topics: Path, hits: int) -> None:
    """A document of 40 segments could take many hits."""
    results = read_run(run(vectors, topics, "--hits", str(hits)))
    assert results == {name: written(documents_of(query)[:hits]) for name, query in QUERIES.items() if name != "none"}


def test_hits_with_the_id_of_the_query_are_dropped(vectors: Path, topics: Path) -> None:
    expected = documents_of(QUERIES["d7"])
    rank = [name for name, _ in expected].index("d7")
    dropped = read_run(run(vectors, topics, "--hits", str(rank + 1), "--remove-query"))
    assert dropped["d7"] == written(expected[:rank] + expected[rank + 1 : rank + 2])
    assert dropped["10"] == written(documents_of(QUERIES["10"])[: rank + 1])
    hits = {"a": [("b", 2.0), ("a", 2.0)], "c": [("b", 1.0)]}
    results = search.search_all(lambda *_: hits, {"a": {}, "c": {}}, 2, remove_query=True)
    assert list(results) == [("a", [("b", 2.0)]), ("c", [("b", 1.0)])]


def test_max_passage_is_for_segments_that_no_manifest_records(vectors: Path, topics: Path, tmp_path: Path) -> None:
    shutil.copytree(vectors / "vectors", tmp_path / "plain")
    query_vectors = tmp_path / "queries.jsonl"
    query_vectors.write_text("".join(json.dumps({"id": n, "vector": q}) + "\n" for n, q in QUERIES.items()))
    output = tmp_path / "run"
    options = ["--vectors", str(tmp_path / "plain"), "--query-vectors", str(query_vectors), "--output", str(output)]
    search.main(["--backend", "exact", *options, "--hits", "40", "--max-passage"])
    for name, hits in read_run(output).items():
        segments = {segment.split("#")[0] for segment, _ in dot_products(QUERIES[name], VECTORS)[:40]}
        assert hits == written([hit for hit in documents_of(QUERIES[name]) if hit[0] in segments])
    search.main(["--backend", "exact", *options, "--hits", "3", "--max-passage", "%"])
    assert read_run(output)["10"] == written(dot_products(QUERIES["10"], VECTORS)[:3])


@pytest.mark.jvm
def test_unusual_queries_and_an_index_from_another_tool(tmp_path: Path, topics: Path) -> None:
    """An index without ``learned_sparse.json`` needs --checkpoint; terms of every document are scored."""
    documents = {"d1": {"all": 1, "日本": 40_000}, "d2": {"all": 2, **WIDE}, "e": {}}
    build_index(write_folder(tmp_path / "in", documents), tmp_path / "index")
    queries = {"007": {"日本": 2, "all": 1}, "7": {"all": 1}, "wide": {**WIDE, "all": 3}, "q4": {"nothing": 1}}
    write_topics(topics, queries)
    expected = {name: hits for name, query in queries.items() if (hits := dot_products(query, documents))}
    assert read_run(run(tmp_path / "index", topics, "--batch-size", "2")) == expected
    (tmp_path / "index" / INDEX_MANIFEST).unlink()
    multiplied_hits = {name: [(document, 100 * score) for document, score in hits] for name, hits in expected.items()}
    assert read_run(run(tmp_path / "index", topics, "--checkpoint", "mine")) == multiplied_hits


@pytest.mark.jvm
def test_plain_text_and_terms_by_bm25(tmp_path: Path, topics: Path, words: dict[str, Any]) -> None:
    """Hits and order equal those of stock, with any k1 and b; stop words and symbols of pretokenised terms are kept."""
    texts = {f"d{number}": text_of(VECTORS[name]) for number, name in enumerate(list(VECTORS)[:60])}
    texts |= {"d60": "hives and wings", "d61": "##ing the the"}
    build_bm25_index([Document(name, text) for name, text in texts.items()], tmp_path / "text" / "index")
    rows = {name: {term: text.split().count(term) for term in text.split()} for name, text in texts.items()}
    words.update(scoring="bm25")
    folder = write_folder(tmp_path / "in", rows, scoring="bm25", query_encoder=description(scoring="bm25"))
    (tmp_path / "terms").mkdir()
    build_index(folder, tmp_path / "terms" / "index")
    write_topics(topics, {"q1": {"t1": 2, "t5": 1}, "q2": {"##ing": 1, "the": 1}, "q3": {"hive": 1}, "q4": {"x": 1}})
    names = {}
    for kind, options in (("text", ["--bm25"]), ("terms", ["--bm25", "--pretokenized"])):
        for parameters in ([], ["--k1", "0.82", "--b", "0.68"]):
            index, stock = tmp_path / kind / "index", tmp_path / "stock.txt"
            where = ["--index", str(index), "--topics", str(topics), "--output", str(stock), *parameters]
            assert pyserini.run("search.lucene", [*where, "--hits", "50", *options]) == 0
            results = read_run(run(index, topics, "--hits", "50", "--threads", "2", *parameters))
            names[kind] = set(results)
            for name, hits in read_run(stock).items():
                assert [document for document, _ in results[name]] == [document for document, _ in hits]
                assert dict(results[name]) == pytest.approx(dict(hits), abs=1e-3)
    assert names == {"text": {"q1", "q2", "q3"}, "terms": {"q1", "q2"}}


@pytest.mark.jvm
def test_scores_above_24_bits_and_large_impacts_of_queries(tmp_path: Path, caplog: Any) -> None:
    """Lucene's sums are 32-bit floats; a query is never written as repeated terms, which would exhaust memory."""
    vectors = write_folder(tmp_path / "in", {"d1": {"a": 2, "b": 1}, "d2": {"a": 2}, "d3": {"c": 1}})
    build_index(vectors, tmp_path / "index")
    queries, output = tmp_path / "queries.jsonl", tmp_path / "run"
    options = ["--query-vectors", str(queries), "--output", str(output)]
    queries.write_text('{"id": "q", "vector": {"a": 8388607, "b": 2, "c": 16777216}}\n')
    search.main(["--index", str(tmp_path / "index"), *options])
    assert read_run(output) == {"q": [("d1", 2.0**24), ("d3", 2.0**24), ("d2", 2.0**24 - 2)]}
    assert caplog.text == ""
    queries.write_text('{"id": "q", "vector": {"a": 2147483647, "b": 1}}\n')
    search.main(["--index", str(tmp_path / "index"), *options])
    assert "query q: scores above 16,777,216 are rounded to 32-bit floats" in caplog.text
    assert read_run(output) == {"q": [("d1", 2.0**32), ("d2", 2.0**32)]}
    caplog.clear()
    search.main(["--backend", "exact", "--vectors", str(vectors), *options])
    assert read_run(output) == {"q": [("d1", 2.0**32 - 1), ("d2", 2.0**32 - 2)]}
    assert caplog.text == ""
