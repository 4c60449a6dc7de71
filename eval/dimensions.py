"""``python -m eval.dimensions``: how often dimensions are active, in texts of which length, and what they mean."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from encoders.checkpoints import locate, read_notes
from eval.costs import TermCounts, count_terms, expected_flops
from eval.measures import Cell, Column, write_texts
from eval.profile import (
    LengthGroup,
    LengthSample,
    Meaning,
    Section,
    TokenCounter,
    by_length,
    density_chart,
    format_sections,
    frequency_chart,
    meanings,
    read_encoded_documents,
    read_encoded_queries,
    stop_dimensions,
    stop_section,
    usage,
    usage_section,
)
from learned_sparse.collections import filed_under
from learned_sparse.core import LearnedSparseError, queries_folder, run_main, vectors_folder, write_json
from learned_sparse.jsonvector import TOPICS, Manifest, read_topics, versions

EPILOG = """\
A dimension is a term of the index: a latent one such as b12d61183 (UHD-BERT), or a word piece.

examples:
  python -m eval.dimensions --model uhd-bert --collection scifact --split test --output DIR
  python -m eval.dimensions --vectors VECTORS --queries QUERIES --dimension b12d61183 --dimension b12d476
"""
_WORDS = 10  # words of a dimension in the table


@dataclasses.dataclass(frozen=True, kw_only=True)
class Analysis:
    """Dimensions of an encoded collection and its queries."""

    documents: TermCounts
    queries: TermCounts
    stop_share: float
    dimensions: int
    """Dimensions of the model, active or not."""
    lengths: Mapping[str, tuple[LengthGroup, ...]]
    """``{"documents": ..., "queries": ...}``"""
    meanings: tuple[Meaning, ...]


def main(argv: list[str] | None = None) -> int:
    """Analyse and print; write a page, JSON and charts if --output is given."""
    options = _parser().parse_args(argv)
    vectors, queries = _folders(options)
    if not 0 <= options.stop_share <= 1:
        raise LearnedSparseError(f"--stop-share {options.stop_share}: give a share of the documents, 0 to 1")
    for name in ("at_least", "lengths_of", "top"):
        if getattr(options, name) < 1:
            raise LearnedSparseError(f"--{name.replace('_', '-')} {getattr(options, name)}: give at least 1")
    settings = {"stop_share": options.stop_share, "at_least": options.at_least, "lengths_of": options.lengths_of}
    analysis = analyse(vectors, queries, checkpoint=options.checkpoint, **settings)
    title = f"Dimensions of {vectors.name}"
    sections = _sections(analysis, options.top, options.dimension)
    print(format_sections(title, sections, markdown=options.markdown))
    if options.output:
        about = {"vectors": str(vectors), "queries": str(queries), "options": settings, "versions": versions()}
        write_json(options.output / "dimensions.json", about | _as_json(analysis))
        files = {
            "dimensions.md": format_sections(title, sections, markdown=True),
            "dimensions-frequency.svg": frequency_chart(analysis.documents, analysis.queries),
            "dimensions-density.svg": density_chart(analysis.lengths, analysis.dimensions),
        }
        write_texts(options.output, files)
        print(f"\nwritten to {options.output}: {', '.join([*files, 'dimensions.json'])}")
    return 0


def analyse(
    vectors: Path,
    queries: Path,
    *,
    checkpoint: str | None = None,
    stop_share: float = 0.1,
    at_least: int = 5,
    lengths_of: int = 100_000,
) -> Analysis:
    """Analyse folders that ``learned_sparse.encode`` wrote.

    ``checkpoint``: present location of the model, by default the recorded one. ``stop_share``: stop-dimensions are
    active in a larger share of the documents. ``at_least``: minimum number of queries per word, see ``meanings``.
    ``lengths_of``: approximate number of documents, evenly spaced, whose tokens are counted.
    """
    document_manifest, query_manifest = Manifest.load(vectors), Manifest.load(queries)
    step = max(1, document_manifest.counts.written // lengths_of)
    document_sample = LengthSample(TokenCounter(document_manifest, checkpoint), step)
    documents = count_terms(document_sample.watch(read_encoded_documents(vectors)))
    query_counts = count_terms(read_topics(queries / TOPICS).values())
    if not documents.texts or not query_counts.texts:
        raise LearnedSparseError(f"{queries if documents.texts else vectors}: no vectors in it")
    encoded = read_encoded_queries(queries)
    query_sample = LengthSample(TokenCounter(query_manifest, checkpoint), 1)
    active = list(query_sample.watch(encoded))
    samples = {"documents": document_sample, "queries": query_sample}
    return Analysis(
        documents=documents,
        queries=query_counts,
        stop_share=stop_share,
        dimensions=_model_dimensions(document_manifest, checkpoint),
        lengths={kind: tuple(by_length(sample.lengths, sample.active)) for kind, sample in samples.items()},
        meanings=tuple(meanings([text for text, _ in encoded], active, at_least)),
    )


def _model_dimensions(manifest: Manifest, checkpoint: str | None) -> int:
    """Number of dimensions of the model: those of its buckets if its settings name them, else its vocabulary size."""
    settings = manifest.encoder.get("settings", {})
    if "dimensions" in settings:
        return int(settings["dimensions"]) * len(settings.get("layers", [0]))
    return read_notes(locate(checkpoint or manifest.checkpoint)).vocabulary_size


def _as_json(analysis: Analysis) -> dict[str, Any]:
    """Everything but the charts."""
    documents, queries = analysis.documents, analysis.queries
    stop = stop_dimensions(documents, queries, analysis.stop_share)
    flops = expected_flops(documents, queries)
    return {
        "dimensions": analysis.dimensions,
        "profile": {
            "documents": dataclasses.asdict(usage(documents)),
            "queries": dataclasses.asdict(usage(queries)),
            "only_in_documents": _only_in_documents(analysis),
            "flops": flops,
            "stop_dimensions": [dataclasses.asdict(one) for one in stop],
            "flops_without": flops - sum(one.documents * (one.queries or 0.0) for one in stop),
        },
        "lengths": {kind: [dataclasses.asdict(group) for group in of] for kind, of in analysis.lengths.items()},
        "meanings": [dataclasses.asdict(meaning) for meaning in analysis.meanings],
    }


def _only_in_documents(analysis: Analysis) -> int:
    """Number of dimensions that are active in documents and in no query."""
    in_queries = analysis.queries.document_frequency
    return sum(term not in in_queries for term in analysis.documents.document_frequency)


def _sections(analysis: Analysis, top: int, names: Collection[str]) -> list[Section]:
    """Tables with at most ``top`` dimensions each; the last one has all of ``names`` instead if there are any."""
    used = usage_section(analysis.documents, analysis.queries)
    unqueried = f"{_only_in_documents(analysis):,} of {analysis.dimensions:,} dimensions are active in documents only."
    stop = stop_section(analysis.documents, analysis.queries, analysis.stop_share, top)
    numbers = _as_json(analysis)["profile"]
    saved = 1 - numbers["flops_without"] / numbers["flops"] if numbers["flops"] else 0.0
    flops = (
        f"Without them FLOPS would be {numbers['flops_without']:.4f} instead of {numbers['flops']:.4f} (-{saved:.0%})."
    )
    chosen = [one for one in analysis.meanings if one.dimension in names] if names else analysis.meanings[:top]
    return [
        dataclasses.replace(used, remark=unqueried),
        dataclasses.replace(stop, remark=f"{flops} {stop.remark}".strip()),
        *(_lengths_section(kind, groups, analysis.dimensions) for kind, groups in analysis.lengths.items()),
        _meanings_section(chosen),
    ]


def _lengths_section(kind: str, groups: Sequence[LengthGroup], dimensions: int) -> Section:
    columns = [Column("tokens"), Column("texts"), Column("active dimensions", 1), Column("density in %", 3)]
    rows: list[list[Cell]] = []
    for group in groups:
        ends = str(group.shortest) if group.shortest == group.longest else f"{group.shortest}–{group.longest}"
        rows.append([ends, group.texts, group.mean_active, 100 * group.mean_active / dimensions])
    return Section(f"Active dimensions of {kind} by length in tokens", "", columns, rows)


def _meanings_section(meanings: Sequence[Meaning]) -> Section:
    columns: list[Column] = [Column("dimension"), Column("queries"), Column("words")]
    rows: list[list[Cell]] = [
        [one.dimension, one.queries, ", ".join(f"{word.word} ({word.queries})" for word in one.words[:_WORDS])]
        for one in meanings
    ]
    return Section("Words of the queries that activate a dimension", "In brackets: number of queries.", columns, rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eval.dimensions",
        description="Analyse the dimensions of an encoded collection and its queries.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--vectors", type=Path, metavar="DIR", help="encoded documents (default: by --model and --collection)")
    add("--queries", type=Path, metavar="DIR", help="encoded queries (default: by --model, --collection and --split)")
    add("--model", metavar="NAME", help="model whose vectors are in the home folder")
    add("--collection", metavar="NAME|PATH", help="collection of those vectors")
    add("--split", help="split of those queries (default: %(default)s)", default="test")
    add("--checkpoint", metavar="DIR|HUB_ID", help="present location of the model (default: the recorded one)")
    add("--stop-share", type=float, default=0.1, metavar="X", help="stop-dimensions are in more documents: %(default)s")
    add("--at-least", type=int, default=5, metavar="N", help="minimum number of queries of a word: %(default)s (paper)")
    add("--lengths-of", type=int, default=100_000, metavar="N", help="documents to count tokens of: %(default)s")
    add("--top", type=int, default=20, metavar="N", help="rows of the long tables (default: %(default)s)")
    add("--dimension", action="append", default=[], metavar="NAME", help="show the words of this one; repeatable")
    add("--output", type=Path, metavar="DIR", help="write dimensions.md, dimensions.json and two charts (SVG) there")
    add("--markdown", action="store_true", help="print a Markdown page")
    return parser


def _folders(options: argparse.Namespace) -> tuple[Path, Path]:
    named = options.model and options.collection
    name = filed_under(options.collection) if named else ""
    vectors = options.vectors or (vectors_folder(name, options.model) if named else None)
    queries = options.queries or (queries_folder(name, options.split, options.model) if named else None)
    if vectors is None or queries is None:
        raise LearnedSparseError("no vectors: give --vectors and --queries, or --model and --collection")
    return vectors, queries


if __name__ == "__main__":
    run_main(main)
