"""``python -m eval.profile``: which dimensions an index spends its postings on, and where scores come from."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from eval.costs import TermCounts, count_queries, expected_flops, terms_per_text
from eval.measures import Cell, Column, load_judged, write_texts
from eval.profile.frequencies import (
    Section,
    cuts,
    format_sections,
    frequency_chart,
    read_counts,
    stop_chart,
    stop_dimensions,
    stop_section,
    usage,
    usage_section,
)
from eval.profile.scores import ScoreParts, parts_of_run
from learned_sparse.collections import filed_under, read_run
from learned_sparse.core import LearnedSparseError, index_folder, queries_folder, run_main, write_json
from learned_sparse.index import INDEX_MANIFEST, IndexNote
from learned_sparse.jsonvector import MANIFEST, TOPICS, Manifest, read_topics, versions

EPILOG = """\
A dimension is a term of the index: a word piece, or a latent dimension such as b12d61183 (UHD-BERT). INDEX is a Lucene
index, or the output of learned_sparse.encode, which also has the number of terms of each document. With --run, the
score of each hit is divided into contributions of literal terms and of expansion terms.

examples:
  python -m eval.profile INDEX
  python -m eval.profile VECTORS --queries QUERIES --output DIR
  python -m eval.profile --model splade --collection scifact --split test --run RUN
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """Statistics of an index, optionally of queries, and of the scores of a run."""

    name: str
    documents: TermCounts
    queries: TermCounts | None
    scores: ScoreParts | None
    stop_share: float


def main(argv: list[str] | None = None) -> int:
    """Count and print; write a page, JSON and figures if --output is given."""
    options = _parser().parse_args(argv)
    paths, queries = _paths(options)
    _check(options)
    documents = read_counts(paths, options.sample)
    profile = Profile(
        name=options.model or paths[0].name,
        documents=documents,
        queries=count_queries(queries) if queries else None,
        scores=_scores(options, paths, queries, documents) if options.run and queries else None,
        stop_share=options.stop_share,
    )
    content = {"index": [str(path) for path in paths], "versions": versions()} | _as_json(profile)
    sections = _sections(profile, options.top)
    if options.json:
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        print(format_sections(_headline(profile), sections, markdown=options.markdown))
    if options.output:
        write_json(options.output / "profile.json", content)
        texts = {
            "profile.md": format_sections(_headline(profile), sections, markdown=True),
            "profile-frequency.svg": frequency_chart(documents, profile.queries),
            "profile-stop.svg": stop_chart(documents, profile.queries),
        }
        write_texts(options.output, texts)
    return 0


def _paths(options: argparse.Namespace) -> tuple[list[Path], Path | None]:
    """Paths of the documents, and of the encoded queries if any are given or implied."""
    if not options.index and not (options.model and options.collection):
        raise LearnedSparseError("no index: give INDEX, or --model and --collection")
    name = filed_under(options.collection) if options.collection else ""
    paths = options.index or [index_folder(name, options.model)]
    if missing := [path for path in paths if not path.exists()]:
        raise LearnedSparseError(f"{missing[0]}: no such index; make it with learned_sparse.index, or give another")
    queries = options.queries
    if queries is None and options.model and options.collection and options.split:
        queries = queries_folder(name, options.split, options.model)
    if options.run and not (queries and options.collection):
        raise LearnedSparseError(
            "--run needs the texts and the encoded queries: give --collection and --split, and --queries (or --model)"
        )
    return paths, queries


def _check(options: argparse.Namespace) -> None:
    if not 0 <= options.stop_share <= 1:
        raise LearnedSparseError(f"--stop-share {options.stop_share}: give a share of the documents, 0 to 1")
    for name in ("sample", "hits", "top"):
        if getattr(options, name) < 1:
            raise LearnedSparseError(f"--{name} {getattr(options, name)}: give at least 1")


def _scores(options: argparse.Namespace, paths: list[Path], queries: Path, documents: TermCounts) -> ScoreParts:
    manifest = _manifest(paths[0])
    if manifest is None and not options.tokenizer:
        raise LearnedSparseError(f"{paths[0]}: does not record its tokenizer; give --tokenizer")
    if manifest is not None and manifest.scoring != "impact":
        raise LearnedSparseError(f"{paths[0]}: scored by BM25, not by dot products; omit --run")
    return parts_of_run(
        read_run(options.run),
        read_topics(queries / TOPICS if queries.is_dir() else queries),
        load_judged(options),
        paths,
        documents,
        options.tokenizer or (manifest.checkpoint if manifest else ""),
        options.hits,
    )


def _manifest(path: Path) -> Manifest | None:
    """Manifest of the vectors; None for vectors made by other tools, and for an index of plain text."""
    if (path / MANIFEST).is_file():
        return Manifest.load(path)
    if not (path / INDEX_MANIFEST).is_file():
        return None
    return next(iter(IndexNote.load(path).manifests), None)


