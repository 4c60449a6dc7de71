"""Documents, queries and judgements by their name in the ir_datasets catalogue (extra ``data``)."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import Any

from learned_sparse.collections.descriptions import MEASURES, Description, Source, Split, described_split
from learned_sparse.collections.documents import Document, DocumentReader, OnBadLine, checked
from learned_sparse.collections.topics import Query
from learned_sparse.collections.trec import Qrels
from learned_sparse.core.errors import LearnedSparseError, did_you_mean
from learned_sparse.core.files import locked
from learned_sparse.core.records import EXPANDED

CATALOGUE = "ir_datasets:"
"""Prefix of names of the catalogue where a collection is named: ``ir_datasets:beir/scifact``."""
FOLDER = "ir_datasets--"
"""Prefix of their folder names (``folder_name``)."""


def catalogue_entry(name: str) -> Description:
    """The collection ``ir_datasets:NAME``: its documents, and a split for each judged set of queries.

    If ``name`` has judgements, it is the only split; otherwise the splits are all judged names below it. The collection
    is stored under the highest name with the same documents, so ``beir/scifact/test`` and ``beir/scifact/train`` share
    vectors and indexes. A split is called by the rest of its name: ``test``, ``trec-dl-2019-judged``.
    """
    parent = _whole(name)
    judged = [name] if has(name, "queries", "qrels") else _judged_parts(name)
    count = dataset(parent).metadata().get("docs", {}).get("count")
    return Description(
        name=folder_name(CATALOGUE + parent),
        title=f"ir_datasets {name}",
        corpus=Source(ir_datasets=parent),
        documents=None if count is None else int(count),
        splits={_split_name(part, parent): _split(part) for part in judged},
        url=page(name),
    )


def page(name: str) -> str:
    """Address of the page about ``name``, with its licence and how to get its files.

    >>> page("beir/scifact/test")
    'https://ir-datasets.com/beir.html#beir/scifact/test'
    """
    return f"https://ir-datasets.com/{name.partition('/')[0]}.html#{name}"


def folder_name(name: str) -> str:
    """``name`` as the name of one folder: ``:`` and ``/`` become ``--``, which no name of the catalogue contains.

    >>> folder_name("ir_datasets:beir/scifact")
    'ir_datasets--beir--scifact'
    """
    return name.replace(":", "--").replace("/", "--")


def name_of_folder(folder: str) -> str:
    """The inverse of ``folder_name`` for names with one ``:``, before any ``/``, as the catalogue has them.

    >>> name_of_folder("ir_datasets--beir--scifact")
    'ir_datasets:beir/scifact'
    """
    return folder.replace("--", ":", 1).replace("--", "/")


def documents(name: str, on_bad_line: OnBadLine = "error", expanded: Path | None = None) -> DocumentReader:
    """The documents of ``name``; the text is ir_datasets' ``default_text``: a title, if there is one, comes first.

    The first document is fetched immediately, so that a failing download is reported here.
    """
    source = f"{CATALOGUE}{name}"
    rows = _fetch(name, "docs")
    rows = chain(list(islice(rows, 1)), rows)
    found = (Document(row.doc_id, row.default_text().strip()) for row in rows)
    records = ((f"{source}, document {number}", checked, document) for number, document in enumerate(found, start=1))
    return DocumentReader(records, source=source, on_bad_line=on_bad_line, expanded=expanded)


def queries(name: str) -> list[Query]:
    """The queries of ``name``; of several with one id (repeated headings in TREC CAR) only the first."""
    by_id: dict[str, Query] = {}
    for row in _fetch(name, "queries"):
        by_id.setdefault(row.query_id, Query(row.query_id, row.default_text().replace(EXPANDED, " ").strip()))
    return list(by_id.values())


def qrels(name: str) -> Qrels:
    """The judgements of ``name``."""
    judgements: Qrels = {}
    for row in _fetch(name, "qrels"):
        judgements.setdefault(row.query_id, {})[row.doc_id] = row.relevance
    return judgements


def dataset(name: str) -> Any:
    """The ir_datasets object of ``name``; ``LearnedSparseError`` with the nearest name if there is none."""
    try:
        return _ir_datasets(f"{CATALOGUE}{name}").load(name)
    except KeyError:
        close = did_you_mean(name, names())
        if "?" not in close:  # without a near miss it lists hundreds of names
            close = "; the command `ir_datasets list` lists all"
        raise LearnedSparseError(f"{CATALOGUE}{name}: no such name{close}") from None


def names() -> list[str]:
    """Every name of the catalogue, in the order of ir_datasets."""
    return [name for name in _ir_datasets("the catalogue").registry if name]


def has(name: str, *kinds: str) -> bool:
    """Whether ``name`` has all of ``kinds``: ``docs``, ``queries``, ``qrels``."""
    data = dataset(name)
    return all(getattr(data, f"has_{kind}")() for kind in kinds)


def _fetch(name: str, kind: str) -> Iterator[Any]:
    """The rows of ``kind``; whatever prevents ir_datasets from reading them is reported as ``LearnedSparseError``."""
    if not has(name, kind):
        parts = [part for part in names() if part.startswith(f"{name}/") and has(part, kind)]
        way_out = f"name one of its parts: {', '.join(parts[:5])}" if parts else "use another name or a file"
        raise LearnedSparseError(f"{CATALOGUE}{name}: has no {kind}; {way_out}")
    try:
        rows = iter(getattr(dataset(name), f"{kind}_iter")())
        cache = _ir_datasets(name).util.home_path()
        # Two processes that download one file would write into one temporary file. A read-only cache has all files.
        with locked(cache / "downloads", wait=True) if os.access(cache, os.W_OK) else nullcontext():
            first = list(islice(rows, 1))
        yield from chain(first, rows)
    except Exception as error:
        cause = f"{type(error).__name__}: {error}".splitlines()[0]
        cause = re.sub(r"HTTPS?ConnectionPool\(host='([^']+)'.*", r"no connection to \1", cause)[:200]
        raise LearnedSparseError(
            f"{CATALOGUE}{name}: ir_datasets cannot read its {kind} ({cause}); {page(name)} says how to get its files"
        ) from error


def _whole(name: str) -> str:
    """The highest name with the same documents: ``beir/scifact`` for ``beir/scifact/test``."""
    return str(_ir_datasets(name).docs_parent_id(name)) if has(name, "docs") else name


def _judged_parts(name: str) -> list[str]:
    """The names below ``name`` with the same documents and with queries and judgements of their own."""
    below = [part for part in names() if part.startswith(f"{name}/")]
    return [part for part in below if has(part, "docs", "queries", "qrels") and _whole(part) == name]


def _split_name(part: str, parent: str) -> str:
    below = part.removeprefix(f"{parent}/") if part != parent else part.rsplit("/", 1)[-1]
    return folder_name(below.replace("/", "-"))


def _split(name: str) -> Split:
    """The split of ``name``, with the measures of the shipped description that has the same judgements, if any."""
    known = described_split(name)
    source = Source(ir_datasets=name)
    if known is None:
        return Split(topics=source, qrels=source, measures=MEASURES, remove_query=name.startswith("beir/"))
    return dataclasses.replace(known[2], topics=source, qrels=source)


def _ir_datasets(what: str) -> Any:
    try:
        import ir_datasets
    except ImportError:
        raise LearnedSparseError(f"{what}: ir_datasets is not installed; pip install 'learned-sparse[data]'") from None
    return ir_datasets
