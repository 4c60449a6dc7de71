"""``python -m eval.profile``: which dimensions an index spends its postings on, and where scores come from."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from learned_sparse.collections import filed_under
from learned_sparse.core import LearnedSparseError, index_folder, queries_folder, run_main

if TYPE_CHECKING:
    from eval.profile.counts import Counts
    from eval.profile.scores import ScoreParts

EPILOG = """\
A dimension is a term of the index: a word piece, or a latent dimension such as b12d61183 (UHD-BERT). INDEX is a Lucene
index, or what learned_sparse.encode wrote, which also says how many terms each single document has. With --run, the
score of each hit is divided into what terms give that both texts have and what expansions give.

examples:
  python -m eval.profile INDEX
  python -m eval.profile VECTORS --queries QUERIES --output DIR
  python -m eval.profile --model splade --collection scifact --split test --run RUN
"""


def main(argv: list[str] | None = None) -> int:
    """Count, print, and write what is asked for."""
    options = _parser().parse_args(argv)
    places, queries = _places(options)
    _check(options)
    from eval.costs import count_queries
    from eval.measures import write_texts
    from eval.profile.counts import read_counts
    from eval.profile.page import Profile, as_html, as_json, as_text, charts
    from learned_sparse.core import write_json
    from learned_sparse.jsonvector import versions

    documents = read_counts(places, options.sample)
    profile = Profile(
        name=options.model or places[0].name,
        documents=documents,
        queries=count_queries(queries) if queries else None,
        scores=_scores(options, places, queries, documents) if options.run and queries else None,
        stop_share=options.stop_share,
    )
    found = {"index": [str(place) for place in places], "versions": versions()} | as_json(profile)
    if options.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        print(as_text(profile, options.top, markdown=options.markdown))
    if options.html:
        write_texts(options.html.parent, {options.html.name: as_html(profile, options.top)})
    if options.output:
        write_json(options.output / "profile.json", found)
        files = {"profile.md": as_text(profile, options.top, markdown=True), **charts(profile)}
        write_texts(options.output, files)
    return 0


def _scores(options: argparse.Namespace, places: list[Path], queries: Path, documents: Counts) -> ScoreParts:
    from eval.measures import load_judged
    from eval.profile.counts import read_manifest
    from eval.profile.scores import parts_of_run
    from learned_sparse.collections import read_run
    from learned_sparse.jsonvector import TOPICS, read_topics

    manifest = read_manifest(places[0])
    if manifest is None and not options.tokenizer:
        raise LearnedSparseError(f"{places[0]}: does not say whose word pieces it holds; give --tokenizer")
    if manifest is not None and manifest.scoring != "impact":
        raise LearnedSparseError(f"{places[0]}: scored by BM25, not by dot products; leave --run away")
    return parts_of_run(
        read_run(options.run),
        read_topics(queries / TOPICS if queries.is_dir() else queries),
        load_judged(options),
        places,
        documents,
        options.tokenizer or (manifest.checkpoint if manifest else ""),
        options.hits,
    )


def _places(options: argparse.Namespace) -> tuple[list[Path], Path | None]:
    """Where the documents and the queries are, the latter only if they are asked for."""
    if not options.index and not (options.model and options.collection):
        raise LearnedSparseError("which index? give INDEX, or --model and --collection")
    name = filed_under(options.collection) if options.collection else ""
    places = options.index or [index_folder(name, options.model)]
    if missing := [place for place in places if not place.exists()]:
        raise LearnedSparseError(f"{missing[0]}: no such index; make one with learned_sparse.index, or name another")
    queries = options.queries
    if queries is None and options.model and options.collection and options.split:
        queries = queries_folder(name, options.split, options.model)
    if options.run and not (queries and options.collection):
        raise LearnedSparseError(
            "--run needs the texts and the encoded queries: give --collection and --split, and --queries (or --model)"
        )
    return places, queries


def _check(options: argparse.Namespace) -> None:
    if not 0 <= options.stop_share <= 1:
        raise LearnedSparseError(f"--stop-share {options.stop_share}: give a share of the documents, 0 to 1")
    for name in ("sample", "hits", "top"):
        if getattr(options, name) < 1:
            raise LearnedSparseError(f"--{name} {getattr(options, name)}: give at least 1")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval.profile",
        description="Look at which dimensions an index spends its postings on, and where scores come from.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("index", nargs="*", type=Path, metavar="INDEX", help="Lucene index, or encoded documents (several: shards)")
    add("--model", metavar="NAME", help="model whose index of --collection is in the home folder")
    add("--collection", metavar="NAME|PATH", help="what was indexed; its texts are read for --run")
    add("--data", type=Path, metavar="DIR", help="folder the files of --collection are in")
    add("--split", help="whose queries")
    add("--queries", type=Path, metavar="DIR", help="encoded queries (default: by --model, --collection and --split)")
    add("--run", type=Path, metavar="FILE", help="TREC run of these queries: where do its scores come from?")
    add("--hits", type=int, default=10, metavar="N", help="best documents of each query to look at: %(default)s")
    add("--tokenizer", metavar="DIR|HUB_ID", help="whose word pieces (default: the model's, where it was)")
    add("--stop-share", type=float, default=0.1, metavar="X", help="stop-dimensions are in more documents: %(default)s")
    add(
        "--sample",
        type=int,
        default=1000,
        metavar="N",
        help="documents of a Lucene index to count terms of: %(default)s",
    )
    add("--top", type=int, default=20, metavar="N", help="stop-dimensions to show: %(default)s")
    add("--markdown", action="store_true", help="print a Markdown page")
    add("--json", action="store_true", help="print everything as JSON, all stop-dimensions included")
    add("--html", type=Path, metavar="FILE", help="write a page with the figures")
    add("--output", type=Path, metavar="DIR", help="write profile.md, profile.json and two figures (SVG) there")
    parser.set_defaults(measures=None)  # what eval.measures.judged.load_judged also asks for
    return parser


if __name__ == "__main__":
    run_main(main)
