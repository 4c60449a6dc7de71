"""TREC CAR's outlines as topics: every heading of every page is a query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from learned_sparse.collections.car import read_records
from learned_sparse.core import LearnedSparseError, Query

_SECTION = 0


def read_outlines(path: Path) -> list[Query]:
    """A query for each heading: id ``page/heading/subheading``, text the page's name and the headings on the way.

    So does ir_datasets. A heading that a page has twice under the same id is one query.
    """
    queries: dict[str, Query] = {}
    for number, page in enumerate(read_records(path, "outlines"), start=1):
        try:
            found = list(_headings(page))
        except (TypeError, ValueError, AttributeError, IndexError) as error:
            raise LearnedSparseError(f"{path}, page {number}: not an outline of TREC CAR ({error})") from error
        for query in found:
            queries.setdefault(query.id, query)
    if not queries:
        raise LearnedSparseError(f"{path}: no queries")
    return list(queries.values())


def _headings(page: Any) -> Iterator[Query]:
    """A page is ``[tag, name, id, parts, ...]``."""
    yield from _below(page[3], page[2].decode("ascii"), page[1])


def _below(parts: Any, name: str, text: str) -> Iterator[Query]:
    """A section is ``[0, heading, heading id, parts]``; parts of other kinds (paragraphs, images) are no topics."""
    for part in parts:
        if part[0] == _SECTION:
            _, heading, heading_id, inner = part
            query = Query(f"{name}/{heading_id.decode('ascii')}", f"{text} {heading}")
            yield query
            yield from _below(inner, query.id, query.text)
