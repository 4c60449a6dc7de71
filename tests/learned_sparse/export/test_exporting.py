"""The export command: what it reads is checked and counted, and an output is whole or absent."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import read_json, sha256
from learned_sparse.export.__main__ import main
from learned_sparse.export.exporting import FORMATS, RECORD, export_vectors
from learned_sparse.jsonvector.manifest import Manifest
from tests.learned_sparse.encoded_folder import description, write_folder
from tests.learned_sparse.export.collection import KNOWN, QUERIES, VECTORS, save


@pytest.mark.parametrize("name", FORMATS)
def test_counts_and_files_are_recorded(
    name: str, encoded: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vectors, queries = encoded
    output = tmp_path / "out"
    words = ["--format", name, "--vectors", str(vectors), "--queries", str(queries), "--output", str(output)]
    assert main(words) == 0
    record = read_json(output / RECORD)
    assert (record["target"], record["documents"], record["queries"]) == (name, len(VECTORS), len(QUERIES))
    assert record["postings"] == sum(map(len, VECTORS.values()))
    written = KNOWN if FORMATS[name].vocabulary else QUERIES
    assert record["query_terms"] == sum(map(len, written.values()))
    assert record.get("query_terms_of_no_document", 0) == (written is KNOWN)
    assert record["source"]["model"] == "words"
    files = [path for path in output.rglob("*") if path.is_file() and path.name != RECORD]
    assert record["files"] == {path.relative_to(output).as_posix(): sha256(path) for path in files}
    assert "200 documents" in capsys.readouterr().out
    assert main([*words, "--overwrite"]) == 0
    assert read_json(output / RECORD) == record


def test_queries_of_another_model_are_refused(tmp_path: Path) -> None:
    vectors, queries = save(tmp_path)
    manifest = Manifest.load(vectors)
    other = dataclasses.replace(manifest, kind="queries", parts=(), encoder=description(architecture="other"))
    other.save(queries)
    with pytest.raises(LearnedSparseError, match="not encoded by the model of the documents"):
        export_vectors("seismic", tmp_path / "out", vectors=[vectors], queries=queries)


def test_plain_vectors_are_exported(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text('{"id": "d1", "vector": {"a": 3}}\n', encoding="utf-8")
    record = export_vectors("opensearch", tmp_path / "out", vectors=[tmp_path / "one.jsonl"])
    assert (record["documents"], record["postings"], record["source"]) == (1, 1, {})


@pytest.mark.parametrize(
    ("name", "vectors", "message"),
    [
        ("seismic", {"d1": {"a": 2049}}, r"2,049, and seismic .* up to 2,048 exactly; encode with --bits 11"),
        ("opensearch", {"d1": {"a": 513}}, r"513, and opensearch .* up to 512 exactly; encode with --bits 9"),
        ("seismic", {"d1": {"x" * 101: 1}}, "more than 100 characters"),
        ("elasticsearch", {"d1": {"u.s": 1, "u__s": 2}}, r"'u\.s' and 'u__s' are both 'u__s' without dots"),
        ("pgvector", {"d1": {f"t{n}": 1 for n in range(16_001)}}, r"16,001 terms, a sparsevec at most 16,000"),
    ],
)
def test_what_an_engine_would_round_or_cut_is_refused(
    name: str, vectors: dict[str, dict[str, int]], message: str, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path / "vectors", vectors)
    with pytest.raises(LearnedSparseError, match=message):
        export_vectors(name, tmp_path / "out", vectors=[folder])
    assert not (tmp_path / "out").exists()
