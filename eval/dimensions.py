"""``python -m eval.dimensions``: how often dimensions are active, in texts of which length, and what they mean."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from encoders.checkpoints import locate, read_notes
from eval.costs import TermCounts, count_documents, count_queries, expected_flops
from eval.measures import Cell, Column, share, write_texts
from eval.profile import (
    LengthGroup,
    Meaning,
    Section,
    StopDimension,
    Usage,
    density,
    density_chart,
    format_sections,
    frequency_chart,
    meanings,
    read_encoded,
    stop_dimensions,
    stop_section,
    usage,
    usage_section,
)
from learned_sparse.collections.collection import filed_under
from learned_sparse.core.encoder import encode_texts, load_encoder
from learned_sparse.core.errors import LearnedSparseError, progress_bar, run_main
from learned_sparse.core.files import queries_folder, vectors_folder, write_json
from learned_sparse.core.records import SparseBatch
from learned_sparse.core.settings import CommandParser, positive
from learned_sparse.jsonvector.manifest import Manifest, versions
from learned_sparse.jsonvector.queries import ENCODED
from learned_sparse.jsonvector.reader import vector_files
from learned_sparse.search.query_encoder import find_checkpoint

EPILOG = """\
A dimension is a term of the index: a latent one such as b12d61183 (UHD-BERT), or a word piece.

examples:
  python -m eval.dimensions --model uhd-bert --collection scifact --split test --output DIR
  python -m eval.dimensions --vectors VECTORS --queries QUERIES --dimension b12d61183 --dimension b12d476
"""
_BINS = 20  # of the histogram of weights
_WORDS = 10  # words of a dimension in the table
_LENGTHS = 100_000  # about as many documents, evenly spaced, have their tokens counted


@dataclass(frozen=True, kw_only=True)
class Values:
    """Weights of active dimensions before quantisation (UHD-BERT, Figure 3: mean 0.11169, deviation 0.00182)."""

    documents: int
    count: int
    mean: float
    deviation: float
    histogram: Sequence[tuple[float, float, int]]
    """``(from, to, weights)`` of bins of equal width, from the smallest to the largest weight."""


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """Dimensions of an encoded collection and its queries."""

    dimensions: int
    """Dimensions of the model, active or not."""
    usage: Mapping[str, Usage]
    """``{"documents": ..., "queries": ...}``, as in ``lengths``."""
    only_in_documents: int
    """Dimensions that are active in documents and in no query."""
    flops: float
    """Expected FLOPS."""
    complexity: float
    """UHD-BERT's Eq. 9, k_q k_d / n: the FLOPS if all dimensions were equally frequent."""
    stop_share: float
    stop_dimensions: tuple[StopDimension, ...]
    flops_without: float
    """Expected FLOPS without the stop-dimensions."""
    lengths: Mapping[str, Sequence[LengthGroup]]
    meanings: Sequence[Meaning]
    values: Values | None = None


