"""From options to vectors: open the input, load both sides of the model, encode documents or queries."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import logging
import shutil
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from learned_sparse.collections.documents import DocumentReader, read_documents
from learned_sparse.core.encoder import Encoder, choose_quantizer, encode_texts, load_encoder
from learned_sparse.core.encoder import Side as SideName
from learned_sparse.core.errors import LearnedSparseError, counted
from learned_sparse.core.files import queries_folder, sha256, vectors_folder, write_json
from learned_sparse.core.records import SparseBatch
from learned_sparse.core.settings import add_engine_options
from learned_sparse.encode.parts import PartFolder, merge_shards
from learned_sparse.encode.pipeline import Pipeline, Progress
from learned_sparse.jsonvector.manifest import MANIFEST, STATISTICS, Counts, Manifest, Part
from learned_sparse.jsonvector.writer import LuceneTerms

if TYPE_CHECKING:
    from learned_sparse.collections.topics import Query
    from learned_sparse.encode.bm25 import Bm25Statistics
    from learned_sparse.ray import Engine

_log = logging.getLogger(__name__)
BM25 = "bm25"
"""Value of ``--with``."""
WINDOW = 2048
"""Queries of one call of the encoder."""
_RECORDED = (
    "part_size", "gzip", "num_shards", "shard_id", "segment_length", "segments", "segment_overlap", "segment_delimiter",
    "bits", "calibration", "quantization_factor",
)  # fmt: skip
"""Options with an effect on vectors or files that the description of the encoder does not have."""


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
    opened: Mapping[str, str] | None = None
    """``--collection`` and ``--data`` as the user named them."""

    def count(self) -> int | None:
        """Number of queries, or of documents as ``count_documents`` finds it."""
        from learned_sparse.collections.collection import count_documents

        return len(self.queries) if self.reader is None else count_documents(self.reader)


def open_source(options: Namespace) -> Source:
    """Find the collection or the files; queries are read here, documents later."""
    if options.input is not None:
        name = str(options.input)
        if options.queries:
            from learned_sparse.collections.topics import read_queries

            return Source(name, options.output, queries=read_queries(options.input), files=(options.input,))
        reader = read_documents(options.input, on_bad_line=options.on_bad_line, expanded=options.expanded)
        return Source(name, options.output, reader=reader, files=reader.files)
    from learned_sparse.collections.collection import load_collection

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
    opened = {"collection": str(options.collection)} | ({"data": str(options.data)} if options.data else {})
    return Source(name, options.output or folder, name, reader=reader, files=reader.files, opened=opened)


def encode_source(options: Namespace, source: Source, progress: Progress) -> Manifest:
    """Encode ``source`` with one side of the checkpoint; returns the finished manifest."""
    side: SideName = "query" if options.queries else "document"
    encoder, query_encoder, statistics = _load(options, source)
    if options.expanded is not None and not encoder.uses_expanded:
        raise LearnedSparseError(f"--expanded: {options.model} does not read expanded text; omit it")
    entries: list[dict[str, Any]] = [dict(source.opened)] if source.opened else []
    entries += [{"file": str(file), "bytes": file.stat().st_size} for file in source.files]
    expansions = source.reader.expansions if source.reader else ()
    entries += [{"expanded": str(file), "bytes": file.stat().st_size} for file in expansions]
    if source.queries:
        texts = "".join(f"{query.id}\t{query.text}\n" for query in source.queries)
        digest = hashlib.sha256(texts.encode("utf-8", "surrogatepass")).hexdigest()
        entries.append({"queries": len(source.queries), "sha256": digest})
    # A resumed run must have the same options, except for the paths.
    recorded = {name: vars(options).get(name) for name in _RECORDED}
    recorded |= {name: str(vars(options)[name]) for name in ("expanded", "revision") if vars(options)[name]}
    bits = None if options.hybrid else options.bits  # of a hybrid, its quantiser has them
    quantizer = choose_quantizer(side, encoder, factor=options.quantization_factor, bits=bits)
    parts = PartFolder(
        source.output, encoder, query_encoder, quantizer, overwrite=options.overwrite,
        kind="queries" if options.queries else "documents", collection=source.collection, split=source.split,
        model=options.model, checkpoint=options.checkpoint, input=tuple(entries), options=recorded,
    )  # fmt: skip
    del query_encoder  # ``parts`` has its description; a hybrid was weighed with its network, which is large
    if source.reader is None:
        return _encode_queries(source, encoder, parts, progress)
    pipeline = Pipeline(parts, source.reader, encoder)
    manifest = pipeline.run(progress)
    if pipeline.encoded:
        rate = pipeline.encoded / pipeline.seconds
        _log.info("%s encoded, %.1f per second without loading", counted(pipeline.encoded, "document"), rate)
    if statistics is not None:
        write_json(source.output / STATISTICS, dataclasses.asdict(statistics), record=True)
    if options.times and pipeline.encoded:
        write_json(options.times, {"documents": pipeline.encoded, "seconds": round(pipeline.seconds, 3)})
    return manifest


def encode_with_ray(argv: Sequence[str] | None, source: Source, engine: Engine) -> Manifest:
    """Encode the documents of ``source`` as tasks of Ray, one shard each; the same files as those of one process.

    Shards are encoded into ``OUTPUT/shards`` with the words ``argv`` of this command, and continued there after a kill.
    """
    engine_options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_engine_options(engine_options)
    _, words = engine_options.parse_known_args(sys.argv[1:] if argv is None else list(argv))
    words = [word for word in words if word not in {"--overwrite", "--resume"}]
    with engine.tasks() as tasks:
        folders = [source.output / "shards" / f"{shard}-of-{tasks.workers}" for shard in range(tasks.workers)]
        shards = ["--num-shards", str(tasks.workers), "--shard-id"]
        (source.output / "shards").mkdir(parents=True, exist_ok=True)
        commands = {
            folder.with_name(f"{folder.name}.log"): [*words, *shards, str(i), "--output", str(folder), "--resume"]
            for i, folder in enumerate(folders)
        }
        tasks.run_all("learned_sparse.encode", commands, source.name)
    manifest = merge_shards(folders, source.output)
    shutil.rmtree(source.output / "shards")
    return manifest


def _load(options: Namespace, source: Source) -> tuple[Encoder, Encoder | None, Bm25Statistics | None]:
    """The encoder of ``source``; for documents also the side of queries, and BM25's statistics with ``--with bm25``."""
    checkpoint = options.checkpoint
    shared = {name: getattr(options, name) for name in ("model", "revision", "device", "dtype")}
    shared["settings"] = options.changes or None
    own = shared | {name: getattr(options, name) for name in ("max_length", "batch_size", "top_k")}
    if options.hybrid is None:
        query_encoder = None if options.queries else load_encoder(checkpoint, "query", weights=False, **shared)
        return load_encoder(checkpoint, "query" if options.queries else "document", **own), query_encoder, None
    from learned_sparse.encode import bm25, hybrid

    if options.queries:
        named = options.hybrid != BM25
        folder = Path(options.hybrid) if named else vectors_folder(str(source.collection), options.model)
        described = dataclasses.asdict(hybrid.recorded_hybrid(folder))
        return hybrid.load_encoder(checkpoint, "query", hybrid=described, **own), None, None
    resumed = options.resume and (source.output / MANIFEST).is_file()
    record = hybrid.recorded_hybrid(source.output) if resumed else None
    queries = load_encoder(checkpoint, "query", weights=record is None, **shared)
    documents = load_encoder(checkpoint, "document", **own)
    reader = open_source(options).reader or ()  # ``source`` reads the documents once, for their vectors
    texts = (document.with_expanded if documents.uses_expanded else document.text for document in reader)
    joined, queries = hybrid.hybrid_sides(
        documents, queries, texts, bits=options.bits or bm25.BITS, percentile=options.calibration, record=record
    )
    return joined, queries, joined.statistics


