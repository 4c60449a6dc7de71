"""``python -m learned_sparse.encode``: documents or queries to impact vectors that Pyserini and Anserini read."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from collections.abc import Mapping
from typing import Any

from learned_sparse.encode_options import EncodeOptions, parse_arguments
from learned_sparse.encode_parts import check_output
from learned_sparse.encode_source import Source, open_source
from learned_sparse.errors import LearnedSparseError
from learned_sparse.home import checkpoint_folder
from learned_sparse.manifest import Manifest, versions
from learned_sparse.quantize import Quantizer


def main(argv: list[str] | None = None) -> int:
    """Encode, and say where everything is."""
    options = parse_arguments(argv)
    if options.output is None and not options.overwrite:  # what is at a model's own place is gone on with, or confirmed
        options = dataclasses.replace(options, resume=True)
    checkpoint = options.checkpoint or _default_checkpoint(options.model)
    source = open_source(options)
    started = time.monotonic()
    manifest = encode(options, checkpoint, source)
    _report(manifest, source, time.monotonic() - started)
    return 0


def encode(options: EncodeOptions, checkpoint: str, source: Source) -> Manifest:
    """Encode ``source`` with one side of ``checkpoint`` as ``options`` say; the finished manifest."""
    from encoders.loading import load_encoder
    from learned_sparse.encode_documents import DocumentEncoding, DocumentPlan
    from learned_sparse.encode_quantizer import choose_quantizer
    from learned_sparse.encode_queries import encode_queries
    from learned_sparse.segments import segments_for

    check_output(source.output, resume=options.resume, overwrite=options.overwrite)
    encoder = load_encoder(
        checkpoint, "query" if options.queries else "document", model=options.model, **options.encoder_settings()
    )
    description = dict(encoder.description)
    quantizer = choose_quantizer(options, encoder.quantizer, description["scoring"])
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

    if options.queries:
        return encode_queries(
            source.output, source.queries(), encoder, quantizer, describe,
            resume=options.resume, overwrite=options.overwrite, say=_say,
        )  # fmt: skip
    plan = DocumentPlan(
        folder=source.output,
        part_size=options.part_size,
        num_shards=options.num_shards,
        shard_id=options.shard_id,
        compress=options.gzip,
        resume=options.resume,
        overwrite=options.overwrite,
    )
    with _progress(source.name) as progress:
        cut = options.segmentation()
        reader = segments_for(encoder, source.documents(), cut) if cut else source.documents()
        return DocumentEncoding(plan, reader, encoder, quantizer, say=_say, progress=progress).run(describe)


def _default_checkpoint(model: str) -> str:
    folder = checkpoint_folder(model)
    if not folder.is_dir():
        raise LearnedSparseError(
            f"{folder}: no checkpoint of {model!r}; `make demo` trains one, --checkpoint names another (DIR or Hub id)"
        )
    return str(folder)


def _query_side(options: EncodeOptions, checkpoint: str) -> tuple[dict[str, Any], Quantizer]:
    """What queries for these documents must be encoded with: its own lengths, the same dtype and settings."""
    from encoders.loading import load_encoder
    from learned_sparse.encode_quantizer import choose_quantizer

    settings: Mapping[str, Any] = {
        name: value
        for name, value in options.encoder_settings().items()
        if name in {"revision", "device", "dtype", "settings"}
    }
    encoder = load_encoder(checkpoint, "query", model=options.model, **settings)
    description = dict(encoder.description)
    for_documents: dict[str, Any] = dict.fromkeys(
        ("quantization_factor", "bits", "segment_length", "segments", "segment_overlap", "segment_delimiter")
    )
    unasked = dataclasses.replace(options, queries=True, num_shards=1, shard_id=0, **for_documents)
    quantizer = choose_quantizer(unasked, encoder.quantizer, description["scoring"])
    if not isinstance(quantizer, Quantizer):
        raise TypeError("queries have a quantiser unless bits are asked for")
    return description, quantizer


def _report(manifest: Manifest, source: Source, seconds: float) -> None:
    counts = manifest.counts
    what = f"segments of {counts.segmented:,} documents" if counts.segmented else manifest.kind
    print(f"{counts.written:,} {what} of {source.name} by {manifest.model} ({manifest.checkpoint})")
    details = {
        "with an empty vector (kept)": counts.empty_vectors,
        "with text that expands them": counts.expanded,
        "cut at the maximum length": counts.truncated,
        "in other shards": counts.other_shards,
        **{f"lines skipped: {reason}": count for reason, count in manifest.counts.skipped.items()},
        "impacts clipped": counts.clipped,
        "weights rounded to nothing": counts.lost_to_rounding,
        "weights of terms Lucene cannot hold, left out": counts.unwritable,
    }
    print(f"  {counts.postings / max(counts.written, 1):.1f} terms each; {seconds:.1f} s in all")
    for what, count in details.items():
        if count:
            print(f"  {count:,} {what}")
    for line in source.places():
        print(f"  {line}")
    for warning in manifest.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(f"next: {source.next_command()}")


def _say(remark: str) -> None:
    from tqdm import tqdm

    tqdm.write(remark, file=sys.stderr)


def _progress(name: str) -> contextlib.AbstractContextManager[Any]:
    from tqdm import tqdm

    bar: contextlib.AbstractContextManager[Any] = tqdm(desc=name, unit=" documents", disable=None)
    return bar


if __name__ == "__main__":
    from learned_sparse.cli import run_main

    run_main(main)
