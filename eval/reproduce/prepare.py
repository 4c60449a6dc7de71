"""``python -m eval.reproduce.prepare``: small steps of a leaderboard that convert collections and tokenizers."""

from __future__ import annotations

import argparse
import functools
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import yaml

from learned_sparse.collections import (
    DESCRIPTION,
    OnBadLine,
    Split,
    add_bad_line_option,
    load_collection,
    read_documents,
    read_run,
    split_names,
)
from learned_sparse.core import atomic_write, check_name, home, new_folder, positive

_log = logging.getLogger(__name__)
DOCUMENTS, TOPICS, QRELS = "documents", "topics.tsv", "qrels.txt"
MAX_TOKENS = 2**20
"""Length in tokens that no text reaches, so that the word-piece checkpoint truncates none."""


def main(argv: list[str] | None = None) -> int:
    """Export a collection to plain files, expand documents, cut a pool, or write a checkpoint of word pieces."""
    options = _parser().parse_args(argv)
    if options.action == "export":
        for warning in export(
            options.collection, options.split, options.output, documents=options.documents,
            on_bad_line=options.on_bad_line,
        ):  # fmt: skip
            print(f"warning: {warning}")
        print(f"{options.output}: {options.collection}, {options.split}")
    elif options.action == "expand":
        total, expanded = expand(options.input, options.output, options.on_bad_line)
        print(f"{options.output}: {total:,} documents, {expanded:,} of them expanded")
    elif options.action == "pool":
        name = load_collection(options.collection).name
        depth, bad_lines, output = options.depth, options.on_bad_line, options.output
        print(pooled(options.collection, name, options.split, options.run, depth, bad_lines, output))
    else:
        from eval.measures import tokenizer_folder

        write_word_pieces(tokenizer_folder(options.tokenizer), options.output)
        print(f"{options.output}: counts the word pieces of {options.tokenizer}")
    return 0


def export(name: str, split: str, folder: Path, *, documents: bool, on_bad_line: OnBadLine = "error") -> list[str]:
    """Write ``topics.tsv``, ``qrels.txt`` and with ``documents`` the texts for Anserini's JsonCollection.

    A query without text, which stock Pyserini cannot read, is left out of ``topics.tsv``; it has no hits. Returns
    warnings about such queries, and about query ids that stock Pyserini renames.
    """
    from eval.measures import write_qrels
    from learned_sparse.jsonvector import renamed_ids

    collection = load_collection(name)
    all_queries = collection.queries(split)
    queries = [query for query in all_queries if query.text]
    _write(folder / TOPICS, (f"{query.id}\t{' '.join(query.text.split())}" for query in queries))
    if documents:
        lines = ({"id": document.id, "contents": document.text} for document in collection.documents(on_bad_line))
        _write(folder / DOCUMENTS / "documents.jsonl", (orjson.dumps(line).decode() for line in lines))
    write_qrels(folder / QRELS, collection.qrels(split))
    empty = len(all_queries) - len(queries)
    warnings = [f"{empty} queries have no text and are not in {TOPICS}; trec_eval -c counts them as 0"] if empty else []
    return warnings + renamed_ids([query.id for query in queries])


def expand(source: Path, folder: Path, on_bad_line: OnBadLine = "error") -> tuple[int, int]:
    """Append docT5query's queries (``expanded``) to the text of each document of ``source``, for BM25.

    Writes ``documents.jsonl`` and returns the number of documents and of expanded documents.
    """
    expanded = 0
    reader = read_documents(source, on_bad_line=on_bad_line)
    with atomic_write(folder / "documents.jsonl") as file:
        for document in reader:
            expanded += bool(document.expanded)
            text = f"{document.text} {document.expanded}".rstrip()
            file.write(orjson.dumps({"id": document.id, "contents": text}, option=orjson.OPT_APPEND_NEWLINE))
    return reader.read, expanded


