"""Pruning compared with its definition on plain dicts."""

from __future__ import annotations

import dataclasses
import math
import re
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.export.exporting import export_vectors
from learned_sparse.index import __main__ as index
from learned_sparse.index.build import build_index, open_vectors
from learned_sparse.jsonvector.__main__ import main
from learned_sparse.jsonvector.manifest import Manifest, parts_sha256
from learned_sparse.jsonvector.pruning import prune
from learned_sparse.jsonvector.reader import read_vectors
from learned_sparse.jsonvector.weights import quantize_vectors
from learned_sparse.lucene.searchers import search_impacts
from tests.learned_sparse.encoded_folder import Vectors, dot_products, write_folder

VECTORS: dict[str, dict[str, int]] = {
    "d1": {"the": 5, "hives": 3, "of": 2},
    "d2": {"the": 1, "日本": 40, "of": 1},
    "d3": {"the": 9},
    "d4": {"##ing": 1, "the": 2, "hives": 7},
    "e": {},
}

collections = st.dictionaries(
    st.sampled_from([f"d{number}" for number in range(9)]),
    st.dictionaries(st.sampled_from(["a", "b", "c", "##d", "é"]), st.integers(1, 300)),
    min_size=1,
)


def pruned_by_definition(
    vectors: Vectors, share: Fraction | None, top: int | None
) -> tuple[dict[str, dict[str, int]], int]:
    """Remaining vectors, and the number of removed postings."""
    terms = sorted({term for vector in vectors.values() for term in vector})
    counts = {term: sum(term in vector for vector in vectors.values()) for term in terms}
    if share is not None:
        removed = [term for term in terms if counts[term] > share * len(vectors)]
    else:
        removed = sorted(terms, key=lambda term: -counts[term])[:top]  # stable: ties by code point
    remaining = {
        name: {t: impact for t, impact in vector.items() if t not in removed} for name, vector in vectors.items()
    }
    return remaining, sum(counts[term] for term in removed)


@settings(max_examples=30)
@given(vectors=collections, limit=st.integers(0, 9), by_share=st.booleans())
def test_pruning_follows_the_definition(vectors: Vectors, limit: int, by_share: bool) -> None:
    """The share equals a document frequency exactly, where rounding errors are most likely."""
    share = Fraction(min(limit or 1, len(vectors)), len(vectors))
    rule: dict[str, Any] = {"max_document_frequency": float(share)} if by_share else {"top_dimensions": limit}
    expected, removed = pruned_by_definition(vectors, *((share, None) if by_share else (None, limit)))
    with tempfile.TemporaryDirectory() as folder:
        source, target = write_folder(Path(folder) / "in", vectors, parts=3), Path(folder) / "out"
        if vectors != expected and not any(expected.values()):
            with pytest.raises(LearnedSparseError, match="removes every term"):
                prune([source], [target], **rule)
            assert not target.exists()
            return
        (manifest,) = prune([source], [target], **rule)
        assert dict(read_vectors(target)) == expected
        before, after = Manifest.load(source).counts, Manifest.load(target).counts
        open_vectors([target])  # all files match the manifest
    assert sum(manifest.options["pruning"]["removed"].values()) == removed == before.postings - after.postings
    assert after.written == before.written == len(vectors)
    assert after.empty_vectors == sum(not vector for vector in expected.values())
    assert after.largest_sum == max(sum(vector.values()) for vector in expected.values())
    assert after.largest_impact == max(max(vector.values(), default=0) for vector in expected.values())


@settings(max_examples=30)
@given(vectors=collections, keep=st.floats(0.01, 1), hybrid=st.booleans())
def test_the_largest_impacts_are_kept_and_all_of_bm25(vectors: Vectors, keep: float, hybrid: bool) -> None:
    vectors = {name: {**row, "b:word": 1} if row else {} for name, row in vectors.items()}
    whole = {"b:word"} if hybrid else set()
    counted = sorted((n for row in vectors.values() for t, n in row.items() if t not in whole), reverse=True)
    smallest = counted[math.ceil(keep * len(counted)) - 1] if counted else 1
    with tempfile.TemporaryDirectory() as folder:
        encoder: dict[str, Any] = {"hybrid": {}} if hybrid else {}
        source = write_folder(Path(folder) / "in", vectors, parts=2, encoder=encoder)
        (manifest,) = prune([source], [Path(folder) / "out"], keep_postings=keep)
        assert dict(read_vectors(Path(folder) / "out")) == {
            name: {term: n for term, n in row.items() if n >= smallest or term in whole}
            for name, row in vectors.items()
        }
    assert manifest.options["pruning"]["min_impact"] == smallest


@settings(max_examples=20)
@given(vectors=collections, power=st.sampled_from([0.5, 1.0, 2.0]))
def test_impacts_times_a_power_of_idf(vectors: Vectors, power: float) -> None:
    counts = {term: sum(term in row for row in vectors.values()) for row in vectors.values() for term in row}
    weights = {
        name: {term: impact * math.log(1 + len(vectors) / counts[term]) ** power for term, impact in row.items()}
        for name, row in vectors.items()
    }
    heaviest = max((weight for row in weights.values() for weight in row.values()), default=1)
    largest = max((impact for row in vectors.values() for impact in row.values()), default=1)
    with tempfile.TemporaryDirectory() as folder:
        names = list(vectors)
        shards = [{name: vectors[name] for name in names[start::2]} for start in range(min(2, len(names)))]
        sources = [write_folder(Path(folder, f"in-{number}"), shard) for number, shard in enumerate(shards)]
        prune(sources, targets := [Path(folder, f"out-{number}") for number in range(len(shards))], idf=power)
        found = dict(read_vectors(*targets))
    assert found.keys() == weights.keys()
    for name, row in weights.items():
        for term, weight in row.items():
            assert abs(found[name].get(term, 0) - weight * largest / heaviest) <= 0.5 + 1e-9
        assert all(impact > 0 for impact in found[name].values())


