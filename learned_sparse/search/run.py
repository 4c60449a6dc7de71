"""One search of many queries, from their impacts to the run file: by which searcher, and whole or not at all."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from learned_sparse.core import LearnedSparseError, Query, folder_beside
from learned_sparse.jsonvector import topic_text
from learned_sparse.search.passages import Passages, Rows, search_documents
from learned_sparse.search.stock_run import BatchSearch, RunOptions, lowered, write_run

if TYPE_CHECKING:
    from learned_sparse.search.exact_searcher import ExactSearcher

FEEDBACK_TERMS = 1024
"""That --rocchio and --rm3 may add to a query, with room to spare."""


@dataclass(frozen=True)
class Outcome:
    """What came of a search."""

    queries: int
    without_hits: tuple[str, ...]
    """Ids of queries that found nothing, and so are not in the run."""


def search(
    index: Path,
    scoring: str,
    queries: Sequence[Query],
    encoded: Rows,
    output: Path,
    stock: Sequence[str] = (),
    *,
    passages: Passages | None = None,
    heap: str | None = None,
    exact: ExactSearcher | None = None,
) -> Outcome:
    """Write the run of ``queries``, with the options ``stock`` of search.lucene.

    ``encoded`` are the impacts of the queries, in order; None to search plain text. With ``passages``, the documents
    of the segments in the index are ranked, and options such as --hits are about documents. Our own searchers do it
    where ``RunOptions`` knows all the options, else stock search.lucene; ``exact`` searches instead of the index.
    """
    ours = RunOptions.parse(stock) is not None
    if exact is not None and not ours:
        raise LearnedSparseError(f"--backend exact: {' '.join(stock)}: an option that needs Lucene is among these")
    with contextlib.ExitStack() as stack:
        searcher = stack.enter_context(open_searcher(index, scoring, heap, exact)) if ours else None

        def run_some(some: Sequence[Query], rows: Rows, options: Sequence[str], run: Path) -> None:
            parsed = RunOptions.parse(options)
            if searcher is not None and parsed is not None:
                write_run(run, questions(scoring, some, rows), searcher, parsed)
            elif status := _run_stock(index, scoring, some, rows, options, run, heap):
                raise LearnedSparseError(f"search.lucene failed with exit status {status}; {output} is not written")

        run = stack.enter_context(folder_beside(output)) / "run.txt"
        if passages is None:
            run_some(queries, encoded, stock, run)
        else:
            search_documents(passages, queries, encoded, stock, run, run_some)
        outcome = _compare(queries, run)
        run.replace(output)
    return outcome


@contextlib.contextmanager
def open_searcher(
    index: Path, scoring: str, heap: str | None = None, exact: ExactSearcher | None = None
) -> Iterator[BatchSearch[Any]]:
    """One of ours, for ``questions``: ``exact`` if it is given. None of them imports Pyserini."""
    if exact is not None:
        yield lambda queries, k, threads: _as_printed(exact.search_batch(queries, k, threads))
        return
    from learned_sparse.lucene import Bm25Searcher, ImpactSearcher, start_jvm

    start_jvm(heap=heap)
    if scoring == "impact":
        with ImpactSearcher(index) as impacts:
            yield lambda queries, k, threads: _as_printed(impacts.search_batch(queries, k, threads))
    else:
        with Bm25Searcher(index, pretokenized=scoring == "bm25") as texts:
            yield texts.search_batch


def _as_printed(found: Mapping[str, Sequence[tuple[str, float]]]) -> dict[str, list[tuple[str, float]]]:
    return {name: lowered(hits) for name, hits in found.items()}


def questions(scoring: str, queries: Sequence[Query], encoded: Rows) -> dict[str, Any]:
    """What to ask the searcher for each query: its impacts, or a text."""
    if encoded is None:
        return {query.id: query.text for query in queries}
    rows = zip(queries, encoded, strict=True)
    return {query.id: row if scoring == "impact" else topic_text(row) for query, row in rows}


def _run_stock(
    index: Path,
    scoring: str,
    queries: Sequence[Query],
    encoded: Rows,
    options: Sequence[str],
    run: Path,
    heap: str | None,
) -> int:
    """Stock search.lucene and its exit status; Lucene's limit of 1,024 terms is raised to what the queries need."""
    from learned_sparse.lucene import allow_clauses, longest_analyzed, run_stock, start_jvm

    start_jvm(heap=heap)
    texts = (longest_analyzed(query.text) for query in queries)
    allow_clauses(max(map(len, encoded) if encoded is not None else texts, default=0) + FEEDBACK_TERMS)
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["--index", str(index), *_topics(Path(folder), scoring, queries, encoded), *options]
        if scoring == "impact" and not any(word.split("=")[0] == "--min-idf" for word in options):
            arguments += ["--min-idf", "-1"]  # a term of every document counts too
        return run_stock("search.lucene", [*arguments, "--output", str(run)])


def _topics(folder: Path, scoring: str, queries: Sequence[Query], encoded: Rows) -> list[str]:
    """Write the queries as Pyserini reads them; the options that go with the files.

    A ``.json`` is the one form of topics that keeps every id and text as it is: the readers of the other forms turn ids
    into numbers where they can.
    """
    if encoded is None:
        return ["--topics", _write_topics(folder, {query.id: query.text for query in queries})]
    if scoring == "bm25":
        texts = {query.id: topic_text(row) for query, row in zip(queries, encoded, strict=True)}
        return ["--topics", _write_topics(folder, texts), "--pretokenized"]
    vectors = folder / "vectors.jsonl"
    with vectors.open("w", encoding="ascii") as file:
        for query, row in zip(queries, encoded, strict=True):
            file.write(json.dumps({"contents": query.text.strip(), "vector": row}) + "\n")
    topics = _write_topics(folder, {query.id: query.text for query in queries})
    return ["--topics", topics, "--impact", "--encoder", str(vectors)]


def _write_topics(folder: Path, texts: Mapping[str, str]) -> str:
    path = folder / "topics.json"
    # ASCII only, like the vectors: Pyserini opens these files in whatever encoding the machine's locale says
    path.write_text(json.dumps({name: {"title": text} for name, text in texts.items()}), encoding="ascii")
    return str(path)


def _compare(queries: Sequence[Query], run: Path) -> Outcome:
    """Which queries are in the run (in TREC's or MS MARCO's format); one that nobody asked is an error."""
    asked = {query.id for query in queries}
    with run.open(encoding="utf-8") as file:
        found = {line.split(maxsplit=1)[0] for line in file if line.strip()}
    if strangers := sorted(found - asked):
        raise LearnedSparseError(f"the run has queries that were not asked, such as {strangers[0]!r}")
    return Outcome(len(asked), tuple(query.id for query in queries if query.id not in found))
