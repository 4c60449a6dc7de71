"""``python -m eval.reproduce.prepare``: small steps of a leaderboard that convert collections and tokenizers."""

from __future__ import annotations

import argparse
import functools
import hashlib
import itertools
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import yaml

from eval.reproduce.matrix import Sample
from learned_sparse.collections.collection import Collection, load_collection, split_names, with_progress
from learned_sparse.collections.descriptions import DESCRIPTION, Split
from learned_sparse.collections.documents import OnBadLine, add_bad_line_option, new_terms
from learned_sparse.collections.trec import Run, read_run, write_run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import atomic_write, check_name, home, new_folder
from learned_sparse.core.records import Document
from learned_sparse.core.settings import CommandParser, positive

_log = logging.getLogger(__name__)
DOCUMENTS, TOPICS, QRELS = "documents", "topics.tsv", "qrels.txt"
OVERLAPS = {"Match <= 1": "match-1.txt", "Match > 1": "match-more.txt", "Match all": "match-all.txt"}
"""Files of the classes of ``eval.runs``."""
MAX_TOKENS = 2**20
"""Length in tokens that no text reaches, so that the word-piece checkpoint truncates none."""


def main(argv: list[str] | None = None) -> int:
    """Convert collections, judgements, runs and tokenizers to the form that a step of a leaderboard reads."""
    options = _parser().parse_args(argv)
    if options.action == "export":
        for warning in export(
            options.collection, options.split, options.output, documents=options.documents,
            on_bad_line=options.on_bad_line,
        ):  # fmt: skip
            print(f"warning: {warning}")
        print(f"{options.output}: {options.collection}, {options.split}")
    elif options.action in ("expand", "new-terms"):
        write = expand if options.action == "expand" else write_new_terms
        total, expanded = write(options.collection, options.expanded, options.output, options.on_bad_line)
        print(f"{options.output}: {total:,} documents, {expanded:,} of them expanded")
    elif options.action == "sample":
        sample = Sample(queries=options.queries, documents=options.documents, seed=options.seed)
        if (options.run is None) != (options.depth is None):
            raise LearnedSparseError(
                "--run and --depth belong together: the run, and how many of its documents to keep"
            )
        print(
            sampled(
                options.collection, options.split, options.output, sample, options.run, options.depth or 0,
                options.on_bad_line,
            )
        )  # fmt: skip
    elif options.action == "overlap":
        counts = by_overlap(options.collection, options.split, options.output, options.tokenizer)
        print(f"{options.output}: {', '.join(f'{count:,} {name}' for name, count in counts.items())}")
    elif options.action == "best":
        write_run(options.output, best_of(options.collection, options.split, options.run, options.measure))
        print(f"{options.output}: the best of {len(options.run)} runs for each query by {options.measure}")
    elif options.action == "pool":
        name = load_collection(options.collection).name
        depth, bad_lines, output = options.depth, options.on_bad_line, options.output
        print(pooled(options.collection, name, options.split, options.run, depth, bad_lines, output))
    else:
        from eval.runs import tokenizer_folder

        write_word_pieces(tokenizer_folder(options.tokenizer), options.output)
        print(f"{options.output}: counts the word pieces of {options.tokenizer}")
    return 0


def export(name: str, split: str, folder: Path, *, documents: bool, on_bad_line: OnBadLine = "error") -> list[str]:
    """Write ``topics.tsv``, ``qrels.txt`` and with ``documents`` the texts for Anserini's JsonCollection.

    A query without text, which stock Pyserini cannot read, is left out of ``topics.tsv``; it has no hits. Returns
    warnings about such queries, and about query ids that stock Pyserini renames.
    """
    from eval.measures import write_qrels
    from learned_sparse.jsonvector.queries import renamed_ids

    collection = load_collection(name)
    all_queries = collection.queries(split)
    queries = [query for query in all_queries if query.text]
    _write(folder / TOPICS, (f"{query.id}\t{' '.join(query.text.split())}" for query in queries))
    if documents:
        lines = ({"id": document.id, "contents": document.text} for document in collection.documents_shown(on_bad_line))
        _write(folder / DOCUMENTS / "documents.jsonl", (orjson.dumps(line).decode() for line in lines))
    write_qrels(folder / QRELS, collection.qrels(split))
    empty = len(all_queries) - len(queries)
    warnings = [f"{empty} queries have no text and are not in {TOPICS}; trec_eval -c counts them as 0"] if empty else []
    return warnings + renamed_ids([query.id for query in queries])


