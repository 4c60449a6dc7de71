"""``python -m eval.profile``: which dimensions an index spends its postings on, and where scores come from."""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

from eval.costs import TermCounts, TermsPerText, count_queries, expected_flops, terms_per_text
from eval.measures import Cell, Column, add_collection_options, load_judged, share
from eval.profile.frequencies import (
    Cut,
    Section,
    StopDimension,
    Usage,
    cuts,
    format_sections,
    read_counts,
    stop_dimensions,
    stop_section,
    usage,
    usage_section,
)
from eval.profile.scores import ScoreParts, parts_of_run
from eval.profile.texts import Expansion, expansion, read_encoded
from learned_sparse.collections.collection import filed_under
from learned_sparse.collections.trec import read_run
from learned_sparse.core.errors import LearnedSparseError, not_found, progress_bar, run_main
from learned_sparse.core.files import index_folder, queries_folder
from learned_sparse.core.settings import CommandParser, positive
from learned_sparse.index.note import INDEX_MANIFEST, IndexNote
from learned_sparse.jsonvector.manifest import MANIFEST, Manifest, versions
from learned_sparse.jsonvector.queries import read_topics
from learned_sparse.jsonvector.reader import vector_files
from learned_sparse.search.query_encoder import find_checkpoint

EPILOG = """\
A dimension is a term of the index: a word piece, or a latent dimension such as b12d61183 (UHD-BERT). INDEX is a Lucene
index, or the output of learned_sparse.encode, which also has the number of terms of each document. With --run, the
score of each hit is divided into contributions of literal terms and of expansion terms. SPLADE's paper (section 3.2)
drops 20 terms of a document and adds 32 at FLOPS 0.73, and drops 34 and adds 5 at FLOPS 0.05 (--expansion --documents
10000); there a document has 18 terms and a query 6.

examples:
  python -m eval.profile INDEX
  python -m eval.profile VECTORS --queries QUERIES --markdown
  python -m eval.profile --model splade --collection scifact --split test --run RUN
"""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Statistics of an index, optionally of queries, and of the scores of a run."""

    index: tuple[str, ...]
    usage: Mapping[str, Usage]
    """``{"documents": ..., "queries": ...}``; without queries only the first."""
    terms_per_text: Mapping[str, TermsPerText]
    sampled_documents: int
    """Documents whose terms were counted one by one."""
    flops: float | None
    """Expected FLOPS; None without queries."""
    cuts: tuple[Cut, ...]
    stop_share: float
    stop_dimensions: tuple[StopDimension, ...]
    scores: ScoreParts | None
    expansion: Expansion | None


def main(argv: list[str] | None = None) -> int:
    """Count, and print a page or JSON."""
    options = _parser().parse_args(argv)
    if options.documents and not options.expansion:
        raise LearnedSparseError("--documents says how many documents --expansion counts; give both")
    paths, queries_path = _paths(options)
    documents = read_counts(paths, options.sample)
    queries = count_queries(queries_path) if queries_path else None
    kinds = {"documents": documents} | ({"queries": queries} if queries else {})
    profile = Profile(
        index=tuple(map(str, paths)),
        usage={kind: usage(counts) for kind, counts in kinds.items()},
        terms_per_text={kind: terms_per_text(counts.lengths) for kind, counts in kinds.items()},
        sampled_documents=len(documents.lengths),
        flops=expected_flops(documents, queries) if queries else None,
        cuts=cuts(documents, queries),
        stop_share=options.stop_share,
        stop_dimensions=stop_dimensions(documents, queries, options.stop_share),
        scores=_scores(options, paths, queries_path, documents) if options.run and queries_path else None,
        expansion=_expansion(options, paths, documents) if options.expansion else None,
    )
    if options.json:
        print(json.dumps(asdict(profile) | {"versions": versions()}, indent=2, ensure_ascii=False))
    else:
        title = _headline(options.model or paths[0].name, profile)
        print(format_sections(title, _sections(profile, options.top), markdown=options.markdown))
    return 0


def _paths(options: argparse.Namespace) -> tuple[list[Path], Path | None]:
    """Paths of the documents, and of the encoded queries if any are given or implied."""
    if not options.index and not (options.model and options.collection):
        raise LearnedSparseError("no index: give INDEX, or --model and --collection")
    name = filed_under(options.collection) if options.collection else ""
    paths = options.index or [index_folder(name, options.model)]
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


def _scores(options: argparse.Namespace, paths: list[Path], queries: Path, documents: TermCounts) -> ScoreParts:
    manifest = _manifest(paths[0])
    if manifest is None and not options.tokenizer:
        raise LearnedSparseError(f"{paths[0]}: does not record its tokenizer; give --tokenizer")
    if manifest is not None and manifest.scoring != "impact":
        raise LearnedSparseError(f"{paths[0]}: scored by BM25, not by dot products; omit --run")
    return parts_of_run(
        read_run(options.run),
        read_topics(queries),
        load_judged(options),
        paths,
        documents,
        options.tokenizer or (find_checkpoint(manifest, paths[0]) if manifest else ""),
        options.hits,
    )


def _expansion(options: argparse.Namespace, paths: list[Path], documents: TermCounts) -> Expansion:
    """Dropped and added terms of evenly spaced documents."""
    manifest = _manifest(paths[0])
    if manifest is None or not (paths[0] / MANIFEST).is_file():
        raise LearnedSparseError(f"{paths[0]}: --expansion needs the texts: give what learned_sparse.encode wrote")
    step = max(1, documents.texts // options.documents) if options.documents else 1
    texts = read_encoded(file for path in paths for file in vector_files(path))
    chosen = itertools.islice(texts, 0, step * options.documents if options.documents else None, step)
    chosen = progress_bar(chosen, "comparing with texts", "documents", options.documents or documents.texts)
    return expansion(chosen, options.tokenizer or find_checkpoint(manifest, paths[0]))


def _manifest(path: Path) -> Manifest | None:
    """Manifest of the vectors; None for vectors made by other tools, and for an index of plain text."""
    if (path / MANIFEST).is_file():
        return Manifest.load(path)
    if not (path / INDEX_MANIFEST).is_file():
        return None
    return next(iter(IndexNote.load(path).manifests), None)


def _headline(name: str, profile: Profile) -> str:
    of = profile.usage["documents"]
    line = f"{name}: {of.texts:,} documents, {of.postings:,} postings of {of.dimensions:,} dimensions"
    return line if profile.flops is None else f"{line}; expected FLOPS {profile.flops:.4f}"


def _sections(profile: Profile, top: int) -> list[Section]:
    return [
        usage_section(profile.usage),
        _lengths_section(profile),
        _cuts_section(profile.cuts),
        stop_section(profile.stop_dimensions, profile.stop_share, top),
        *([_expansion_section(profile.expansion)] if profile.expansion else []),
        *([_scores_section(profile.scores)] if profile.scores else []),
    ]


def _lengths_section(profile: Profile) -> Section:
    sampled, documents = profile.sampled_documents, profile.usage["documents"].texts
    headings = ("mean", "minimum", "5 %", "25 %", "median", "75 %", "95 %", "maximum")
    columns = [Column("texts"), *(Column(heading, 1) for heading in headings), Column("empty")]
    rows: list[list[Cell]] = [[kind, *astuple(terms)] for kind, terms in profile.terms_per_text.items()]
    remark = f"Of a sample of {sampled:,} of the {documents:,} documents." if sampled < documents else ""
    return Section("Dimensions per text", remark, columns, rows)


def _cuts_section(cuts: Sequence[Cut]) -> Section:
    columns = [
        Column("in more than"),
        Column("dimensions"),
        Column("% of the postings", 1),
        Column("% of the FLOPS", 1),
    ]
    rows: list[list[Cell]] = [
        [f"{cut.share:.0%}", cut.dimensions, 100 * cut.postings, None if cut.flops is None else 100 * cut.flops]
        for cut in cuts
    ]
    remark = "Dimensions in more than a share of the documents: what learned_sparse.jsonvector prune would remove."
    return Section("Stop-dimensions by share", remark, columns, rows)


def _expansion_section(of: Expansion) -> Section:
    columns = [Column(name, 1) for name in ("pieces of the text", "terms", "dropped", "added")]
    remark = f"Means of {of.documents:,} documents; a term is dropped if it is a piece of the text and has no weight."
    return Section("Terms dropped and added", remark, columns, [[of.pieces, of.terms, of.dropped, of.added]])


def _scores_section(scores: ScoreParts) -> Section:
    columns = [Column("matched terms"), Column("% of the score", 1), Column("terms per hit", 2)]
    rows: list[list[Cell]] = [[part.kind, 100 * part.score, part.terms] for part in scores.parts]
    remark = (
        f"Mean over the {scores.hits:,} best hits of {scores.queries:,} queries; literal: a word piece of the text."
    )
    return Section("Where scores come from", remark, columns, rows)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="python -m eval.profile",
        description="Show which dimensions an index spends its postings on, and where scores come from.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("index", nargs="*", type=Path, metavar="INDEX", help="Lucene index, or encoded documents (several shards)")
    add("--model", metavar="NAME", help="model whose index of --collection is in the home folder")
    add_collection_options(parser)
    add("--queries", type=Path, metavar="DIR", help="encoded queries (default: by --model, --collection and --split)")
    add("--run", type=Path, metavar="FILE", help="TREC run of these queries, whose scores are divided")
    add("--hits", type=positive, default=10, metavar="N", help="best hits per query of --run (default: %(default)s)")
    add("--expansion", action="store_true", help="count terms dropped from documents and added to them (SPLADE, 3.2)")
    add("--documents", type=positive, metavar="N", help="with --expansion: that many documents (default: all)")
    add("--tokenizer", metavar="DIR|HUB_ID", help="tokenizer of the word pieces (default: the model's)")
    add("--stop-share", type=share, default=0.1, metavar="X", help="stop-dimensions are in more documents: %(default)s")
    add("--sample", type=positive, default=1000, metavar="N", help="documents of a Lucene index to sample: %(default)s")
    add("--top", type=positive, default=20, metavar="N", help="stop-dimensions to show (default: %(default)s)")
    add("--markdown", action="store_true", help="print a Markdown page")
    add("--json", action="store_true", help="print everything as JSON, with all stop-dimensions")
    parser.set_defaults(measures=None)  # load_judged reads it
    return parser


if __name__ == "__main__":
    run_main(main)
