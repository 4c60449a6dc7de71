"""What Lucene says of one document: its score, and which ids are near one that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from learned_sparse.lucene.open_index import OpenIndex, allow_clauses

_CONTENTS, _ID = "contents", "id"


def score_of(index: Path, query: Mapping[str, int], name: str) -> float:
    """The score of the document ``name`` for a query of impacts, by Lucene's searcher; 0 without a common term."""
    allow_clauses(len(query) + 1)
    opened = OpenIndex(index, _similarity)
    try:
        from jnius import autoclass

        term, term_query = autoclass("org.apache.lucene.index.Term"), autoclass("org.apache.lucene.search.TermQuery")
        boosted, occur = (
            autoclass("org.apache.lucene.search.BoostQuery"),
            "org.apache.lucene.search.BooleanClause$Occur",
        )
        builder = autoclass("org.apache.lucene.search.BooleanQuery$Builder")()
        for word, impact in query.items():
            builder.add(boosted(term_query(term(_CONTENTS, word)), float(impact)), autoclass(occur).SHOULD)
        builder.add(term_query(term(_ID, name)), autoclass(occur).FILTER)  # adds nothing to the score
        hits = opened.searcher.search(builder.build(), 1).scoreDocs
        return float(hits[0].score) if hits else 0.0
    finally:
        opened.close()


def ids_near(index: Path, name: str, count: int = 3) -> list[str]:
    """The first ids of each segment of the index that come after ``name``, in Lucene's order: ``count`` at most."""
    opened = OpenIndex(index, _similarity)
    try:
        from jnius import autoclass

        bytes_of = autoclass("org.apache.lucene.util.BytesRef")
        found: list[str] = []
        leaves = opened.searcher.getIndexReader().leaves()
        for number in range(leaves.size()):
            names = leaves.get(number).reader().terms(_ID)
            every = names.iterator() if names else None
            if every is None or every.seekCeil(bytes_of(bytearray(name, "utf-8"))).name() == "END":
                continue
            there = every.term()
            while there is not None and len(found) < count * (number + 1):
                found.append(there.utf8ToString())
                there = every.next()
        return sorted(found)[:count]
    finally:
        opened.close()


def _similarity() -> Any:
    from jnius import autoclass

    return autoclass("io.anserini.search.similarity.ImpactSimilarity")()