def expand(name: str, file: Path | None, folder: Path, on_bad_line: OnBadLine = "error") -> tuple[int, int]:
    """Append docT5query's queries to the text of each document of collection ``name``, for BM25.

    ``file`` has the queries by document id; None: the documents have them. Writes ``documents.jsonl`` and returns the
    number of documents and of expanded documents.
    """
    return _rewrite(name, file, folder / "documents.jsonl", on_bad_line, lambda document: {
        "id": document.id, "contents": f"{document.text} {document.expanded}".rstrip()
    })  # fmt: skip


def write_new_terms(name: str, file: Path | None, folder: Path, on_bad_line: OnBadLine = "error") -> tuple[int, int]:
    """Write the new terms of docT5query's queries for each document of collection ``name``, for learned models.

    ``file`` as for ``expand``. Writes ``expansions.jsonl``, which ``--expanded`` reads.
    """
    return _rewrite(name, file, folder / "expansions.jsonl", on_bad_line, lambda document: {
        "id": document.id, "expanded": new_terms(document.text, document.expanded)
    })  # fmt: skip


def _rewrite(
    name: str, file: Path | None, path: Path, on_bad_line: OnBadLine, line_of: Callable[[Document], dict[str, str]]
) -> tuple[int, int]:
    """Write a JSON line for each document; returns the number of documents, and of those with predicted queries."""
    expanded = 0
    collection = load_collection(name)
    reader = collection.documents(on_bad_line, file)
    documents = iter(with_progress(reader, collection.description.documents))
    first = next(documents)  # wrong input leaves no folder
    with atomic_write(path) as output:
        for document in itertools.chain([first], documents):
            expanded += bool(document.expanded)
            output.write(orjson.dumps(line_of(document), option=orjson.OPT_APPEND_NEWLINE))
    return reader.read, expanded


def pooled(
    collection: str, name: str, split: str, run: Path, depth: int, on_bad_line: OnBadLine = "error",
    folder: Path | None = None,
) -> Path:  # fmt: skip
    """Write a BEIR folder with the queries of ``split``, their relevant documents and the top ``depth`` of ``run``.

    Like SpaDE's validation corpus of BM25's top 100 (section 4), a pool stands in for a large collection when many
    models are compared. Its documents are harder for BM25 than the documents left out.
    """
    source, folder = load_collection(collection), folder or pool_folder(name, split, depth)
    queries = list(source.qrels(split))
    ids = _needed(source, split, queries, run, depth)
    _write_part(collection, split, folder, queries, ids, ids.__contains__, on_bad_line)
    return folder


def sampled(
    collection: str,
    split: str,
    folder: Path,
    sample: Sample,
    run: Path | None = None,
    depth: int = 0,
    on_bad_line: OnBadLine = "error",
) -> Path:
    """Write a BEIR folder with a seeded random sample of a collection, the same on every machine.

    With a ``run``, the sample holds the top ``depth`` documents of each query. SparTerm's development set (section
    4.1) is 1,000 queries with BM25's top 1,000 passages of each, filled up to about a million passages.
    """
    source = load_collection(collection)
    qrels = source.qrels(split)
    relevant = [query for query, grades in qrels.items() if any(grade > 0 for grade in grades.values())]
    queries = sorted(relevant, key=lambda query: (_draw(query, sample.seed), query))[: sample.queries]
    if len(queries) < (sample.queries or 0):
        raise LearnedSparseError(
            f"{source.name}, {split}: {len(queries):,} queries have relevant documents; sample fewer"
        )
    ids = _needed(source, split, queries, run, depth)
    if sample.documents is not None:
        last = _last_draw(source, ids, sample.documents - len(ids), sample.seed, on_bad_line)
    else:
        last = -1 if run else 2**64
    _write_part(
        collection, split, folder, queries, ids, lambda id: id in ids or _draw(id, sample.seed) <= last, on_bad_line
    )
    return folder


def _last_draw(source: Collection, ids: Set[str], count: int, seed: int, on_bad_line: OnBadLine) -> int:
    """The draw up to which ``count`` documents are in a sample besides ``ids``."""
    if count < 0:
        raise LearnedSparseError(
            f"{source.name}: {len(ids):,} documents are relevant or in the pool; sample at least as many documents"
        )
    others = (document.id for document in source.documents_shown(on_bad_line) if document.id not in ids)
    draws = np.array([_draw(id, seed) for id in others], np.uint64)
    if count > len(draws):
        raise LearnedSparseError(f"{source.name}: {len(ids) + len(draws):,} documents; sample fewer")
    return int(np.partition(draws, count - 1)[count - 1]) if count else -1


def _draw(id: str, seed: int) -> int:
    """A number of 64 bits that is as good as random, and always the same for an id and a seed."""
    return int.from_bytes(hashlib.blake2b(id.encode(), digest_size=8, key=str(seed).encode()).digest(), "big")


