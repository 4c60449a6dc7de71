"""Examples, their order, and their hard negatives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from encoders.training.data.examples import JudgedExamples, TripleFile
from encoders.training.data.mining import hard_negatives, search_pool
from encoders.training.data.sampler import Sampler
from encoders.training.data.sources import load
from encoders.training.data.texts import TextStore, text_key
from encoders.training.recipe import Negatives, Source
from encoders.training.recipe_file import source
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import Document

TEXTS = TextStore([Document("a", "one"), Document("b", "two"), Document("c", "three"), Document("copy", "one")])
QUERIES, POSITIVES = {"q": "which", "r": "what"}, {"q": ["a"], "r": ["b", "c"]}


def examples(per_query: int = 1, short: str = "random") -> JudgedExamples:
    return JudgedExamples(QUERIES, POSITIVES, TEXTS, per_query=per_query, short=short)


def test_text_store_keeps_any_text() -> None:
    store = TextStore([Document("x", "naïve \ud800 \U0001f600"), Document("y", "")], keep={"x", "y"})
    assert [store["x"], store["y"], len(store), "z" in store] == ["naïve \ud800 \U0001f600", "", 2, False]
    assert store.fingerprint() != TEXTS.fingerprint()


@pytest.mark.parametrize("size", [1, 7])
def test_sampler_visits_every_example_once_per_pass(size: int) -> None:
    sampler = Sampler([size], seed=3)
    passes = [[sampler.at(size * number + place)[1] for place in range(size)] for number in range(3)]
    assert all(sorted(order) == list(range(size)) for order in passes)
    assert size == 1 or passes[0] != passes[1]
    assert Sampler([size], seed=3).at(2 * size) == sampler.at(2 * size)


def test_sampler_mixes_sources_by_weight() -> None:
    sampler = Sampler([100, 10], weights=[1.0, 1.0], seed=0)
    drawn = [sampler.at(position) for position in range(110)]
    assert Counter(source for source, _ in drawn) == {0: 55, 1: 55}
    assert min(Counter(index for source, index in drawn if source == 1).values()) >= 5  # each seen five or six times
    assert Counter(source for source, _ in (Sampler([100, 10], seed=0).at(place) for place in range(110))) == {
        0: 100,
        1: 10,
    }


def test_hard_negatives_skip_positives_their_copies_and_other_ranks() -> None:
    run = {"q": [("copy", 4.0), ("b", 3.0), ("a", 2.0), ("c", 1.0)]}
    assert hard_negatives(run, examples(), Negatives(), where="run") == {"q": ["b", "c"], "r": []}
    assert hard_negatives(run, examples(), Negatives(first_rank=3, last_rank=4), where="run")["q"] == ["c"]
    with pytest.raises(LearnedSparseError, match="run: document 'zzz' is not in the training collection"):
        hard_negatives({"q": [("zzz", 1.0)]}, examples(), Negatives(), where="run")


def test_judged_examples_draw_negatives_that_are_not_relevant() -> None:
    found = examples(per_query=2).with_candidates({"q": ["c"]})
    seen = Counter[str]()
    for seed in range(20):
        example = found.get(0, np.random.default_rng(seed))
        assert example.query == "which"
        assert example.positive == "one"
        assert example.relevant == {text_key("one")}
        assert len(example.negatives) == 2
        assert example.negatives[0] == "three"
        seen.update(example.negatives[1:])
    assert set(seen) == {"two", "three"}  # the random filler is never "one" or its copy
    assert len(found) == 3
    assert len(examples(per_query=1, short="drop").with_candidates({"q": ["c"]})) == 1


def test_triples_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "triples.tsv"
    path.write_bytes("q\u00e9\tyes\tno\nq2\tyes2\tno2\r\n".encode())
    triples = TripleFile(path, per_query=1)
    example = triples.get(1, np.random.default_rng(0))
    assert (len(triples), example.query, example.positive, example.negatives) == (2, "q2", "yes2", ("no2",))
    assert triples.get(0, np.random.default_rng(0)).query == "qé"
    path.write_text("q\tyes\tno\n\nq\tyes\n", encoding="utf-8")
    with pytest.raises(LearnedSparseError, match=r"triples.tsv:3: expected query, positive, negative"):
        TripleFile(path, per_query=1)
    with pytest.raises(LearnedSparseError, match="one negative per query"):
        TripleFile(path, per_query=2)
    with pytest.raises(LearnedSparseError, match=r"--data FILE\.tsv"):
        TripleFile(tmp_path / "absent.tsv", per_query=1)


def test_triples_of_ids(tmp_path: Path, tiny_collection: Path) -> None:
    path = tmp_path / "ids.tsv"
    path.write_text("q1\td1\td5\n", encoding="utf-8")
    loaded = load(Source(triples=path, collection=str(tiny_collection)), Negatives())
    example = loaded.examples.get(0, np.random.default_rng(0))
    assert len(example.positive.split()) == 5
    assert set(example.query.split()) < set(example.positive.split())
    assert example.negatives[0] != example.positive
    path.write_text("q1\td1\td999\n", encoding="utf-8")
    with pytest.raises(LearnedSparseError, match="document 'd999' is not in the collection"):
        load(Source(triples=path, collection=str(tiny_collection)), Negatives())


def test_topics_and_qrels_of_pyserini(tmp_path: Path, tiny_collection: Path) -> None:
    (tmp_path / "topics.tsv").write_text("17\twhich words\n18\tunjudged\n", encoding="utf-8")
    (tmp_path / "qrels.txt").write_text("17 0 d3 1\n17 0 d4 0\n17 0 absent 1\n", encoding="utf-8")
    given = Source(collection=str(tiny_collection), topics=tmp_path / "topics.tsv", qrels=tmp_path / "qrels.txt")
    judged = load(given, Negatives()).examples
    assert isinstance(judged, JudgedExamples)
    assert judged.positives == {"17": ["d3"]}
    with pytest.raises(LearnedSparseError, match="'topics' and 'qrels' go together"):
        load(Source(collection=str(tiny_collection), qrels=tmp_path / "qrels.txt"), Negatives())


def test_search_pool_is_drawn_by_seed_and_keeps_the_positives() -> None:
    settings = Negatives(kind="self", pool=1, queries=1)
    queries, pool = search_pool(examples(), settings, [0])
    assert len(queries) == 1
    assert set(POSITIVES[queries[0].id]) <= set(pool.ids)
    assert search_pool(examples(), settings, [0])[1].ids == pool.ids


def test_data_on_the_command_line() -> None:
    assert source("ir_datasets:msmarco-passage/train") == {"collection": "ir_datasets:msmarco-passage/train"}
    assert source("folder/beir:dev") == {"collection": "folder/beir", "split": "dev"}
    assert source("triples.tsv.gz") == {"triples": "triples.tsv.gz"}
