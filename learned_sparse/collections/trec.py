"""The files of TREC evaluations: relevance judgements (qrels) and runs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import new_file
from learned_sparse.core.lines import text_lines

Qrels = dict[str, dict[str, int]]
"""``{query id: {document id: grade}}``"""
Run = dict[str, list[tuple[str, float]]]
"""``{query id: [(document id, score)]}``, best first"""
Hits = Iterable[tuple[str, float]]
"""``(document id, score)`` of one query"""
RunFormat = Literal["trec", "msmarco"]
_TWICE = "{}: document {!r} appears twice for query {!r}; keep one line"
_UNFIT = re.compile(r"[ \t\n\r\x0b\f]|(?:^|\0)\ufeff")
"""What no column holds: ASCII white space, as in trec_eval (a no-break space is part of a column), and in front a byte
order mark, which readers drop."""


def read_qrels(path: str | Path) -> Qrels:
    """Judgements in TREC's four columns (query, iteration, document, grade) or BEIR's three with a header line.

    A judgement repeated with the same grade counts once; a repetition with another grade is an error.
    """
    path = Path(path)
    qrels: Qrels = {}
    for number, line in text_lines(path):
        where, fields = f"{path}:{number}", [column.decode("utf-8") for column in line.encode("utf-8").split()]
        if number == 1 and len(fields) == 3 and fields[2].isalpha():
            continue  # BEIR's header: query-id, corpus-id, score
        if len(fields) not in {3, 4}:
            raise LearnedSparseError(
                f"{where}: {len(fields)} columns; expected query, iteration, document, grade (TREC) or "
                "query, document, grade (BEIR)"
            )
        query, document, grade = fields[0], fields[-2], fields[-1]
        if not re.fullmatch("-?[0-9]{1,9}", grade):
            raise LearnedSparseError(f"{where}: the grade {grade[:60]!r} is not an integer of up to 9 digits")
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

    The rank column is ignored, as in trec_eval: results are ordered by ``ranked``. A file without lines is an empty
    run.
    """
    run: dict[str, dict[str, float]] = {}
    for query, scores in read_hits(path):
        documents = run.setdefault(query, {})
        for document, (where, score) in scores.items():
            if document in documents:  # the lines of a query need not be together
                raise LearnedSparseError(_TWICE.format(where, document, query))
            documents[document] = score
    return {query: ranked(documents.items()) for query, documents in run.items()}


def read_hits(path: str | Path) -> Iterator[tuple[str, dict[str, tuple[str, float]]]]:
    """Each query of a run, and ``{document: (line, score)}``; again, if its lines are not together."""
    current, documents = "", dict[str, tuple[str, float]]()
    for number, line in text_lines(Path(path)):
        where, fields = f"{path}:{number}", [column.decode("utf-8") for column in line.encode("utf-8").split()]
        if len(fields) != 6:
            raise LearnedSparseError(
                f"{where}: {len(fields)} columns; expected query, Q0, document, rank, score, tag "
                "(Pyserini writes them with --output-format trec)"
            )
        query, document, text = fields[0], fields[2], fields[4]
        try:
            score = float(text)
        except ValueError:
            score = math.nan
        if not math.isfinite(score) or "_" in text or not text.isascii():  # Python also reads 1_000 and other digits
            raise LearnedSparseError(f"{where}: the score {text[:60]!r} is not a finite number")
        if query != current:
            if documents:
                yield current, documents
            current, documents = query, {}
        if document in documents:
            raise LearnedSparseError(_TWICE.format(where, document, query))
        documents[document] = where, score
    if documents:
        yield current, documents


def write_run(
    path: str | Path,
    hits_by_query: Mapping[str, Hits] | Iterable[tuple[str, Hits]],
    tag: str = "learned_sparse",
    output_format: RunFormat = "trec",
) -> list[str]:
    """Write the hits of each query as a run; the file appears whole or not at all.

    ``hits_by_query`` may be a generator of ``(query id, hits)``, so that only the hits of one query are in memory.
    Queries keep their order. Scores are rounded to six decimals, ordered by ``ranked``, and ties are separated as in
    ``separate_ties``. Equal hits therefore give equal files and equal measures, whichever searcher found them.
    ``"msmarco"`` writes query, document and rank, separated by tabs. A query without hits leaves no line; the ids of
    such queries are returned.
    """
    path = Path(path)
    if output_format not in {"trec", "msmarco"}:
        raise LearnedSparseError(f"output format {output_format!r}: use 'trec' or 'msmarco'")
    pairs = hits_by_query.items() if isinstance(hits_by_query, Mapping) else hits_by_query
    without_hits = []
    with new_file(path) as temporary, temporary.open("wb") as file:
        for query, of_query in pairs:
            hits = list(of_query)
            documents = [document for document, _ in hits]
            columns = [tag, query, *documents]
            if not all(columns) or _UNFIT.search("\0".join(columns)):  # one search for all columns
                number, text = next((n, text) for n, text in enumerate(columns) if not text or _UNFIT.search(text))
                what = ("tag", "query id", "document id")[min(number, 2)]
                raise LearnedSparseError(
                    f"{path}: the {what} {text!r} is empty or has white space; a TREC run cannot hold it"
                )
            if len(set(documents)) != len(documents):
                repeated = next(document for document in documents if documents.count(document) > 1)
                raise LearnedSparseError(f"{path}: document {repeated!r} is given twice for query {query!r}")
            if not all(math.isfinite(score) for _, score in hits):
                raise LearnedSparseError(f"{path}: a score of query {query!r} is not finite, so it has no rank")
            # + 0.0: a small negative score becomes 0.000000, not -0.000000
            results = separate_ties((document, round(score, 6) + 0.0) for document, score in hits)
            lines = (
                f"{query}\t{document}\t{rank}\n"
                if output_format == "msmarco"
                else f"{query} Q0 {document} {rank} {score:.6f} {tag}\n"
                for rank, (document, score) in enumerate(results, start=1)
            )
            file.write("".join(lines).encode("utf-8"))
            if not hits:
                without_hits.append(query)
    return without_hits


def ranked(results: Hits) -> list[tuple[str, float]]:
    """Results in the one order used everywhere: score descending, then document id ascending.

    >>> ranked([("b", 1.0), ("c", 2.0), ("a", 1.0)])
    [('c', 2.0), ('a', 1.0), ('b', 1.0)]
    """
    return sorted(results, key=lambda result: (-result[1], result[0]))


def separate_ties(results: Hits) -> list[tuple[str, float]]:
    """Results as ``ranked``; each tied score is lowered by 0.000001 per preceding tied result, in 32-bit floats.

    Anserini does so, too. trec_eval sorts equal scores by descending id, so without this step it would reverse tied
    documents. The steps are
    below the precision of 32 bits for scores above 16; such ties stay ties, in stock runs too.

    >>> separate_ties([("c", 2.0), ("a", 3.0), ("b", 2.0)])
    [('a', 3.0), ('b', 2.0), ('c', 1.9999990463256836)]
    """
    separated: list[tuple[str, float]] = []
    tied, ties = math.inf, 0
    for negative, document in sorted((-score, document) for document, score in results):
        score = -negative
        ties = ties + 1 if score == tied else 0
        tied = score
        lowered = float(np.float32(score) - np.float32(1e-6) * np.float32(ties)) if ties else score
        separated.append((document, min(lowered, separated[-1][1]) if separated else lowered))
    return separated
