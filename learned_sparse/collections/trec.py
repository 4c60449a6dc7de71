"""The files of TREC evaluations: relevance judgements (qrels) and runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from learned_sparse.collections.lines import columns, has_white_space, read_lines
from learned_sparse.core import LearnedSparseError, atomic_write

Qrels = dict[str, dict[str, int]]
"""``{query id: {document id: grade}}``"""
Run = dict[str, list[tuple[str, float]]]
"""``{query id: [(document id, score)]}``, best first"""


def read_qrels(path: str | Path) -> Qrels:
    """Judgements in TREC's four columns (query, iteration, document, grade) or BEIR's three with a header line.

    A judgement repeated with the same grade counts once; with another grade it is an error.
    """
    path = Path(path)
    qrels: Qrels = {}
    for number, line in read_lines(path):
        where = f"{path}:{number}"
        found = columns(line, where)
        if number == 1 and len(found) == 3 and found[2].isalpha():
            continue  # BEIR's header: query-id, corpus-id, score
        if len(found) not in {3, 4}:
            raise LearnedSparseError(
                f"{where}: {len(found)} columns; expected query, iteration, document, grade (TREC) or "
                "query, document, grade (BEIR)"
            )
        query, document, grade = found[0], found[-2], found[-1]
        if not _is_integer(grade):
            raise LearnedSparseError(f"{where}: the grade {grade!r} is not an integer")
        if qrels.setdefault(query, {}).setdefault(document, int(grade)) != int(grade):
            raise LearnedSparseError(
                f"{where}: query {query!r}, document {document!r} was judged {qrels[query][document]} before, "
                f"{grade} here; keep one of the lines"
            )
    if not qrels:
        raise LearnedSparseError(f"{path}: no judgements")
    return qrels


def read_run(path: str | Path) -> Run:
    """A run in TREC's six columns (query, ``Q0``, document, rank, score, tag).

    As trec_eval does, ranks are taken from the scores and the rank column is not believed. Order: see ``ranked``. A
    file without lines is an empty run.
    """
    path = Path(path)
    run: dict[str, dict[str, float]] = {}
    for number, line in read_lines(path):
        where = f"{path}:{number}"
        found = columns(line, where)
        if len(found) != 6:
            raise LearnedSparseError(
                f"{where}: {len(found)} columns; expected query, Q0, document, rank, score, tag "
                "(Pyserini writes it with --output-format trec)"
            )
        query, document, score = found[0], found[2], _score(found[4], where)
        documents = run.setdefault(query, {})
        if document in documents:
            raise LearnedSparseError(f"{where}: document {document!r} comes twice for query {query!r}; keep one line")
        documents[document] = score
    return {query: ranked(documents.items()) for query, documents in run.items()}


def write_run(path: str | Path, run: Mapping[str, Iterable[tuple[str, float]]], tag: str = "learned_sparse") -> None:
    """Write ``{query id: [(document id, score)]}`` as a TREC run: whole or not at all, queries in the order given.

    Scores are rounded to six decimals, then ranked. A query without results leaves no line (there is none for it).
    """
    path = Path(path)
    _check_column(tag, path, "tag")
    with atomic_write(path) as file:
        for query, results in run.items():
            _check_column(query, path, "query id")
            file.write("".join(_result_lines(path, query, results, tag)).encode("utf-8"))


def ranked(results: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """The one order of results everywhere: score descending, then document id ascending.

    >>> ranked([("b", 1.0), ("c", 2.0), ("a", 1.0)])
    [('c', 2.0), ('a', 1.0), ('b', 1.0)]
    """
    return sorted(results, key=lambda result: (-result[1], result[0]))


def _result_lines(path: Path, query: str, results: Iterable[tuple[str, float]], tag: str) -> list[str]:
    lines, seen = [], set()
    rounded = [(document, round(_finite(score, f"{path}: {document!r}"), 6)) for document, score in results]
    for rank, (document, score) in enumerate(ranked(rounded), start=1):
        _check_column(document, path, "document id")
        if document in seen:
            raise LearnedSparseError(f"{path}: document {document!r} is given twice for query {query!r}")
        seen.add(document)
        lines.append(f"{query} Q0 {document} {rank} {score:.6f} {tag}\n")
    return lines


def _check_column(text: str, path: Path, what: str) -> None:
    if not text or has_white_space(text):
        raise LearnedSparseError(
            f"{path}: the {what} {text!r} is empty or has white space, which a TREC run cannot hold"
        )


def _score(text: str, where: str) -> float:
    try:
        score = float(text)
    except ValueError:
        raise LearnedSparseError(f"{where}: the score {text!r} is not a number") from None
    return _finite(score, where)


def _finite(score: float, where: str) -> float:
    if not math.isfinite(score):
        raise LearnedSparseError(f"{where}: the score {score} is not finite; there is no order for it")
    return score


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit()
