"""What a collection's YAML may say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where documents, topics or judgements come from; the first place that has them is taken, in this order."""

    files: tuple[str, ...] = ()
    """Files below the data folder, each also with ``.gz``; absolute paths as they are."""
    embedded: str | None = None
    """A file of the collection made on the spot (``learned_sparse.collections.pydoc``)."""
    ir_datasets: str | None = None
    """A name in the ir_datasets catalogue."""
    registered: str | None = None
    """Topics or judgements registered under this name in Pyserini."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Published scores of one system, to compare with."""

    system: str
    source: str
    """Where the scores were published."""
    scores: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Split:
    """Queries with judgements, and how they are measured."""

    topics: Source
    qrels: Source
    measures: tuple[str, ...]
    """In the field's notation: ``MRR@10``, ``R(rel=2)@1000``. The first one is the measure people quote."""
    remove_query: bool = False
    """Ignore a result whose id is the query's own (BEIR)."""
    queries: int | None = None
    """How many queries have judgements."""
    judgements: int | None = None
    expected: tuple[Expected, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Description:
    """One collection."""

    name: str
    title: str
    corpus: Source
    documents: int | None = None
    """How many there are."""
    splits: Mapping[str, Split]
    license: str | None = None
    citation: str | None = None
    url: str | None = None
    notes: str | None = None
    """What a person should know before comparing numbers."""
