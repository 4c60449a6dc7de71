"""``python -m encoders.teach``: a teacher's scores of the hits of runs, for distillation."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from learned_sparse.core.commands import print_next
from learned_sparse.core.errors import LearnedSparseError, run_main
from learned_sparse.core.settings import CommandParser, positive

EPILOG = """\
Scored are the first hits of the runs and all relevant documents, for each query of the split that has one. The output
has a line "query TAB document TAB score" for each pair; "scores:" of a recipe's source reads it. Runs that a training
has mined are in CHECKPOINT/training/mined-*.trec. Several models are an ensemble: the mean of their scores.

examples:
  python -m encoders.teach --collection msmarco-v1-passage --split train --run bm25.txt --depth 50 \\
      --cross-encoder cross-encoder/ms-marco-MiniLM-L6-v2 --output scores.tsv
  python -m encoders.train --recipe teacher.yaml      # kind: cross-encoder; trains a teacher
"""


def main(argv: list[str] | None = None) -> int:
    """Score all pairs and print their number."""
    parser = CommandParser(prog="python -m encoders.teach", description=main.__doc__, epilog=EPILOG)
    add = parser.add_argument
    add("--collection", required=True, metavar="NAME|FILE|DIR", help="the training collection")
    add("--split", help="its queries and judgements (default train)")
    add("--run", type=Path, nargs="+", required=True, metavar="RUN", help="TREC runs, such as BM25's or mined ones")
    add("--depth", type=positive, default=50, metavar="N", help="hits of each query and run (default %(default)s)")
    teachers = parser.add_mutually_exclusive_group(required=True)
    teachers.add_argument(
        "--cross-encoder", nargs="+", default=[], metavar="DIR|HUB_ID", help="sequence classifiers in safetensors"
    )
    teachers.add_argument("--checkpoint", nargs="+", default=[], metavar="DIR|HUB_ID", help="models of this package")
    add("--output", type=Path, required=True, metavar="FILE", help="scores, as TSV")
    add("--expanded", type=Path, metavar="FILE", help="docT5query's queries, for checkpoints that read them")
    add("--num-shards", type=positive, default=1, metavar="N", help="score a part of the queries: the number of parts")
    add("--shard-id", type=int, default=0, metavar="I", help="and this part, from 0; put all outputs into one folder")
    add("--max-length", type=positive, metavar="TOKENS", help="default: 512 for a pair, else the checkpoint's")
    add("--batch-size", metavar="N|Nt", help="texts (32), or of checkpoints tokens (4096t), per forward pass")
    add("--device", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    add("--dtype", default="fp32", help="fp32 (default), bf16 or fp16")
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="continue a scoring that was stopped")
    again.add_argument("--overwrite", action="store_true", help="replace the output")
    options = parser.parse_args(argv)
    if not 0 <= options.shard_id < options.num_shards:
        last = options.num_shards - 1
        raise LearnedSparseError(
            f"--shard-id {options.shard_id}: with --num-shards {options.num_shards} give 0 to {last}"
        )
    from encoders.teach.scorers import CrossEncoder, DotProducts
    from encoders.teach.scoring import teach
    from learned_sparse.collections.collection import load_collection

    collection = load_collection(options.collection)
    split = collection.choose_split(options.split, "train")
    given = {key: getattr(options, key) for key in ("max_length", "batch_size", "device", "dtype")}
    scorers: list[CrossEncoder | DotProducts] = [
        *(CrossEncoder(name, **given) for name in options.cross_encoder),
        *(DotProducts(name, **given) for name in options.checkpoint),
    ]
    pairs, queries, scored = teach(
        scorers, collection, split, options.run, options.output, depth=options.depth, shard=options.shard_id,
        shards=options.num_shards, expanded=options.expanded, resume=options.resume, overwrite=options.overwrite,
    )  # fmt: skip
    before = "" if scored == pairs else f" ({pairs - scored:,} were there)"
    print(f"{options.output}: {pairs:,} pairs of {queries:,} queries{before}")
    # the scores of all shards are in one folder
    scores = options.output if options.num_shards == 1 else options.output.parent
    source = {"collection": options.collection, "split": split, "run": str(options.run[0]), "scores": str(scores)}
    print_next(f"encoders.train --recipe splade-distilled --set {shlex.quote(f'data={json.dumps([source])}')}")
    return 0


if __name__ == "__main__":
    run_main(main, "go on with --resume")
