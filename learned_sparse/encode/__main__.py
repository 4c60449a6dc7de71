"""``python -m learned_sparse.encode``: encode documents or queries into impact vectors for Pyserini and Anserini."""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
import time

from learned_sparse.core.commands import print_next
from learned_sparse.core.encoder import default_checkpoint, resolve_checkpoint
from learned_sparse.core.errors import counted, progress_bar, resumes
from learned_sparse.core.locks import locked
from learned_sparse.encode.options import parse_arguments
from learned_sparse.encode.parts import check_output
from learned_sparse.encode.run import Source, encode_source, encode_with_ray, open_source
from learned_sparse.jsonvector.manifest import MANIFEST, Manifest
from learned_sparse.ray import Engine

DETAILS = {
    "empty_vectors": "with an empty vector (kept)",
    "empty_texts": "without text, a part of these",
    "expanded": "with expanded text",
    "other_shards": "in other shards",
    "clipped": "impacts clipped",
    "lost_to_rounding": "weights rounded to 0",
    "unwritable": "weights of terms that Lucene cannot hold, left out",
}
"""Counts that are printed unless they are 0."""
_log = logging.getLogger(__name__)


@resumes("go on with --resume")
def main(argv: list[str] | None = None) -> int:
    """Encode, and print counts and output files."""
    options = parse_arguments(argv)
    if options.output is None and not options.overwrite:  # default folders are continued, or found complete
        options.resume = True
    given = options.checkpoint
    checkpoint = resolve_checkpoint(given) if given else default_checkpoint(options.model)
    engine, source = Engine.from_options(options), open_source(options)
    check_output(source.output, resume=options.resume, overwrite=options.overwrite)
    _log.info("encoding %s with %s into %s", source.name, checkpoint, source.output)
    started = time.monotonic()
    count = source.count() if sys.stderr.isatty() and options.segment_length is None else None
    total = count and -(-count // options.num_shards)
    unit = "queries" if options.queries else "documents"
    if engine is not None and options.resume and (source.output / MANIFEST).is_file():
        _log.info("%s: parts of an earlier run, which this process continues", source.output)
        engine = None
    with locked(source.output):
        if engine is None:
            with progress_bar(None, source.name, unit, total) as progress:
                manifest = encode_source(options, checkpoint, source, progress.update)
        else:
            manifest = encode_with_ray(argv, source, engine)
    _report(manifest, source, time.monotonic() - started)
    print_next(f"learned_sparse.{_next_command(options, source)}")
    return 0


def _report(manifest: Manifest, source: Source, seconds: float) -> None:
    counts, dtype = manifest.counts, manifest.encoder.get("dtype")
    unit = "segment" if counts.segmented else "query" if manifest.kind == "queries" else "document"
    written = counted(counts.written, unit)
    whole = f" of {counted(counts.segmented, 'document')}" if counts.segmented else ""
    print(f"{written}{whole} of {source.name} by {manifest.model} ({manifest.checkpoint})")
    computed = f", computed in {dtype}" if dtype else ""
    reference = "" if dtype in {None, "fp32"} else " (--dtype fp32 for the reference)"
    print(f"  {counts.postings / max(counts.written, 1):.1f} terms each; {seconds:.1f} s in all{computed}{reference}")
    if counts.truncated:
        longest, length = manifest.environment.get("longest_input"), manifest.encoder.get("max_length")
        limit = f"--max-length; this model can read {longest:,}" if longest else "--max-length"
        print(f"  {counts.truncated:,} of {written} truncated at {length} tokens ({limit})")
    details = {f"lines skipped: {reason}": count for reason, count in counts.skipped.items()}
    details |= {detail: getattr(counts, name) for name, detail in DETAILS.items()}
    for detail, count in details.items():
        if count:
            print(f"  {count:,} {detail}")
    if manifest.kind == "queries":
        topics, encoded = (source.output / part.file for part in manifest.parts)
        print(f"  topics    {topics}   (--topics, without --encoder)")
        print(f"  encoded   {encoded} (--encoder, with the original topics)")
    else:
        print(f"  vectors   {source.output / 'vectors'}")
    print(f"  manifest  {source.output / MANIFEST}")
    for warning in manifest.warnings:
        print(f"warning: {warning}", file=sys.stderr)


def _next_command(options: argparse.Namespace, source: Source) -> str:
    """Module and options of the command that uses the output; a word in capitals is for the user to replace."""
    output = source.output
    data = ["--data", str(options.data)] if options.data is not None else []
    named = ["--model", options.model, "--collection", str(options.collection)]
    if not options.queries:
        if options.output is None:
            words = ["index", *named]
        elif options.num_shards > 1:
            words = ["index", "--input", "SHARDS", "--index", "INDEX"]
        else:
            words = ["index", "--input", str(output), "--index", f"{output}-index"]
        return shlex.join(words) + (" (when all shards are encoded)" if options.num_shards > 1 else "")
    if options.output is None:
        return shlex.join(["search", *named, *data, "--split", str(source.split)])
    return shlex.join(["search", "--index", "INDEX", "--query-vectors", str(output), "--output", f"{output}.run.txt"])


if __name__ == "__main__":
    from learned_sparse.core.errors import run_main

    run_main(main)
