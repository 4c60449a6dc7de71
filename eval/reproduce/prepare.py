"""``python -m eval.reproduce.prepare``: small steps of a leaderboard that convert collections and tokenizers."""

from __future__ import annotations

import argparse
import hashlib
import heapq
import itertools
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import yaml

from eval.measures import Qrels, evaluate
from eval.runs import tokenizer_folder
from learned_sparse.collections.collection import load_collection, split_names, with_progress
from learned_sparse.collections.descriptions import DESCRIPTION
from learned_sparse.collections.documents import add_bad_line_option, new_terms
from learned_sparse.collections.trec import read_run, write_run
from learned_sparse.core.errors import LearnedSparseError, run_main
from learned_sparse.core.files import new_file, new_folder
from learned_sparse.core.settings import CommandParser, positive, refuse

_log = logging.getLogger(__name__)
_Add = Callable[..., argparse.Action]
MAX_TOKENS = 2**20
"""Length in tokens that no text reaches, so that the word-piece checkpoint truncates none."""


def main(argv: list[str] | None = None) -> int:
    """Convert collections, judgements, runs and tokenizers to the form that a step of a leaderboard reads."""
    options = _parser().parse_args(argv)
    print(f"{options.output}: {options.run_action(options)}")
    return 0


def _rewrite(options: argparse.Namespace) -> str:
    """Write a JSON line for each document with the docT5query queries that it, or ``--expanded``, has.

    ``expand``: text and queries as one text, for BM25. ``new-terms``: the new terms alone, which ``--expanded`` of
    learned models reads.
    """
    collection, expanded = load_collection(options.collection), 0
    reader = collection.documents(options.on_bad_line, options.expanded)
    documents = iter(with_progress(reader))
    first = next(documents)  # wrong input leaves no folder
    one_text = options.action == "expand"
    path = options.output / ("documents.jsonl" if one_text else "expansions.jsonl")
    with new_file(path) as temporary, temporary.open("wb") as output:
        for document in itertools.chain([first], documents):
            expanded += bool(document.expanded)
            line = {"id": document.id}
            if one_text:
                line["contents"] = f"{document.text} {document.expanded}".rstrip()
            else:
                line["expanded"] = new_terms(document.text, document.expanded)
            output.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    return f"{reader.read:,} documents, {expanded:,} of them expanded"


