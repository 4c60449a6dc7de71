"""Topics and judgements that Pyserini knows by name and downloads at first use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from learned_sparse.core import LearnedSparseError, did_you_mean
from learned_sparse.lucene.java import start_jvm


def registered_topics(name: str) -> dict[str, str]:
    """``{query id: title}`` of the topics ``name`` (``dl19-passage``). Starts the JVM.

    ``LearnedSparseError`` if Pyserini does not know the name or cannot download the file.
    """
    start_jvm()
    from pyserini.search import get_topics
    from pyserini.search._base import topics_mapping

    _check(name, "topics", topics_mapping)
    with _downloading(name, "topics"):
        return {str(query): fields["title"] for query, fields in get_topics(name).items()}


def registered_qrels_file(name: str) -> Path:
    """The file of the judgements ``name``. Starts the JVM. Errors as in ``registered_topics``."""
    start_jvm()
    from pyserini.search import get_qrels_file
    from pyserini.search._base import qrels_mapping

    _check(name, "judgements", qrels_mapping)
    with _downloading(name, "judgements"):
        return Path(get_qrels_file(name))


def _check(name: str, what: str, known: dict[str, object]) -> None:
    if name not in known:
        close = did_you_mean(name, known)  # without a near miss it lists hundreds of names
        raise LearnedSparseError(f"{what} {name!r}: not registered in Pyserini{close if '?' in close else ''}")


@contextmanager
def _downloading(name: str, what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        cause = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise LearnedSparseError(
            f"{what} {name!r}: Pyserini cannot download them ({cause}); without a network, use a file"
        ) from error
