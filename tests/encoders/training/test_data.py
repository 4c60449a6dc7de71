"""Training examples, their order, their hard negatives, and batches."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.training import Negatives, Source, Stage
from encoders.training.data.batches import Batches, Sampler, known_positives
from encoders.training.data.examples import Candidates, Example, JudgedExamples
from encoders.training.data.files import ExampleFile
from encoders.training.data.negatives import bm25_run, hard_negatives, search_pool
from encoders.training.data.sources import load_source
from encoders.training.data.texts import TextStore, TextStores, text_key
from encoders.training.recipe import MaxLength
from learned_sparse.collections.collection import load_collection
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import index_folder
from learned_sparse.core.records import Document, Query

TEXTS = TextStore([Document("a", "one"), Document("b", "two"), Document("c", "three"), Document("copy", "one")])
QUERIES, POSITIVES = {"q": "which", "r": "what"}, {"q": ["a"], "r": ["b", "c"]}


def examples(settings: Negatives = Negatives()) -> JudgedExamples:  # noqa: B008  (frozen)
    return JudgedExamples(QUERIES, POSITIVES, TEXTS, settings=settings)


@pytest.mark.parametrize("size", [1, 7])
def test_sampler_visits_every_example_once_per_pass(size: int) -> None:
    sampler = Sampler([size], seed=3)
    passes = [[sampler.at(size * number + offset)[1] for offset in range(size)] for number in range(3)]
    assert all(sorted(order) == list(range(size)) for order in passes)
    assert size == 1 or passes[0] != passes[1]
    assert Sampler([size], seed=3).at(2 * size) == sampler.at(2 * size)


def test_sampler_mixes_sources_by_size() -> None:
    drawn = [Sampler([100, 10], seed=0).at(position) for position in range(110)]
    assert sorted(drawn) == [(0, index) for index in range(100)] + [(1, index) for index in range(10)]
    assert [source for source, _ in drawn[:100]] != [0] * 100


def test_hard_negatives_exclude_positives_copies_of_positives_and_other_ranks() -> None:
    run = {"q": [("copy", 4.0), ("b", 3.0), ("a", 2.0), ("c", 1.0)]}
    assert hard_negatives(run, examples(), Negatives(), Path("run")) == {"q": ["b", "c"], "r": []}
    assert hard_negatives(run, examples(), Negatives(ranks=(3, 4)), Path("run"))["q"] == ["c"]
    with pytest.raises(LearnedSparseError, match="run: document 'zzz' is not in the training collection"):
        hard_negatives({"q": [("zzz", 1.0)]}, examples(), Negatives(), Path("run"))


def test_judged_examples_draw_negatives_that_are_not_relevant() -> None:
    judged = examples().drawing(Negatives(per_query=2), Candidates({"q": ["c"]}))
    seen = Counter[str]()
    for seed in range(20):
        example = judged.get(0, np.random.default_rng(seed))
        assert example.query == "which"
        assert example.positive == "one"
        assert example.relevant == {text_key("one")}
        assert len(example.negatives) == 2
        assert example.negatives[0] == "three"
        seen.update(example.negatives[1:])
    assert set(seen) == {"two", "three"}  # the random filler is never "one" or its copy
    assert len(judged) == 3


def test_triples_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "triples.tsv"
    path.write_bytes("q\u00e9\tyes\tno\nq2\tyes2\tno2\r\n".encode())
    first, second = (ExampleFile(path, Negatives()).get(index, np.random.default_rng(0)) for index in range(2))
    assert (first.query, second.query, second.positive, second.negatives) == ("qé", "q2", "yes2", ("no2",))
    with pytest.raises(LearnedSparseError, match="one negative per query"):
        ExampleFile(path, Negatives(per_query=2))
    path.write_text("q\tyes\tno\n\nq\tyes\n", encoding="utf-8")
    with pytest.raises(LearnedSparseError, match=r"triples.tsv:3: . columns; expected query, positive, negative"):
        ExampleFile(path, Negatives())


def test_triples_of_ids(tmp_path: Path, tiny_collection: Path) -> None:
    path = tmp_path / "ids.tsv"
    path.write_text("q1\td1\td5\n", encoding="utf-8")
    loaded = load_source(Source(triples=path, collection=str(tiny_collection)), Negatives())
    example = loaded.examples.get(0, np.random.default_rng(0))
    assert set(example.query.split()) < set(example.positive.split())
    assert example.negatives[0] != example.positive
    path.write_text("q1\td1\td999\n", encoding="utf-8")
    with pytest.raises(LearnedSparseError, match=r"ids.tsv:1: document 'd999' is not in the collection"):
        load_source(Source(triples=path, collection=str(tiny_collection)), Negatives())


def test_topics_and_qrels_of_pyserini(tmp_path: Path, tiny_collection: Path) -> None:
    (tmp_path / "topics.tsv").write_text("17\twhich words\n18\tunjudged\n", encoding="utf-8")
    (tmp_path / "qrels.txt").write_text("17 0 d3 1\n17 0 d4 0\n17 0 absent 1\n", encoding="utf-8")
    source = Source(collection=str(tiny_collection), topics=tmp_path / "topics.tsv", qrels=tmp_path / "qrels.txt")
    judged = load_source(source, Negatives()).examples
    assert isinstance(judged, JudgedExamples)
    assert judged.positives == {"17": ["d3"]}
    with pytest.raises(LearnedSparseError, match="'topics' and 'qrels' go together"):
        load_source(Source(collection=str(tiny_collection), qrels=tmp_path / "qrels.txt"), Negatives())


def test_search_pool_is_drawn_by_seed_and_keeps_the_positives() -> None:
    settings = Negatives(kind="self", pool=1)
    queries, pool = search_pool(examples(), settings, [0])
    assert [query.id for query in queries] == list(POSITIVES)
    assert {"a", "b", "c"} <= set(pool.ids)
    assert search_pool(examples(), settings, [0])[1].ids == pool.ids


class Numbered:
    """Example i has the texts qi, pi, ni."""

    fingerprint = ""

    def __len__(self) -> int:
        return 12

    def get(self, index: int, rng: np.random.Generator) -> Example:
        return Example(f"w{index}", f"w{index} w{index + 1}", (f"w{index + 2} w{rng.integers(9)} w1",), frozenset())


@pytest.fixture
def tokenizer(tiny_backbone: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_backbone)


def batches(tokenizer: Any, **options: Any) -> Batches:
    numbered: Any = Numbered()
    stage = Stage(name="s", steps=9, batch_size=4, micro_batch_size=2)
    return Batches([numbered], stage, tokenizer, MaxLength(query=8, document=8), seed=0, **options)


def test_batches_do_not_depend_on_the_order_of_access(tokenizer: Any) -> None:
    in_order = batches(tokenizer)
    streamed = list(in_order.stream(range(1, 4)))
    assert [batch.step for batch in streamed] == [1, 2, 3]
    assert streamed[2].examples == batches(tokenizer).examples(3)
    assert {example.query for step in range(3) for example in in_order.examples(step)} == {f"w{i}" for i in range(12)}


def test_each_process_gets_a_consecutive_part_of_a_batch(tokenizer: Any) -> None:
    single = batches(tokenizer).batch(0)
    parts = [batches(tokenizer, process=process, processes=2).batch(0) for process in range(2)]
    ids = [micro.queries.input_ids.tolist() for part in parts for micro in part.updates[0].micro_batches]
    assert ids == [micro.queries.input_ids.tolist() for micro in single.updates[0].micro_batches]
    assert all(part.examples == single.examples for part in parts)


def test_documents_are_positives_then_negatives_padded_to_the_longest_text(tokenizer: Any) -> None:
    batch = batches(tokenizer).batch(0)
    micro, examples = batch.updates[0].micro_batches[0], batch.examples[:2]
    texts = [example.positive for example in examples] + [example.negatives[0] for example in examples]
    assert tokenizer.batch_decode(micro.documents.input_ids, skip_special_tokens=True) == texts
    assert micro.documents.attention_mask.sum(1).tolist() == [4, 4, 5, 5]
    assert micro.documents.input_ids.shape == (4, 5)


def test_known_positives_include_copies_and_positives_of_the_same_query() -> None:
    examples = [
        Example("q", "one", ("n1",), frozenset([text_key("one"), text_key("two")])),
        Example("r", "two", ("one",), frozenset([text_key("two")])),
        Example("r", "three", ("n3",), frozenset()),
    ]
    # columns: one, two, three | n1, one, n3
    assert known_positives(examples).int().tolist() == [
        [0, 1, 0, 0, 1, 0],
        [0, 0, 1, 0, 0, 0],
        [0, 1, 0, 0, 0, 0],
    ]


LUCENE_TEXTS = {
    "d1": "hives and itching skin",
    "d2": "hives of bees",
    "d3": "weather in Bali",
    "d4": "bees and honey and hives",
}


def judged(texts: dict[str, str]) -> JudgedExamples:
    store = TextStore(Document(id, text) for id, text in texts.items())
    return JudgedExamples({"q": "bees in hives"}, {"q": ["d2"]}, store)


@pytest.mark.jvm
def test_bm25_indexes_and_searches_once_per_collection(tmp_path: Path, tmp_home: Path) -> None:
    run, bees = tmp_path / "runs" / "bm25.txt", [Query("q", "bees in hives")]

    def searched(texts: dict[str, str], queries: list[Query] = bees) -> list[str]:
        hits = bm25_run(queries, judged(texts).texts.__iter__, 10, collection="toy", run=run)
        assert hard_negatives(hits, judged(texts), Negatives(), Path("run"))["q"] == [
            id for id, _ in hits["q"] if id != "d2"
        ]
        return [id for id, _ in hits["q"]]

    assert searched(LUCENE_TEXTS) == ["d2", "d4", "d1"]
    files = run, index_folder("toy", "bm25-of-training").with_suffix(".json")
    written = [file.stat().st_mtime_ns for file in files]
    assert searched(LUCENE_TEXTS) == ["d2", "d4", "d1"]
    assert [file.stat().st_mtime_ns for file in files] == written
    assert searched(LUCENE_TEXTS, [*bees, Query("r", "weather")]) == ["d2", "d4", "d1"]
    assert [file.stat().st_mtime_ns == time for file, time in zip(files, written, strict=True)] == [False, True]
    assert "d3" in searched({**LUCENE_TEXTS, "d3": "bees bees hives"})


def test_sources_over_one_collection_share_its_texts(tiny_collection: Path) -> None:
    stores, names = TextStores(), ("train", "dev")
    sources = [Source(collection=str(tiny_collection), split=split) for split in names]
    first, second = (load_source(source, Negatives(kind="none"), stores).examples for source in sources)
    assert isinstance(first, JudgedExamples)
    assert isinstance(second, JudgedExamples)
    assert first.texts is second.texts is stores.texts(load_collection(tiny_collection))
