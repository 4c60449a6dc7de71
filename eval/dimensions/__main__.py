"""``python -m eval.dimensions``: which dimensions an index spends its postings on, and what they mean."""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eval.costs import TermCounts, count_queries, expected_flops
from eval.dimensions.counts import chart, cuts_section, lengths_of_texts, read_counts, stop_section, usage_section
from eval.dimensions.texts import (
    expansion_section,
    lengths_section,
    read_encoded,
    scores_section,
    values_section,
    words_section,
)
from eval.runs import add_collection_options, load_judged, share
from eval.tables import Column, Section, format_sections
from learned_sparse.collections.collection import filed_under
from learned_sparse.collections.trec import read_run
from learned_sparse.core.errors import LearnedSparseError, not_found, progress_bar, run_main
from learned_sparse.core.files import atomic_write, index_folder, queries_folder, vectors_folder, write_json
from learned_sparse.core.settings import CommandParser, positive
from learned_sparse.index.note import INDEX_MANIFEST, IndexNote
from learned_sparse.jsonvector.manifest import MANIFEST, Manifest, versions
from learned_sparse.jsonvector.queries import ENCODED, read_topics
from learned_sparse.jsonvector.reader import vector_files
from learned_sparse.search.query_encoder import find_checkpoint

_LENGTHS = 100_000  # about as many documents, evenly spaced, have their tokens counted
EPILOG = """\
A dimension is a term of the index: a word piece, or a latent dimension such as b12d61183 (UHD-BERT). INDEX is a Lucene
index, or the output of learned_sparse.encode, which also has the number of terms of each document and their texts.
With --run, the score of each hit is divided into contributions of literal terms and of expansion terms. SPLADE's paper
(section 3.2) drops 20 terms of a document and adds 32 at FLOPS 0.73, and drops 34 and adds 5 at FLOPS 0.05 (--expansion
10000). --texts is for UHD-BERT's Figure 6 and Table 7, --output for Figure 5, --values for Figure 3.

examples:
  python -m eval.dimensions INDEX
  python -m eval.dimensions --model splade --collection scifact --split test --run RUN
  python -m eval.dimensions VECTORS --queries QUERIES --texts --dimension b12d61183 --output DIR
"""


def main(argv: list[str] | None = None) -> int:
    """Count, and print tables or JSON; write them with a chart if --output is given."""
    options = _parser().parse_args(argv)
    paths, queries_path = _paths(options)
    documents = read_counts(paths, options.sample)
    queries = count_queries(queries_path) if queries_path else None
    kinds = {"documents": documents} | ({"queries": queries} if queries else {})
    sections = [
        usage_section(kinds),
        lengths_of_texts(kinds),
        cuts_section(documents, queries),
        stop_section(documents, queries, options.stop_share, None if options.json else options.top),
        *_text_sections(options, paths, queries_path, documents),
    ]
    name = options.model or paths[0].name
    title = f"{name}: {documents.texts:,} documents, {documents.postings:,} postings"
    title += f"; expected FLOPS {expected_flops(documents, queries):.4f}" if queries else ""
    content = _as_json(title, paths, sections)
    if options.json:
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        print(format_sections(title, sections, markdown=options.markdown))
    if options.output:
        write_json(options.output / "dimensions.json", content)
        texts = {"dimensions.md": format_sections(title, sections, markdown=True), "frequency.svg": chart(kinds)}
        for file_name, text in texts.items():
            with atomic_write(options.output / file_name) as file:
                file.write(f"{text.rstrip()}\n".encode())
    return 0


def _as_json(title: str, paths: Sequence[Path], sections: Sequence[Section]) -> dict[str, Any]:
    tables = [
        {
            "title": section.title,
            "remarks": list(section.remarks),
            "columns": [column.heading if isinstance(column, Column) else column for column in section.columns],
            "rows": [list(row) for row in section.rows],
        }
        for section in sections
    ]
    return {"title": title, "index": list(map(str, paths)), "tables": tables, "versions": versions()}


def _paths(options: argparse.Namespace) -> tuple[list[Path], Path | None]:
    """Paths of the documents, and of the encoded queries if any are given or implied."""
    if not options.index and not (options.model and options.collection):
        raise LearnedSparseError("no index: give INDEX, or --model and --collection")
    name = filed_under(options.collection) if options.collection else ""
    with_texts = options.texts or options.expansion or options.values
    paths = options.index or [(vectors_folder if with_texts else index_folder)(name, options.model)]
    if missing := [path for path in paths if not path.exists()]:
        raise not_found(missing[0], "index", "make it with learned_sparse.index, or give another")
    queries = options.queries
    if queries is None and options.model and options.collection and options.split:
        queries = queries_folder(name, options.split, options.model)
    if options.run and not (queries and options.collection):
        raise LearnedSparseError(
            "--run needs the texts and the encoded queries: give --collection and --split, and --queries (or --model)"
        )
    return paths, queries


