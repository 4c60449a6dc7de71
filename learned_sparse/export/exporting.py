"""Export documents and queries in one format, and compare what was written with what was read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from learned_sparse.core import MAX_IMPACT, LearnedSparseError, new_folder, sha256, write_record
from learned_sparse.export import embeddings, inverted, servers, tables
from learned_sparse.export.source import Layout, Source, Written

RECORD = "export.json"
USAGE = "USAGE.txt"
VERSION = 1
MAX_BYTES = 10_000_000
Write = Callable[[Source, Path, Layout], Written]


@dataclass(frozen=True)
class Format:
    """The files of one engine, and what it can hold."""

    about: str
    documents: Write
    queries: Write
    largest: int
    """Largest impact of a document up to which all integers are exact."""
    numbers: Literal["own", "any", "none"]
    """Numbers of terms: by the sorted terms of the documents, by any vocabulary, or terms are text."""
    usage: str
    in_requests: bool = False
    """Whether documents are in files that are sent in requests, of at most ``max_bytes``."""


FORMATS = {
    "ciff": Format(
        "Common Index File Format, for PISA, JASS, Terrier and others",
        inverted.export_ciff, inverted.export_queries, MAX_IMPACT, "own", inverted.CIFF_USAGE,
    ),
    "pisa": Format(
        "index folder of PISA and pyterrier-pisa",
        inverted.export_pisa, inverted.export_queries, MAX_IMPACT, "own", inverted.PISA_USAGE,
    ),
    "seismic": Format(
        "JSON lines of Seismic",
        tables.export_seismic, tables.seismic_queries, tables.SEISMIC_LARGEST, "none", tables.SEISMIC_USAGE,
    ),
    "opensearch": Format(
        "mapping with rank_features, bulk files, queries",
        servers.export_opensearch, servers.opensearch_queries, servers.MAX_FEATURE, "none", servers.OPENSEARCH_USAGE,
        in_requests=True,
    ),
    "elasticsearch": Format(
        "mapping with sparse_vector, bulk files, queries",
        servers.export_elasticsearch, servers.elasticsearch_queries, servers.MAX_FEATURE, "none",
        servers.ELASTICSEARCH_USAGE, in_requests=True,
    ),
    "qdrant": Format(
        "points with a sparse vector, queries",
        tables.export_qdrant, tables.qdrant_queries, tables.FLOAT_LARGEST, "any", tables.QDRANT_USAGE,
        in_requests=True,
    ),
    "pgvector": Format(
        "table with a sparsevec, files for COPY, queries",
        tables.export_pgvector, tables.pgvector_queries, tables.FLOAT_LARGEST, "any", tables.PGVECTOR_USAGE,
        in_requests=True,
    ),
    "parquet": Format(
        "columns of Arrow: id, term numbers, impacts",
        tables.export_parquet, tables.parquet_queries, MAX_IMPACT, "any", tables.PARQUET_USAGE,
    ),
    "lsr-benchmark": Format(
        "embeddings of lsr-benchmark (its step 2)",
        embeddings.export_lsr_benchmark, embeddings.lsr_benchmark_queries, tables.FLOAT_LARGEST, "any",
        embeddings.LSR_BENCHMARK_USAGE,
    ),
}  # fmt: skip
"""Formats by the name of the engine."""


def export_vectors(
    name: str,
    output: Path,
    *,
    vectors: Sequence[Path] = (),
    queries: Path | None = None,
    vocabulary: Path | None = None,
    rescale: bool = False,
    max_bytes: int | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write encoded documents and queries to the folder ``output`` in a format of ``FORMATS``; returns its record.

    ``vectors``: an encoded folder or all its shards, or plain vector files. ``queries``: what ``learned_sparse.encode
    --queries`` wrote. ``vocabulary``: a file with one term a line, which numbers the terms; queries alone need that of
    their documents. ``rescale``: reduce impacts above the largest one that the engine holds exactly, instead of an
    error. ``max_bytes``: size of a file of a request (default 10 MB). The folder is written whole or not at all;
    ``export.json`` in it holds the record, ``USAGE.txt`` says how to load the files.
    """
    target = FORMATS[name]
    _check_options(name, bool(vectors), queries, vocabulary)
    if not vectors and (rescale or max_bytes):
        raise LearnedSparseError("--rescale and --file-mb are for documents: give --vectors DIR")
    if max_bytes and not target.in_requests:
        raise LearnedSparseError(f"--file-mb: {name} is not loaded by requests; omit it")
    with new_folder(output) as folder:
        _check_output(output, overwrite)
        source = Source.open(vectors, queries)
        if vectors:
            source = _within(source, name, target, rescale)
        record = {
            "format": VERSION, "kind": "export", "target": name, "source": source.record(),
            **_write(source, folder, target, Layout(_read_vocabulary(vocabulary), max_bytes or MAX_BYTES)),
        }  # fmt: skip
        (folder / USAGE).write_bytes(target.usage.encode())
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        record["files"] = {path.relative_to(folder).as_posix(): sha256(path) for path in files}
        write_record(folder / RECORD, record)
    return record


