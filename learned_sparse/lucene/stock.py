"""Pyserini's searchers, registered topics and judgements, and trec_eval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from learned_sparse.core.errors import LearnedSparseError, did_you_mean
from learned_sparse.lucene.jvm import start_jvm


def make_encoders_known(encoder_for: Callable[[str], Any | None]) -> None:
    """Let ``--encoder NAME`` of stock commands mean ``encoder_for(NAME)``, or the stock meaning if that is None."""
    start_jvm()
    from pyserini.search.lucene import LuceneImpactSearcher

    stock = LuceneImpactSearcher._init_query_encoder_from_str  # noqa: SLF001  (Pyserini has no hook)

    def ours_or_stock(name: str | None) -> Any:
        encoder = encoder_for(name) if name is not None else None
        return stock(name) if encoder is None else encoder

    LuceneImpactSearcher._init_query_encoder_from_str = staticmethod(ours_or_stock)  # noqa: SLF001


def registered_topics(name: str) -> dict[str, str]:
    """``{query id: title}`` of the topics registered in Pyserini as ``name`` (``dl19-passage``).

    Pyserini downloads them at first use. ``LearnedSparseError``: not registered, or not downloadable.
    """
    start_jvm()
    from pyserini.search import get_topics
    from pyserini.search._base import topics_mapping

    topics = _download(name, "topics", topics_mapping, get_topics)
    return {str(query_id): fields["title"] for query_id, fields in topics.items()}


def registered_qrels_file(name: str) -> Path:
    """The file of the judgements registered in Pyserini as ``name``; downloads and errors as for topics."""
    start_jvm()
    from pyserini.search import get_qrels_file
    from pyserini.search._base import qrels_mapping

    return Path(_download(name, "judgements", qrels_mapping, get_qrels_file))


def trec_eval(arguments: Sequence[str]) -> list[tuple[str, str, float]]:
    """Measure, query id (or ``all``) and value of each line that the trec_eval of Pyserini's jar prints.

    Anserini's class runs the program that ``pyserini.eval.trec_eval`` runs, without a second JVM for each call. That
    Python function also reads run and judgements with pandas first (8 s and 0.7 GB per million lines) and returns only
    the last of several measures.
    """
    start_jvm()
    from jnius import JavaException, autoclass

    try:
        lines = autoclass("io.anserini.eval.TrecEval")().runAndGetOutput(list(arguments))
        return [(measure, query, float(value)) for measure, query, value in lines]
    except (JavaException, ValueError) as error:  # ValueError: a line is a message
        raise LearnedSparseError(f"trec_eval {' '.join(arguments)} failed: {error}") from error


def _download(name: str, what: str, known: dict[str, object], download: Callable[[str], Any]) -> Any:
    if name not in known:
        close = did_you_mean(name, known)  # if no name is close, it lists hundreds of names
        raise LearnedSparseError(
            f"{what} {name!r}: no file, and not registered in Pyserini{close if '?' in close else ''}"
        )
    try:
        return download(name)
    except Exception as error:
        cause = f"{type(error).__name__}: {error}".splitlines()[0][:200]  # the other lines are a Java stack trace
        raise LearnedSparseError(
            f"{what} {name!r}: Pyserini cannot download them ({cause}); without a network, use a file"
        ) from error
