"""Runs of our own searchers: byte for byte those of stock search.lucene, and measured alike."""

from __future__ import annotations

import dataclasses
import importlib
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import Document, Query
from learned_sparse.index.bm25_index import build_bm25_index
from learned_sparse.index.note import IndexNote
from learned_sparse.index.vectors import build_index, encoded_files
from learned_sparse.jsonvector import Counts
from learned_sparse.search import ExactSearcher
from learned_sparse.search import __main__ as search
from learned_sparse.search.passages import Passages
from learned_sparse.search.stock_run import RunOptions
from tests.learned_sparse.encoded_folder import WordCounts, description, write_folder

DRAW = random.Random(5)
TERMS = [f"t{number}" for number in range(15)]
CUT = {"segment_length": 5, "segments": "all", "segment_overlap": 0, "segment_delimiter": "#"}
STOCK_ONLY = ["--language", "en"]
"""Changes nothing, but is no option of ours."""


def _terms(largest: int) -> dict[str, int]:
    return {term: DRAW.randint(1, largest) for term in DRAW.sample(TERMS, DRAW.randint(1, 6))}


def _segments(document: int) -> list[str]:
    return [f"q{document}#{segment}" for segment in range(1 + document % 3)]


VECTORS = {name: _terms(3 if number % 2 else 200) for number in range(120) for name in _segments(number)}
QUERIES = [Query(name, f"text of {name}") for name in ("q10", "q9", "q1", "é", "no-hits", "q100")]
ROWS = [*(_terms(3) for _ in QUERIES[:-2]), {"nowhere": 1}, {"t1": 1}]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    counts = Counts(read=len(VECTORS), written=len(VECTORS), segmented=120, largest_segments=3)
    counts = dataclasses.replace(counts, postings=sum(map(len, VECTORS.values())))
    return write_folder(tmp_path_factory.mktemp("run") / "encoded", VECTORS, options=CUT, counts=counts)


@pytest.fixture(scope="module")
def index(vectors: Path) -> Path:
    build_index(encoded_files([vectors]), vectors.parent / "index")
    return vectors.parent / "index"


@pytest.mark.jvm
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--hits", "7"],
        ["--hits=30", "--threads", "2", "--batch-size", "4", "--min-idf", "-1"],
        ["--hits", "20", "--output-format", "msmarco"],
        ["--max-passage", "--max-passage-delimiter", "#", "--max-passage-hits", "9", "--hits", "40", "--remove-query"],
    ],
)
def test_the_bytes_are_those_of_stock(index: Path, vectors: Path, tmp_path: Path, options: list[str]) -> None:
    exact = ExactSearcher.load(vectors)
    ways: dict[str, tuple[list[str], ExactSearcher | None]] = {
        "stock": ([*options, *STOCK_ONLY], None),
        "ours": (options, None),
        "exact": (options, exact),
    }
    # The command leaves it to the user where he asks for --max-passage himself.
    for passages in [None] if "--max-passage" in options else [None, Passages.of(IndexNote.load(index))]:
        for name, (words, by) in ways.items():
            run = tmp_path / name
            outcome = search.search(index, "impact", QUERIES, ROWS, run, words, passages=passages, exact=by)
            assert outcome == search.Outcome(6, ("no-hits",))
            assert run.read_bytes() == (tmp_path / "stock").read_bytes(), name


@pytest.mark.jvm
def test_the_query_is_removed_as_stock_removes_it(tmp_path: Path) -> None:
    vectors = {name: {"t": 1 + number % 2} for number, name in enumerate("abcdef")}
    build_index(encoded_files([write_folder(tmp_path / "in", vectors)]), tmp_path / "index")
    for options in (["--remove-query"], ["--remove-query", "--hits", "3", "--threads", "2"]):
        runs = []
        for name, more in (("stock", STOCK_ONLY), ("ours", [])):
            queries = [Query("b", "1"), Query("a", "2")]
            rows = [{"t": 3}, {"t": 2}]
            search.search(tmp_path / "index", "impact", queries, rows, tmp_path / name, [*options, *more])
            runs.append((tmp_path / name).read_bytes())
        assert runs[0] == runs[1]
        assert b"a Q0 a" not in runs[1]
        assert b"a Q0 b 1 4.000000 Anserini\n" in runs[1]


