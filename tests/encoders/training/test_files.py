"""Files of training examples and of a teacher's scores: every published form, and what is refused."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.training.examples import query_key
from encoders.training.files import ExampleFile, TeacherScores
from encoders.training.recipe import Negatives, Source
from encoders.training.sources import load_source
from learned_sparse.core.errors import LearnedSparseError

BGE = {"query": "q", "pos": ["p"], "neg": ["n1", "n2"], "pos_scores": [4], "neg_scores": [1.5, -2]}
TEVATRON = {
    "query_id": "1", "query": "q", "positive_passages": [{"docid": "1", "title": "t", "text": "p"}],
    "negative_passages": [{"docid": "2", "title": "", "text": "n1"}, {"docid": "3", "text": "n2"}],
}  # fmt: skip


def written(path: Path, *records: Any) -> Path:
    """A file of ``records``, one a line: text, or anything as JSON."""
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def examples_in(path: Path, settings: Negatives, **by_id: Any) -> ExampleFile:
    return ExampleFile(Source(examples=path), settings, **by_id)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


TSV = ("9.5\t-1\tq\tp\tn", "1e1\t2\tr\ts\tt")


@pytest.mark.parametrize(
    ("name", "lines", "positive", "scores"),
    [
        ("t.tsv", TSV, "p", {"p": 9.5, "n": -1.0}),
        ("t.tsv", ["q\tp\tn"], "p", {}),
        ("t.jsonl", [BGE], "p", {"p": 4.0, "n1": 1.5, "n2": -2.0}),
        ("t.jsonl", [{"query": "q", "pos": ["p"], "neg": ["n1", "n2"]}], "p", {}),
        ("t.jsonl", [TEVATRON], "t p", {}),
    ],
)
def test_every_published_form(tmp_path: Path, name: str, lines: Any, positive: str, scores: dict[str, float]) -> None:
    examples = examples_in(written(tmp_path / name, *lines), Negatives(per_query=1 if name == "t.tsv" else 2))
    example = examples.get(0, rng())
    assert (len(examples), examples.scored) == (len(lines), scores != {})
    assert (example.query, example.positive) == ("q", positive)
    assert set(example.negatives) == ({"n"} if name == "t.tsv" else {"n1", "n2"})
    documents = (example.positive, *example.negatives)
    assert dict(zip(documents, example.scores, strict=False)) == scores


def test_one_of_several_positives_is_drawn(tmp_path: Path) -> None:
    line = {"query": "q", "pos": ["p", "p2"], "neg": ["n1"]}
    examples = examples_in(written(tmp_path / "b.jsonl", line), Negatives())
    assert {examples.get(0, rng(seed)).positive for seed in range(20)} == {"p", "p2"}
    assert len(examples.get(0, rng()).relevant) == 2


def test_negatives_by_system(tmp_path: Path, tiny_collection: Path) -> None:
    line = {"qid": "q1", "pos": ["d1"], "neg": {"bm25": ["d2", "d3"], "dense": ["d3", "d4"]}}
    path = written(tmp_path / "hard.jsonl", line)
    scores = written(tmp_path / "scores.tsv", "q1\td1\t9", "q1\td2\t1", "q1\td4\t3")
    by_system = Source(examples=path, collection=str(tiny_collection), scores=scores)
    loaded = load_source(by_system, Negatives(per_query=2))
    example = loaded.get(0, rng())
    assert sorted(example.scores[1:]) == [1.0, 3.0]  # d3 has no score


def test_queries_with_too_few_negatives_are_filled_up(tmp_path: Path) -> None:
    other = {"query": "r", "pos": ["s"], "neg": ["n3", "n4", "n5"], "pos_scores": [1], "neg_scores": [0, 0, 0]}
    path = written(tmp_path / "a.jsonl", BGE, other)
    example = examples_in(path, Negatives(per_query=3)).get(0, rng())
    assert example.negatives[2] == "s"  # the positive of the other line
    assert math.isnan(example.scores[3])


def test_negatives_near_the_positive_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", BGE, {**BGE, "query": "r", "neg": ["n3", "n4"]})
    close = examples_in(path, Negatives())
    close.draw_by(Negatives(margin=3.0))
    assert {close.get(0, rng(seed)).negatives for seed in range(20)} == {("n2",)}  # n1 has 1.5 > 4 - 3
    plain = examples_in(written(tmp_path / "t.tsv", "q\tp\tn"), Negatives())
    with pytest.raises(LearnedSparseError, match="margin needs a teacher's scores; give each source"):
        plain.draw_by(Negatives(margin=1.0))


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("t.tsv", "1\t2\tq\tp", "t.tsv:1: 4 columns; expected query, positive, negative between tabs, or before them"),
        ("t.tsv", "1\tnan\tq\tp\tn", "t.tsv:1: score 'nan' is not a finite number"),
        ("t.jsonl", {**BGE, "neg_scores": [1]}, "t.jsonl:1: pos_scores and neg_scores are not as long as pos and neg"),
        ("t.jsonl", {**BGE, "pos_scores": None}, "t.jsonl:1: not of a known form"),
        ("t.jsonl", {**BGE, "pos": [None]}, "t.jsonl:1: not of a known form (TypeError: texts are text, and in lists)"),
        ("t.jsonl", {**TEVATRON, "positive_passages": ["p"]}, "t.jsonl:1: not of a known form"),
        ("t.jsonl", {**TEVATRON, "positive_passages": [{"text": None}]}, "t.jsonl:1: not of a known form (TypeError"),
        ("t.jsonl", {"qid": "q", "pos": ["p"], "neg": {"bm25": "n1"}}, "t.jsonl:1: not of a known form (TypeError"),
        ("t.jsonl", {"question": "q"}, "t.jsonl:1: not of a known form (KeyError: 'query'); expected query, pos, neg"),
        ("t.jsonl", "{", "t.jsonl:1: malformed JSON"),
        ("t.jsonl", {"query": " ", "pos": ["p"], "neg": []}, "t.jsonl: no triples"),
        ("t.tsv", "1\t2\tq\tp\tn\nq\tp\tn", "t.tsv:2: a teacher's scores are in some lines only"),
    ],
)
def test_lines_that_are_refused(tmp_path: Path, name: str, line: Any, message: str) -> None:
    with pytest.raises(LearnedSparseError, match=re.escape(message)):
        examples_in(written(tmp_path / name, line), Negatives())


SCORES = {("q1", "d1"): 2.5, ("q1", "d2"): -1.0, ("q2", "d1"): 1e-3}


@pytest.mark.parametrize("form", ["tsv", "tsv.gz", "run", "parquet", "folder"])
def test_scores_in_every_form(tmp_path: Path, form: str) -> None:
    rows = [(query, document, score) for (query, document), score in SCORES.items()]
    lines = [f"{query}\t{document}\t{score}\n" for query, document, score in rows]
    path = tmp_path / f"scores.{form}"
    if form == "parquet":
        import pyarrow
        from pyarrow import parquet

        columns = zip(("qid", "pid", "score"), zip(*rows, strict=True), strict=True)
        parquet.write_table(pyarrow.table({name: list(values) for name, values in columns}), path)
    elif form == "run":
        path.write_text("".join(f"{q} Q0 {d} {rank} {s} ce\n" for rank, (q, d, s) in enumerate(rows)), encoding="utf-8")
    elif form == "folder":
        path.mkdir()
        for number, line in enumerate(lines):
            (path / f"part-{number}.tsv").write_text(line, encoding="utf-8")
    elif form == "tsv.gz":
        path.write_bytes(gzip.compress("".join(lines).encode()))
    else:
        path.write_text("".join(lines), encoding="utf-8")
    scores = TeacherScores(path)
    assert len(scores) == 3
    assert scores.of("q1", ["d2", "d1", "d3"]).tolist()[:2] == [-1.0, 2.5]
    assert math.isnan(scores.of("q1", ["d3"])[0])
    assert scores.of("q2", ["d1"])[0] == pytest.approx(1e-3)
    assert scores.of("q2", []).shape == (0,)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("scores.tsv", "q1 d1\n", "scores.tsv:1: 2 columns; expected query, document, score, or the six columns"),
        ("scores.tsv", "q1 d1 inf\n", "scores.tsv:1: score 'inf' is not a finite number"),
        ("scores.tsv", "q1 d1 1\nq1 d1 2\n", "a query and a document have two scores; keep one of them"),
        ("scores.tsv", "\n", "scores.tsv: no scores"),
        ("scores.parquet", "x", "scores.parquet: not readable as Parquet"),
    ],
)
def test_scores_that_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(LearnedSparseError, match=re.escape(message)):
        TeacherScores(tmp_path / name)


def test_relevant_documents_without_a_score_are_left_out(
    tmp_path: Path, tiny_collection: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scores = written(tmp_path / "scores.tsv", *(f"q{n}\td{n}\t1" for n in range(5)))
    loaded = load_source(Source(collection=str(tiny_collection), scores=scores), Negatives(kind="random"))
    assert len(loaded) == 5
    assert "left out 25 judgements without a teacher's score" in caplog.text
    counts = Counter(len(loaded.get(0, rng(seed)).scores) for seed in range(5))
    assert counts == {2: 5}


def test_lines_of_known_ids_are_read_as_all_others(tmp_path: Path) -> None:
    """Three ids of a collection take a path of their own; a blank text or a score takes the common one."""
    queries = {"1": "heat", "2": " "}
    texts = {"7": "wing", "8": "lift", "9": " "}
    lines = ["1\t7\t8", "1\t7\t9", "2\t7\t8", " 1\t8 \t7\r"]
    examples = examples_in(written(tmp_path / "t.tsv", *lines), Negatives(), queries=queries, texts=texts)
    found = [examples.get(index, rng(0)) for index in range(len(examples))]
    assert [(each.query, each.positive, *each.negatives) for each in found] == [
        ("heat", "wing", "lift"), ("heat", "lift", "wing"),
    ]  # fmt: skip
    assert set(examples.query_keys().tolist()) == {query_key("heat")}
    for second, message in (("1\t7\t6", "document '6' is not in the collection"), ("1\t7\t8", "scores are in some")):
        first = "3\t2\t1\t7\t8" if "scores" in message else "1\t7\t8"
        with pytest.raises(LearnedSparseError, match=rf"t\.tsv:2: .*{message}"):
            examples_in(written(tmp_path / "t.tsv", first, second), Negatives(), queries=queries, texts=texts)
