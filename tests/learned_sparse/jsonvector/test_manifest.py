"""Manifests: written, read, compared with folders and with each other."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import write_json
from learned_sparse.core.quantize import Quantizer
from learned_sparse.jsonvector.manifest import Counts, Manifest
from tests.learned_sparse.encoded_folder import write_folder

VECTORS = {f"d{number}": {"a": 1} for number in range(3)}


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    """Manifest of ``tmp_path``, with three files; impacts of queries are at most 255."""
    write_folder(tmp_path, VECTORS, parts=3, input=({"file": "corpus.jsonl"},), query_quantizer=Quantizer(12.5, 8))
    return Manifest.load(tmp_path)


def test_round_trip(manifest: Manifest, tmp_path: Path) -> None:
    content = (tmp_path / "manifest.json").read_bytes()
    manifest.save(tmp_path)
    assert (tmp_path / "manifest.json").read_bytes() == content
    assert Manifest.load(tmp_path) == manifest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "format 99, this version knows 1"),
        ({"kind": "indexes"}, "'indexes' is not one of 'documents', 'queries'"),
        ({"modell": "x"}, "unknown key 'modell'; did you mean 'model'"),
        ({"quantizer": {"scale": -1.0, "bits": None}}, "quantisation factor -1.0"),
        ({"parts": [{"file": "x", "documents": "two", "sha256": ""}]}, r"parts\[0\]: documents: expected int"),
        (None, "expected an object, got list"),
    ],
)
def test_invalid_manifests(change: dict[str, object] | None, message: str, manifest: Manifest, tmp_path: Path) -> None:
    write_json(tmp_path / "manifest.json", [] if change is None else {**dataclasses.asdict(manifest), **change})
    with pytest.raises(LearnedSparseError, match=message):
        Manifest.load(tmp_path)


def test_problems(manifest: Manifest, tmp_path: Path) -> None:
    assert list(manifest.problems(tmp_path)) == []
    (tmp_path / "vectors" / "part-00001.jsonl").unlink()
    (tmp_path / "vectors" / "part-00002.jsonl").write_text("{ }")
    (tmp_path / "vectors" / "more.jsonl").write_text("{}")
    problems = [problem.replace(str(tmp_path), "") for problem in manifest.problems(tmp_path)]
    assert problems == [
        "/vectors/part-00001.jsonl: missing",
        "/vectors/part-00002.jsonl: not the bytes the manifest records",
        "/vectors/more.jsonl: not in the manifest",
    ]
    assert "not complete" in next(iter(dataclasses.replace(manifest, complete=False).problems(tmp_path)))


def test_warning_about_scores_beyond_exact_floats(manifest: Manifest, tmp_path: Path) -> None:
    binary = dataclasses.replace(manifest, query_quantizer=Quantizer(1.0, 1))  # impacts of queries are 1
    assert binary.finish(tmp_path, (), Counts(largest_sum=2**24)).warnings == ()
    assert "16,777,217" in binary.finish(tmp_path, (), Counts(largest_sum=2**24 + 1)).warnings[0]
    assert "4,278,190,080" in manifest.finish(tmp_path, (), Counts(largest_sum=2**24)).warnings[0]  # 255 times as much