def _as_json(profile: Profile) -> dict[str, Any]:
    """Everything but the figures, with all stop-dimensions."""
    documents, queries = profile.documents, profile.queries
    kinds = {"documents": documents} | ({"queries": queries} if queries else {})
    return {
        "usage": {kind: dataclasses.asdict(usage(of)) for kind, of in kinds.items()},
        "terms_per_text": {kind: dataclasses.asdict(terms_per_text(of.lengths)) for kind, of in kinds.items()},
        "sampled_documents": len(documents.lengths),
        "flops": expected_flops(documents, queries) if queries else None,
        "cuts": [dataclasses.asdict(cut) for cut in cuts(documents, queries)],
        "stop_share": profile.stop_share,
        "stop_dimensions": [dataclasses.asdict(one) for one in stop_dimensions(documents, queries, profile.stop_share)],
        "scores": dataclasses.asdict(profile.scores) if profile.scores else None,
    }


def _headline(profile: Profile) -> str:
    documents = profile.documents
    dimensions = len(documents.document_frequency)
    line = (
        f"{profile.name}: {documents.texts:,} documents, {documents.postings:,} postings of {dimensions:,} dimensions"
    )
    return f"{line}; expected FLOPS {expected_flops(documents, profile.queries):.4f}" if profile.queries else line


def _sections(profile: Profile, top: int) -> list[Section]:
    documents, queries = profile.documents, profile.queries
    return [
        usage_section(documents, queries),
        _lengths_section(profile),
        _cuts_section(documents, queries),
        stop_section(documents, queries, profile.stop_share, top),
        *([_scores_section(profile.scores)] if profile.scores else []),
    ]


def _lengths_section(profile: Profile) -> Section:
    sampled, documents = len(profile.documents.lengths), profile.documents.texts
    headings = ("mean", "minimum", "5 %", "25 %", "median", "75 %", "95 %", "maximum")
    columns = [Column("texts"), *(Column(heading, 1) for heading in headings), Column("empty")]
    kinds = {"documents": profile.documents.lengths}
    if profile.queries:
        kinds["queries"] = profile.queries.lengths
    rows: list[list[Cell]] = [[kind, *dataclasses.astuple(terms_per_text(of))] for kind, of in kinds.items()]
    remark = f"Of a sample of {sampled:,} of the {documents:,} documents." if sampled < documents else ""
    return Section("Dimensions per text", remark, columns, rows)


def _cuts_section(documents: TermCounts, queries: TermCounts | None) -> Section:
    columns = [Column("in more than"), Column("dimensions"), Column("% of the postings", 1)]
    columns += [Column("% of the FLOPS", 1)] if queries else []
    rows: list[list[Cell]] = []
    for cut in cuts(documents, queries):
        flops = [100 * cut.flops if cut.flops is not None else None] if queries else []
        rows.append([f"{cut.share:.0%}", cut.dimensions, 100 * cut.postings, *flops])
    remark = "Dimensions in more than a share of the documents: what learned_sparse.prune would remove."
    return Section("Stop-dimensions by share", remark, columns, rows)


def _scores_section(scores: ScoreParts) -> Section:
    columns = [Column("matched terms"), Column("% of the score", 1), Column("terms per hit", 2)]
    rows: list[list[Cell]] = [[part.kind, 100 * part.score, part.terms] for part in scores.parts]
    remark = (
        f"Mean over the {scores.hits:,} best hits of {scores.queries:,} queries; literal: a word piece of the text."
    )
    return Section("Where scores come from", remark, columns, rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval.profile",
        description="Show which dimensions an index spends its postings on, and where scores come from.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("index", nargs="*", type=Path, metavar="INDEX", help="Lucene index, or encoded documents (several shards)")
    add("--model", metavar="NAME", help="model whose index of --collection is in the home folder")
    add("--collection", metavar="NAME|PATH", help="the collection that was indexed; its texts are read for --run")
    add("--data", type=Path, metavar="DIR", help="folder with the files of --collection")
    add("--split", help="split of the queries")
    add("--queries", type=Path, metavar="DIR", help="encoded queries (default: by --model, --collection and --split)")
    add("--run", type=Path, metavar="FILE", help="TREC run of these queries, whose scores are divided")
    add("--hits", type=int, default=10, metavar="N", help="best hits per query of --run (default: %(default)s)")
    add("--tokenizer", metavar="DIR|HUB_ID", help="tokenizer of the word pieces (default: the model's)")
    add("--stop-share", type=float, default=0.1, metavar="X", help="stop-dimensions are in more documents: %(default)s")
    add("--sample", type=int, default=1000, metavar="N", help="documents of a Lucene index to sample: %(default)s")
    add("--top", type=int, default=20, metavar="N", help="stop-dimensions to show (default: %(default)s)")
    add("--markdown", action="store_true", help="print a Markdown page")
    add("--json", action="store_true", help="print everything as JSON, with all stop-dimensions")
    add("--output", type=Path, metavar="DIR", help="write profile.md, profile.json and two figures (SVG) there")
    parser.set_defaults(measures=None)  # load_judged reads it
    return parser


if __name__ == "__main__":
    run_main(main)
