"""``python -m learned_sparse.encode``: encode documents or queries into impact vectors for Pyserini and Anserini."""

from __future__ import annotations

import dataclasses
import logging
import sys
import time

from learned_sparse.core import LearnedSparseError, checkpoint_folder
from learned_sparse.encode.options import EncodeOptions, parse_arguments
from learned_sparse.encode.parts import check_output
from learned_sparse.encode.run import Source, encode_source, load_side, open_source, query_side
from learned_sparse.jsonvector import Manifest

_log = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> int:
    """Encode, and print counts and output files."""
    options = parse_arguments(argv)
    if options.output is None and not options.overwrite:  # default folders are continued, or found complete
        options = dataclasses.replace(options, resume=True)
    checkpoint = options.checkpoint or _default_checkpoint(options.model)
    source = open_source(options)
    started = time.monotonic()
    manifest = encode(options, checkpoint, source)
    _report(manifest, source, time.monotonic() - started)
    return 0


def encode(options: EncodeOptions, checkpoint: str, source: Source) -> Manifest:
    """Encode ``source`` with one side of ``checkpoint``; returns the finished manifest."""
    from tqdm import tqdm

    check_output(source.output, resume=options.resume, overwrite=options.overwrite)
    _log.info("encoding %s with %s into %s", source.name, checkpoint, source.output)
    encoder = load_side(options, checkpoint)
    queries = query_side(options, checkpoint)
    hidden = True if options.queries else None  # None shows the bar on a terminal only
    with tqdm(desc=source.name, unit=" documents", disable=hidden) as progress:
        return encode_source(options, checkpoint, source, encoder, queries, progress.update)


def _default_checkpoint(model: str) -> str:
    folder = checkpoint_folder(model)
    if not folder.is_dir():
        raise LearnedSparseError(
            f"{folder}: no checkpoint of {model!r}; `make demo` trains one, --checkpoint names another (DIR or Hub id)"
        )
    return str(folder)


def _report(manifest: Manifest, source: Source, seconds: float) -> None:
    counts = manifest.counts
    texts = f"segments of {counts.segmented:,} documents" if counts.segmented else manifest.kind
    print(f"{counts.written:,} {texts} of {source.name} by {manifest.model} ({manifest.checkpoint})")
    details = {
        "with an empty vector (kept)": counts.empty_vectors,
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
    for line in source.output_lines():
        print(f"  {line}")
    for warning in manifest.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(f"next: {source.next_command()}")


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
