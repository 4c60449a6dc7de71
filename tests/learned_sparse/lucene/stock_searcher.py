"""Anserini's indexing and Pyserini's searcher of impacts, for comparisons with ours."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from learned_sparse.lucene.jvm import anserini_jar, find_java, start_jvm


def impact_searcher(index: Path, queries: Mapping[str, Mapping[str, int]]) -> Any:
    """``LuceneImpactSearcher``; its queries are ids in ``queries``. No term is dropped."""
    start_jvm()
    from pyserini.search.lucene import LuceneImpactSearcher

    class Prepared:
        def encode(self, query_id: str, **_: Any) -> Mapping[str, int]:
            return queries[query_id]

    return LuceneImpactSearcher(str(index), Prepared(), -1)  # min_idf: keep terms that every document has


def index_collection(
    source: Path, index: Path, *options: str, kind: str = "JsonVectorCollection", threads: int = 1
) -> None:
    """Index the files below ``source`` with Anserini, in a process of Java."""
    java = find_java()
    program: list[str | Path] = [java.home / "bin" / "java", *java.options, "-cp", anserini_jar()]
    words = f"-collection {kind} -threads {threads} -optimize -generator DefaultLuceneDocumentGenerator".split()
    command = [*program, "io.anserini.index.IndexCollection", *words, "-input", source, "-index", index, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Indexing Complete!" in done.stdout, done.stdout + done.stderr