def pooled(
    collection: str, name: str, split: str, run: Path, depth: int, on_bad_line: OnBadLine = "error",
    folder: Path | None = None,
) -> Path:  # fmt: skip
    """Write a BEIR folder with the queries of ``split``, their relevant documents and the top ``depth`` of ``run``.

    Its ``collection.yaml`` keeps the measures of the split and whether a query's own document is ranked. Like SpaDE's
    validation corpus of BM25's top 100 (section 4), a pool stands in for a large collection when many models are
    compared. Its documents are harder for BM25 than the documents left out.
    """
    source = load_collection(collection)
    qrels, queries, hits = source.qrels(split), source.queries(split), read_run(run)
    ids = {id for grades in qrels.values() for id, grade in grades.items() if grade > 0}
    ids |= {id for query in queries for id, _ in hits.get(query.id, ())[:depth]}
    folder = folder or pool_folder(name, split, depth)
    count = 0

    def chosen() -> Iterator[dict[str, str]]:
        nonlocal count
        for document in source.documents(on_bad_line):
            if document.id in ids:
                count += 1
                expanded = {"expanded": document.expanded} if document.expanded else {}
                yield {"_id": document.id, "title": "", "text": document.text, **expanded}

    judged = [f"{query}\t{id}\t{grade}" for query in qrels for id, grade in qrels[query].items() if id in ids]
    with new_folder(folder) as temporary:
        _write(temporary / "corpus.jsonl", (json.dumps(document) for document in chosen()))
        if count < len(ids):
            _log.warning("%s: %d documents of the judgements and the run are not in it", name, len(ids) - count)
        _write(temporary / "queries.jsonl", (json.dumps({"_id": query.id, "text": query.text}) for query in queries))
        _write(temporary / "qrels" / f"{split}.tsv", ["query-id\tcorpus-id\tscore", *judged])
        description = _description(folder.name, source.split(split), split, split_names(collection, split))
        _write(temporary / DESCRIPTION, [yaml.safe_dump(description, sort_keys=False)])
    return folder


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


def pool_folder(name: str, split: str, depth: int) -> Path:
    """The folder that ``pooled`` writes."""
    return home() / "data" / check_name(f"{name}-{split}-pool-{depth}", "pool")


def write_word_pieces(tokenizer: Path, output: Path) -> None:
    """Write a checkpoint without weights: texts and queries are bags of the word pieces of ``tokenizer``, a folder.

    The weight of a word piece is its count; special tokens such as [CLS] are not counted. BM25 scores the bags.
    """
    from encoders.checkpoints import FORMAT, TOKENIZER, BagNotes, CheckpointNotes, read_tokenizer, write_notes

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
    parser = argparse.ArgumentParser(
        prog="python -m eval.reproduce.prepare", description=main.__doc__, allow_abbrev=False
    )
    actions = parser.add_subparsers(dest="action", required=True)
    add_parser = functools.partial(actions.add_parser, allow_abbrev=False)
    export_parser = add_parser("export", help="topics.tsv and qrels.txt for stock Pyserini and trec_eval")
    expand_parser = add_parser("expand", help="documents with docT5query's queries in one text, for BM25")
    pool_parser = add_parser("pool", help="the relevant documents of a split and the top of a run")
    pieces_parser = add_parser("word-pieces", help="a checkpoint that counts word pieces, for BM25")
    for sub in (export_parser, pool_parser):
        sub.add_argument("--collection", required=True, metavar="NAME|DIR", help="the whole collection")
        sub.add_argument("--split", required=True, help="split with the queries and judgements")
    export_parser.add_argument("--documents", action="store_true", help="also write documents/documents.jsonl")
    pool_parser.add_argument("--run", required=True, type=Path, metavar="FILE", help="BM25's run on the collection")
    pool_parser.add_argument("--depth", required=True, type=positive, metavar="N", help="documents of each query")
    expand_parser.add_argument(
        "--input", required=True, type=Path, metavar="FILE|DIR", help='JSON lines with "expanded" beside the text'
    )
    pieces_parser.add_argument(
        "--tokenizer",
        default="minilm",
        metavar="DIR|HUB_ID",
        help="a folder or a name on the Hub with a tokenizer.json; default: MiniLM's, which is bert-base-uncased's",
    )
    for sub in (export_parser, expand_parser, pool_parser):
        add_bad_line_option(sub.add_argument)
    for sub in (export_parser, expand_parser, pieces_parser):
        sub.add_argument("--output", required=True, type=Path, metavar="DIR", help="folder to write")
    pool_parser.add_argument("--output", type=Path, metavar="DIR", help="folder to write (default: in the home folder)")
    return parser


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
