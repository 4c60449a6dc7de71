"""The splits that a recipe learns from, and validation on queries held out from training."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse

from encoders.models.objectives import Mixture
from encoders.training.examples import Examples
from encoders.training.learner import Learner
from encoders.training.recipe import Negatives, Source, Validation, load_recipe, recipe_splits
from encoders.training.sources import Corpora, load_source
from encoders.training.validation import Validator, hold_out
from learned_sparse.collections.trec import write_run
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import EXPANDED
from tests.encoders.training.conftest import Recipes, Trained
from tests.toy_data import save_beir


def test_splits_of_a_recipe_have_one_name_in_every_spelling(tmp_path: Path) -> None:
    changes = ["validation={collection: 'ir_datasets:msmarco-passage/dev/small', every: 1}"]
    data = [f"{tmp_path}/elsewhere/msmarco-mini:train", "scifact:train", "mine.tsv"]
    assert recipe_splits(load_recipe("splade-flops", changes=changes, data=data)) == {
        "trained": {"msmarco-mini:train": ("msmarco-v1-passage:dev",), "scifact:train": (), "mine.tsv": ()},
        "selected": {"msmarco-v1-passage:dev": ()},
    }
    assert recipe_splits(load_recipe("demo-splade"))["selected"] == {}
    assert recipe_splits(load_recipe("spade"))["selected"] == {"msmarco-v1-passage:train": ()}


def test_topics_and_judgements_of_a_known_split_are_that_split() -> None:
    files = {"data.0.topics": "files/queries.dev.small.tsv", "data.0.qrels": "files/qrels.dev.small.tsv"}
    for changes in (files, {**files, "data.0.qrels": None, "data.0.examples": "triples.tsv"}):
        assert recipe_splits(load_recipe("unicoil", changes=changes))["trained"] == {"msmarco-v1-passage:dev": ()}
    assert recipe_splits(load_recipe("unicoil"))["trained"] == {"msmarco-v1-passage:train": ()}


QUERIES = {**{f"q{i}": f"word {i}" for i in range(12)}, "again": " Word  3", "q9": "word 9"}
DOCUMENTS = {**{f"d{i}": f"text {i}" for i in range(12)}, "copy": "text 5"}


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """Twelve queries with a document each; ``again`` is q3 in another spelling."""
    pairs = [(f"q{i}", f"d{i}", 1) for i in range(12)] + [("again", "d0", 1)]
    save_beir(tmp_path / "toy", DOCUMENTS, QUERIES, {"train": pairs})
    return tmp_path / "toy"


def sources(toy: Path, *kinds: str) -> list[Examples]:
    """``judged``, or triples of ``ids`` or ``texts``: each query with each of two negatives."""
    lines = [(f"q{i}", f"d{i}", f"d{(i + step) % 12}") for i in range(12) for step in (1, 2)] + [("again", "d0", "d4")]
    texts = QUERIES | DOCUMENTS | {"d8": "text not in the collection"}
    ids, plain = toy / "ids.txt", toy / "texts.txt"
    ids.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
    plain.write_text("".join("\t".join(texts[id] for id in line) + "\n" for line in lines), encoding="utf-8")
    named = {
        "judged": (Source(collection=str(toy)), Negatives(per_query=0)),
        "ids": (Source(collection=str(toy), examples=ids), Negatives()),
        "texts": (Source(examples=plain), Negatives()),
    }
    return [load_source(*named[kind]) for kind in kinds]


def settings(toy: Path, count: int, **changes: Any) -> Validation:
    return Validation(collection=str(toy), holdout=count, every=1, **changes)


def queries_of(*parts: Examples) -> set[str]:
    """The queries of all examples, in one spelling."""
    return {" ".join(part.judged(index)[0].lower().split()) for part in parts for index in range(len(part))}


@pytest.mark.parametrize("kind", ["judged", "ids", "texts"])
@pytest.mark.parametrize("count", [1, 4, 9])
def test_held_out_queries_are_in_no_example(kind: str, count: int, toy: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "encoders")
    before = sources(toy, kind)
    (part,), held_out, numbers = hold_out(before, settings(toy, count))
    drawn, left = queries_of(*held_out), queries_of(part)
    assert numbers["queries"] == len(drawn) == count
    assert not drawn & left
    assert drawn | left == {f"word {i}" for i in range(12)}
    examples = len(before[0])
    assert numbers["examples"] == examples - len(part) == len(held_out[0]) > 0
    expected = f"{count} of 12 training queries are held out, with {numbers['examples']} of {examples} examples"
    assert f"validation: {expected}" in caplog.messages
    assert part.fingerprint != before[0].fingerprint
    again = hold_out(sources(toy, kind), settings(toy, count))
    assert (queries_of(*again[1]), again[0][0].fingerprint) == (drawn, part.fingerprint)


def test_all_sources_lose_the_same_queries_and_other_collections_give_none(toy: Path, tmp_path: Path) -> None:
    drawn = [queries_of(*hold_out(sources(toy, kind), settings(toy, 5))[1]) for kind in ("judged", "ids", "texts")]
    assert drawn[0] == drawn[1] == drawn[2]
    first, second = sorted(drawn[0])[:2]
    others = {"q0": "another query", "r1": first.upper(), "r2": second}
    save_beir(tmp_path / "other", {"e": "other text"}, others, {"train": [(query, "e", 1) for query in others]})
    other = load_source(Source(collection=str(tmp_path / "other")), Negatives(per_query=0))
    parts, held_out, _ = hold_out([*sources(toy, "judged", "ids"), other], settings(toy, 5))
    assert queries_of(*held_out) == drawn[0]
    assert not queries_of(*parts) & drawn[0]
    assert queries_of(parts[2]) == {"another query"}
    with pytest.raises(LearnedSparseError, match="no source has documents of toy"):
        hold_out([other], settings(toy, 1))
    with pytest.raises(LearnedSparseError, match="12 of 12 training queries leave a source without examples"):
        hold_out([*sources(toy, "judged"), other], settings(toy, 12))


@pytest.mark.parametrize("kind", ["judged", "ids", "texts"])
def test_relevant_documents_of_held_out_queries(kind: str, toy: Path, caplog: pytest.LogCaptureFixture) -> None:
    """All documents of the collection with a relevant text; the pool gets texts that the collection does not have."""
    _, held_out, _ = hold_out(sources(toy, kind), settings(toy, 11))
    validator = Validator(settings(toy, 11), 0, held_out=held_out)
    relevant = {number_of(validator, query): ids for query, ids in validator.positives.items()}
    assert relevant["5"] == ["d5", "copy"]
    assert relevant["8"][0].startswith("text-" if kind == "texts" else "d8")
    assert ("1 relevant texts are not in the collection; the pool has them too" in caplog.text) == (kind == "texts")
    assert all(id in validator._pool for ids in validator.positives.values() for id in ids)


def number_of(validator: Validator, query: str) -> str:
    """The number at the end of a held-out query."""
    return validator._queries[query].split()[-1]


def encode(side: Side, texts: Sequence[str], component: str | None) -> Any:
    """Component ``one`` weighs words by number, ``two`` backwards: query and document match if the numbers are near."""
    numbers = np.array([float(text.split()[-1]) for text in texts])
    numbers = numbers if component != "two" else 12 - numbers
    columns = np.stack([np.ones(len(texts)), numbers] if side == "query" else [numbers + 1, np.full(len(texts), 0.5)])
    return scipy.sparse.csr_array(columns.T)


def test_reranking_ranks_each_query_over_its_own_candidates(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = SimpleNamespace(encode=encode, on_main=lambda compute: compute())
    _, held_out, _ = hold_out(sources(toy, "judged"), settings(toy, 9))
    plain = Validator(settings(toy, 9), 0, held_out=held_out)
    numbers = {id: int(number_of(plain, id)) for id in list(plain.positives)[:-1]}
    write_run(toy / "run.txt", {id: [(hit, 1.0) for hit in candidates(number)] for id, number in numbers.items()})
    monkeypatch.setattr("encoders.training.validation.bm25_run", lambda *_, **__: toy / "run.txt")
    reranking = settings(toy, 9, bm25=3, rerank=True)
    # component one ranks larger numbers first; the last query has no candidates
    ranks = [1 / (1 + sum(int(hit[1:]) > own for hit in candidates(own))) for own in numbers.values()]
    validator = Validator(reranking, 0, held_out=held_out)
    expected = sum(ranks) / 9
    assert validator.score(session, "one")[0] == pytest.approx(expected)
    factors: list[dict[str, float]] = [{"two": 1.0}, {"one": 1.0, "two": 0.25}, {"one": 0.5}]
    mixtures: list[Mixture] = [({"number": number}, of) for number, of in enumerate(factors)]
    mixed = Validator(reranking, 0, mixtures, held_out=held_out)
    backwards = sum(1 / (1 + sum(int(hit[1:]) < own for hit in candidates(own))) for own in numbers.values()) / 9
    best = max(range(3), key=lambda number: [backwards, expected, expected][number])
    score, chosen, _ = mixed.score(session, None)
    assert score == pytest.approx(max(expected, backwards))
    assert chosen == {"number": best}
    whole = Validator(settings(toy, 9, bm25=3), 0, held_out=held_out)
    assert len({made.fingerprint() for made in (validator, whole)}) == 2


def candidates(number: int) -> list[str]:
    """The document that is relevant to this query and two others."""
    return [f"d{number}", f"d{(number + 1) % 12}", f"d{(number + 5) % 12}"]


@pytest.mark.jvm
def test_bm25_makes_the_pool_of_held_out_queries(toy: Path, tmp_home: Path) -> None:
    _, held_out, _ = hold_out(sources(toy, "judged"), settings(toy, 6))
    validator = Validator(settings(toy, 6, bm25=1, rerank=True), 0, held_out=held_out)
    (run,) = (tmp_home / "runs" / "toy").glob("validation-*/bm25.txt")
    assert {line.split()[0] for line in run.read_text().splitlines()} <= set(validator.positives)


def test_training_neither_sees_nor_mines_held_out_queries(
    tiny_recipe: Recipes, trained: Trained, tiny_collection: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[str] = set()
    made = Learner.batch

    def recorded(self: Learner, step: int) -> Any:
        updates = made(self, step)
        seen.update(example.query for examples, _ in updates for example in examples)
        return updates

    monkeypatch.setattr(Learner, "batch", recorded)
    validation = {"collection": str(tiny_collection), "holdout": 6, "every": 5}
    mining = {"kind": "self", "ranks": [1, 3]}
    run = trained(
        tiny_recipe({"steps": 10}, validation=validation, negatives=mining, data=[{"collection": str(tiny_collection)}])
    )
    assert len(seen) == 24
    assert run.logged("mined queries") == [24]
    assert run.notes()["training"]["held_out"] == {"queries": 6, "examples": 6}
    assert run.notes()["recipe"]["validation"]["holdout"] == 6
    with pytest.raises(LearnedSparseError, match="cannot resume with another recipe"):
        trained(tiny_recipe({"steps": 12}, validation={**validation, "holdout": 7}, negatives=mining), resume=True)


def test_a_validation_reads_the_documents_twice(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, held_out, _ = hold_out(sources(toy, "judged"), settings(toy, 3))
    with monkeypatch.context() as patch:
        patch.setattr(Corpora, "documents", read := Mock(wraps=Corpora().documents))
        Validator(settings(toy, 3), 0, held_out=held_out)
    assert read.call_count == 2


def test_expanded_text_of_a_source_reaches_training_and_validation(toy: Path, tmp_path: Path) -> None:
    file = tmp_path / "queries.tsv"
    file.write_text("".join(f"{id}\tpredicted {id[1:]}\n" for id in DOCUMENTS), encoding="utf-8")
    source = Source(collection=str(toy), expanded=file)
    part = load_source(source, Negatives(per_query=0), Corpora(reads_expanded=True))
    assert part.get(0, np.random.default_rng(0)).positive == f"text 0{EXPANDED}predicted 0"
    _, held_out, _ = hold_out([part], settings(toy, 3))
    validator = Validator(settings(toy, 3), 0, corpora=Corpora(reads_expanded=True), held_out=held_out)
    assert validator._pool["d4"] == f"text 4{EXPANDED}predicted 4"
    assert all(id.startswith("d") or id == "copy" for ids in validator.positives.values() for id in ids)
    with pytest.raises(LearnedSparseError, match="this model does not read expanded text"):
        load_source(source, Negatives(per_query=0), Corpora())
    with pytest.raises(LearnedSparseError, match="texts have no ids to join 'expanded' or 'scores' by"):
        load_source(Source(examples=toy / "texts.txt", expanded=file), Negatives())
