"""JsonVectorCollection files of Pyserini, naver/splade and sentence-transformers: checked, indexed and searched."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.collections.trec import read_run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.index import __main__ as index
from learned_sparse.jsonvector.__main__ import main as jsonvector
from learned_sparse.jsonvector.queries import read_query_vectors
from learned_sparse.jsonvector.reader import read_vectors
from learned_sparse.jsonvector.weights import quantize_vectors
from learned_sparse.search import __main__ as search
from tests.learned_sparse.encoded_folder import dot_products
from tests.learned_sparse.input_files import write

WEIGHTS: dict[str, dict[str, float]] = {
    "7": {"hives": 1.5, "##ing": 0.003, "skin": 0.0}, "d2": {"hives": 3.0, "itch": 0.71}, "d3": {}, "d4": {"wing": 2}
}  # fmt: skip
IMPACTS = {"7": {"hives": 128}, "d2": {"hives": 255, "itch": 60}, "d3": {}, "d4": {"wing": 170}}
"""8 bits: 3.0 becomes 255, so the factor is 85, and 0.003 is lost to rounding."""


def write_lines(path: Path, vectors: Mapping[str, Any], **fields: str) -> Path:
    """One line for each vector, as other tools write them."""
    return write(path, *(json.dumps({"id": name, **fields, "vector": vector}) for name, vector in vectors.items()))


@pytest.mark.jvm
def test_integer_weights_are_indexed_and_searched_with_query_vectors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vectors = {name: vector for name, vector in IMPACTS.items() if vector}
    halves = dict(list(vectors.items())[:2]), dict(list(vectors.items())[2:])
    write_lines(tmp_path / "in" / "embeddings.jsonl", halves[0], contents="Pyserini's")
    write_lines(tmp_path / "in" / "docs_anserini.jsonl.gz", halves[1], content="that of naver/splade")
    (tmp_path / "queries_anserini.tsv").write_text("q1\thives hives itch\nq2\twing\n")
    assert jsonvector(["check", str(tmp_path / "in")]) == 0
    indexed = ["--input", str(tmp_path / "in"), "--index", str(tmp_path / "index")]
    assert index.main([*indexed, "--no-manifest"]) == 0
    assert capsys.readouterr().out.count("the encoder and the quantiser of the vectors are unknown") == 2
    assert index.main([*indexed, "--verify", "9"]) == 0
    run, queries = ["--output", str(tmp_path / "run")], tmp_path / "queries_anserini.tsv"
    search.main(["--index", str(tmp_path / "index"), "--query-vectors", str(queries), *run])
    expected = {"q1": dot_products({"hives": 2, "itch": 1}, vectors), "q2": dot_products({"wing": 1}, vectors)}
    assert read_run(tmp_path / "run") == expected


@pytest.mark.jvm
def test_float_weights_are_quantised_and_indexed(tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "embeddings.jsonl.gz", WEIGHTS, text="sentence-transformers' decode")
    source, vectors, folder = (str(tmp_path / name) for name in ("in", "vectors", "index"))
    assert jsonvector(["check", source]) == 1
    assert jsonvector(["check", source, "--quantize"]) == 0
    with pytest.raises(LearnedSparseError, match=r"'hives' has the impact 1\.5, .*learned_sparse\.index --quantize"):
        index.main(["--input", source, "--index", folder])
    assert index.main(["--input", source, "--quantize", vectors, "--index", folder]) == 0
    assert dict(read_vectors(tmp_path / "vectors")) == IMPACTS
    write_lines(tmp_path / "queries.jsonl", {"q1": {"hives": 0.5, "itch": 0.25}, "q2": {}})
    options = ["--query-vectors", str(tmp_path / "queries.jsonl"), "--quantization-factor", "4", "--output"]
    search.main(["--index", folder, *options, str(tmp_path / "lucene")])
    search.main(["--backend", "exact", "--vectors", vectors, *options, str(tmp_path / "exact")])
    assert (tmp_path / "lucene").read_bytes() == (tmp_path / "exact").read_bytes()
    assert read_run(tmp_path / "exact")["q1"] == [("d2", 570.0), ("7", 256.0)]


def test_what_quantisation_refuses(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "in" / "a.jsonl", WEIGHTS).parent
    quantizer, counts = quantize_vectors([source], tmp_path / "out", factor=100)
    assert (quantizer, counts.postings, counts.lost_to_rounding) == (Quantizer(100), 4, 1)
    before = (tmp_path / "out" / "vectors" / "00000.jsonl").read_bytes()
    for vectors, message in (
        ({"d9": {"a": -1.0}}, r"b.jsonl:1: 'a' has the weight -1.0, not a number of 0 or more"),
        ({"d2": {"a": 1.0}}, r"b.jsonl:1: the id 'd2' occurs twice"),
    ):
        write_lines(source / "b.jsonl", vectors)
        with pytest.raises(LearnedSparseError, match=message):
            quantize_vectors([source], tmp_path / "out", overwrite=True)
    assert (tmp_path / "out" / "vectors" / "00000.jsonl").read_bytes() == before


def test_query_vectors_that_are_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "q.jsonl", {"q1": {"hives": 0.5}})
    with pytest.raises(LearnedSparseError, match=r"q.jsonl: query 'q1': 'hives' has the weight 0.5, .*; give --quant"):
        read_query_vectors(path)
    with pytest.raises(LearnedSparseError, match="omit --quantization-factor"):
        read_query_vectors(tmp_path / "queries.tsv", Quantizer(100))
