"""``python -m learned_sparse.encode``: encode documents or queries into impact vectors for Pyserini and Anserini."""

from __future__ import annotations

import argparse
import logging
import sys
import time

from learned_sparse.core import default_checkpoint, locked
from learned_sparse.distribute import Engine
from learned_sparse.encode.distributed import encode_with_ray
from learned_sparse.encode.options import parse_arguments
from learned_sparse.encode.parts import check_output
from learned_sparse.encode.run import Source, encode_source, open_source
from learned_sparse.jsonvector import ENCODED, MANIFEST, TOPICS, Manifest

_log = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> int:
    """Encode, and print counts and output files."""
    from tqdm import tqdm

    options = parse_arguments(argv)
    if options.output is None and not options.overwrite:  # default folders are continued, or found complete
        options.resume = True
    checkpoint = options.checkpoint or default_checkpoint(options.model)
    engine, source = Engine.from_options(options), open_source(options)
    check_output(source.output, resume=options.resume, overwrite=options.overwrite)
    _log.info("encoding %s with %s into %s", source.name, checkpoint, source.output)
    started = time.monotonic()
    shown = not options.queries and sys.stderr.isatty()
    count = source.count() if shown and options.segment_length is None else None
    total = count and -(-count // options.num_shards)
    with (
        locked(source.output),
        tqdm(desc=source.name, unit=" documents", total=total, disable=not shown) as progress,
    ):
        if engine is None:
            manifest = encode_source(options, checkpoint, source, progress.update)
        else:
            manifest = encode_with_ray(options, checkpoint, source, engine, progress=progress.update)
    _report(manifest, source, time.monotonic() - started)
    print(f"next: python -m learned_sparse.{_next_command(options, source)}")
    return 0


def _report(manifest: Manifest, source: Source, seconds: float) -> None:
    counts = manifest.counts
    texts = f"segments of {counts.segmented:,} documents" if counts.segmented else manifest.kind
    print(f"{counts.written:,} {texts} of {source.name} by {manifest.model} ({manifest.checkpoint})")
    details = {
        "with an empty vector (kept)": counts.empty_vectors,
        "without text, a part of these": counts.empty_texts,
        "with expanded text": counts.expanded,
        "truncated at the maximum length": counts.truncated,
        "in other shards": counts.other_shards,
        **{f"lines skipped: {reason}": count for reason, count in manifest.counts.skipped.items()},
        "impacts clipped": counts.clipped,
        "weights rounded to 0": counts.lost_to_rounding,
        "weights of terms that Lucene cannot hold, left out": counts.unwritable,
    }
    print(f"  {counts.postings / max(counts.written, 1):.1f} terms each; {seconds:.1f} s in all")
    for detail, count in details.items():
        if count:
            print(f"  {count:,} {detail}")
    if manifest.kind == "queries":
        print(f"  topics    {source.output / TOPICS}   (--topics, without --encoder)")
        print(f"  encoded   {source.output / ENCODED} (--encoder, with the original topics)")
    else:
        print(f"  vectors   {source.output / 'vectors'}")
    print(f"  manifest  {source.output / MANIFEST}")
    for warning in manifest.warnings:
        print(f"warning: {warning}", file=sys.stderr)


def _next_command(options: argparse.Namespace, source: Source) -> str:
    """Module and options of the command that uses the output."""
    if options.num_shards > 1:
        return "index --index DIR --input SHARD... (when all shards are encoded)"
    if options.output is not None and not options.queries:
        return f"index --input {source.output} --index DIR"
    index = "--index INDEX" if options.output is not None else f"--model {options.model}"
    if not options.queries:
        return f"index {index} --collection {options.collection}"
    if options.input is not None:
        return f"search {index} --topics {options.input}"
    data = f" --data {options.data}" if options.data is not None else ""
    return f"search {index} --collection {options.collection}{data} --split {source.split}"


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
