"""Indexes of another Lucene: Pyserini 1.6 has Lucene 9, Pyserini 2.3 has Lucene 10."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from importlib.metadata import version
from pathlib import Path

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.lucene.searchers import read_contents
from tests.learned_sparse.export.collection import save

OTHER = "LEARNED_SPARSE_OTHER_PYTHON"
MAJOR, CREATED = 35, 38
"""Bytes of ``segments_1``: the Lucene that wrote it, and the one that created the index."""
ROOT = Path(__file__).resolve().parents[3]


def run(python: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [python, *map(str, words)]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True, timeout=600)


def search(python: str, folder: Path, index: str) -> subprocess.CompletedProcess[str]:
    words: list[str | Path] = ["--index", folder / index, "--query-vectors", folder / "queries" / "queries.tsv"]
    return run(python, "-m", "learned_sparse.search", *words, "--output", folder / f"{index}-{len(python)}.run")


@pytest.mark.jvm
def test_an_index_of_a_newer_lucene(tmp_path: Path) -> None:
    vectors, _ = save(tmp_path)
    from learned_sparse.index.build import build_index

    build_index(vectors, tmp_path / "index")
    assert read_contents(tmp_path / "index")["documents"] == 200
    path = tmp_path / "index" / "segments_1"
    content = bytearray(path.read_bytes())
    assert content[MAJOR] == content[CREATED] in (9, 10)
    content[MAJOR] += 1
    content[CREATED] += 1
    content[-8:] = zlib.crc32(content[:-8]).to_bytes(8, "big")
    path.write_bytes(content)
    message = (
        rf"index: made by a newer Lucene than that of Pyserini {version('pyserini')}; search it with .*make it again"
    )
    with pytest.raises(LearnedSparseError, match=message):
        read_contents(tmp_path / "index")


@pytest.mark.skipif(OTHER not in os.environ, reason=f"{OTHER} names no interpreter with another Pyserini")
def test_an_index_searched_by_another_pyserini(tmp_path: Path) -> None:
    pythons = [sys.executable, os.environ[OTHER]]
    ask = "from importlib.metadata import version; print(version('pyserini'))"
    older, newer = sorted(pythons, key=lambda python: [int(n) for n in run(python, "-c", ask).stdout.split(".")])
    vectors, _ = save(tmp_path)
    for python, index in ((older, "old"), (newer, "new")):
        made = run(python, "-m", "learned_sparse.index", "--input", vectors, "--index", tmp_path / index)
        assert made.returncode == 0, made.stderr
    runs = []
    for python, index in ((older, "old"), (newer, "old"), (newer, "new")):
        found = search(python, tmp_path, index)
        assert found.returncode == 0, found.stderr
        runs.append((tmp_path / f"{index}-{len(python)}.run").read_bytes())
    assert runs[0].count(b"\n") > 1000
    assert runs[0] == runs[1] == runs[2]
    refused = search(older, tmp_path, "new")
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].startswith(f"error: {tmp_path / 'new'}: made by a newer Lucene than that of")