def test_the_manifest_records_the_pruning(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "in", VECTORS, options={"gzip": False})
    (source / "bm25.json").write_text("statistics of a hybrid model")
    prune([source], [tmp_path / "once"], max_document_frequency=0.5)
    before, first = Manifest.load(source), Manifest.load(tmp_path / "once")
    record: dict[str, Any] = {"rule": {"max_document_frequency": 0.5}, "documents": 5, "removed": {"the": 4}}
    record["source_sha256"] = parts_sha256([before])
    assert first.options == {"gzip": False, "pruning": record}
    unchanged = {field.name for field in dataclasses.fields(Manifest)} - {"options", "counts", "parts"}
    assert {name: getattr(first, name) for name in unchanged} == {name: getattr(before, name) for name in unchanged}
    assert (tmp_path / "once" / "bm25.json").read_text() == "statistics of a hybrid model"
    prune([tmp_path / "once"], [tmp_path / "twice"], top_dimensions=1)
    second_options = Manifest.load(tmp_path / "twice").options["pruning"]
    assert (second_options["before"], second_options["removed"]) == (record, {"hives": 2})


@pytest.mark.parametrize(
    ("rule", "remains", "recorded"),
    [
        # Half of the second shard has "hives".
        ("--max-document-frequency 0.5", lambda term, _: term != "the", "dimensions: ['the'] before, absent now"),
        ("--keep-postings 0.5", lambda _, impact: impact >= 3, "min_impact: 3 before, absent now"),
    ],
)
def test_all_shards_are_pruned_by_the_counts_of_all(
    rule: str, remains: Callable[[str, int], bool], recorded: str, tmp_path: Path
) -> None:
    halves = [{name: VECTORS[name] for name in list(VECTORS)[number::2]} for number in (0, 1)]
    shards = [write_folder(tmp_path / f"in-{number}", half) for number, half in enumerate(halves)]
    assert main(["prune", "--vectors", *map(str, shards), "--output", str(tmp_path / "out"), *rule.split()]) == 0
    folders = [tmp_path / f"out-shard-{number}-of-2" for number in (0, 1)]
    expected = {name: {t: n for t, n in vector.items() if remains(t, n)} for name, vector in VECTORS.items()}
    assert dict(read_vectors(*folders)) == expected
    with pytest.raises(LearnedSparseError, match=re.escape(recorded)):
        open_vectors([folders[0], shards[1]])


def _prune(folder: Path, **options: Any) -> None:
    prune([write_folder(folder / "in", VECTORS)], [folder / "out"], top_dimensions=1, **options)


def _quantize(folder: Path, **options: Any) -> None:
    (folder / "in.jsonl").write_text('{"id": "d1", "vector": {"a": 0.5}}')
    quantize_vectors([folder / "in.jsonl"], folder / "out", **options)


def _export(folder: Path, **options: Any) -> None:
    export_vectors("lsr-benchmark", folder / "out", vectors=[write_folder(folder / "in", VECTORS)], **options)


def _index(folder: Path, **options: Any) -> None:
    build_index(write_folder(folder / "in", VECTORS), folder / "out", **options)


@pytest.mark.parametrize("write", [_prune, _quantize, _export, pytest.param(_index, marks=pytest.mark.jvm)])
def test_overwrite_replaces_only_what_the_command_wrote(write: Callable[..., None], tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.mkdir()
    (output / "thesis.tex").write_text("mine")
    with pytest.raises(LearnedSparseError, match=r"out: exists and holds no .*json of an earlier run"):
        write(tmp_path, overwrite=True)
    (output / "thesis.tex").unlink()
    write(tmp_path)
    with pytest.raises(LearnedSparseError, match=r"replace it with --overwrite .overwrite=True"):
        write(tmp_path)
    write(tmp_path, overwrite=True)
    files = sorted(path for path in output.rglob("*") if path.is_file())
    mine = files[0].parent / "notes.md"
    mine.write_text("mine")
    with pytest.raises(LearnedSparseError, match=r"notes\.md: not written by the earlier run"):
        write(tmp_path, overwrite=True)
    assert mine.read_text() == "mine"
    assert sorted(path for path in output.rglob("*") if path.is_file() and path != mine) == files


@pytest.mark.jvm
def test_pruned_vectors_can_be_indexed(tmp_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_folder(tmp_home / "vectors" / "pydoc" / "words", VECTORS)
    assert main(["prune", "--model", "words", "--as", "words-50", "--max-document-frequency", "0.5"]) == 0
    command = capsys.readouterr().out.splitlines()[-1].removeprefix("next: python -m learned_sparse.index ")
    assert index.main(command.split()) == 0
    folder = tmp_home / "indexes" / "pydoc" / "words-50"
    remaining, _ = pruned_by_definition(VECTORS, Fraction(1, 2), None)
    assert dict(search_impacts(folder, {"q": {"the": 2, "hives": 1}})["q"]) == dict(
        dot_products({"the": 2, "hives": 1}, remaining)
    )
