"""The export command: what it reads is checked and counted, and an output is whole or absent."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from learned_sparse.core import LearnedSparseError, read_record, sha256
from learned_sparse.export import FORMATS, RECORD, export_vectors
from learned_sparse.export.__main__ import main
from learned_sparse.export.source import Written
from learned_sparse.jsonvector import Manifest
from tests.learned_sparse.encoded_folder import description, write_folder
from tests.learned_sparse.export.collection import QUERIES, VECTORS, save


@pytest.mark.parametrize("name", FORMATS)
def test_counts_and_files_are_recorded(
    name: str, encoded: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vectors, queries = encoded
    output = tmp_path / "out"
    words = ["--format", name, "--vectors", str(vectors), "--queries", str(queries), "--output", str(output)]
    assert main(words) == 0
    record = read_record(output / RECORD)
    assert (record["target"], record["documents"], record["queries"]) == (name, len(VECTORS), len(QUERIES))
    assert record["postings"] == sum(map(len, VECTORS.values()))
    unknown = record.get("query_terms_of_no_document", 0)
    assert record["query_terms"] + unknown == sum(map(len, QUERIES.values()))
    assert record["source"]["model"] == "words"
    files = [path for path in output.rglob("*") if path.is_file() and path.name != RECORD]
    assert record["files"] == {path.relative_to(output).as_posix(): sha256(path) for path in files}
    assert "200 documents" in capsys.readouterr().out
    with pytest.raises(LearnedSparseError, match="holds an export already; replace it with --overwrite"):
        main(words)
    assert main([*words, "--overwrite"]) == 0
    assert read_record(output / RECORD) == record


def test_changed_vectors_are_refused(tmp_path: Path) -> None:
    vectors, _ = save(tmp_path)
    part = vectors / "vectors/part-00001.jsonl"
    part.write_bytes(part.read_bytes().replace(b'"t1":', b'"t77":', 1))
    with pytest.raises(LearnedSparseError, match=r"part-00001\.jsonl: not the bytes the manifest records"):
        export_vectors("pisa", tmp_path / "out", vectors=[vectors])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["queries", "vectors"]


def test_other_counts_than_those_of_the_manifest_are_refused(tmp_path: Path) -> None:
    vectors, _ = save(tmp_path)
    manifest = Manifest.load(vectors)
    counts = dataclasses.replace(manifest.counts, postings=manifest.counts.postings - 1)
    dataclasses.replace(manifest, counts=counts).save(vectors)
    for name in ("ciff", "opensearch"):
        with pytest.raises(LearnedSparseError, match="postings recorded"):
            export_vectors(name, tmp_path / "out", vectors=[vectors])


def test_an_incomplete_export_is_refused(
    encoded: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postings = sum(map(len, VECTORS.values()))
    for written in (Written(len(VECTORS), postings - 1), Written(len(VECTORS) - 1, postings)):
        incomplete = dataclasses.replace(FORMATS["seismic"], documents=lambda *_, written=written: written)
        monkeypatch.setitem(FORMATS, "seismic", incomplete)
        with pytest.raises(LearnedSparseError, match=r"200 documents with 2,\d+ terms read"):
            export_vectors("seismic", tmp_path / "out", vectors=[encoded[0]])
        assert not any(tmp_path.iterdir())


def test_queries_of_another_model_are_refused(tmp_path: Path) -> None:
    vectors, queries = save(tmp_path)
    manifest = Manifest.load(vectors)
    other = dataclasses.replace(manifest, kind="queries", parts=(), encoder=description(architecture="other"))
    other.save(queries)
    with pytest.raises(LearnedSparseError, match="not encoded by the model of the documents"):
        export_vectors("seismic", tmp_path / "out", vectors=[vectors], queries=queries)


def test_plain_vectors_are_exported_and_an_id_in_two_files_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    line = '{"id": "d1", "vector": {"a": 3}}\n'
    (folder / "one.jsonl").write_text(line, encoding="utf-8")
    record = export_vectors("opensearch", tmp_path / "out", vectors=[folder])
    assert (record["documents"], record["postings"], record["source"]) == (1, 1, {})
    (folder / "two.jsonl").write_text(line, encoding="utf-8")
    with pytest.raises(LearnedSparseError, match="'d1' occurs in two files"):
        export_vectors("opensearch", tmp_path / "out", vectors=[folder], overwrite=True)
    assert json.loads((tmp_path / "out/bulk-00000.ndjson").read_text("utf-8").splitlines()[1])["id"] == "d1"


def test_rescaled_impacts_that_become_zero_are_counted(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "v", {"d1": {"a": 10_240, "b": 1}, "d2": {"b": 9}, "d3": {"b": 30}, "d4": {}})
    record = export_vectors("elasticsearch", tmp_path / "out", vectors=[folder], rescale=True)
    assert (record["documents"], record["postings"], record["dropped"]) == (4, 2, 2)  # 1 / 20 and 9 / 20 become 0
    assert record["largest_error"] == pytest.approx(40 / 30 - 1)  # 30 / 20 becomes 2
    with pytest.raises(LearnedSparseError, match="holds all impacts exactly"):
        export_vectors("pgvector", tmp_path / "p", vectors=[folder], rescale=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--format ciff --output {output}", "nothing to export"),
        ("--format pisa --queries {queries} --output {output}", "give --vocabulary fwd.terms of its documents"),
        ("--format opensearch --queries {queries} --vocabulary x --output {output}", "writes the terms .* itself"),
        ("--format parquet --vectors {vectors} --vocabulary {missing} --output {output}", "no such file"),
        ("--format parquet --vectors {vectors} --vocabulary {twice} --output {output}", r":3: the term 'a' .* line 1"),
        ("--format parquet --vectors {vectors} --vocabulary {few} --output {output}", "is not in the vocabulary"),
        ("--format seismic --queries {queries} --rescale --output {output}", "are for documents"),
        ("--format ciff --vectors {vectors} --file-mb 3 --output {output}", "is not loaded by requests"),
        ("--format ciff --vectors {vectors} --output {queries}", "exists and holds no export"),
        ("--format ciff --vectors {vectors} --model m --output {output}", "not both"),
        ("--format ciff --vectors {vectors} --split test --output {output}", "are for the vectors and queries of"),
    ],
)
def test_wrong_options(words: str, message: str, encoded: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "twice").write_text("a\nb\na\n", encoding="utf-8")
    (tmp_path / "few").write_text("a\nb\n", encoding="utf-8")
    vectors, queries = encoded
    names = {name: tmp_path / name for name in ("output", "missing", "twice", "few")}
    line = words.format(vectors=vectors, queries=queries, **names)
    with pytest.raises(LearnedSparseError, match=message):
        main(line.split())
    assert not (tmp_path / "output").exists()