def _write(source: Source, folder: Path, target: Format, layout: Layout) -> dict[str, Any]:
    """Write all files, compare the counts with the source, and return them."""
    facts: dict[str, Any] = {}
    if source.vectors:
        if target.numbers == "any":
            layout = replace(layout, terms=layout.terms or source.contents.terms)
            (folder / tables.VOCABULARY).write_bytes("".join(f"{term}\n" for term in layout.terms).encode())
        written = target.documents(source, folder, layout)
        loss = source.loss()
        _compare("documents", source.contents.documents, source.contents.postings, written, loss.dropped)
        layout = replace(layout, terms=written.terms or layout.terms)
        facts |= {"documents": written.vectors, "postings": written.postings, **written.facts}
        if source.factor != 1.0:
            facts |= {"factor": source.factor, "dropped": loss.dropped, "largest_error": loss.relative_error}
    if source.queries:
        written = target.queries(source, folder, layout)
        _compare("queries", len(source.queries), sum(map(len, source.queries.values())), written, written.unknown_terms)
        facts |= {"queries": written.vectors, "query_terms": written.postings, **written.facts}
        facts |= {"query_terms_of_no_document": written.unknown_terms} if target.numbers != "none" else {}
    return facts


def _check_options(name: str, vectors: bool, queries: Path | None, vocabulary: Path | None) -> None:
    numbers = FORMATS[name].numbers
    if not (vectors or queries):
        raise LearnedSparseError("nothing to export: give --vectors DIR, --queries DIR or both")
    if vocabulary and (numbers == "none" or (numbers == "own" and vectors)):
        raise LearnedSparseError(f"--vocabulary: {name} writes the terms of its documents itself")
    if numbers != "none" and not vectors and not vocabulary:
        file = inverted.PISA_TERMS if name == "pisa" else tables.VOCABULARY
        raise LearnedSparseError(f"queries for {name} hold numbers of terms: give --vocabulary {file} of its documents")


def _within(source: Source, name: str, target: Format, rescale: bool) -> Source:
    """``source``, rescaled if it has impacts that the engine would round; an error without ``rescale``."""
    largest = source.contents.largest_impact
    if largest <= target.largest:
        if rescale:
            raise LearnedSparseError(f"--rescale: {name} holds all impacts exactly (up to {largest:,}); omit it")
        return source
    if not rescale:
        raise LearnedSparseError(
            f"the largest impact is {largest:,}, and {name} holds integers up to {target.largest:,} exactly; "
            f"encode with --bits {target.largest.bit_length() - 1}, or reduce all impacts with --rescale"
        )
    return source.rescaled(target.largest)


def _read_vocabulary(path: Path | None) -> Sequence[str]:
    if path is None:
        return ()
    if not path.is_file():
        raise LearnedSparseError(f"{path}: no such file; --vocabulary takes a file with one term a line")
    try:
        terms = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise LearnedSparseError(f"{path}: not UTF-8 text: {error.reason}") from None
    terms = terms[:-1] if terms[-1] == "" else terms
    first: dict[str, int] = {}
    for number, term in enumerate(terms, start=1):
        if not term or first.setdefault(term, number) != number:
            problem = f"the term {term!r} is also in line {first[term]}" if term else "no term"
            raise LearnedSparseError(f"{path}:{number}: {problem}; give each term one line")
    return terms


def _compare(what: str, vectors: int, postings: int, written: Written, left_out: int) -> None:
    if (written.vectors, written.postings + left_out) != (vectors, postings):
        raise LearnedSparseError(
            f"{vectors:,} {what} with {postings:,} terms read, {written.vectors:,} with {written.postings:,} written"
        )


def _check_output(output: Path, overwrite: bool) -> None:
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not (output / RECORD).is_file():
        raise LearnedSparseError(f"{output}: exists and holds no export; name another folder")
    if not overwrite:
        raise LearnedSparseError(f"{output}: holds an export already; replace it with --overwrite")
