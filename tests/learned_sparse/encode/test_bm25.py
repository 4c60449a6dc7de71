"""BM25 as an encoder has the scores of Lucene; with a model in one index: scores, shares at query time, files."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.documents import Document
from learned_sparse.collections.topics import Query
from learned_sparse.core.encoder import Encoder
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import read_json
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import SparseBatch
from learned_sparse.core.settings import parse
from learned_sparse.encode import __main__, pipeline
from learned_sparse.encode.bm25 import AnalyzedText, Bm25Documents, Bm25Statistics
from learned_sparse.encode.hybrid import ALPHA, Hybrid, HybridRecord, Signal, hybrid_sides
from learned_sparse.encode.parts import merge_shards
from learned_sparse.encode.pipeline import write_vectors
from learned_sparse.index.build import build_bm25_index, build_index
from learned_sparse.inspect.inspection import IndexInspector
from learned_sparse.jsonvector.queries import read_topics
from learned_sparse.jsonvector.reader import read_vectors
from learned_sparse.jsonvector.writer import open_part
from learned_sparse.lucene.searchers import search_bm25, search_impacts
from learned_sparse.pyserini import run as run_stock
from learned_sparse.search import __main__ as search
from learned_sparse.search.query_encoder import QueryEncoder
from tests.fake_encoder import FakeEncoder, load_fake
from tests.learned_sparse.input_files import files
from tests.toy_data import WORDS, save_beir

pytestmark = pytest.mark.jvm
TEXTS = {f"d{number}": " ".join(np.random.default_rng(number).choice(WORDS, 3 + number % 9)) for number in range(40)}
QUERIES = {f"q{number}": f"{WORDS[number]} the {WORDS[number + 2]}" for number in range(6)}
MODEL = ["--checkpoint", "fake", "--with", "bm25"]


def test_scores_are_those_of_lucene_within_the_rounding_of_impacts(tmp_path: Path) -> None:
    """Documents of 0 to some 700 words, whose lengths Lucene rounds."""
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice([*WORDS, "naïve", "Zürich", "☃"], size)) for size in range(0, 700, 7)]
    documents = [Document(f"d{number}", text) for number, text in enumerate([*texts, "a", "x" * 300])]
    queries = [Query("q1", "cycles of memory, memory"), Query("q2", "Garbage COLLECTORS"), Query("q3", "zürich ☃")]
    build_bm25_index(documents, tmp_path / "text")
    expected = search_bm25(tmp_path / "text", queries)
    encoder = Bm25Documents(Bm25Statistics.count(document.text for document in documents))
    quantizer = Quantizer(encoder.quantizer.scale * (2**16 - 1) / 255, 16)
    write_vectors(tmp_path / "vectors", documents, encoder, quantizer=quantizer)
    build_index(tmp_path / "vectors", tmp_path / "impacts")
    impacts = QueryEncoder(AnalyzedText()).encode_batch([query.text for query in queries])
    found = search_impacts(tmp_path / "impacts", {q.id: row for q, row in zip(queries, impacts, strict=True)})
    for query, row in zip(queries, impacts, strict=True):
        scores, bound = dict(found[query.id]), 0.5 * sum(row.values()) / quantizer.scale
        assert scores.keys() == dict(expected[query.id]).keys()
        assert len(scores) > 20
        for name, score in expected[query.id]:
            assert scores[name] / quantizer.scale == pytest.approx(score, abs=bound, rel=1e-6)


def test_eight_bits_keep_the_top_ten_of_pydoc_but_for_a_hundredth(tmp_path: Path) -> None:
    collection = load_collection("pydoc")
    documents, queries = list(collection.documents()), collection.queries("test")
    build_bm25_index(documents, tmp_path / "text")
    expected = search_bm25(tmp_path / "text", queries, 10)
    encoder = Bm25Documents(Bm25Statistics.count(document.text for document in documents))
    impacts = QueryEncoder(AnalyzedText()).encode_batch([query.text for query in queries])
    rows = {query.id: row for query, row in zip(queries, impacts, strict=True)}
    for bits, lost in ((8, 0.015), (10, 0.002)):
        quantizer = Quantizer(encoder.quantizer.scale * (2**bits - 1) / 255, bits)
        write_vectors(tmp_path / f"{bits}", documents, encoder, quantizer=quantizer)
        build_index(tmp_path / f"{bits}", tmp_path / f"index-{bits}")
        found = search_impacts(tmp_path / f"index-{bits}", rows, 10)
        kept = sum(len(dict(found[name]).keys() & dict(hits).keys()) for name, hits in expected.items())
        assert 1 - lost <= kept / sum(map(len, expected.values())) < 1


def test_queries_count_words() -> None:
    batch = AnalyzedText().encode(["The cats' cat", "", "dogs and cats"])
    assert [batch.row(row) for row in range(3)] == [{"cat": 2.0}, {}, {"dog": 1.0, "cat": 1.0}]


def test_a_word_of_no_document_has_no_weight_in_documents() -> None:
    encoder = Bm25Documents(Bm25Statistics.count(["cat", "cat dog"]))
    batch = encoder.encode(["cat mouse"])
    assert (list(batch.row(0)), batch.dropped) == (["cat"], 1)


def test_occurrences_share_the_weight() -> None:
    encoder = Bm25Documents(Bm25Statistics.count(["cat", "cat dog cats"]))
    reading = encoder.explain("cat dog cats")
    weights = encoder.encode(["cat dog cats"]).row(0)
    assert reading.weights == weights
    assert [(share.token, share.weight) for share in reading.sources["cat"].shares] == [
        (0, weights["cat"] / 2),
        (2, weights["cat"] / 2),
    ]


class Weights(Encoder):
    """A model whose texts are lines of the weights of its two terms."""

    terms = ("x", "y")
    description: Mapping[str, Any] = MappingProxyType({"architecture": "weights"})

    def encode(self, texts: Any) -> SparseBatch:
        return SparseBatch.from_dicts(
            [dict(zip(self.terms, map(float, text.split()[1:]), strict=False)) for text in texts], terms=self.terms
        )


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``load_encoder`` gives the fake encoder, and the home folder is new."""
    monkeypatch.setattr("encoders.encoding.loading.load_encoder", load_fake)
    monkeypatch.setattr("encoders.checkpoints.hub.resolve_checkpoint", lambda name: name)
    monkeypatch.setenv("LEARNED_SPARSE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def encoded(tmp_path: Path) -> Path:
    """A collection, encoded and indexed by the commands; the folder of the index."""
    save_beir(tmp_path / "toy", TEXTS, QUERIES, {"test": [(name, "d0", 1) for name in QUERIES]})
    assert __main__.main([*MODEL, "--collection", "toy"]) == 0
    build_index(tmp_path / "home/vectors/toy/fake+bm25", tmp_path / "home/indexes/toy/fake+bm25")
    return tmp_path / "home/indexes/toy/fake+bm25"


@given(
    words=st.lists(st.sampled_from(["cat", "dog", "fish"]), min_size=1, max_size=6),
    weights=st.lists(st.floats(0, 5), min_size=2, max_size=2),
    alpha=st.floats(0, 1),
    bits=st.integers(4, 16),
)
def test_the_score_is_the_weighted_sum_within_the_rounding(
    words: list[str], weights: list[float], alpha: float, bits: int
) -> None:
    statistics = Bm25Statistics.count(["cat", "cat dog", "fish fish dog", "bird"])
    part = Bm25Documents(statistics)
    record = HybridRecord(
        model=Signal(scale=255 / 5, unit=300.0),
        bm25=Signal(scale=part.quantizer.scale, unit=200.0),
        statistics=dict(part.description),
    )
    documents = Hybrid.documents(Weights(), part, record, bits)
    queries = Hybrid.queries(Weights(), record, alpha)
    text, query = f"{words[0]} {weights[0]} {weights[1]}", f"{words[0]} 0.5 2 {' '.join(words)}"
    impacts = documents.quantizer.quantize(documents.encode([text]))[0].row(0)
    weighed = queries.quantizer.quantize(queries.encode([query]))[0].row(0)
    score = sum(impact * weighed.get(term, 0) for term, impact in impacts.items())

    step = 255 / (2**bits - 1)
    model = 51 * (0.5 * weights[0] + 2 * weights[1]) / 300
    counts = [words[0], *words].count(words[0])
    bm25 = part.quantizer.scale * part.encode([text]).row(0)[words[0]] * counts / 200
    unit = 200 * 1000 / step
    # A half step of each impact times the query's weight, and half a thousandth of each weight times the impact.
    share = 1000 * (alpha * 200 / 300 * 2.5 + (1 - alpha) * counts) + 1.5
    bound = 0.5 * share + 0.5 * 3 * (2**bits - 1)
    assert abs(score - (alpha * model + (1 - alpha) * bm25) * unit) <= bound * (1 + 1e-5)


def test_one_index_serves_every_alpha(encoded: Path, tmp_path: Path) -> None:
    alone = search_impacts(*_indexed(tmp_path / "model", load_fake("", "document"), load_fake("", "query")))
    words = Bm25Documents(Bm25Statistics.count(TEXTS.values()))
    bm25 = search_impacts(*_indexed(tmp_path / "bm25", words, AnalyzedText()))
    for alpha, expected in ((1.0, alone), (0.0, bm25)):
        found = _search(encoded, alpha)
        for name in QUERIES:
            assert [hit for hit, _ in found[name]] == [hit for hit, _ in expected[name]]
    for name, hits in _search(encoded, 0.5).items():
        parts = dict(_search(encoded, 1.0)[name]), dict(_search(encoded, 0.0)[name])
        for hit, score in hits:
            assert score == pytest.approx(sum(part.get(hit, 0) for part in parts) / 2, rel=0.01)


def test_commands_search_it_with_the_recorded_share(encoded: Path, tmp_path: Path) -> None:
    def found(*words: str) -> str:
        assert search.main([*words, "--output", "run.txt"]) == 0
        return Path("run.txt").read_text()

    named = ["--model", "fake+bm25", "--collection", "toy"]
    default = found(*named)
    assert found("--index", str(encoded), "--topics", "toy/queries.jsonl") == default != found(*named, "--alpha", "0.9")
    assert found("--backend", "exact", *named) == default
    assert __main__.main([*MODEL, "--collection", "toy", "--queries", "--output", "topics"]) == 0
    index_alone = ["--checkpoint", "fake", "--with", str(encoded), "--queries"]
    assert __main__.main([*index_alone, "--input", "toy/queries.jsonl", "--output", "from-index"]) == 0
    assert Path("from-index/queries.tsv").read_text() == Path("topics/queries.tsv").read_text()
    assert found("--index", str(encoded), "--query-vectors", "topics") == default
    stock = ["--impact", "--min-idf", "-1", "--index", str(encoded), "--topics", "topics/queries.tsv"]
    assert run_stock("search.lucene", [*stock, "--output", "stock.txt"]) == 0
    stock_run = Path("stock.txt").read_text()
    ours, theirs = ([line.split()[:4] for line in run.splitlines()] for run in (default, stock_run))
    assert sorted(ours) == sorted(theirs)


def test_documents_are_those_of_the_model_and_of_bm25(encoded: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """The network of queries is read to weigh both only, and dropped before the first part."""
    folder = tmp_path / "home/vectors/toy/fake+bm25"
    rows = dict(read_vectors(folder / "vectors/part-00000.jsonl"))
    words = Bm25Documents(parse(Bm25Statistics, read_json(encoded / "bm25.json", record=True), ""))
    write_vectors(tmp_path / "words", [Document(*item) for item in TEXTS.items()], words)
    for name, row in read_vectors(tmp_path / "words/vectors/part-00000.jsonl"):
        assert {f"b:{term}": impact for term, impact in row.items()}.items() <= rows[name].items()
        assert {term[:2] for term in rows[name]} == {"m:", "b:"}
    before, events = files(folder), list[str]()

    def load(name: str, side: str, weights: bool = True, **options: Any) -> FakeEncoder:
        encoder = load_fake(name, side, **options)
        if side == "query":
            events.append(f"weights={weights}")
            weakref.finalize(encoder, events.append, "dropped")
        return encoder

    def open_recorded(path: Path) -> Any:
        events.append(path.name)
        return open_part(path)

    monkeypatch.setattr("encoders.encoding.loading.load_encoder", load)
    monkeypatch.setattr(pipeline, "open_part", open_recorded)
    for option in ("--resume", "--overwrite"):
        assert __main__.main([*MODEL, "--collection", "toy", option]) == 0
        assert files(folder) == before
    assert events == ["weights=False", "dropped", "weights=True", "dropped", "part-00000.jsonl"]


def test_shards_are_the_parts_of_one_encoding(encoded: Path, tmp_path: Path) -> None:
    words = [*MODEL, "--collection", "toy", "--part-size", "16", "--num-shards"]
    shards = [tmp_path / f"shard-{number}" for number in (0, 1)]
    for number, shard in enumerate(shards):
        assert __main__.main([*words, "2", "--shard-id", str(number), "--output", str(shard)]) == 0
    build_index(shards, tmp_path / "index")
    assert _search(tmp_path / "index", 0.5) == _search(encoded, 0.5)
    assert (tmp_path / "index/bm25.json").read_bytes() == (encoded / "bm25.json").read_bytes()
    (tmp_path / "merged").mkdir()
    merge_shards(shards, tmp_path / "merged")
    assert __main__.main([*words, "1", "--output", str(tmp_path / "one")]) == 0
    for name in ("bm25.json", "vectors/part-00000.jsonl", "vectors/part-00001.jsonl", "vectors/part-00002.jsonl"):
        assert (tmp_path / "merged" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()


def test_queries_keep_no_words(encoded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = QueryEncoder.from_index(encoded)
    before = len(encoder.encoder.terms)
    expected = _encoded(encoder)
    assert len(encoder.encoder.terms) == before  # a server encodes for months
    queries = [*MODEL, "--collection", "toy", "--queries", "--output", "topics"]
    with pytest.raises(LearnedSparseError, match="from 0 to 1"):
        __main__.main([*queries, "--set", "hybrid_alpha=2"])
    monkeypatch.setattr("learned_sparse.encode.run.WINDOW", 2)  # each with words of its own
    assert __main__.main(queries) == 0
    assert read_topics(tmp_path / "topics") == expected


def test_a_hit_is_explained_by_both_signals(encoded: Path) -> None:
    with_texts = IndexInspector(encoded, documents=lambda name: Document(name, TEXTS[name]))
    (best, _), *_ = _search(encoded, 0.5)["q1"]
    query = QUERIES["q1"]
    score = with_texts.pair(query, best).score
    assert score
    assert score.signals.keys() == {"model", "BM25"}
    assert sum(score.signals.values()) == pytest.approx(1)
    assert {term.term[:2] for term in score.terms} == {"m:", "b:"}
    assert with_texts.pair(query, best, {ALPHA: 0.0}).score.signals == {"model": 0.0, "BM25": 1.0}  # type: ignore[union-attr]


def test_a_model_that_bm25_scores_is_refused() -> None:
    with pytest.raises(LearnedSparseError, match="scored by BM25 already"):
        hybrid_sides(AnalyzedText(), AnalyzedText(), TEXTS.values())


@pytest.mark.parametrize(("texts", "message"), [(["rain"], "too few documents"), (["", "the"], "no document has a")])
def test_documents_without_a_common_word_cannot_be_weighed(texts: list[str], message: str) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        hybrid_sides(load_fake("", "document"), load_fake("", "query"), texts)


def _indexed(folder: Path, documents: Encoder, queries: Encoder) -> tuple[Path, dict[str, dict[str, int]]]:
    """An index of ``TEXTS`` by one encoder, and the queries."""
    write_vectors(folder / "vectors", [Document(*item) for item in TEXTS.items()], documents)
    build_index(folder / "vectors", folder / "index")
    return folder / "index", _encoded(QueryEncoder(queries))


def _encoded(encoder: QueryEncoder) -> dict[str, dict[str, int]]:
    return dict(zip(QUERIES, encoder.encode_batch(list(QUERIES.values())), strict=True))


def _search(index: Path, alpha: float) -> dict[str, list[tuple[str, float]]]:
    return search_impacts(index, _encoded(QueryEncoder.from_index(index, settings={ALPHA: alpha})))
