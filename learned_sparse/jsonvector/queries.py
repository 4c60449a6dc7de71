"""Encoded queries in the two formats of stock Pyserini: topics of repeated terms, and JSONL for ``--encoder``."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from learned_sparse.core import (
    NO_TERMS,
    LearnedSparseError,
    LuceneTerms,
    Query,
    SparseBatch,
    atomic_write,
    unfit_reason,
)
from learned_sparse.jsonvector.writer import check_impacts

TOPICS = "queries.tsv"
ENCODED = "queries.jsonl"
MAX_TERMS = 1024
"""Lucene's default limit of clauses; in stock Pyserini one longer query ends the whole batch."""
MAX_JAVA_INT = 2**31 - 1


def write_queries(folder: Path, queries: Sequence[Query], impacts: SparseBatch, terms: LuceneTerms) -> list[str]:
    """Write ``queries.tsv`` and ``queries.jsonl`` for the rows of ``impacts``; returns warnings about stock Pyserini.

    * ``queries.tsv``, for ``--topics`` without an encoder: ``id <tab> term term ...``, each term repeated as often as
      its impact. A query without terms becomes ``NO_TERMS``, since Pyserini cannot read a topic without text.
    * ``queries.jsonl``, for ``--encoder`` with the original topics: ``{"contents": text, "vector": {...}}``. Pyserini
      looks queries up by their stripped text, so a text that occurs twice is written once.
    """
    check_impacts([query.id for query in queries], impacts, terms)
    _check_queries(queries)
    rows = [impacts.row(row) for row in range(len(queries))]
    with atomic_write(folder / TOPICS) as file:
        for query, row in zip(queries, rows, strict=True):
            file.write(f"{query.id}\t{topic_text(row)}\n".encode())
    texts = {query.text.strip(): row for query, row in zip(queries, rows, strict=True)}
    with atomic_write(folder / ENCODED) as file:
        for text, row in texts.items():
            # ASCII only: Pyserini opens this file with the encoding of the locale.
            file.write(json.dumps({"contents": text, "vector": row}).encode("ascii") + b"\n")
    return renamed_ids([query.id for query in queries]) + _too_many_terms(queries, impacts)


def topic_text(vector: Mapping[str, int]) -> str:
    """Terms separated by blanks, each repeated as often as its impact.

    >>> topic_text({"hives": 2, "itch": 1}), topic_text({})
    ('hives hives itch', '[no-terms]')
    """
    return " ".join(" ".join([term] * impact) for term, impact in vector.items()) or NO_TERMS


def read_topics(path: str | Path) -> dict[str, dict[str, int]]:
    """``{query id: {term: impact}}`` from a file of repeated terms, plain or gzip; an empty dict for ``NO_TERMS``."""
    path = Path(path)
    topics: dict[str, dict[str, int]] = {}
    for number, line in _lines(path):
        name, tab, text = line.partition("\t")
        where = f"{path}:{number}"
        if not tab or name.split() != [name] or "\t" in text:
            raise LearnedSparseError(f"{where}: expected an id without white space, a tab, terms; got {line[:60]!r}")
        if name in topics:
            raise LearnedSparseError(f"{where}: the query id {name!r} occurs twice; remove one of the two")
        tokens = text.split()
        if not tokens:
            raise LearnedSparseError(f"{where}: no terms, which Pyserini cannot read; write {NO_TERMS} instead")
        counts = {} if tokens == [NO_TERMS] else dict(Counter(tokens))
        for term in counts:
            if reason := unfit_reason(term):
                raise LearnedSparseError(f"{where}: term {term!r}: {reason}; encode the queries again")
        topics[name] = counts
    return topics


def renamed_ids(ids: Sequence[str]) -> list[str]:
    """Warnings about query ids that stock Pyserini changes because they look like numbers.

    >>> renamed_ids(["7", "007a"])
    []
    >>> renamed_ids(["007"])[0][:66]
    "stock Pyserini reads query ids made of digits as numbers: '007' be"
    """
    all_numbers = all(_is_java_int(name) for name in ids)  # Pyserini then uses its reader for integer ids
    renamed = [name for name in ids if (name.isdigit() or all_numbers) and _as_number(name) != name]
    if not renamed:
        return []
    warning = (
        f"stock Pyserini reads query ids made of digits as numbers: {renamed[0]!r} becomes {_as_number(renamed[0])} "
        f"({len(renamed)} such ids), so that its runs do not match the judgements; learned_sparse.search keeps ids"
    )
    return [warning]


def _check_queries(queries: Sequence[Query]) -> None:
    seen: set[str] = set()
    for query in queries:
        if query.id in seen:
            raise LearnedSparseError(f"query {query.id!r} occurs twice; remove one of the two")
        seen.add(query.id)
        if any(character in query.text for character in "\t\n\r"):
            raise LearnedSparseError(f"query {query.id!r}: a topics file cannot hold the tab or line end in its text")


def _too_many_terms(queries: Sequence[Query], impacts: SparseBatch) -> list[str]:
    long = np.flatnonzero(np.diff(impacts.indptr) > MAX_TERMS)
    if not len(long):
        return []
    warning = (
        f"{len(long)} queries have more than {MAX_TERMS:,} terms (first {queries[long[0]].id!r}), and stock Pyserini "
        f"ends with an error there; learned_sparse.search raises the limit, and --top-k {MAX_TERMS} stays within it"
    )
    return [warning]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    if not path.is_file():
        raise LearnedSparseError(f"{path}: no such file; learned_sparse.encode --queries writes it")
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            try:
                yield number, line.decode().rstrip("\r")
            except UnicodeDecodeError as error:
                raise LearnedSparseError(f"{path}:{number}: not UTF-8 text: {error.reason}") from None


def _is_java_int(name: str) -> bool:
    digits = name[1:] if name[:1] in {"+", "-"} else name
    return digits.isdecimal() and abs(int(digits)) <= MAX_JAVA_INT


def _as_number(name: str) -> str:
    try:
        return str(int(name))
    except ValueError:  # '²'.isdigit() is True, but int('²') fails, in Pyserini too
        return "an error"