def _needed(source: Collection, split: str, queries: Iterable[str], run: Path | None, depth: int) -> set[str]:
    """Ids of the relevant documents of ``queries``, and of the top ``depth`` of ``run``."""
    qrels, hits = source.qrels(split), read_run(run) if run else {}
    ids = {id for query in queries for id, grade in qrels[query].items() if grade > 0}
    return ids | {id for query in queries for id, _ in hits.get(query, ())[:depth]}


def _write_part(
    name: str,
    split: str,
    folder: Path,
    queries: Iterable[str],
    ids: Set[str],
    chosen: Callable[[str], bool],
    on_bad_line: OnBadLine,
) -> None:
    """Write a BEIR folder with ``queries`` and the ``chosen`` documents, of which ``ids`` should be there.

    Its ``collection.yaml`` keeps the measures of the split and whether a query's own document is ranked.
    """
    source, kept, written = load_collection(name), set(queries), set[str]()

    def lines() -> Iterator[str]:
        for document in source.documents_shown(on_bad_line):
            if chosen(document.id):
                written.add(document.id)
                expanded = {"expanded": document.expanded} if document.expanded else {}
                yield json.dumps({"_id": document.id, "title": "", "text": document.text} | expanded)

    with new_folder(folder) as temporary:
        _write(temporary / "corpus.jsonl", lines())
        if missing := len(ids - written):
            _log.warning("%s: %d documents of the judgements and the run are not in it", source.name, missing)
        topics = [{"_id": query.id, "text": query.text} for query in source.queries(split) if query.id in kept]
        _write(temporary / "queries.jsonl", map(json.dumps, topics))
        judged = [
            f"{query}\t{id}\t{grade}"
            for query, grades in source.qrels(split).items()
            if query in kept
            for id, grade in grades.items()
            if id in ids or id in written
        ]
        _write(temporary / "qrels" / f"{split}.tsv", ["query-id\tcorpus-id\tscore", *judged])
        parents = split_names(name, split)
        description = _description(folder.name, source.split(split), split, parents)
        _write(temporary / DESCRIPTION, [yaml.safe_dump(description, sort_keys=False)])


def _description(name: str, whole: Split, split: str, parents: Sequence[str]) -> dict[str, Any]:
    """The description of a BEIR folder with one split: the settings of ``whole``, queries of the splits ``parents``."""
    files = {"topics": {"files": ["queries.jsonl"]}, "qrels": {"files": [f"qrels/{split}.tsv"]}}
    settings = {
        "measures": list(whole.measures),
        "remove_query": whole.remove_query,
        "contains_queries_of": list(parents),
    }
    return {
        "name": name, "title": name, "corpus": {"files": ["corpus.jsonl"]}, "splits": {split: {**files, **settings}}
    }  # fmt: skip


def by_overlap(collection: str, split: str, folder: Path, tokenizer: str) -> dict[str, int]:
    """Write the judgements of each class of SpaDE's Table 4 to a file of its own; returns the numbers of queries."""
    from eval.measures import write_qrels
    from eval.runs import Judged, by_class, load_pieces

    source = load_collection(collection)
    qrels, queries = source.qrels(split), {query.id: query.text for query in source.queries(split)}
    judged = Judged(collection=source, split=split, queries=queries, qrels=qrels, measures=(), remove_query=False)
    classes = by_class(judged, load_pieces(tokenizer))
    for name, members in classes.items():
        write_qrels(folder / OVERLAPS[name], {query: qrels[query] for query in members})
    return {name: len(members) for name, members in classes.items()}


def best_of(collection: str, split: str, runs: Sequence[Path], measure: str) -> Run:
    """The run that takes for each query the hits of the run with the highest ``measure``, the first of equal ones.

    UHD-BERT calls this its ideal query-layer predictor (Table 6): an upper bound, because it looks at judgements.
    """
    from eval.measures import evaluate

    source = load_collection(collection)
    qrels, remove_query = source.qrels(split), source.split(split).remove_query
    hits = [read_run(run) for run in runs]
    scores = [evaluate(run, qrels, [measure], remove_query=remove_query).per_query[measure] for run in hits]
    chosen = {query: max(range(len(runs)), key=lambda number: scores[number][query]) for query in qrels}
    return {query: hits[number][query] for query, number in chosen.items() if query in hits[number]}


def pool_folder(name: str, split: str, depth: int) -> Path:
    """The folder that ``pooled`` writes."""
    return home() / "data" / check_name(f"{name}-{split}-pool-{depth}", "pool")


