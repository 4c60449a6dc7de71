"""Shipped descriptions of collections, where descriptions are searched, and names that are valid folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval.measures import parse_measure
from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.descriptions import descriptions
from learned_sparse.core.errors import LearnedSparseError

BEIR = {
    "trec-covid", "nfcorpus", "bioasq", "nq", "hotpotqa", "fiqa", "signal1m", "trec-news", "robust04", "arguana",
    "webis-touche2020", "quora", "dbpedia-entity", "scidocs", "fever", "climate-fever", "scifact",
    *(f"cqadupstack-{forum}" for forum in (
        "android", "english", "gaming", "gis", "mathematica", "physics", "programmers", "stats", "tex", "unix",
        "webmasters", "wordpress",
    )),
}  # fmt: skip
OTHERS = {"msmarco-v1-passage", "msmarco-v1-doc", "msmarco-mini", "trec-car", "pydoc"}


def test_all_descriptions_are_shipped() -> None:
    assert len(BEIR) == 29
    assert set(descriptions()) == BEIR | OTHERS
    assert len(set(descriptions().values())) == 34 - 11  # one file for the twelve forums of CQADupStack


@pytest.mark.parametrize("name", sorted(BEIR | OTHERS))
def test_every_description_loads_and_is_consistent(name: str) -> None:
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
            assert source.files or source.embedded or source.ir_datasets
    if name in BEIR:
        test = collection.split("test")
        assert test.measures == ("nDCG@10", "R@100", "R@1000")
        assert set(test.expected[0].scores) == set(test.measures)
        assert test.qrels.registered == test.topics.registered == f"beir-v1.0.0-{name}-test"


@pytest.mark.parametrize("name", sorted(BEIR | OTHERS))
def test_names_in_the_catalogue_exist_and_agree_in_size(name: str) -> None:
    registry = pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed").registry
    description = load_collection(name).description
    if description.corpus.ir_datasets:
        metadata = registry[description.corpus.ir_datasets].metadata()
        assert metadata["docs"]["count"] == description.documents
    for split in description.splits.values():
        for source, kind, count in ((split.topics, "queries", split.queries), (split.qrels, "qrels", split.judgements)):
            if source.ir_datasets:
                expected = registry[source.ir_datasets].metadata().get(kind, {}).get("count")
                assert expected is None or count in {None, expected}


def test_one_file_describes_a_collection_for_each_key() -> None:
    description = load_collection("cqadupstack-gis").description
    assert description.corpus.files == ("cqadupstack/gis/corpus.jsonl",)
    assert description.splits["test"].expected[0].scores == {"nDCG@10": 0.2901, "R@100": 0.6119, "R@1000": 0.8174}
    with pytest.raises(LearnedSparseError, match=r"collection 'cqadupstack': no such file, .*; did you mean"):
        load_collection("cqadupstack")


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "c:", "a.", "what?", "a\nb"])
def test_a_name_that_is_not_a_valid_folder_is_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"name: {name!r}\ntitle: T\ncorpus: {{files: [a.tsv]}}\nsplits: {{}}\n", encoding="utf-8")
    with pytest.raises(LearnedSparseError, match=r"mine\.yaml: name: the name .* cannot be"):
        load_collection(file)
