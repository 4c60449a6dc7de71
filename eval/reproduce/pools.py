"""A small collection cut out of a larger one: what BM25 finds for some queries, and what is relevant to them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from learned_sparse.collections import load_collection, read_run
from learned_sparse.core import atomic_write, home


def pooled(collection: str, name: str, split: str, run: Path, depth: int) -> Path:
    """A BEIR folder: the queries of ``split``, their relevant documents, and the ``depth`` best of ``run`` for each.

    As SpaDE's validation corpus of BM25's top 100 (section 4): a stand-in for the whole where many models are compared.
    Every model ranks the same documents, but they are harder for BM25 than those it left out.
    """
    source = load_collection(collection)
    qrels, queries, found = source.qrels(split), source.queries(split), read_run(run)
    wanted = {id for of_query in qrels.values() for id, relevance in of_query.items() if relevance > 0}
    wanted |= {id for query in queries for id, _ in found.get(query.id, ())[:depth]}
    folder = home() / "data" / f"{name}-{split}-pool-{depth}"
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    documents = ({"_id": d.id, "title": "", "text": d.text} for d in source.documents() if d.id in wanted)
    judged = [f"{query}\t{id}\t{value}" for query in qrels for id, value in qrels[query].items() if id in wanted]
    _write(folder / "corpus.jsonl", (json.dumps(document) for document in documents))
    _write(folder / "queries.jsonl", (json.dumps({"_id": query.id, "text": query.text}) for query in queries))
    _write(folder / "qrels" / f"{split}.tsv", ["query-id\tcorpus-id\tscore", *judged])
    return folder


def _write(path: Path, lines: Iterable[str]) -> None:
    with atomic_write(path) as file:
        for line in lines:
            file.write(f"{line}\n".encode())
