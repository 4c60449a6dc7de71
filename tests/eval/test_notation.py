"""The field's notation against the arguments that Pyserini's own reproduction matrices give to trec_eval."""

from __future__ import annotations

import pytest

from eval.measures.notation import parse_measure
from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.descriptions import descriptions
from learned_sparse.core.errors import LearnedSparseError

# The first seven as in pyserini/2cr/{msmarco,beir}.py.
CASES = [
    ("MRR@10", "-c -M 10 -m recip_rank"),
    ("MRR@100", "-c -M 100 -m recip_rank"),
    ("R@1000", "-c -m recall.1000"),
    ("R(rel=2)@1000", "-c -l 2 -m recall.1000"),
    ("MAP(rel=2)", "-c -l 2 -m map"),
    ("nDCG@10", "-c -m ndcg_cut.10"),
    ("R@100", "-c -m recall.100"),
    ("MAP", "-c -m map"),
    ("AP@100", "-c -m map_cut.100"),
    ("nDCG", "-c -m ndcg"),
    ("P@10", "-c -m P.10"),
    ("P(rel=3)@5", "-c -l 3 -m P.5"),
    ("RR", "-c -m recip_rank"),
    ("RR(rel=2)@10", "-c -M 10 -l 2 -m recip_rank"),
    ("Recall@5", "-c -m recall.5"),
    ("Success@5", "-c -m success.5"),
    ("Rprec", "-c -m Rprec"),
]


@pytest.mark.parametrize(("text", "arguments"), CASES)
def test_notation_in_trec_evals_words(text: str, arguments: str) -> None:
    assert " ".join(parse_measure(text).arguments) == arguments


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NDCG@10", "'NDCG@10': unknown; did you mean 'nDCG'?"),
        ("mrr@10", "did you mean 'MRR'?"),
        ("Sucess@5", "did you mean 'Success'?"),
        ("zzz", "known: AP, MAP, MRR"),
        ("R", "needs a cut-off; write R@100"),
        ("Rprec@10", "takes no cut-off; write Rprec"),
        ("nDCG(rel=2)@10", "leave (rel=2) out"),
        ("MRR@0", "expected NAME, NAME@K"),
        ("recall_1000", "expected NAME, NAME@K"),
        ("", "expected NAME, NAME@K"),
    ],
)
def test_what_is_no_measure_says_what_would_be(text: str, message: str) -> None:
    with pytest.raises(LearnedSparseError) as error:
        parse_measure(text)
    assert message in str(error.value)


def test_every_measure_of_every_collection_is_one() -> None:
    splits = [split for name in descriptions() for split in load_collection(name).splits.values()]
    measures = [measure for split in splits for measure in split.measures]
    measures += [measure for split in splits for expected in split.expected for measure in expected.scores]
    assert len(descriptions()) >= 20
    assert len(measures) > len(splits)
    for measure in measures:
        parse_measure(measure)
