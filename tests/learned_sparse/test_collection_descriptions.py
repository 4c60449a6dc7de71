"""Every collection that ships: it loads, makes sense, and agrees with the catalogue, the tables and the real files."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from eval.measures.notation import parse_measure
from learned_sparse.collections import description_files as collection_files
from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.description_files import description_folders, descriptions
from learned_sparse.core.errors import LearnedSparseError

BEIR = {
    "trec-covid", "nfcorpus", "bioasq", "nq", "hotpotqa", "fiqa", "signal1m", "trec-news", "robust04", "arguana",
    "webis-touche2020", "quora", "dbpedia-entity", "scidocs", "fever", "climate-fever", "scifact",
    *(f"cqadupstack-{forum}" for forum in (
        "android", "english", "gaming", "gis", "mathematica", "physics", "programmers", "stats", "tex", "unix",
        "webmasters", "wordpress",
    )),
}  # fmt: skip
OTHERS = {"msmarco-v1-passage", "msmarco-v1-doc", "trec-car", "pydoc"}


def test_all_collections_ship() -> None:
    assert len(BEIR) == 29
    assert set(descriptions()) == BEIR | OTHERS


@pytest.mark.parametrize("name", sorted(BEIR | OTHERS))
def test_every_description_loads_and_makes_sense(name: str) -> None:
    collection = load_collection(name)
    assert collection.name == name
    assert collection.splits
    for split in collection.splits.values():
        assert split.measures
        for measure in (*split.measures, *(key for expected in split.expected for key in expected.scores)):
            parse_measure(measure)
        assert all(0 < score < 1 for expected in split.expected for score in expected.scores.values())
        assert all(expected.system and expected.source for expected in split.expected)
        assert split.remove_query is (name in BEIR)
        for source in (split.topics, split.qrels, collection.description.corpus):
            assert source.files or source.embedded


@pytest.mark.parametrize("name", sorted(BEIR))
def test_every_beir_set_has_the_published_bm25_scores(name: str) -> None:
    test = load_collection(name).split("test")
    assert test.measures == ("nDCG@10", "R@100", "R@1000")
    assert set(test.expected[0].scores) == set(test.measures)
    assert test.qrels.registered == test.topics.registered == f"beir-v1.0.0-{name}-test"


@pytest.mark.parametrize("name", sorted(descriptions()))
def test_names_in_the_catalogue_exist_and_agree_in_size(name: str) -> None:
    registry = pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed").registry
    description = load_collection(name).description
    if description.corpus.ir_datasets:
        metadata = registry[description.corpus.ir_datasets].metadata()
        assert metadata["docs"]["count"] == description.documents
    for split in description.splits.values():
        for source, kind, count in ((split.topics, "queries", split.queries), (split.qrels, "qrels", split.judgements)):
            if source.ir_datasets:
                found = registry[source.ir_datasets].metadata().get(kind, {}).get("count")
                assert found is None or count in {None, found}


def test_averages_of_published_tables() -> None:
    """``field.md`` gives the mean nDCG@10 of BM25 flat over the 29 sets as .3780: the numbers were copied right."""
    scores = [load_collection(name).split("test").expected[0].scores["nDCG@10"] for name in sorted(BEIR)]
    assert sum(scores) / len(scores) == pytest.approx(0.3780, abs=5e-5)


def test_descriptions_are_found_beside_the_package_and_where_pip_puts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert description_folders()[0] == Path(collection_files.__file__).parents[1] / "collections"
    monkeypatch.setattr(collection_files, "__file__", str(tmp_path / "site" / "learned_sparse" / "x.py"))
    monkeypatch.setattr(sysconfig, "get_path", lambda *_: str(tmp_path / "prefix"))
    with pytest.raises(LearnedSparseError, match="install the package again"):
        descriptions()
    for place in ("site", "prefix"):  # pip install --target, then pip install: the second comes first
        file = tmp_path / place / "share" / "learned_sparse" / "collections" / "one.yaml"
        file.parent.mkdir(parents=True)
        file.touch()
        assert descriptions() == {"one": file}


@pytest.mark.parametrize("name", ["scifact", "msmarco-v1-passage"])
def test_named_collections_agree_with_the_real_files(shared_data: Path, name: str) -> None:
    collection = load_collection(name, data=shared_data)
    for name_of_split, split in collection.splits.items():
        qrels = collection.qrels(name_of_split)
        assert len(collection.queries(name_of_split)) == len(qrels) == split.queries
        assert sum(map(len, qrels.values())) == split.judgements