def _sample(options: argparse.Namespace) -> str:
    """Write a BEIR folder with a seeded random sample of a collection, the same on every machine.

    It has ``--queries`` queries with a relevant document (None: all judged ones), their relevant documents, with a
    ``--run`` its top ``--depth`` documents of each, and others drawn at random up to ``--documents`` (None: all others,
    or with a run no others). So SpaDE validates on BM25's top 100 (section 4), and SparTerm's development set (section
    4.1) is 1,000 queries with BM25's top 1,000 passages of each, filled up to about a million passages. Such documents
    are harder for BM25 than those left out. The folder's ``collection.yaml`` keeps the measures of the split and
    whether a query's own document is ranked.
    """
    split, seed, documents, on_bad_line = options.split, options.seed, options.documents, options.on_bad_line
    refuse(
        ((options.run is None) != (options.depth is None), "--run and --depth belong together"),
        (not (options.run or options.queries or documents), "give --queries, --documents, or --run with --depth"),
    )
    source = load_collection(options.collection)
    qrels, whole = source.qrels(split), source.split(split)
    chosen = list(qrels)
    if options.queries:
        relevant = [query for query, grades in qrels.items() if any(grade > 0 for grade in grades.values())]
        chosen = sorted(relevant, key=lambda query: (_draw(query, seed), query))[: options.queries]
        if len(chosen) < options.queries:
            raise LearnedSparseError(
                f"{source.name}, {split}: {len(chosen):,} queries have relevant documents; sample fewer"
            )
    hits = read_run(options.run) if options.run else {}
    ids = {id for query in chosen for id, grade in qrels[query].items() if grade > 0}
    ids |= {id for query in chosen for id, _ in hits.get(query, ())[: options.depth]}
    if documents:
        draws = ((_draw(one.id, seed), one.id) for one in source.documents_shown(on_bad_line) if one.id not in ids)
        drawn = heapq.nsmallest(documents - len(ids), draws)
        if len(ids) + len(drawn) != documents:
            raise LearnedSparseError(
                f"{source.name}: a sample of {documents:,} documents; give at least {len(ids):,} (relevant, or in the "
                "pool) and at most all of the collection"
            )
        ids |= {id for _, id in drawn}
    kept, written = set(chosen), set[str]()

    def lines() -> Iterator[str]:
        for document in source.documents_shown(on_bad_line):
            if document.id in ids or not (documents or options.run):
                written.add(document.id)
                expanded = {"expanded": document.expanded} if document.expanded else {}
                yield json.dumps({"_id": document.id, "title": "", "text": document.text} | expanded)

    with new_folder(options.output) as temporary:
        write_lines(temporary / "corpus.jsonl", lines())
        if missing := len(ids - written):
            _log.warning("%s: %d documents of the judgements and the run are not in it", source.name, missing)
        topics = [(query.id, query.text) for query in source.queries(split) if query.id in kept]
        known = ids | written
        judged = {
            query: {id: grade for id, grade in qrels[query].items() if id in known} for query in qrels if query in kept
        }
        described = {
            "measures": list(whole.measures), "remove_query": whole.remove_query,
            "contains_queries_of": list(split_names(options.collection, split)),
        }  # fmt: skip
        write_description(temporary, options.output.name, topics, {split: (judged, described)})
    return f"a part of {options.collection}, {split}"


def write_description(
    folder: Path, name: str, topics: Iterable[tuple[str, str]], splits: Mapping[str, tuple[Qrels, Mapping[str, Any]]]
) -> None:
    """Write all of a BEIR folder but ``corpus.jsonl``; ``splits``: judgements and what the description says of each."""
    write_lines(folder / "queries.jsonl", (json.dumps({"_id": id, "text": text}) for id, text in topics))
    described = {}
    for split, (qrels, of_split) in splits.items():
        judged = (f"{query}\t{id}\t{grade}" for query, grades in qrels.items() for id, grade in grades.items())
        write_lines(folder / "qrels" / f"{split}.tsv", ["query-id\tcorpus-id\tscore", *judged])
        files = {"topics": {"files": ["queries.jsonl"]}, "qrels": {"files": [f"qrels/{split}.tsv"]}}
        described[split] = {**files, **of_split}
    content = {"name": name, "title": name, "corpus": {"files": ["corpus.jsonl"]}, "splits": described}
    write_lines(folder / DESCRIPTION, [yaml.safe_dump(content, sort_keys=False)])


def _draw(id: str, seed: int) -> int:
    """A number of 64 bits that is as good as random, and always the same for an id and a seed."""
    return int.from_bytes(hashlib.blake2b(id.encode(), digest_size=8, key=str(seed).encode()).digest(), "big")


def _best(options: argparse.Namespace) -> str:
    """Write the run that takes for each query the hits of the run with the highest measure, the first of equal ones.

    UHD-BERT calls this its ideal query-layer predictor (Table 6): an upper bound, because it looks at judgements.
    """
    source, measure = load_collection(options.collection), options.measure
    qrels, remove_query = source.qrels(options.split), source.split(options.split).remove_query
    hits = [read_run(run) for run in options.run]
    scores = [evaluate(run, qrels, [measure], remove_query=remove_query).per_query[measure] for run in hits]
    chosen = {query: max(range(len(hits)), key=lambda number: scores[number][query]) for query in qrels}
    write_run(options.output, {query: hits[number][query] for query, number in chosen.items() if query in hits[number]})
    return f"the best of {len(hits)} runs for each query by {measure}"


