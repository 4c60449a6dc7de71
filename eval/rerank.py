"""``python -m eval.rerank``: re-rank the first hits of runs with a slower model, to several depths."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from tqdm import tqdm

from encoders.teach.scorers import CrossEncoder, DotProducts, Pair
from eval.runs import add_collection_options, load_split, named_runs
from learned_sparse.collections.trec import Run, ranked, read_run, write_run
from learned_sparse.core.encoder import resolve_checkpoint
from learned_sparse.core.errors import LearnedSparseError, run_main
from learned_sparse.core.files import write_json
from learned_sparse.core.settings import CommandParser, add_set_option, parse_changes, positive
from learned_sparse.jsonvector.manifest import versions

DEPTHS = (10, 20, 50, 100)
"""Depths of SpaDE's Table 5."""
EPILOG = """\
A cross-encoder reads query and document together (transformers' sequence classification with one label, or two). A
checkpoint of this package re-ranks by exact dot products of its weights, without quantisation. Hits below the depth
keep their order. Each pair is scored once, for all runs and depths. eval.evaluate measures the runs.

examples:
  python -m eval.rerank --collection msmarco-v1-passage --split dev --run bm25=bm25.txt spade=spade.txt \\
      --cross-encoder cross-encoder/ms-marco-MiniLM-L6-v2 --output reranked
"""


def first_stage(run: Run, queries: Iterable[str], *, remove_query: bool = False) -> Run:
    """The hits of ``queries``, best first; ``remove_query`` drops a hit whose id is that of the query."""
    kept = {query: [hit for hit in run.get(query, ()) if not remove_query or hit[0] != query] for query in queries}
    return {query: hits for query, hits in kept.items() if hits}


def pairs_of(runs: Iterable[Run], depth: int) -> list[Pair]:
    """All distinct pairs needed to re-rank ``runs`` to ``depth``, ordered by document."""
    pairs = {(query, hit[0]) for run in runs for query, hits in run.items() for hit in hits[:depth]}
    return sorted(pairs, key=lambda pair: (pair[1], pair[0]))


def rerank(run: Run, scores: Mapping[Pair, float], depth: int) -> Run:
    """Reorder the first ``depth`` hits of each query by ``scores``; the other hits follow in their previous order.

    The scores of the other hits count down by one from the lowest score above them; only their order has a meaning.

    >>> run = {"q": [("d1", 9.0), ("d2", 8.0), ("d3", 7.0)]}
    >>> rerank(run, {("q", "d1"): 0.25, ("q", "d2"): 0.5}, depth=2)
    {'q': [('d2', 0.5), ('d1', 0.25), ('d3', -0.75)]}
    """
    reranked: Run = {}
    for query, hits in run.items():
        head = ranked((document, scores[query, document]) for document, _ in hits[:depth])
        lowest = head[-1][1]
        tail = [(document, lowest - below) for below, (document, _) in enumerate(hits[depth:], start=1)]
        reranked[query] = head + tail
    return reranked


def main(argv: list[str] | None = None) -> int:
    """Score, re-rank, and write the runs and what scored them."""
    options = _parser().parse_args(argv)
    depths = sorted(set(options.depth))
    if options.cross_encoder and options.set:
        raise LearnedSparseError("--set changes a checkpoint of this package; a cross-encoder has no such settings")
    collection, split = load_split(options)
    queries = {query.id: query.text for query in collection.queries(split)}
    remove_query = collection.split(split).remove_query
    runs = {
        name: first_stage(read_run(path), queries, remove_query=remove_query)
        for name, path in named_runs(options.run).items()
    }
    pairs = pairs_of(runs.values(), depths[-1])
    if not pairs:
        raise LearnedSparseError(f"no run has a hit for a judged query of {collection.name} {split}")
    given = {key: getattr(options, key) for key in ("revision", "max_length", "batch_size", "device", "dtype")}
    scorer: CrossEncoder | DotProducts
    if options.cross_encoder:
        scorer = CrossEncoder(options.cross_encoder, **given)
    else:
        scorer = DotProducts(resolve_checkpoint(options.checkpoint), settings=parse_changes(options.set), **given)
    if options.expanded and not (isinstance(scorer, DotProducts) and scorer.document_encoder.uses_expanded):
        raise LearnedSparseError("--expanded: this model does not read expanded text; leave it out")
    documents = collection.documents_by_id({document for _, document in pairs}, options.expanded)
    with tqdm(desc="scoring", total=len(pairs), unit=" pairs", disable=None) as progress:
        found = scorer.scores(queries, documents, pairs, progress)
    if not np.isfinite(found).all():
        query, document = pairs[int(np.argmin(np.isfinite(found)))]
        raise LearnedSparseError(f"query {query!r}, document {document!r}: the score is not finite; try --dtype fp32")
    scores = dict(zip(pairs, found.tolist(), strict=True))
    for name, run in runs.items():
        for depth in depths:
            write_run(options.output / f"{name}-top{depth}.txt", rerank(run, scores, depth))
    content = {"collection": collection.name, "split": split, **scorer.description}
    write_json(options.output / "rerank.json", {**content, "pairs": len(scores), "versions": versions()})
    print(f"{options.output}: {len(runs) * len(depths)} runs, {len(scores):,} pairs scored")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="python -m eval.rerank",
        description="Re-rank the first hits of runs with a slower model, to several depths.",
        epilog=EPILOG,
    )
    add = parser.add_argument
    add("--run", nargs="+", action="extend", required=True, metavar="[NAME=]FILE", help="TREC runs, optionally named")
    add_collection_options(parser, required=True)
    expanded = "predicted queries of the documents by id (docT5query), for a model that reads them"
    add("--expanded", type=Path, metavar="FILE|DIR", help=expanded)
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--cross-encoder", metavar="DIR|HUB_ID", help="a sequence classifier, weights in safetensors")
    model.add_argument("--checkpoint", metavar="DIR|NAME|HUB_ID", help="a model of this package")
    add("--depth", nargs="+", type=positive, default=DEPTHS, metavar="N", help=f"default: {' '.join(map(str, DEPTHS))}")
    add("--revision", help="revision of a model on the Hub")
    add_set_option(parser, "change a setting of a checkpoint, for instance alpha=0.3; repeatable")
    add("--max-length", type=positive, metavar="TOKENS", help="default: 512 for a pair, else the checkpoint's")
    add("--batch-size", metavar="N|Nt", help="texts (32) or tokens (4096t) per forward pass")
    add("--device", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    add("--dtype", default="fp32", help="fp32 (default), bf16 or fp16; lower precision creates ties")
    add("--output", required=True, type=Path, metavar="DIR", help="folder for the runs (NAME-topN.txt)")
    return parser


if __name__ == "__main__":
    run_main(main)