def write_word_pieces(tokenizer: Path, output: Path) -> None:
    """Write a checkpoint without weights: texts and queries are bags of the word pieces of ``tokenizer``, a folder.

    The weight of a word piece is its count; special tokens such as [CLS] are not counted. BM25 scores the bags.
    """
    from encoders.checkpoints.notes import FORMAT, BagNotes, CheckpointNotes, write_notes
    from encoders.checkpoints.tokenizer import TOKENIZER, read_tokenizer

    loaded = read_tokenizer(tokenizer)
    with atomic_write(output / TOKENIZER) as file:
        file.write((tokenizer / TOKENIZER).read_bytes())
    added = loaded.get_added_tokens_decoder()
    special = tuple(sorted(number for number, token in added.items() if token.special))
    bag = BagNotes(weighting="tf", excluded=special, scoring="bm25", scale=1.0)
    notes = CheckpointNotes(
        format=FORMAT,
        architecture="word-pieces",
        settings={},
        vocabulary_size=max(loaded.get_vocab().values()) + 1,
        max_length={"query": MAX_TOKENS, "document": MAX_TOKENS},
        quantizers={"query": None, "document": None},
        bags={"query": bag, "document": bag},
    )
    write_notes(output, notes)


def _write(path: Path, lines: Iterable[str]) -> None:
    with atomic_write(path) as file:
        file.writelines(f"{line}\n".encode() for line in lines)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="python -m eval.reproduce.prepare", description=main.__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    add_parser = functools.partial(actions.add_parser)
    export_parser = add_parser("export", help="topics.tsv and qrels.txt for stock Pyserini and trec_eval")
    expand_parser = add_parser("expand", help="documents with docT5query's queries in one text, for BM25")
    terms_parser = add_parser("new-terms", help="the new terms of docT5query's queries, for learned models")
    pool_parser = add_parser("pool", help="the relevant documents of a split and the top of a run")
    pieces_parser = add_parser("word-pieces", help="a checkpoint that counts word pieces, for BM25")
    sample_parser = add_parser("sample", help="a seeded random sample of queries and documents")
    overlap_parser = add_parser("overlap", help="judgements of the classes of SpaDE's Table 4, a file each")
    best_parser = add_parser("best", help="for each query the best of several runs, an upper bound")
    for sub in (export_parser, pool_parser, sample_parser, overlap_parser, best_parser):
        sub.add_argument("--collection", required=True, metavar="NAME|DIR", help="the whole collection")
        sub.add_argument("--split", required=True, help="split with the queries and judgements")
    export_parser.add_argument("--documents", action="store_true", help="also write documents/documents.jsonl")
    pool_parser.add_argument("--run", required=True, type=Path, metavar="FILE", help="BM25's run on the collection")
    pool_parser.add_argument("--depth", required=True, type=positive, metavar="N", help="documents of each query")
    sample_parser.add_argument("--queries", type=positive, metavar="N", help="default: all")
    sample_parser.add_argument("--documents", type=positive, metavar="N", help="default: all, or those of --run")
    sample_parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: %(default)s")
    sample_parser.add_argument("--run", type=Path, metavar="FILE", help="BM25's run, whose top documents are kept")
    sample_parser.add_argument("--depth", type=positive, metavar="N", help="documents of each query of --run")
    best_parser.add_argument("--run", required=True, nargs="+", type=Path, metavar="FILE", help="the runs")
    best_parser.add_argument("--measure", required=True, metavar="M", help="for instance MRR@10")
    for sub in (expand_parser, terms_parser):
        sub.add_argument("--collection", required=True, metavar="NAME|DIR", help="the documents")
        sub.add_argument(
            "--expanded",
            type=Path,
            metavar="FILE|DIR",
            help="predicted queries in the order of the documents, if these have none",
        )
    for sub in (pieces_parser, overlap_parser):
        sub.add_argument(
            "--tokenizer",
            default="minilm",
            metavar="DIR|HUB_ID",
            help="a folder or a name on the Hub with a tokenizer.json; default: MiniLM's, which is bert-base-uncased's",
        )
    for sub in (export_parser, expand_parser, terms_parser, pool_parser, sample_parser):
        add_bad_line_option(sub.add_argument)
    for sub in (export_parser, expand_parser, terms_parser, pieces_parser, sample_parser, overlap_parser):
        sub.add_argument("--output", required=True, type=Path, metavar="DIR", help="folder to write")
    pool_parser.add_argument(
        "--output", type=Path, metavar="DIR", help="folder to write (default: data/NAME-SPLIT-pool-N)"
    )
    best_parser.add_argument("--output", required=True, type=Path, metavar="FILE", help="run to write")
    return parser


if __name__ == "__main__":
    from learned_sparse.core.errors import run_main

    run_main(main)