def _word_pieces(options: argparse.Namespace) -> str:
    """Write a checkpoint without weights: texts and queries are bags of the word pieces of a tokenizer.

    The weight of a word piece is its count; special tokens such as [CLS] are not counted. BM25 scores the bags.
    """
    from encoders.checkpoints.notes import CheckpointNotes, write_notes
    from encoders.checkpoints.tokenizer import TOKENIZER, read_tokenizer
    from encoders.encoding.bag_of_words import BagNotes

    folder = tokenizer_folder(options.tokenizer)
    loaded = read_tokenizer(folder)
    with new_file(options.output / TOKENIZER) as temporary:
        temporary.write_bytes((folder / TOKENIZER).read_bytes())
    added = loaded.get_added_tokens_decoder()
    special = tuple(sorted(number for number, token in added.items() if token.special))
    bag = asdict(BagNotes(weighting="tf", excluded=special, scoring="bm25", scale=1.0))
    notes = CheckpointNotes(
        architecture="word-pieces",
        settings={},
        vocabulary_size=max(loaded.get_vocab().values()) + 1,
        max_length={"query": MAX_TOKENS, "document": MAX_TOKENS},
        quantizers={"query": None, "document": None},
        bags={"query": bag, "document": bag},
    )
    write_notes(options.output, notes)
    return f"counts the word pieces of {options.tokenizer}"


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a text file, whole or not at all."""
    with new_file(path) as temporary, temporary.open("wb") as file:
        file.writelines(f"{line}\n".encode() for line in lines)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="python -m eval.reproduce.prepare", description=main.__doc__)
    actions = parser.add_subparsers(dest="action", required=True)

    def action(name: str, run: Callable[[argparse.Namespace], str], help_text: str, *, judged: bool = False) -> _Add:
        sub = actions.add_parser(name, help=help_text)
        sub.set_defaults(run_action=run)
        sub.add_argument("--output", required=True, type=Path, metavar="PATH", help="file or folder to write")
        if judged:
            sub.add_argument("--collection", required=True, metavar="NAME|DIR", help="the whole collection")
            sub.add_argument("--split", required=True, help="split with the queries and judgements")
        return sub.add_argument

    for add in (
        action("expand", _rewrite, "documents with docT5query's queries in one text, for BM25"),
        action("new-terms", _rewrite, "the new terms of docT5query's queries, for learned models"),
    ):
        add("--collection", required=True, metavar="NAME|DIR", help="the documents")
        predicted = "predicted queries in the order of the documents, if these have none"
        add("--expanded", type=Path, metavar="FILE|DIR", help=predicted)
        add_bad_line_option(add)
    add = action("sample", _sample, "some queries, what is relevant to them, the top of a run, others", judged=True)
    add("--queries", type=positive, metavar="N", help="random queries (default: all judged ones)")
    add("--documents", type=positive, metavar="N", help="number of documents (default: all, or those of --run)")
    add("--seed", type=int, default=1, metavar="N", help="default: %(default)s")
    add("--run", type=Path, metavar="FILE", help="BM25's run, whose top documents are kept")
    add("--depth", type=positive, metavar="N", help="documents of each query of --run")
    add_bad_line_option(add)
    add = action("best", _best, "for each query the best of several runs, an upper bound", judged=True)
    add("--run", required=True, nargs="+", type=Path, metavar="FILE", help="the runs")
    add("--measure", required=True, metavar="M", help="for instance MRR@10")
    add = action("word-pieces", _word_pieces, "a checkpoint that counts word pieces, for BM25")
    tokenizer = "a folder or a name on the Hub with a tokenizer.json; default: MiniLM's, which is bert-base-uncased's"
    add("--tokenizer", default="minilm", metavar="DIR|HUB_ID", help=tokenizer)
    return parser


if __name__ == "__main__":
    run_main(main)
