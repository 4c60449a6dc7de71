"""Training examples, their order, their hard negatives, and batches."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.training.examples import Example, JudgedExamples, bm25_run, examples_at, labels_of, text_key
from encoders.training.recipe import Negatives, Source
from encoders.training.sources import Corpora, load_source
from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.topics import Query
from learned_sparse.collections.trec import read_run, write_run
from learned_sparse.core.errors import LearnedSparseError
from tests.encoders.training.conftest import Recipes

TEXTS = {"a": "one", "b": "two", "c": "three", "copy": "one"}
QUERIES, POSITIVES = {"q": "which", "r": "what"}, {"q": ["a"], "r": ["b", "c"]}


def test_each_pass_over_the_sources_is_another_permutation_of_all_examples() -> None:
    names = [[f"{name}{number}" for number in range(size)] for name, size in (("a", 100), ("b", 10))]
    sources = [JudgedExamples(dict(zip(ids, ids, strict=True)), {id: ["a"] for id in ids}, TEXTS) for ids in names]

    def queries(*positions: int) -> list[str]:
        return [example.query for example in examples_at(sources, positions, 0, 0)]

    passes = [queries(*range(start, start + 110)) for start in (0, 110)]
    for drawn in passes:
        assert sorted(drawn) == sorted(names[0] + names[1])
        assert {query[0] for query in drawn[:100]} == {"a", "b"}
    assert passes[0] != passes[1]
    assert queries(200) == [passes[1][90]]


def judged(**settings: Any) -> JudgedExamples:
    return JudgedExamples(QUERIES, POSITIVES, TEXTS, settings=Negatives(**settings))


def test_hard_negatives_exclude_positives_copies_of_positives_and_other_ranks(tmp_path: Path) -> None:
    path = tmp_path / "run"
    write_run(path, {"q": [("copy", 4.0), ("b", 3.0), ("a", 2.0), ("c", 1.0)], "x": [("b", 1.0)]})
    for ranks, candidates in (((1, 100), "b c"), ((3, 4), "c")):
        examples = judged(ranks=ranks)
        examples.take_candidates(path)
        assert examples.candidates == {"q": candidates}
    path.write_text(path.read_text() + "q Q0 zzz 5 0.5 tag\n")
    with pytest.raises(LearnedSparseError, match="run: the lines of query 'q' are not together"):
        judged().take_candidates(path)
    write_run(path, {"q": [("zzz", 1.0)]})
    with pytest.raises(LearnedSparseError, match="run: document 'zzz' is not in the training collection"):
        judged().take_candidates(path)


def test_a_run_takes_the_memory_of_its_ids(tmp_path: Path) -> None:
    hits = [(f"d{number}", 1000.0 - number) for number in range(1000)]
    write_run(tmp_path / "run", {f"q{number}": hits for number in range(100)})
    queries = {f"q{number}": "which" for number in range(100)}
    texts = {name: f"text of {name}" for name, _ in hits}
    examples = JudgedExamples(queries, {query: ["d0"] for query in queries}, texts, settings=Negatives(ranks=(1, 1000)))
    tracemalloc.start()
    try:
        examples.take_candidates(tmp_path / "run")
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (kept < 100_000 * 8, most < 100_000 * 16) == (True, True)  # bytes; as tuples some 150 a hit


def test_judged_examples_draw_negatives_that_are_not_relevant() -> None:
    examples = judged(per_query=2)
    examples.candidates = {"q": "c"}
    drawn = [examples.get(0, np.random.default_rng(seed)) for seed in range(20)]
    assert {(example.query, example.positive, example.relevant) for example in drawn} == {
        ("which", "one", frozenset([text_key("one")]))
    }
    assert Counter(example.negatives[0] for example in drawn) == {"three": 20}
    assert {example.negatives[1:] for example in drawn} == {("two",), ("three",)}  # never "one" or its copy
    assert len(examples) == 3


def test_topics_and_qrels_of_pyserini(tmp_path: Path, tiny_collection: Path) -> None:
    (tmp_path / "topics.tsv").write_text("17\twhich words\n18\tunjudged\n", encoding="utf-8")
    (tmp_path / "qrels.txt").write_text("17 0 d3 1\n17 0 d4 0\n17 0 absent 1\n", encoding="utf-8")
    source = Source(collection=str(tiny_collection), topics=tmp_path / "topics.tsv", qrels=tmp_path / "qrels.txt")
    examples: Any = load_source(source, Negatives())
    assert examples.positives == {"17": ["d3"]}
    with pytest.raises(LearnedSparseError, match="'topics' and 'qrels' go together"):
        load_source(Source(collection=str(tiny_collection), qrels=tmp_path / "qrels.txt"), Negatives())


def test_batches_of_processes_are_parts_of_one_batch_in_any_order_of_access(
    tiny_recipe: Recipes, first_stage: Any
) -> None:
    recipe = tiny_recipe({"batch_size": 4, "micro_batch_size": 2})
    session, learner = first_stage(recipe)
    streamed = list(learner.stream(range(1, 4)))
    ((examples, micro_batches),) = streamed[2]
    assert examples == first_stage(recipe)[1].batch(3)[0][0]
    assert len({example.query for step in range(7) for example in learner.batch(step)[0][0]}) > 20
    parts = []
    for process in range(2):
        session.process_index, session.num_processes = process, 2
        parts += learner.batch(3)
    assert all(of_part == examples for of_part, _ in parts)
    divided = [queries.input_ids.tolist() for _, own in parts for queries, _ in own]
    assert divided == [queries.input_ids.tolist() for queries, _ in micro_batches]
    examples, (_, documents) = examples[:2], micro_batches[0]
    texts = [example.positive for example in examples] + [text for each in examples for text in each.negatives]
    assert session.model.tokenizer.batch_decode(documents.input_ids, skip_special_tokens=True) == texts
    assert documents.attention_mask.sum(1).tolist() == [7] * len(texts)  # five words, [CLS] and [SEP]


def test_known_positives_include_copies_and_positives_of_the_same_query() -> None:
    examples = [
        Example("q", "one", ("n1",), frozenset([text_key("one"), text_key("two")])),
        Example("r", "two", ("one",), frozenset([text_key("two")])),
        Example("r", "three", ("n3",), frozenset()),
    ]
    # columns: one, two, three | n1, one, n3
    assert labels_of(examples).known.int().tolist() == [
        [0, 1, 0, 0, 1, 0],
        [0, 0, 1, 0, 0, 0],
        [0, 1, 0, 0, 0, 0],
    ]


LUCENE_TEXTS = {
    "d1": "hives and itching skin", "d2": "hives of bees", "d3": "weather in Bali", "d4": "bees and honey and hives",
}  # fmt: skip


@pytest.mark.jvm
def test_bm25_searches_once_for_equal_queries_and_texts(tmp_home: Path) -> None:
    bees = [Query("q", "bees in hives")]

    def searched(texts: dict[str, str], queries: list[Query] = bees) -> tuple[list[str], Path, int]:
        path = bm25_run(queries, texts.items, 10, collection="toy", split="train")
        return [id for id, _ in read_run(path)["q"]], path, path.stat().st_mtime_ns

    first = searched(LUCENE_TEXTS)
    assert first[0] == ["d2", "d4", "d1"]
    assert searched(LUCENE_TEXTS) == first
    assert searched(LUCENE_TEXTS, [*bees, Query("r", "weather")])[1] != first[1]
    assert "d3" in searched({**LUCENE_TEXTS, "d3": "bees bees hives"})[0]
    assert not list((tmp_home / "indexes" / "toy").glob("*"))


def test_sources_over_one_collection_share_its_texts(tiny_collection: Path) -> None:
    corpora = Corpora()
    sources = [Source(collection=str(tiny_collection), split=split) for split in ("train", "dev")]
    first, second = (load_source(source, Negatives(per_query=0), corpora) for source in sources)
    assert first.texts is second.texts is corpora.texts(load_collection(tiny_collection))  # type: ignore[attr-defined]
