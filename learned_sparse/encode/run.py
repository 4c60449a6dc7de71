"""From options to vectors: open the input, load the encoder, encode documents or queries."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from learned_sparse.collections import (
    Collection,
    DocumentReader,
    load_collection,
    read_documents,
    read_queries,
    segments_for,
)
from learned_sparse.core import (
    Encoder,
    LearnedSparseError,
    LuceneTerms,
    Quantizer,
    Query,
    SparseBatch,
    load_encoder,
    queries_folder,
    sha256,
    vectors_folder,
)
from learned_sparse.encode.documents import DocumentEncoding, Progress, impact_counts
from learned_sparse.encode.options import DEMO_COLLECTION, EncodeOptions
from learned_sparse.encode.parts import Describe, PartFolder
from learned_sparse.encode.quantizers import Calibration
from learned_sparse.jsonvector import ENCODED, MANIFEST, TOPICS, Manifest, Part, versions, write_queries

WINDOW = 2048
"""Queries of one call of the encoder."""


@dataclass(frozen=True)
class Source:
    """Documents or queries to encode, and the output folder."""

    options: EncodeOptions
    output: Path
    described: Collection | None
    """None for ``--input``."""
    split: str | None
    reader: DocumentReader | None
    """Documents, to be read once; None for queries."""

    @property
    def collection(self) -> str | None:
        """Name of the collection; None for ``--input``."""
        return None if self.described is None else self.described.name

    @property
    def name(self) -> str:
        """Name for messages."""
        return " ".join(filter(None, [self.collection or str(self.options.input), self.split]))

    @property
    def files(self) -> tuple[dict[str, Any], ...]:
        """``{"file", "bytes"}`` of each input file, for the manifest."""
        if self.reader is not None:
            files = self.reader.files
        else:
            files = () if self.options.input is None else (self.options.input,)
        return tuple({"file": str(file), "bytes": file.stat().st_size} for file in files)

    def queries(self) -> list[Query]:
        """The queries."""
        if self.described is not None and self.split is not None:
            return self.described.queries(self.split)
        return read_queries(self.options.input) if self.options.input is not None else []

    def output_lines(self) -> list[str]:
        """Output files with their use, one line each."""
        if self.options.queries:
            return [
                f"topics    {self.output / TOPICS}   (--topics, without --encoder)",
                f"encoded   {self.output / ENCODED} (--encoder, with the original topics)",
                f"manifest  {self.output / MANIFEST}",
            ]
        return [f"vectors   {self.output / 'vectors'}", f"manifest  {self.output / MANIFEST}"]

    def next_command(self) -> str:
        """Command that uses the output."""
        options = self.options
        if not options.queries and options.num_shards > 1:
            return "python -m learned_sparse.index --index DIR --input SHARD... (when all shards are encoded)"
        if not options.queries and options.output is not None:
            return f"python -m learned_sparse.index --input {self.output} --index DIR"
        index = f"--model {options.model}"
        if options.collection not in {None, DEMO_COLLECTION} or not options.queries:
            index += f" --collection {options.collection}"
        if not options.queries:
            return f"python -m learned_sparse.index {index}"
        data = f" --data {options.data}" if options.data is not None else ""
        searched = f"{index}{data}" if options.output is None else "--index INDEX"
        topics = f"--topics {options.input}" if self.split is None else f"--split {self.split}"
        return f"python -m learned_sparse.search {searched} {topics}"


def open_source(options: EncodeOptions) -> Source:
    """Find the collection or the files; only descriptions are read here."""
    if options.input is not None and options.output is not None:
        reader = None if options.queries else read_documents(options.input, on_bad_line=options.on_bad_line)
        return Source(options, options.output, None, None, reader)
    if options.collection is None:
        raise LearnedSparseError("give --input FILE or --collection NAME to say what to encode")
    collection = load_collection(options.collection, data=options.data)
    if options.queries:
        split = _split(collection, options.split)
        output = options.output or queries_folder(collection.name, split, options.model)
        return Source(options, output, collection, split, None)
    folder = vectors_folder(collection.name, options.model)
    if options.num_shards > 1:
        folder = folder.with_name(f"{folder.name}-shard-{options.shard_id}-of-{options.num_shards}")
    return Source(options, options.output or folder, collection, None, collection.documents(options.on_bad_line))


def load_side(options: EncodeOptions, checkpoint: str) -> Encoder:
    """The side of ``checkpoint`` that ``options`` need."""
    return load_encoder(checkpoint, options.side, model=options.model, **options.encoder_options(options.side))


@dataclass(frozen=True)
class QuerySide:
    """What the manifest of encoded documents records about the query side of the same model."""

    description: dict[str, Any] | None = None
    quantizer: Quantizer | None = None


def query_side(options: EncodeOptions, checkpoint: str) -> QuerySide:
    """Query side with the same revision, device, data type and settings as the documents; empty for queries."""
    if options.queries:
        return QuerySide()
    encoder = load_encoder(checkpoint, "query", model=options.model, **options.encoder_options("query"))
    description = dict(encoder.description)
    quantizer = options.choose_quantizer("query", description.get("scoring", "impact"), encoder.quantizer)
    if not isinstance(quantizer, Quantizer):
        raise TypeError("a query side is calibrated only with --queries")
    return QuerySide(description, quantizer)


def encode_source(
    options: EncodeOptions,
    checkpoint: str,
    source: Source,
    encoder: Encoder,
    queries: QuerySide,
    progress: Progress | None = None,
) -> Manifest:
    """Encode ``source``; returns the finished manifest.

    ``encoder`` is ``load_side(options, checkpoint)``, and ``queries`` is ``query_side(options, checkpoint)``.
    """
    description = dict(encoder.description)
    scoring = description.get("scoring", "impact")

    def describe(quantizer: Quantizer) -> Manifest:
        return Manifest(
            kind="queries" if options.queries else "documents",
            collection=source.collection,
            split=source.split,
            model=options.model,
            checkpoint=checkpoint,
            architecture=description.get("architecture", type(encoder).__name__),
            scoring=scoring,
            encoder=description,
            query_encoder=queries.description,
            quantizer=quantizer,
            query_quantizer=queries.quantizer,
            input=source.files,
            options=options.recorded(),
            versions=versions(),
        )

    quantizer = options.choose_quantizer(options.side, scoring, encoder.quantizer)
    if source.reader is None:
        return _encode_queries(options, source, encoder, quantizer, describe)
    segmentation = options.segmentation()
    encoding = DocumentEncoding(
        PartFolder(source.output, compress=options.gzip),
        segments_for(encoder, source.reader, segmentation) if segmentation else source.reader,
        encoder,
        options.part_size,
        num_shards=options.num_shards,
        shard_id=options.shard_id,
    )
    return encoding.run(quantizer, describe, resume=options.resume, overwrite=options.overwrite, progress=progress)


def _encode_queries(
    options: EncodeOptions, source: Source, encoder: Encoder, quantizer: Quantizer | Calibration, describe: Describe
) -> Manifest:
    """Write ``queries.tsv``, ``queries.jsonl`` and the manifest.

    Queries are few: a resumed run compares the settings, then encodes all queries again.
    """
    queries, folder = source.queries(), source.output
    if not queries:
        raise LearnedSparseError(f"{source.name}: there are no queries to encode")
    fixed = quantizer if isinstance(quantizer, Quantizer) else None
    parts = PartFolder(folder)
    stored = parts.begin(describe, fixed, resume=options.resume, overwrite=options.overwrite)
    ids, texts = [query.id for query in queries], [query.text for query in queries]
    weights = SparseBatch.concatenate(
        [encoder.encode(texts[start : start + WINDOW]) for start in range(0, len(texts), WINDOW)]
    )
    if stored is not None:
        quantizer = stored.quantizer
    elif isinstance(quantizer, Calibration):
        quantizer = quantizer.find(weights, ids)
    impacts, statistics = quantizer.quantize(weights, ids)
    manifest = parts.save_unfinished(describe(quantizer))
    warnings = write_queries(folder, queries, impacts, LuceneTerms(encoder.terms))
    counts = dataclasses.replace(
        impact_counts(impacts, statistics),
        read=len(queries),
        written=len(impacts),
        empty_vectors=int(np.count_nonzero(np.diff(impacts.indptr) == 0)),
    )
    files = [Part(file=name, documents=len(queries), sha256=sha256(folder / name)) for name in (TOPICS, ENCODED)]
    finished = manifest.finished(files, counts, warnings)
    finished.save(folder)
    return finished


def _split(collection: Collection, requested: str | None) -> str:
    if requested is not None:
        collection.split(requested)  # raises for an unknown split
        return requested
    names = list(collection.splits)
    if "test" in names:
        return "test"
    if len(names) == 1:
        return names[0]
    raise LearnedSparseError(f"collection {collection.name}: which split? give --split {'|'.join(names)}")