def _text_sections(
    options: argparse.Namespace, paths: list[Path], queries: Path | None, documents: TermCounts
) -> list[Section]:
    """What options ask for beyond counts: --expansion, --texts, --values and --run."""
    manifest, sections = _manifest(paths[0]), []
    if options.expansion or options.texts or options.values:
        if manifest is None or not (paths[0] / MANIFEST).is_file():
            raise LearnedSparseError(f"{paths[0]}: no texts in it; give what learned_sparse.encode wrote")
        checkpoint = options.tokenizer or find_checkpoint(manifest, paths[0])
        files = [file for path in paths for file in vector_files(path)]
        if options.expansion:
            step = max(1, documents.texts // options.expansion)
            chosen = itertools.islice(read_encoded(files), 0, step * options.expansion, step)
            chosen = progress_bar(chosen, "comparing with texts", "documents", min(options.expansion, documents.texts))
            sections.append(expansion_section(chosen, checkpoint))
        if options.texts:
            step = max(1, documents.texts // _LENGTHS)
            sampled = itertools.islice(read_encoded(files), 0, None, step)
            sampled = progress_bar(sampled, "measuring lengths", "documents", -(-documents.texts // step))
            sections.append(lengths_section("documents", sampled, manifest, checkpoint))
            if queries is not None:
                encoded = list(read_encoded([queries / ENCODED]))
                sections.append(lengths_section("queries", encoded, Manifest.load(queries), checkpoint))
                sections.append(words_section(encoded, options.at_least, options.top, options.dimension))
        if options.values:
            sections.append(values_section(files, options.values, manifest, checkpoint))
    if options.run and queries is not None:
        if manifest is None and not options.tokenizer:
            raise LearnedSparseError(f"{paths[0]}: does not record its tokenizer; give --tokenizer")
        if manifest is not None and manifest.scoring != "impact":
            raise LearnedSparseError(f"{paths[0]}: scored by BM25, not by dot products; omit --run")
        tokenizer = options.tokenizer or (find_checkpoint(manifest, paths[0]) if manifest else "")
        run, judged = read_run(options.run), load_judged(options)
        sections.append(scores_section(run, read_topics(queries), judged, paths, documents, tokenizer, options.hits))
    return sections


def _manifest(path: Path) -> Manifest | None:
    """Manifest of the vectors; None for vectors made by other tools, and for an index of plain text."""
    if (path / MANIFEST).is_file():
        return Manifest.load(path)
    if not (path / INDEX_MANIFEST).is_file():
        return None
    return next(iter(IndexNote.load(path).manifests), None)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="python -m eval.dimensions",
        description="Show which dimensions an index spends its postings on, and what they mean.",
        epilog=EPILOG,
    )
    add = parser.add_argument
    add("index", nargs="*", type=Path, metavar="INDEX", help="Lucene index, or encoded documents (several shards)")
    add("--model", metavar="NAME", help="model whose index of --collection is in the home folder")
    add_collection_options(parser)
    add("--queries", type=Path, metavar="DIR", help="encoded queries (default: by --model, --collection and --split)")
    add("--run", type=Path, metavar="FILE", help="TREC run of these queries, whose scores are divided")
    add("--hits", type=positive, default=10, metavar="N", help="best hits per query of --run (default: %(default)s)")
    add("--expansion", type=positive, metavar="N", help="count terms dropped from N documents and added (SPLADE, 3.2)")
    add("--texts", action="store_true", help="dimensions by length of the text, and words of queries that activate one")
    add("--at-least", type=positive, default=5, metavar="N", help="minimum number of queries of a word: %(default)s")
    add("--dimension", action="append", default=[], metavar="NAME", help="with --texts: words of this one; repeatable")
    add("--values", type=positive, metavar="N", help="histogram of the weights of N documents (UHD-BERT, Figure 3)")
    add("--tokenizer", metavar="DIR|HUB_ID", help="present location of the model or its tokenizer (default: recorded)")
    add("--stop-share", type=share, default=0.1, metavar="X", help="stop-dimensions are in more documents: %(default)s")
    add("--sample", type=positive, default=1000, metavar="N", help="documents of a Lucene index to sample: %(default)s")
    add("--top", type=positive, default=20, metavar="N", help="rows of the long tables (default: %(default)s)")
    add("--markdown", action="store_true", help="print a Markdown page")
    add("--json", action="store_true", help="print everything as JSON, with all stop-dimensions")
    add("--output", type=Path, metavar="DIR", help="also write dimensions.md, dimensions.json and frequency.svg there")
    parser.set_defaults(measures=None)  # load_judged reads it
    return parser


if __name__ == "__main__":
    run_main(main)
