"""Pyserini's searcher of impacts, for comparisons with ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from learned_sparse.lucene import allow_clauses


def impact_searcher(index: Path, queries: Mapping[str, Mapping[str, int]]) -> Any:
    """``LuceneImpactSearcher``; its queries are ids in ``queries``. No term is dropped."""
    allow_clauses(max(map(len, queries.values()), default=0))
    from pyserini.search.lucene import LuceneImpactSearcher

    class Prepared:
        def encode(self, query_id: str, **_: Any) -> Mapping[str, int]:
            return queries[query_id]

    return LuceneImpactSearcher(str(index), Prepared(), -1)  # min_idf: keep terms that every document has
