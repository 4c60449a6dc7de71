"""Documents, queries and judgements by their name in the ir_datasets catalogue (the extra ``data``)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from learned_sparse.collections.catalogue_names import dataset, has, names
from learned_sparse.collections.document_formats import check_id, check_text
from learned_sparse.collections.documents import DocumentReader, Line, OnBadLine
from learned_sparse.collections.trec import Qrels
from learned_sparse.core import Document, LearnedSparseError, Query, without_mark


def documents(name: str, on_bad_line: OnBadLine = "error") -> DocumentReader:
    """The documents of ``name``; a title, where there is one, is part of the text (ir_datasets' ``default_text``).

    The first one is fetched here, so that what cannot be fetched is known at once.
    """
    source = f"ir_datasets:{name}"
    records = _fetched(name, "docs")
    records = chain(list(islice(records, 1)), records)
    lines: Iterator[Line] = ((f"{source}, document {i}", _document, doc) for i, doc in enumerate(records, start=1))
    return DocumentReader(lines, source=source, files=(), on_bad_line=on_bad_line)


def queries(name: str) -> list[Query]:
    """The queries of ``name``."""
    found = _fetched(name, "queries")
    return [Query(query.query_id, without_mark(query.default_text()).strip()) for query in found]


def qrels(name: str) -> Qrels:
    """The judgements of ``name``."""
    judged: Qrels = {}
    for judgement in _fetched(name, "qrels"):
        judged.setdefault(judgement.query_id, {})[judgement.doc_id] = judgement.relevance
    return judged


def _fetched(name: str, kind: str) -> Iterator[Any]:
    """The records; whatever keeps ir_datasets from fetching them (network, disk, a missing reader) is our error."""
    from learned_sparse.collections.catalogue_fetch import (
        resume_downloads,  # HTTP and all it needs: not for every command
    )

    _check(name, kind)
    resume_downloads(getattr(dataset(name), f"{kind}_handler")())
    try:
        yield from getattr(dataset(name), f"{kind}_iter")()
    except Exception as error:
        raise LearnedSparseError(
            f"ir_datasets:{name}: cannot be fetched ({first_line(error)}); it needs a network at first use, "
            "and some names need a licence or another package"
        ) from error


def _check(name: str, kind: str) -> None:
    if not has(name, kind):
        parts = [part for part in names() if part.startswith(f"{name}/") and has(part, kind)]
        way_out = f"name one of its parts: {', '.join(parts[:5])}" if parts else "another name, or a file, has them"
        raise LearnedSparseError(f"ir_datasets:{name}: has no {kind}; {way_out}")


def first_line(error: Exception) -> str:
    """What a foreign error says, on one line: a Java stack trace or a nested list of causes helps nobody."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def _document(record: Any) -> Document:
    return check_text(Document(check_id(record.doc_id), record.default_text().strip()))
