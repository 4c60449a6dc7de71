"""Manifests: written, read, compared with folders and with each other."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import sha256, write_json, write_record
from learned_sparse.core.quantize import Quantizer
from learned_sparse.jsonvector import Counts, Manifest, Part, differences, versions


def manifest(**changes: object) -> Manifest:
    result = Manifest(
        kind="documents",
        complete=True,
        collection="pydoc",
        model="splade",
        checkpoint="somewhere",
        architecture="splade",
        scoring="impact",
        encoder={"settings": {"pooling": "max"}, "max_length": 256},
        query_encoder={"settings": {"pooling": "max"}},
        quantizer=Quantizer(100.0),
        query_quantizer=Quantizer(12.5, 8),
        input=({"file": "corpus.jsonl", "bytes": 7},),
        options={"top_k": None},
        counts=Counts(read=3, written=2, skipped={"empty text": 1}),
        parts=(Part(file="vectors/part-00000.jsonl", documents=2, sha256="00"),),
        versions=versions(),
    )
    return dataclasses.replace(result, **changes)  # type: ignore[arg-type]


def test_round_trip(tmp_path: Path) -> None:
    manifest().save(tmp_path)
    assert Manifest.load(tmp_path) == manifest()
    rewritten = (tmp_path / "manifest.json").read_bytes()
    Manifest.load(tmp_path).save(tmp_path)
    assert (tmp_path / "manifest.json").read_bytes() == rewritten


def test_a_manifest_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    write_record(tmp_path / "manifest.json", manifest().to_json())  # with a checksum of itself
    assert Manifest.load(tmp_path) == manifest()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "format 99, this version knows 1"),
        ({"kind": "indexes"}, "'indexes' is not one of 'documents', 'queries'"),
        ({"modell": "x"}, "unknown key 'modell'; did you mean 'model'"),
        ({"quantizer": {"scale": -1.0, "bits": None}}, "quantisation factor -1.0"),
        ({"parts": [{"file": "x", "documents": "two", "sha256": ""}]}, r"parts\[0\]: documents: expected int"),
    ],
)
def test_invalid_manifests(tmp_path: Path, change: dict[str, object], message: str) -> None:
    write_json(tmp_path / "manifest.json", {**json.loads(json.dumps(manifest().to_json())), **change})
    with pytest.raises(LearnedSparseError, match=message):
        Manifest.load(tmp_path)


def test_missing_or_not_an_object(tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match=r"an empty folder, not encoded texts \(manifest.json is missing\)"):
        Manifest.load(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(LearnedSparseError, match="expected an object, got list"):
        Manifest.load(tmp_path)


def test_settings_exclude_outcome_versions_and_locations() -> None:
    other = manifest(complete=False, counts=Counts(), parts=(), warnings=("w",), checkpoint="elsewhere")
    other = dataclasses.replace(other, input=({"file": "moved", "bytes": 1},), versions={"torch": "99"})
    assert differences(manifest().settings(), other.settings()) == {}
    other = manifest(encoder={"settings": {"pooling": "sum"}}, quantizer=Quantizer(10.0), model="x")
    assert differences(manifest().settings(), other.settings()) == {
        "encoder.max_length": (256, None),
        "encoder.settings.pooling": ("max", "sum"),
        "model": ("splade", "x"),
        "quantizer.scale": (100.0, 10.0),
    }


def test_problems(tmp_path: Path) -> None:
    (tmp_path / "vectors").mkdir()
    for number in range(3):
        (tmp_path / "vectors" / f"part-{number:05d}.jsonl").write_text("{}")
    digest = sha256(tmp_path / "vectors" / "part-00000.jsonl")
    parts = tuple(Part(file=f"vectors/part-{n:05d}.jsonl", documents=1, sha256=digest) for n in range(3))
    complete = manifest(parts=parts, counts=Counts(written=3))
    assert list(complete.problems(tmp_path)) == []
    (tmp_path / "vectors" / "part-00001.jsonl").unlink()
    (tmp_path / "vectors" / "part-00002.jsonl").write_text("{ }")
    (tmp_path / "vectors" / "more.jsonl").write_text("{}")
    problems = [problem.replace(str(tmp_path), "") for problem in complete.problems(tmp_path)]
    assert problems == [
        "/vectors/part-00001.jsonl: missing",
        "/vectors/part-00002.jsonl: not the bytes the manifest records",
        "/vectors/more.jsonl: not in the manifest",
    ]
    assert "not complete" in next(iter(dataclasses.replace(complete, complete=False).problems(tmp_path)))


def test_warning_about_scores_beyond_exact_floats() -> None:
    binary = manifest(query_quantizer=Quantizer(1.0, 1))  # impacts of queries are 1
    assert list(binary.document_warnings(Counts(largest_sum=2**24))) == []
    assert "16,777,217" in next(binary.document_warnings(Counts(largest_sum=2**24 + 1)))
    assert "4,278,190,080" in next(manifest().document_warnings(Counts(largest_sum=2**24)))  # 255 times as much


def test_total_of_counts() -> None:
    counts = [Counts(written=2, postings=5, largest_sum=9), Counts(written=1, postings=1, largest_sum=4, clipped=1)]
    assert Counts.total(counts) == Counts(written=3, postings=6, largest_sum=9, clipped=1)
    assert Counts.total([]) == Counts()
