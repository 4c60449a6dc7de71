"""``python -m learned_sparse.search``: queries through the encoder an index asks for, then stock ``search.lucene``."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from learned_sparse.collection import load_collection
from learned_sparse.errors import LearnedSparseError
from learned_sparse.home import index_folder, run_file
from learned_sparse.index_folder import IndexNote
from learned_sparse.passages import Passages, Rows, asks_for_passages, search_documents
from learned_sparse.queries_export import topic_text
from learned_sparse.records import Query
from learned_sparse.setting_changes import add_set_option, parse_changes
from learned_sparse.topics import read_queries

EPILOG = """\
Every other option is handed to Pyserini's search.lucene unchanged: --hits, --threads, --batch-size, --remove-query,
--output-format, --rocchio, --k1, --b, ... An index of segments ranks their documents, which is what --hits counts then.

examples:
  python -m learned_sparse.search --model sparterm --split test
  python -m learned_sparse.search --index INDEX --topics queries.tsv --output RUN --hits 100 --threads 2 --batch-size 64
  python -m learned_sparse.search --bm25 --collection scifact --split test
"""

FEEDBACK_TERMS = 1024
"""That --rocchio and --rm3 may add to a query, with room to spare."""


@dataclass(frozen=True)
class Outcome:
    """What came of a search."""

    queries: int
    without_hits: tuple[str, ...]
    """Ids of queries that found nothing, and so are not in the run."""


def parser() -> argparse.ArgumentParser:
    """The options of the command, less those of search.lucene."""
    parser = argparse.ArgumentParser(
        prog="python -m learned_sparse.search",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--index", type=Path, metavar="DIR", help="index (default: by --collection and --model)")
    parser.add_argument("--model", help="name of the model whose index of --collection is in the home folder")
    parser.add_argument("--bm25", action="store_true", help="search the index of plain text of --collection")
    parser.add_argument("--collection", help="name of the collection whose queries to search (default pydoc)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder the files of --collection are in")
    parser.add_argument("--split", help="split of --collection (default test, or its only one)")
    parser.add_argument("--topics", type=Path, metavar="FILE", help="queries in a file: .tsv, .jsonl, .json, TREC")
    parser.add_argument("--output", type=Path, metavar="RUN", help="run file (default: by collection, split and model)")
    parser.add_argument("--checkpoint", help="where the index's encoder is now (default: where it was)")
    parser.add_argument("--device", help="device to encode on, such as cpu or cuda:0")
    add_set_option(parser, "change a setting that only queries depend on, for instance query_k=100; may be repeated")
    parser.add_argument("--encode-batch", type=int, default=256, metavar="N", help="queries a batch (default 256)")
    parser.add_argument(
        "--rank-segments", action="store_true", help="in an index of segments: rank these, not their documents (MaxP)"
    )
    parser.add_argument("--heap", metavar="SIZE", help="Java's memory, such as 4g (default $LEARNED_SPARSE_JAVA_HEAP)")
    parser.add_argument("--impact", action="store_true", help=argparse.SUPPRESS)  # the index itself says so
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    options, stock = parser().parse_known_args(argv)
    _check(options, stock)
    collection = load_collection(options.collection or "pydoc", data=options.data)
    model = "bm25" if options.bm25 else options.model
    index = options.index or index_folder(collection.name, model)
    note = IndexNote.load(index)
    if options.topics:
        queries, output = read_queries(options.topics), options.output
    else:
        split = options.split or (next(iter(collection.splits)) if len(collection.splits) == 1 else "test")
        queries = collection.queries(split)
        output = options.output or run_file(collection.name, split, model or index.name)
        if collection.split(split).remove_query and "--remove-query" not in stock:
            stock = [*stock, "--remove-query"]
    if note.scoring == "bm25-text" and options.set:
        raise LearnedSparseError(f"--set: {index} holds plain text, which is searched without an encoder")
    encoded = None if note.scoring == "bm25-text" else encode(queries, index, options)
    whole = options.rank_segments or asks_for_passages(stock)
    outcome = search(
        index, note.scoring, queries, encoded, output, stock,
        passages=None if whole else Passages.of(note), heap=options.heap,
    )  # fmt: skip
    print(f"{output}: {outcome.queries:,} queries, {len(outcome.without_hits):,} without a hit")
    for name in outcome.without_hits[:10]:
        print(f"  without a hit: {name}")
    return 0


def encode(queries: Sequence[Query], index: Path, options: argparse.Namespace) -> list[dict[str, int]]:
    """The impacts of ``queries`` by the encoder that ``index`` asks for."""
    from learned_sparse.query_encoder import QueryImpacts

    chosen = {"device": options.device} if options.device else {}
    impacts = QueryImpacts.from_index(index, options.checkpoint, settings=parse_changes(options.set), **chosen)
    step = max(1, options.encode_batch)
    return [
        row
        for start in range(0, len(queries), step)
        for row in impacts([q.text for q in queries[start : start + step]])
    ]


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
) -> Outcome:
    """Search ``queries`` with stock search.lucene and the options ``stock``; the run appears whole or not at all.

    ``encoded`` are the impacts of the queries, in order; None to search plain text. With ``passages``, the documents
    of the segments in the index are ranked, and options such as --hits are about documents. Lucene's limit of 1,024
    terms is raised to what the longest query needs.
    """
    from learned_sparse import lucene
    from learned_sparse.java import start_jvm

    start_jvm(heap=heap)
    texts = (lucene.longest_analyzed(query.text) for query in queries)
    lucene.allow_clauses(max(map(len, encoded) if encoded is not None else texts, default=0) + FEEDBACK_TERMS)
    output.parent.mkdir(parents=True, exist_ok=True)

    def run_stock(some: Sequence[Query], rows: Rows, options: Sequence[str], run: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            arguments = ["--index", str(index), *_topics(Path(folder), scoring, some, rows), *options]
            if scoring == "impact" and not any(word.split("=")[0] == "--min-idf" for word in options):
                arguments += ["--min-idf", "-1"]  # a term of every document counts too
            status = lucene.run_stock("search.lucene", [*arguments, "--output", str(run)])
        if status or not run.is_file():
            raise LearnedSparseError(f"search.lucene failed with exit status {status}; {output} is not written")

    with tempfile.TemporaryDirectory(dir=output.parent) as beside:
        run = Path(beside) / "run.txt"
        if passages is None:
            run_stock(queries, encoded, stock, run)
        else:
            search_documents(passages, queries, encoded, stock, run, run_stock)
        outcome = _compare(queries, run)
        run.replace(output)
    return outcome


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


def _check(options: argparse.Namespace, stock: Sequence[str]) -> None:
    if not (options.index or options.model or options.bm25):
        raise LearnedSparseError("which index? give --index DIR, --model NAME or --bm25")
    if options.topics and not options.output:
        raise LearnedSparseError("where to? --topics needs --output RUN")
    if options.topics and (options.collection or options.split) and options.index:
        raise LearnedSparseError("give --topics FILE or --collection NAME --split SPLIT, not both")
    ours = {"--encoder": "--checkpoint", "--onnx-encoder": "--checkpoint", "--topics-format": "--topics"}
    for word in stock:
        if word in ours:
            raise LearnedSparseError(
                f"{word}: here the index names its encoder; use {ours[word]}, or learned_sparse.pyserini search.lucene"
            )
        if word == "kilt":
            raise LearnedSparseError("kilt needs KILT topics; use learned_sparse.pyserini search.lucene")


if __name__ == "__main__":
    from learned_sparse.cli import run_main

    run_main(main)