def main(argv: list[str] | None = None) -> int:
    """Analyse and print; write a page, JSON and charts if --output is given."""
    options = _parser().parse_args(argv)
    vectors, queries = _folders(options)
    document_counts, query_counts = count_documents(vectors), count_queries(queries)
    encoded_queries = list(read_encoded([queries / ENCODED]))
    manifest = Manifest.load(vectors)
    checkpoint = options.checkpoint or find_checkpoint(manifest, vectors)
    step = max(1, document_counts.texts // _LENGTHS)
    sample = itertools.islice(read_encoded(vector_files(vectors)), 0, None, step)
    sample = progress_bar(sample, "measuring lengths", "documents", -(-document_counts.texts // step))
    lengths = {
        "documents": density(sample, manifest, checkpoint),
        "queries": density(encoded_queries, Manifest.load(queries), checkpoint),
    }
    analysis = analyse(
        document_counts,
        query_counts,
        options.stop_share,
        dimensions=_model_dimensions(manifest, checkpoint),
        lengths=lengths,
        meanings=meanings(
            [text for text, _ in encoded_queries], [vector for _, vector in encoded_queries], options.at_least
        ),
        values=_document_values(options.values, vectors, manifest, checkpoint) if options.values else None,
    )
    title = f"Dimensions of {vectors.name}"
    sections = _sections(analysis, options.top, options.dimension)
    print(format_sections(title, sections, markdown=options.markdown))
    if options.output:
        facts = {"vectors": str(vectors), "queries": str(queries), "at_least": options.at_least}
        write_json(options.output / "dimensions.json", {**facts, "versions": versions(), **asdict(analysis)})
        files = {
            "dimensions.md": format_sections(title, sections, markdown=True),
            "dimensions-frequency.svg": frequency_chart(document_counts, query_counts),
            "dimensions-density.svg": density_chart(lengths, analysis.dimensions),
        }
        write_texts(options.output, files)
        print(f"\nwritten to {options.output}: {', '.join([*files, 'dimensions.json'])}")
    return 0


def analyse(documents: TermCounts, queries: TermCounts, stop_share: float, **members: Any) -> Analysis:
    """Analyse counted texts; stop-dimensions are active in more than ``stop_share`` of the documents.

    ``members``: the members of ``Analysis`` that do not follow from the counts.
    """
    stop = stop_dimensions(documents, queries, stop_share)
    flops = expected_flops(documents, queries)
    return Analysis(
        usage={"documents": usage(documents), "queries": usage(queries)},
        only_in_documents=len(documents.document_frequency.keys() - queries.document_frequency.keys()),
        flops=flops,
        complexity=documents.postings / documents.texts * queries.postings / queries.texts / members["dimensions"],
        stop_share=stop_share,
        stop_dimensions=stop,
        flops_without=flops - sum(dimension.documents * (dimension.queries or 0.0) for dimension in stop),
        **members,
    )


def values_of(batches: Iterable[SparseBatch]) -> Values:
    """Mean, standard deviation and histogram of the weights of ``batches``.

    >>> of = values_of([SparseBatch.from_dicts([{"a": 0.25, "b": 0.75}, {"c": 0.5}])])
    >>> (of.documents, of.count, of.mean, round(of.deviation, 4), of.histogram[0])
    (2, 3, 0.5, 0.2041, (0.25, 0.275, 1))
    """
    parts = list(batches)
    weights = np.concatenate([np.asarray(part.values, np.float64) for part in parts] or [np.empty(0)])
    if not len(weights):
        raise LearnedSparseError("no document has an active dimension")
    counts, edges = np.histogram(weights, bins=_BINS)
    bins = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    return Values(
        documents=sum(map(len, parts)),
        count=len(weights),
        mean=float(weights.mean()),
        deviation=float(weights.std()),
        histogram=[(round(low, 6), round(high, 6), count) for low, high, count in bins],
    )


def _document_values(count: int, vectors: Path, manifest: Manifest, checkpoint: str) -> Values:
    """The weights of the first ``count`` documents, encoded again with the settings of the vectors."""
    recorded = manifest.encoder
    options = {name: recorded[name] for name in ("max_length", "dtype", "top_k") if recorded.get(name) is not None}
    encoder = load_encoder(checkpoint, "document", settings=dict(recorded.get("settings", {})), **options)
    texts = [text for text, _ in itertools.islice(read_encoded(vector_files(vectors)), count)]
    return values_of(encode_texts(encoder, texts[start : start + 256]) for start in range(0, len(texts), 256))


def _model_dimensions(manifest: Manifest, checkpoint: str) -> int:
    """Number of dimensions of the model: those of its buckets if its settings name them, else its vocabulary size."""
    settings = manifest.encoder.get("settings", {})
    if "dimensions" in settings:
        return int(settings["dimensions"]) * len(settings.get("layers", [0]))
    return read_notes(locate(checkpoint)).vocabulary_size


def _sections(analysis: Analysis, top: int, names: Collection[str]) -> list[Section]:
    """Tables with at most ``top`` dimensions each; the last one has all of ``names`` instead if there are any."""
    unqueried = f"{analysis.only_in_documents:,} of {analysis.dimensions:,} dimensions are active in documents only."
    stop = stop_section(analysis.stop_dimensions, analysis.stop_share, top)
    saved = 1 - analysis.flops_without / analysis.flops if analysis.flops else 0.0
    flops = f"Without them FLOPS would be {analysis.flops_without:.4f} instead of {analysis.flops:.4f} (-{saved:.0%})."
    flops += f" UHD-BERT's Eq. 9, k_q k_d / n, gives {analysis.complexity:.4f}."
    chosen = (
        [meaning for meaning in analysis.meanings if meaning.dimension in names] if names else analysis.meanings[:top]
    )
    return [
        replace(usage_section(analysis.usage), remark=unqueried),
        replace(stop, remark=f"{flops} {stop.remark}".strip()),
        *(_lengths_section(kind, groups, analysis.dimensions) for kind, groups in analysis.lengths.items()),
        _meanings_section(chosen),
        *([_values_section(analysis.values)] if analysis.values else []),
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
        [
            meaning.dimension,
            meaning.queries,
            ", ".join(f"{word.word} ({word.queries})" for word in meaning.words[:_WORDS]),
        ]
        for meaning in meanings
    ]
    return Section("Words of the queries that activate a dimension", "In brackets: number of queries.", columns, rows)


def _values_section(values: Values) -> Section:
    columns = [Column("from", 5), Column("to", 5), Column("weights")]
    remark = f"{values.count:,} weights of {values.documents:,} documents: mean {values.mean:.5f}, deviation "
    rows: list[list[Cell]] = [list(row) for row in values.histogram]
    return Section("Weights before quantisation", f"{remark}{values.deviation:.5f}.", columns, rows)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
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
    add("--stop-share", type=share, default=0.1, metavar="X", help="stop-dimensions are in more documents: %(default)s")
    add(
        "--at-least",
        type=positive,
        default=5,
        metavar="N",
        help="minimum number of queries of a word: %(default)s (paper)",
    )
    add("--top", type=positive, default=20, metavar="N", help="rows of the long tables (default: %(default)s)")
    add("--values", type=positive, metavar="N", help="histogram of the weights of N documents (UHD-BERT, Figure 3)")
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
