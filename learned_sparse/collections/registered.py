"""Topics and judgements by the names they are registered under in Pyserini, which fetches them when first used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from learned_sparse.collections.catalogue import first_line
from learned_sparse.collections.trec import Qrels, read_qrels
from learned_sparse.core import LearnedSparseError, Query, did_you_mean, without_mark


def registered_queries(name: str) -> list[Query]:
    """The topics ``name`` (``dl19-passage``), in the order of their ids as numbers, or as text. Starts the JVM."""
    from learned_sparse.lucene import start_jvm

    start_jvm()
    from pyserini.search import get_topics
    from pyserini.search._base import topics_mapping

    _check(name, "topics", topics_mapping)
    with _fetching(name, "topics"):
        topics = get_topics(name)
    found = [Query(str(query), without_mark(fields["title"]).strip()) for query, fields in topics.items()]
    return sorted(found, key=lambda query: (0, int(query.id), "") if query.id.isdigit() else (1, 0, query.id))


def registered_qrels(name: str) -> Qrels:
    """The judgements ``name``. Starts the JVM."""
    from learned_sparse.lucene import start_jvm

    start_jvm()
    from pyserini.search import get_qrels_file
    from pyserini.search._base import qrels_mapping

    _check(name, "judgements", qrels_mapping)
    with _fetching(name, "judgements"):
        path = Path(get_qrels_file(name))
    return read_qrels(path)


def _check(name: str, what: str, known: dict[str, object]) -> None:
    if name not in known:
        close = did_you_mean(name, known)
        raise LearnedSparseError(f"{what} {name!r}: not registered in Pyserini{close if '?' in close else ''}")


@contextmanager
def _fetching(name: str, what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise LearnedSparseError(
            f"{what} {name!r}: Pyserini cannot fetch them ({first_line(error)}); without a network, use a file"
        ) from error
