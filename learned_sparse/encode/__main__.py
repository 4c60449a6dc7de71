"""``python -m learned_sparse.encode``: encode documents or queries into impact vectors for Pyserini and Anserini."""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
import time
from pathlib import Path

from learned_sparse.collections.documents import add_bad_line_option
from learned_sparse.core.encoder import default_checkpoint, resolve_checkpoint
from learned_sparse.core.errors import LearnedSparseError, counted, progress_bar
from learned_sparse.core.files import locked
from learned_sparse.core.settings import (
    CommandParser,
    add_engine_options,
    add_set_option,
    command_line,
    parse_changes,
    positive,
    refuse,
)
from learned_sparse.encode.parts import check_output
from learned_sparse.encode.pipeline import PART_SIZE
from learned_sparse.encode.run import BM25, Source, encode_source, encode_with_ray, open_source
from learned_sparse.jsonvector.manifest import MANIFEST, Manifest

DEMO_COLLECTION = "pydoc"
DEMO_MODELS = frozenset({"sparterm", "splade", "spade", "uhd"})
"""Names of the checkpoints of ``make demo``. Without ``--collection`` and ``--input``, these are encoded on pydoc."""
DETAILS = {
    "empty_vectors": "with an empty vector (kept)",
    "empty_texts": "without text, a part of these",
    "expanded": "with expanded text",
    "other_shards": "in other shards",
    "clipped": "impacts clipped",
    "lost_to_rounding": "weights too small for an impact of 1, left out (finer impacts: a larger --bits)",
    "unwritable": "weights of terms that Lucene cannot hold, left out",
}
"""Counts that are printed unless they are 0."""
_log = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> int:
    """Encode, and print counts and output files."""
    options = parse_arguments(argv)
    if options.output is None and not options.overwrite:  # default folders are continued, or found complete
        options.resume = True
    engine, source = None, open_source(options)
    if {options.engine, options.address, options.workers, options.gpus_per_worker} != {"process", None}:
        from learned_sparse.ray import Engine

        engine = Engine.from_options(options)
    _log.info("encoding %s with %s into %s", source.name, options.checkpoint, source.output)
    started = time.monotonic()
    count = source.count() if sys.stderr.isatty() and options.segment_length is None else None
    total = count and -(-count // options.num_shards)
    unit = "queries" if options.queries else "documents"
    if engine is not None and options.resume and (source.output / MANIFEST).is_file():
        _log.info("%s: parts of an earlier run, which this process continues", source.output)
        engine = None
    with locked(source.output):
        check_output(source.output, resume=options.resume, overwrite=options.overwrite)
        if engine is None:
            with progress_bar(None, source.name, unit, total) as progress:
                manifest = encode_source(options, source, progress.update)
        else:
            manifest = encode_with_ray(argv, source, engine)
    _report(manifest, source, time.monotonic() - started)
    print("next:", command_line(f"learned_sparse.{_next_command(options, source)}"))
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


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Options given on the command line (``sys.argv`` for None), with the checkpoint that they name.

    ``changes`` are the settings of ``--set``. With ``--segment-length``, the other options of segments have values.
    """
    parser = CommandParser(
        prog="python -m learned_sparse.encode",
        description="Encode a collection, or queries, into impact vectors that Pyserini and Anserini read.",
    )
    group = parser.add_argument_group("what")
    source, what = group.add_mutually_exclusive_group().add_argument, group.add_argument
    what(
        "--model", metavar="NAME", help="a name for the vectors (default: that of the folder of --checkpoint); without "
        "--checkpoint, the model of that name in the home folder, or a published one such as splade-tiny "
        "(encoders/README.md lists them)",
    )  # fmt: skip
    what("--checkpoint", metavar="DIR|HUB_ID", help="default: the checkpoint of --model")
    what(
        "--with", dest="hybrid", metavar=f"{BM25}|DIR", help=f"{BM25}: join the model with BM25 in the same vectors, "
        f"called MODEL+{BM25} unless both --model and --checkpoint are given; with --queries also the folder of such "
        "vectors, or of an index of them",
    )  # fmt: skip
    what("--revision", help="revision of a checkpoint on the Hub")
    source(
        "--collection", metavar="NAME|PATH", help=f"required without --input; models of `make demo`: {DEMO_COLLECTION}"
    )
    source("--input", type=Path, metavar="FILE|DIR", help="documents (or topics) in files: TSV, JSONL, .gz")
    what("--data", type=Path, metavar="DIR", help="folder with the files of --collection")
    help_text = "predicted queries in the order of the documents: JSONL or TSV"
    what("--expanded", type=Path, metavar="FILE|DIR", help=help_text)
    what("--queries", action="store_true", help="encode queries instead of documents")
    what("--split", help="split of the queries; default: test, or the only split")
    add_bad_line_option(what)

    group = parser.add_argument_group("where")
    earlier, where = group.add_mutually_exclusive_group().add_argument, group.add_argument
    where("--output", type=Path, metavar="DIR", help="default: a folder below $LEARNED_SPARSE_HOME")
    earlier("--resume", action="store_true", help="continue an interrupted run")
    earlier("--overwrite", action="store_true", help="remove the output of an earlier run")
    where("--gzip", action="store_true", help="compress the part files")
    where("--part-size", type=positive, default=PART_SIZE, metavar="N", help="documents a file: %(default)s")
    where("--num-shards", type=positive, default=1, metavar="N", help="divide the parts among N processes")
    where("--shard-id", type=int, default=0, metavar="I", help="write parts I, I+N, I+2N, ... (from 0)")
    where("--times", type=Path, metavar="FILE", help="write the number of documents encoded and the seconds as JSON")

    add_engine_options(parser)
    segments = parser.add_argument_group("long documents").add_argument
    segments("--segment-length", type=int, metavar="TOKENS", help="cut document D into segments D#0, D#1, ...")
    segments(
        "--segments", choices=["first", "all", "sum", "decay"], help="segments to encode, default: all; sum and "
        "decay add those of a document up to one vector, with decay the i-th at 1/i (HDCT)",
    )  # fmt: skip
    segments("--segment-overlap", type=int, metavar="TOKENS", help="tokens that neighbours share; default: 0")

    group = parser.add_argument_group("how")
    how = group.add_argument
    how("--max-length", type=positive, metavar="TOKENS", help="default: the checkpoint's")
    how("--batch-size", metavar="N|Nt", help="texts (32) or tokens (4096t) of one forward pass")
    how("--device", help="cpu, cuda, cuda:1, ...; default: a GPU if there is one")
    how(
        "--dtype",
        help="fp32, bf16 or fp16; default: $LEARNED_SPARSE_DTYPE, else fp32 for queries, the fastest for documents",
    )
    how("--top-k", type=positive, metavar="K", help="keep the K largest weights of each text")
    add_set_option(group, "change a setting of the checkpoint, for instance alpha=0.3; can be repeated")
    how("--quantization-factor", type=float, metavar="X", help="impact = round(X * weight)")
    how("--bits", type=int, metavar="B", help="impacts up to 2**B - 1, calibrated on the first documents")
    how("--calibration", type=float, default=100.0, metavar="PERCENTILE", help="of the weights: %(default)s")
    options = parser.parse_args(argv)
    options.changes = parse_changes(vars(options).pop("set"))
    model, checkpoint = options.model, options.checkpoint
    if not (model or checkpoint):
        raise LearnedSparseError("which model? give --model NAME or --checkpoint DIR|HUB_ID")
    options.model = model or Path(checkpoint).absolute().name
    if options.collection is None and options.input is None:
        options.collection = _default_collection(options.model, checkpoint)
    segmented, ray, sharded = options.segment_length is not None, options.engine == "ray", options.num_shards > 1
    joins_documents = options.hybrid and not options.queries
    of_documents = {
        "--engine ray": ray, "--num-shards": sharded, "--segment-length": segmented, "--expanded": options.expanded,
    }  # fmt: skip
    wrong = ", ".join(name for name, given in of_documents.items() if given)
    refuse(
        (options.queries and wrong, f"{wrong}: for documents, not --queries"),
        (options.split and not options.queries, "--split: only with --queries"),
        (options.split and options.input, "--split belongs to a collection; --input names the file of queries itself"),
        (
            not 0 <= options.shard_id < options.num_shards,
            f"--shard-id {options.shard_id}: with --num-shards {options.num_shards} give 0 to {options.num_shards - 1}",
        ),
        (options.input and not options.output, "--input needs --output DIR; only a collection has a default folder"),
        (ray and sharded, "--num-shards is for processes without Ray; with --engine ray, give --workers"),
        (ray and options.times, "--times measures one process; omit it with --engine ray"),
        (joins_documents and options.hybrid != BM25, f"--with {options.hybrid}: documents are encoded --with {BM25}"),
        (joins_documents and segmented, f"--with {BM25}: BM25 scores whole documents; omit --segment-length"),
        (
            options.queries and options.hybrid == BM25 and options.collection is None,
            f"--with {BM25}: for queries in a file, name the encoded documents: --with DIR",
        ),
        (
            not segmented and (options.segments, options.segment_overlap) != (None, None),
            "--segments and --segment-overlap need --segment-length",
        ),
    )
    if options.segment_length is not None:
        from learned_sparse.collections.segments import Segmentation

        options.segments, options.segment_overlap = options.segments or "all", options.segment_overlap or 0
        options.segment_delimiter = "#"
        Segmentation.recorded(vars(options))  # raises if one of them has a wrong value
    options.checkpoint = resolve_checkpoint(checkpoint) if checkpoint else default_checkpoint(options.model)
    if options.hybrid and not (model and checkpoint):
        options.model += f"+{BM25}"
    return options


def _default_collection(model: str, checkpoint: str | None) -> str:
    """``DEMO_COLLECTION`` for the demo's checkpoints; any other model needs an explicit input."""
    name = Path(checkpoint or model).name
    if name not in DEMO_MODELS:
        raise LearnedSparseError(
            f"--model {model}: give --input FILE or --collection NAME to say what to encode; only the models of "
            f"`make demo` ({', '.join(sorted(DEMO_MODELS))}) have a default, the embedded collection {DEMO_COLLECTION}"
        )
    return DEMO_COLLECTION


if __name__ == "__main__":
    from learned_sparse.core.errors import run_main

    run_main(main, "go on with --resume")
