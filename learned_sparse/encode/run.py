"""From options to vectors: open the input, load both sides of the model, encode documents or queries."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learned_sparse.collections import (
    DocumentReader,
    Segmentation,
    count_documents,
    load_collection,
    read_documents,
    read_queries,
    segments_for,
)
from learned_sparse.core import (
    Document,
    Encoder,
    LearnedSparseError,
    LuceneTerms,
    Quantizer,
    Query,
    SparseBatch,
    encode_texts,
    load_encoder,
    queries_folder,
    sha256,
    vectors_folder,
    write_json,
)
from learned_sparse.core import Side as SideName
from learned_sparse.encode.bm25 import BITS
from learned_sparse.encode.documents import DocumentEncoding, Progress
from learned_sparse.encode.hybrid import DEFAULT_ALPHA, Hybrid, hybrid_sides, recorded_hybrid
from learned_sparse.encode.options import BM25, recorded_options
from learned_sparse.encode.parts import Describe, PartFolder, Window, describe_run
from learned_sparse.encode.quantizers import Calibration, choose_quantizer
from learned_sparse.encode.slices import impact_counts
from learned_sparse.jsonvector import ENCODED, MANIFEST, STATISTICS, TOPICS, Manifest, Part, write_queries

WINDOW = 2048
"""Queries of one call of the encoder."""


@dataclass(frozen=True)
class Source:
    """Documents or queries to encode, and the output folder."""

    name: str
    """Name for messages."""
    output: Path
    collection: str | None = None
    """Name of the collection; None for ``--input``."""
    split: str | None = None
    reader: DocumentReader | None = None
    """Documents, to be read once; None for queries."""
    queries: Sequence[Query] = ()
    files: tuple[Path, ...] = ()
    """Input files; empty for a collection without files."""
    expansions: tuple[Path, ...] = ()
    """Files of predicted queries."""
    documents: int | None = None
    """Number of documents, if the collection's description has it."""
    opened: Mapping[str, str] | None = None
    """``--collection`` and ``--data`` as the user named them."""

    def described(self) -> tuple[dict[str, Any], ...]:
        """``Manifest.input``: the collection, the files, and last the digest of the queries."""
        entries: list[dict[str, Any]] = [dict(self.opened)] if self.opened else []
        entries += [{"file": str(file), "bytes": file.stat().st_size} for file in self.files]
        entries += [{"expanded": str(file), "bytes": file.stat().st_size} for file in self.expansions]
        if self.queries:
            digest = Window(0, [Document(query.id, query.text) for query in self.queries]).digest
            entries.append({"queries": len(self.queries), "sha256": digest})
        return tuple(entries)

    def count(self) -> int | None:
        """Number of queries, or of documents as ``count_documents`` finds it."""
        return len(self.queries) or count_documents(self.files, self.documents)


def open_source(options: Namespace) -> Source:
    """Find the collection or the files; queries are read here, documents later."""
    if options.input is not None:
        name = str(options.input)
        if options.queries:
            return Source(name, options.output, queries=read_queries(options.input), files=(options.input,))
        reader = read_documents(options.input, on_bad_line=options.on_bad_line, expanded=options.expanded)
        return Source(name, options.output, reader=reader, files=reader.files, expansions=reader.expansions)
    collection = load_collection(options.collection, data=options.data)
    name = collection.name
    if options.queries:
        split = collection.choose_split(options.split)
        output = options.output or queries_folder(name, split, options.model)
        return Source(f"{name} {split}", output, name, split, queries=collection.queries(split))
    folder = vectors_folder(name, options.model)
    if options.num_shards > 1:
        folder = folder.with_name(f"{folder.name}-shard-{options.shard_id}-of-{options.num_shards}")
    reader = collection.documents(options.on_bad_line, options.expanded)
    known = collection.description.documents
    opened = {"collection": str(options.collection)} | ({"data": str(options.data)} if options.data else {})
    return Source(
        name, options.output or folder, name, reader=reader, files=reader.files, expansions=reader.expansions,
        documents=known, opened=opened,
    )  # fmt: skip


@dataclass(frozen=True)
class Side:
    """One side of a checkpoint, for documents or for queries."""

    encoder: Encoder
    describe: Describe
    """Of documents, the manifest records the query side too, with the same revision, device, dtype and settings."""
    quantizer: Quantizer | Calibration


