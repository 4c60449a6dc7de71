"""Runs as stock ``search.lucene`` writes them, byte for byte, from hits that were found without it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from learned_sparse.core import LearnedSparseError

Query = TypeVar("Query")
BatchSearch = Callable[[Mapping[str, Query], int, int], Mapping[str, Sequence[tuple[str, float]]]]
"""``(queries by id, hits, threads)`` to the hits of each, best first."""
TOGETHER = 256
"""Queries searched before their hits are written: what is held in memory."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Those options of ``search.lucene`` that say how many hits there are and how they are written."""

    hits: int = 1000
    threads: int = 1
    batch_size: int = 1
    """Of no consequence here: hits do not depend on it."""
    output_format: str = "trec"
    remove_query: bool = False
    max_passage: bool = False
    max_passage_hits: int = 100
    max_passage_delimiter: str = "#"
    min_idf: int = -1

    @classmethod
    def parse(cls, words: Sequence[str]) -> RunOptions | None:
        """None where there are others among ``words``, which only stock ``search.lucene`` knows.

        An idf is never below zero, so a negative ``--min-idf`` asks for nothing.
        """
        try:
            options, others = _parser().parse_known_args(list(words))
        except argparse.ArgumentError as error:
            raise LearnedSparseError(str(error)) from None
        known = cls(**vars(options))
        if known.hits < 1 or known.threads < 1:
            raise LearnedSparseError(f"--hits {known.hits} --threads {known.threads}: give at least 1")
        return None if others or known.min_idf >= 0 else known


def write_run(path: Path, queries: Mapping[str, Query], search: BatchSearch[Query], options: RunOptions) -> None:
    """Search all ``queries``, in the order of their ids as stock does, and write their hits."""
    with path.open("w", encoding="utf-8") as file:
        for names in _batched(sorted(queries), TOGETHER):
            found = search({name: queries[name] for name in names}, options.hits, options.threads)
            for name in names:
                file.writelines(lines(name, found[name], options))


def lines(query: str, hits: Sequence[tuple[str, float]], options: RunOptions) -> Iterator[str]:
    """The lines of one query, in TREC's six columns or MS MARCO's three.

    >>> print(*lines("q1", [("d1", 2.0), ("q1", 1.0)], RunOptions(remove_query=True)), end="")
    q1 Q0 d1 1 2.000000 Anserini
    """
    if options.remove_query:
        hits = [hit for hit in hits if hit[0] != query]
    kept = _documents(hits, options) if options.max_passage else hits
    if options.output_format == "msmarco":
        return (f"{query}\t{document.strip()}\t{rank}\n" for rank, (document, _) in enumerate(kept, start=1))
    return (
        f"{query} Q0 {document.strip()} {rank} {score:.6f} Anserini\n"
        for rank, (document, score) in enumerate(kept, start=1)
    )


def lowered(hits: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The scores that Anserini gives to hits of whole scores: of tied ones, each 0.000001 below the one before.

    It counts in 32-bit floats, where the steps vanish above 16 or so. trec_eval ranks tied documents by descending id,
    so the measures of a run depend on these steps.

    >>> lowered([("a", 3.0), ("b", 2.0), ("c", 2.0), ("d", 2.0)])[1:3]
    [('b', 2.0), ('c', 1.9999990463256836)]
    """
    if not hits:
        return []
    scores = np.array([score for _, score in hits], dtype=np.float32)
    begins = np.flatnonzero(np.concatenate([[True], scores[1:] != scores[:-1]]))
    place = np.arange(len(scores)) - np.repeat(begins, np.diff(np.append(begins, len(scores))))
    scores -= np.float32(1e-6) * place.astype(np.float32)
    return list(zip((document for document, _ in hits), scores.tolist(), strict=True))


def _documents(hits: Sequence[tuple[str, float]], options: RunOptions) -> list[tuple[str, float]]:
    """Each document with the score of its first segment."""
    best: dict[str, float] = {}
    for segment, score in hits:
        best.setdefault(segment.split(options.max_passage_delimiter)[0], score)
    return list(islice(best.items(), options.max_passage_hits))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    default: dict[str, Any] = {name: field.default for name, field in RunOptions.__dataclass_fields__.items()}
    for name in ("hits", "threads", "batch_size", "max_passage_hits", "min_idf"):
        parser.add_argument(_option(name), type=int, default=default[name])
    for name in ("remove_query", "max_passage"):
        parser.add_argument(_option(name), action="store_true")
    parser.add_argument("--max-passage-delimiter", default=default["max_passage_delimiter"])
    parser.add_argument("--output-format", choices=["trec", "msmarco"], default=default["output_format"])
    return parser


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _batched(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (names[start : start + size] for start in range(0, len(names), size))