def _encode_queries(source: Source, encoder: Encoder, parts: PartFolder, progress: Progress) -> Manifest:
    """Write ``queries.tsv``, ``queries.jsonl`` and the manifest; a resumed run encodes all queries again."""
    from learned_sparse.jsonvector.queries import ENCODED, TOPICS, write_queries

    queries, folder = source.queries, source.output
    if not queries:
        raise LearnedSparseError(f"{source.name}: there are no queries to encode")
    ids, texts = [query.id for query in queries], [query.text for query in queries]
    windows = []
    for start in range(0, len(texts), WINDOW):
        windows.append(encode_texts(encoder, texts[start : start + WINDOW]))
        progress(len(windows[-1]))
    weights = SparseBatch.concatenate(windows)
    parts.begin(weights, ids, "query")
    impacts, statistics = parts.manifest.quantizer.quantize(weights, ids, "query")
    warnings = write_queries(folder, queries, impacts, LuceneTerms(weights.terms))
    files = [Part(file=name, documents=len(queries), sha256=sha256(folder / name)) for name in (TOPICS, ENCODED)]
    empty = sum(not text.strip() for text in texts)
    counts = dataclasses.replace(
        Counts.of(impacts, statistics), read=len(queries), empty_texts=empty, truncated=weights.truncated
    )
    manifest = dataclasses.replace(parts.manifest, environment=dict(encoder.environment))
    return manifest.finish(folder, files, counts, warnings)
