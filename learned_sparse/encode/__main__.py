"""``python -m learned_sparse.encode``: documents or queries to impact vectors that Pyserini and Anserini read."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from typing import Any

from learned_sparse.core import LearnedSparseError, checkpoint_folder
from learned_sparse.encode.options import EncodeOptions, parse_arguments
from learned_sparse.encode.parts import check_output
from learned_sparse.encode.source import Source, open_source
from learned_sparse.jsonvector import Manifest


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
    from learned_sparse.encode.queries import encode_queries
    from learned_sparse.encode.setup import document_encoding, load_side, plan_run
    from learned_sparse.encode.workers import encode_on_devices

    check_output(source.output, resume=options.resume, overwrite=options.overwrite)
    if options.devices:
        with _progress(source.name) as progress:
            return encode_on_devices(options, checkpoint, source, options.devices, say=_say, progress=progress)
    encoder = load_side(options, checkpoint)
    quantizer, describe = plan_run(options, checkpoint, source, encoder)
    if options.queries:
        return encode_queries(
            source.output, source.queries(), encoder, quantizer, describe,
            resume=options.resume, overwrite=options.overwrite, say=_say,
        )  # fmt: skip
    with _progress(source.name) as progress:
        return document_encoding(options, source, encoder, quantizer, say=_say, progress=progress).run(describe)


def _default_checkpoint(model: str) -> str:
    folder = checkpoint_folder(model)
    if not folder.is_dir():
        raise LearnedSparseError(
            f"{folder}: no checkpoint of {model!r}; `make demo` trains one, --checkpoint names another (DIR or Hub id)"
        )
    return str(folder)


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
    from learned_sparse.core import run_main

    run_main(main)