def load_side(options: Namespace, checkpoint: str, source: Source) -> Side:
    """Load what encodes ``source``."""
    side: SideName = "query" if options.queries else "document"
    shared = {
        "model": options.model,
        "revision": options.revision,
        "device": options.device,
        "dtype": options.dtype,
        "settings": options.changes or None,
    }
    compiled = {"compile": True} if options.compile else {}
    encoder = load_encoder(
        checkpoint, side, max_length=options.max_length, batch_size=options.batch_size, top_k=options.top_k,
        **compiled, **shared,
    )  # fmt: skip
    query_encoder = None if options.queries else load_encoder(checkpoint, "query", **shared)
    if options.hybrid is not None:
        encoder, query_encoder = _join(options, source, encoder, query_encoder)
    if options.expanded is not None and not encoder.uses_expanded:
        raise LearnedSparseError(f"--expanded: {options.model} does not read expanded text; leave it out")
    describe = describe_run(
        encoder,
        query_encoder,
        kind="queries" if options.queries else "documents",
        collection=source.collection,
        split=source.split,
        model=options.model,
        checkpoint=checkpoint,
        input=source.described(),
        options=recorded_options(options),
    )
    bits = None if options.hybrid else options.bits  # of a hybrid, its quantiser has them
    quantizer = choose_quantizer(
        side, encoder, factor=options.quantization_factor, bits=bits, percentile=options.calibration
    )
    return Side(encoder, describe, quantizer)


def _join(
    options: Namespace, source: Source, encoder: Encoder, queries: Encoder | None
) -> tuple[Encoder, Encoder | None]:
    """Both sides joined with BM25, after a pass over the documents; or the side of queries, as the documents record."""
    if queries is None:
        named = options.hybrid != BM25
        folder = Path(options.hybrid) if named else vectors_folder(str(source.collection), options.model)
        alpha = DEFAULT_ALPHA if options.alpha is None else options.alpha
        return Hybrid.queries(encoder, recorded_hybrid(folder), alpha), None
    reader = open_source(options).reader or ()  # ``source`` reads the documents once, for their vectors
    texts = (document.with_expanded if encoder.uses_expanded else document.text for document in reader)
    resumed = options.resume and (source.output / MANIFEST).is_file()
    return hybrid_sides(
        encoder, queries, texts, bits=options.bits or BITS, percentile=options.calibration,
        record=recorded_hybrid(source.output) if resumed else None,
    )  # fmt: skip


def encode_source(options: Namespace, checkpoint: str, source: Source, progress: Progress | None = None) -> Manifest:
    """Encode ``source`` with one side of ``checkpoint``; returns the finished manifest."""
    side = load_side(options, checkpoint, source)
    if source.reader is None:
        return _encode_queries(options, source, side, progress)
    segmentation = Segmentation.recorded(vars(options))
    encoding = DocumentEncoding(
        PartFolder(source.output, compress=options.gzip),
        segments_for(side.encoder, source.reader, segmentation)
        if segmentation and not segmentation.adds_up
        else source.reader,
        side.encoder,
        options.part_size,
        adding_up=segmentation if segmentation and segmentation.adds_up else None,
        num_shards=options.num_shards,
        shard_id=options.shard_id,
    )
    manifest = encoding.run(
        side.quantizer, side.describe, resume=options.resume, overwrite=options.overwrite, progress=progress
    )
    if isinstance(side.encoder, Hybrid) and side.encoder.statistics is not None:
        side.encoder.statistics.save(source.output / STATISTICS)
    if options.times and encoding.encoded:
        write_json(options.times, {"documents": encoding.encoded, "seconds": round(encoding.seconds, 3)})
    return manifest


def _encode_queries(options: Namespace, source: Source, side: Side, progress: Progress | None = None) -> Manifest:
    """Write ``queries.tsv``, ``queries.jsonl`` and the manifest.

    Queries are few: a resumed run compares the settings, then encodes all queries again.
    """
    queries, folder, quantizer = source.queries, source.output, side.quantizer
    if not queries:
        raise LearnedSparseError(f"{source.name}: there are no queries to encode")
    parts = PartFolder(folder)
    fixed = quantizer if isinstance(quantizer, Quantizer) else None
    manifest = parts.begin(side.describe, fixed, resume=options.resume, overwrite=options.overwrite)
    stored = parts.stored
    if manifest and stored and stored.complete and stored.input[-1:] != manifest.input[-1:]:
        raise LearnedSparseError(
            f"{folder}: the ids or texts of the queries have changed since they were encoded; "
            "encode them again with --overwrite, or into another --output"
        )
    ids, texts = [query.id for query in queries], [query.text for query in queries]
    windows = []
    for start in range(0, len(texts), WINDOW):
        windows.append(encode_texts(side.encoder, texts[start : start + WINDOW]))
        if progress is not None:
            progress(len(windows[-1]))
    weights = SparseBatch.concatenate(windows)
    if manifest is None:
        quantizer = quantizer.find(weights, ids) if isinstance(quantizer, Calibration) else quantizer
        manifest = side.describe(quantizer)
    impacts, statistics = manifest.quantizer.quantize(weights, ids)
    parts.save_unfinished(manifest)
    warnings = write_queries(folder, queries, impacts, LuceneTerms(side.encoder.terms))
    files = [Part(file=name, documents=len(queries), sha256=sha256(folder / name)) for name in (TOPICS, ENCODED)]
    empty = sum(not text.strip() for text in texts)
    counts = dataclasses.replace(
        impact_counts(impacts, statistics), read=len(queries), empty_texts=empty, truncated=side.encoder.truncated
    )
    manifest = dataclasses.replace(manifest, environment=dict(side.encoder.environment))
    return manifest.finish(folder, files, counts, warnings)