@pytest.mark.jvm
@pytest.mark.parametrize("options", [[], ["--hits", "5", "--threads", "2", "--remove-query"]])
def test_plain_text_and_terms_by_bm25(tmp_path: Path, options: list[str]) -> None:
    texts = {f"d{number}": " ".join(DRAW.choices(TERMS, k=DRAW.randint(1, 4))) for number in range(60)}
    build_bm25_index([Document(name, text) for name, text in texts.items()], tmp_path / "text")
    scored = description(scoring="bm25")
    rows = {name: {term: 1 + term.count("1") for term in text.split()} for name, text in texts.items()}
    folder = write_folder(tmp_path / "in", rows, scoring="bm25", query_encoder=scored)
    build_index(encoded_files([folder]), tmp_path / "terms")
    queries = [Query("d7", "T1, t2; the t3"), Query("d1", "t4"), Query("none", "the"), Query("blank", "")]
    encoded: list[dict[str, int]] = [{"t1": 2, "t2": 1}, {"t5": 1}, {"gone": 1}, {}]
    for place, scoring, some in (("text", "bm25-text", None), ("terms", "bm25", encoded)):
        outcomes = []
        for name, more in (("stock", STOCK_ONLY), ("ours", [])):
            run = tmp_path / name
            outcomes.append(search.search(tmp_path / place, scoring, queries, some, run, [*options, *more]))
        assert (tmp_path / "ours").read_bytes() == (tmp_path / "stock").read_bytes()
        assert outcomes[0] == outcomes[1] == search.Outcome(4, ("none", "blank"))


@pytest.mark.jvm
def test_nothing_of_pyserini_is_imported(index: Path, tmp_path: Path, python: Any) -> None:
    script = (
        "import sys; from pathlib import Path; from learned_sparse.search.run import search; "
        "from learned_sparse.core.records import Query; "
        "search(Path(sys.argv[1]), 'impact', [Query('q', 'x')], [{'t1': 1}], Path(sys.argv[2])); "
        "print(*sys.modules)"
    )
    done = python("-c", script, index, tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert not {"pyserini", "torch", "transformers"} & set(done.stdout.split())
    assert (tmp_path / "run").is_file()


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        importlib.import_module("encoders.encoding.loading"), "load_encoder", lambda *_, **__: WordCounts()
    )


def run_exact(vectors: Sequence[Path], place: Path, *options: str) -> list[str]:
    topics = place.with_suffix(".tsv")
    topics.write_text("q1\tt1 t1 t2\nq5\tnothing\n")
    arguments = ["--backend", "exact", "--topics", str(topics), "--output", str(place), *options]
    assert search.main([*arguments, "--vectors", *map(str, vectors)]) == 0
    return place.read_text().splitlines()


def test_the_exact_backend_needs_vectors_and_no_java(
    vectors: Path, tmp_path: Path, words: None, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_exact([vectors], tmp_path / "run", "--hits", "4")
    assert "2 queries, 1 without a hit" in capsys.readouterr().out
    best = sorted({name.split("#")[0] for name, vector in VECTORS.items() if {"t1", "t2"} & vector.keys()})
    assert {line.split()[2] for line in found} <= set(best)
    assert [line.split()[3] for line in found] == ["1", "2", "3", "4"]
    by_segment = run_exact([vectors], tmp_path / "run", "--hits", "4", "--rank-segments")
    scores = {name: 2 * v.get("t1", 0) + v.get("t2", 0) for name, v in VECTORS.items()}
    expected = sorted(scores, key=lambda name: (-scores[name], name))[:4]
    assert [line.split()[2] for line in by_segment] == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--backend", "exact", "--index", "x"], "reads vectors, no index"),
        (["--backend", "exact", "--bm25"], "reads vectors, no index"),
        (["--backend", "exact"], "reads vectors, no index"),
        (["--index", "x", "--vectors", "y"], "--vectors are for --backend exact"),
        (["--backend", "exact", "--model", "gone"], "no vectors yet; run .*or name their folder with --vectors"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, tmp_home: Path) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        search.main(arguments)


def test_the_exact_backend_knows_no_other_options(vectors: Path, tmp_path: Path) -> None:
    exact = ExactSearcher.load(vectors)
    with pytest.raises(LearnedSparseError, match="--hits 3 --rocchio: an option that needs Lucene"):
        search.search(vectors, "impact", [], [], tmp_path / "run", ["--hits", "3", "--rocchio"], exact=exact)


def test_terms_scored_by_bm25_are_not_for_the_exact_backend(tmp_path: Path, words: None) -> None:
    folder = write_folder(tmp_path / "in", VECTORS, scoring="bm25", query_encoder=description(scoring="bm25"))
    with pytest.raises(LearnedSparseError, match="scored by BM25, which --backend exact does not know"):
        run_exact([folder], tmp_path / "run")


def test_which_options_are_ours() -> None:
    assert RunOptions.parse([]) == RunOptions()
    assert RunOptions.parse(["--hits=3", "--output-format", "msmarco", "--min-idf=-2"]) == RunOptions(
        hits=3, output_format="msmarco", min_idf=-2
    )
    for others in (["--rocchio"], ["--k1", "1"], ["--hit", "3"], ["--min-idf", "0"], ["--hits", "3", "--rm3"]):
        assert RunOptions.parse(others) is None
    for wrong, message in (
        (["--hits", "many"], "argument --hits: invalid int value: 'many'"),
        (["--output-format", "kilt"], "invalid choice: 'kilt'"),
        (["--hits", "0"], "give at least 1"),
        (["--threads", "-1"], "give at least 1"),
    ):
        with pytest.raises(LearnedSparseError, match=message):
            RunOptions.parse(wrong)
