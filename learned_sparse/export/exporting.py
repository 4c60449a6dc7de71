"""Export documents and queries in one format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import new_output, read_json, sha256, write_json
from learned_sparse.core.lazy import Register
from learned_sparse.core.lines import read_lines
from learned_sparse.core.quantize import MAX_IMPACT
from learned_sparse.export import inverted, servers, tables
from learned_sparse.export.documents import FIELD, VOCABULARY, Documents, Vector
from learned_sparse.jsonvector.manifest import EXACT_FLOATS, parts_sha256
from learned_sparse.jsonvector.queries import check_queries, read_topics

RECORD = "export.json"
USAGE = "USAGE.txt"
VERSION = 1
Facts = dict[str, Any] | None
"""Further entries of the record."""


@dataclass(frozen=True)
class Format:
    """The files of one engine, and what it can hold."""

    about: str
    documents: Callable[[Documents, Path], Facts]
    """Writes documents into a folder."""
    queries: Callable[[Mapping[str, Vector], Path, Sequence[str]], Facts]
    """Writes queries into a folder; the last argument is the terms of the documents."""
    largest: int
    """Largest impact of a document up to which all integers are exact."""
    vocabulary: str | None
    """File with one term a line, whose line number (from 0) is its number; None if terms are text."""


FORMATS: Register[Format] = Register("learned_sparse.formats", {
    "ciff": Format("Common Index File Format, for PISA, JASS, Terrier and others",
                   inverted.export_ciff, inverted.export_queries, MAX_IMPACT, VOCABULARY),
    "pisa": Format("index folder of PISA and pyterrier-pisa",
                   inverted.export_pisa, inverted.export_queries, MAX_IMPACT, inverted.PISA_TERMS),
    "seismic": Format("JSON lines of Seismic",
                      tables.export_seismic, tables.seismic_queries, tables.SEISMIC_LARGEST, None),
    "opensearch": Format("mapping with rank_features, bulk files, queries",
                         servers.export_opensearch, servers.opensearch_queries, servers.MAX_FEATURE, None),
    "elasticsearch": Format("mapping with sparse_vector, bulk files, queries",
                            servers.export_elasticsearch, servers.elasticsearch_queries, servers.MAX_FEATURE, None),
    "qdrant": Format("points with a sparse vector, queries",
                     tables.export_qdrant, tables.qdrant_queries, EXACT_FLOATS, VOCABULARY),
    "pgvector": Format("table with a sparsevec, files for COPY, queries",
                       tables.export_pgvector, tables.pgvector_queries, EXACT_FLOATS, VOCABULARY),
    "parquet": Format("columns of Arrow: id, term numbers, impacts",
                      tables.export_parquet, tables.parquet_queries, MAX_IMPACT, VOCABULARY),
    "lsr-benchmark": Format("embeddings of lsr-benchmark (its step 2)",
                            tables.export_arrays, tables.array_queries, EXACT_FLOATS, VOCABULARY),
})  # fmt: skip
"""Formats by the name of the engine; those of installed packages are entry points of ``learned_sparse.formats``."""


def export_vectors(
    name: str,
    output: Path,
    *,
    vectors: Sequence[Path] = (),
    queries: Path | None = None,
    vocabulary: Path | None = None,
    fields: Sequence[str] = (),
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write encoded documents and queries to the folder ``output`` in a format of ``FORMATS``; returns its record.

    ``vectors``: an encoded folder or all its shards, or plain vector files. ``queries``: what ``learned_sparse.encode
    --queries`` wrote. ``vocabulary``: for queries alone, the file with the terms of an export of their documents.
    ``fields``: of the encoded JSON lines, stored with the documents of opensearch and elasticsearch.
    The folder is written whole or not at all; ``export.json`` in it holds the record, ``USAGE.txt`` says how to load
    the files.
    """
    target = FORMATS[name]
    if not (vectors or queries):
        raise LearnedSparseError("nothing to export: give --vectors DIR, --queries DIR or both")
    if vocabulary and (vectors or not target.vocabulary):
        raise LearnedSparseError(f"--vocabulary: {name} writes the terms of its documents itself")
    if fields and (name not in servers.FORMATS or not vectors or {"id", FIELD} & set(fields)):
        raise LearnedSparseError(
            f"--fields: documents of {' and '.join(servers.FORMATS)} have them, with other names than id and {FIELD}"
        )
    if target.vocabulary and not vectors and not vocabulary:
        raise LearnedSparseError(
            f"queries for {name} hold numbers of terms: give --vocabulary {target.vocabulary} of their documents"
        )
    with new_output(output, RECORD, _written, overwrite=overwrite) as folder:
        record: dict[str, Any] = {"format": VERSION, "kind": "export", "target": name, "source": {}}
        terms: Sequence[str] = _read_vocabulary(vocabulary) if vocabulary else ()
        if vectors:
            documents = Documents.open(vectors, fields)
            for manifest in documents.vectors.manifests[:1]:
                record["source"] = {key: getattr(manifest, key) for key in ("collection", "model", "checkpoint")}
                record["source"]["parts_sha256"] = parts_sha256(documents.vectors.manifests)
                if queries:
                    check_queries(queries, manifest)
            if documents.largest_impact > target.largest:
                raise LearnedSparseError(
                    f"the largest impact is {documents.largest_impact:,}, and {name} holds integers up to "
                    f"{target.largest:,} exactly; encode with --bits {target.largest.bit_length() - 1}"
                )
            terms = documents.terms
            if target.vocabulary:
                (folder / target.vocabulary).write_bytes("".join(f"{term}\n" for term in terms).encode())
            record |= {"documents": documents.count, "postings": documents.postings}
            record |= target.documents(documents, folder) or {}
        if queries:
            rows: Mapping[str, Vector] = read_topics(queries)
            if target.vocabulary:
                numbered, read = set(terms), rows
                rows = {q: {t: impact for t, impact in row.items() if t in numbered} for q, row in read.items()}
                unknown = sum(map(len, read.values())) - sum(map(len, rows.values()))
                record["query_terms_of_no_document"] = unknown
            record |= {"queries": len(rows), "query_terms": sum(map(len, rows.values()))}
            record |= target.queries(rows, folder, terms) or {}
        usage = Path(__file__).parent / "usage" / f"{name}.txt"
        (folder / USAGE).write_bytes(usage.read_bytes() if usage.is_file() else f"{target.about}\n".encode())
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        record["files"] = {path.relative_to(folder).as_posix(): sha256(path) for path in files}
        write_json(folder / RECORD, record)
    return record


def _written(output: Path) -> list[Path]:
    return [output / name for name in read_json(output / RECORD)["files"]]


def _read_vocabulary(path: Path) -> Sequence[str]:
    try:
        return [line.decode().removesuffix("\n") for _, line in read_lines(path, raw=True)]
    except UnicodeDecodeError as error:
        raise LearnedSparseError(f"{path}: not UTF-8 text: {error.reason}") from None
