"""Searches of an index of segments: a document is as good as its best segment (MaxP)."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from learned_sparse.collections import Segmentation
from learned_sparse.core import Query
from learned_sparse.index import IndexNote

SEGMENTS_EACH = 10
"""Segments asked for at first, for each document that is wanted."""

Rows = Sequence[Mapping[str, int]] | None
StockSearch = Callable[[Sequence[Query], Rows, Sequence[str], Path], None]
"""``(queries, encoded, options, run)``: writes ``run`` as stock search.lucene does."""


@dataclass(frozen=True)
class Passages:
    """What there is to know about an index of segments."""

    delimiter: str
    most: int
    """Segments of one document, at most."""
    total: int
    """Segments in the index."""

    @classmethod
    def of(cls, note: IndexNote) -> Passages | None:
        """What the note of an index says; None for an index of whole documents."""
        cut = Segmentation.recorded(note.manifests[0].options) if note.manifests else None
        if cut is None:
            return None
        most = max(manifest.counts.largest_segments for manifest in note.manifests)
        return cls(cut.delimiter, most, sum(manifest.counts.written for manifest in note.manifests))

    def enough(self, documents: int) -> int:
        """So many of the best segments are of so many documents, or are all there are.

        >>> Passages("#", most=3, total=1_000).enough(10)
        28
        """
        return max(1, min(self.total, (documents - 1) * self.most + 1))


def asks_for_passages(stock: Iterable[str]) -> bool:
    """Whether the options of search.lucene say themselves how segments become documents."""
    return any(word.startswith("--max-passage") for word in stock)


def search_documents(
    passages: Passages, queries: Sequence[Query], encoded: Rows, stock: Sequence[str], run: Path, search: StockSearch
) -> None:
    """Write the documents of ``--hits`` (1000) to ``run``, by Pyserini's ``--max-passage``.

    Pyserini finds that many *segments* and keeps each document's best, so fewer documents may be left. Queries that are
    short of documents after a search for ten times as many segments are searched for as many as it can take.
    """
    own, rest = _options().parse_known_args(list(stock))
    wanted = own.hits + own.remove_query
    best = ["--max-passage", "--max-passage-delimiter", passages.delimiter, "--max-passage-hits", str(wanted)]
    enough = passages.enough(wanted)
    first = min(enough, SEGMENTS_EACH * wanted)
    search(queries, encoded, [*rest, *best, "--hits", str(first)], run)
    found = _lines(run)
    short = [place for place, query in enumerate(queries) if len(found.get(query.id, ())) < wanted]
    if short and first < enough:
        rows = None if encoded is None else [encoded[place] for place in short]
        search([queries[place] for place in short], rows, [*rest, *best, "--hits", str(enough)], run)
        found.update(_lines(run))
    with run.open("w", encoding="utf-8") as file:
        # of all that was found, not of the queries alone: a query that nobody asked is to be noticed
        for name in dict.fromkeys([*(query.id for query in queries), *found]):
            kept = [line for line in found.get(name, ()) if not (own.remove_query and _document(line) == name)]
            file.writelines(_ranked(line, rank) for rank, line in enumerate(kept[: own.hits], start=1))


def _options() -> argparse.ArgumentParser:
    """Those of search.lucene that mean documents, not segments."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--hits", type=int, default=1000)
    parser.add_argument("--remove-query", action="store_true")
    return parser


def _lines(run: Path) -> dict[str, list[str]]:
    """The lines of each query, in TREC's six columns or MS MARCO's three."""
    found: dict[str, list[str]] = {}
    with run.open(encoding="utf-8") as file:
        for line in file:
            found.setdefault(line.split(maxsplit=1)[0], []).append(line)
    return found


def _document(line: str) -> str:
    columns = line.split()
    return columns[2] if len(columns) == 6 else columns[1]


def _ranked(line: str, rank: int) -> str:
    columns = line.split()
    if len(columns) == 6:
        return " ".join([*columns[:3], str(rank), *columns[4:]]) + "\n"
    return "\t".join([*columns[:2], str(rank)]) + "\n"
