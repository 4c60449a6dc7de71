"""What an encoding run consists of, made from its options: encoder, quantisers, reader, and what the manifest says."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from learned_sparse.collections import segments_for
from learned_sparse.core import Quantizer, load_encoder
from learned_sparse.encode.documents import DocumentEncoding, DocumentPlan, Progress
from learned_sparse.encode.options import EncodeOptions
from learned_sparse.encode.parts import Describe
from learned_sparse.encode.quantizers import Calibration, choose_quantizer
from learned_sparse.encode.source import Source
from learned_sparse.jsonvector import Manifest, versions


def load_side(options: EncodeOptions, checkpoint: str, device: str | None = None) -> Any:
    """The side of ``checkpoint`` that ``options`` ask for, on ``device`` if they name several."""
    settings = options.encoder_settings()
    if device is not None:
        settings["device"] = device
    return load_encoder(checkpoint, "query" if options.queries else "document", model=options.model, **settings)


def plan_run(
    options: EncodeOptions, checkpoint: str, source: Source, encoder: Any
) -> tuple[Quantizer | Calibration, Describe]:
    """The quantiser to use or to find, and the manifest but for the outcome, once there is one."""
    description = dict(encoder.description)
    query_encoder, query_quantizer = (None, None) if options.queries else _query_side(options, checkpoint)

    def describe(found: Quantizer) -> Manifest:
        return Manifest(
            kind="queries" if options.queries else "documents",
            collection=source.collection,
            split=source.split,
            model=options.model,
            checkpoint=checkpoint,
            architecture=description["architecture"],
            scoring=description["scoring"],
            encoder=description,
            query_encoder=query_encoder,
            quantizer=found,
            query_quantizer=query_quantizer,
            input=source.files,
            options=options.recorded(),
            versions=versions(),
        )

    return choose_quantizer(options, encoder.quantizer, description["scoring"]), describe


def document_encoding(
    options: EncodeOptions,
    source: Source,
    encoder: Any,
    quantizer: Quantizer | Calibration,
    *,
    workers: int = 1,
    worker: int = 0,
    say: Callable[[str], None],
    progress: Progress,
) -> DocumentEncoding:
    """The run over the documents of ``source``, or the share of ``worker`` in it."""
    plan = DocumentPlan(
        folder=source.output,
        part_size=options.part_size,
        num_shards=options.num_shards,
        shard_id=options.shard_id,
        workers=workers,
        worker=worker,
        compress=options.gzip,
        resume=options.resume,
        overwrite=options.overwrite,
    )
    cut = options.segmentation()
    reader = segments_for(encoder, source.documents(), cut) if cut else source.documents()
    return DocumentEncoding(plan, reader, encoder, quantizer, say=say, progress=progress)


def _query_side(options: EncodeOptions, checkpoint: str) -> tuple[dict[str, Any], Quantizer]:
    """What queries for these documents must be encoded with: its own lengths, the same dtype and settings."""
    settings: Mapping[str, Any] = {
        name: value
        for name, value in options.encoder_settings().items()
        if name in {"revision", "device", "dtype", "settings"}
    }
    encoder = load_encoder(checkpoint, "query", model=options.model, **settings)
    description = dict(encoder.description)
    for_documents: dict[str, Any] = dict.fromkeys(
        ("quantization_factor", "bits", "segment_length", "segments", "segment_overlap", "segment_delimiter", "devices")
    )
    unasked = dataclasses.replace(options, queries=True, num_shards=1, shard_id=0, **for_documents)
    quantizer = choose_quantizer(unasked, encoder.quantizer, description["scoring"])
    if not isinstance(quantizer, Quantizer):
        raise TypeError("queries have a quantiser unless bits are asked for")
    return description, quantizer
