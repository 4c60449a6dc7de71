"""``python -m encoders.teach``: a teacher's scores of the hits of runs, for distillation."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from learned_sparse.collections.collection import Collection, load_collection
from learned_sparse.collections.trec import read_run
from learned_sparse.core.errors import LearnedSparseError, run_main
from learned_sparse.core.files import locked
from learned_sparse.core.settings import CommandParser, command_line, positive

if TYPE_CHECKING:
    from encoders.teach.scorers import CrossEncoder, DotProducts, Pair

BLOCK = 4096
"""Pairs of one block."""
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

    collection = load_collection(options.collection)
    split = collection.choose_split(options.split, "train")
    given = {key: getattr(options, key) for key in ("max_length", "batch_size", "device", "dtype")}
    scorers: list[CrossEncoder | DotProducts] = [
        *(CrossEncoder(name, **given) for name in options.cross_encoder),
        *(DotProducts(name, **given) for name in options.checkpoint),
    ]
    pairs, queries = _pairs(collection, split, options)
    scored = _score(scorers, collection, pairs, queries, options)
    before = "" if scored == len(pairs) else f" ({len(pairs) - scored:,} were there)"
    print(f"{options.output}: {len(pairs):,} pairs of {len(queries):,} queries{before}")
    # the scores of all shards are in one folder
    scores = options.output if options.num_shards == 1 else options.output.parent
    source = {"collection": options.collection, "split": split, "run": str(options.run[0]), "scores": str(scores)}
    print(
        "next:",
        command_line(f"encoders.train --recipe splade-distilled --set {shlex.quote(f'data={json.dumps([source])}')}"),
    )
    return 0


def _pairs(collection: Collection, split: str, options: argparse.Namespace) -> tuple[list[Pair], dict[str, str]]:
    """The pairs, query by query, and the texts of the queries: those with a relevant document, of the chosen shard."""
    texts = {query.id: query.text for query in collection.queries(split)}
    relevant = {
        query: [document for document, grade in grades.items() if grade > 0]
        for query, grades in collection.qrels(split).items()
        if query in texts and texts[query].strip()
    }
    chosen = sorted(query for query, documents in relevant.items() if documents)[options.shard_id :: options.num_shards]
    hits: dict[str, dict[str, None]] = {query: dict.fromkeys(relevant[query]) for query in chosen}
    for path in options.run:
        run = read_run(path)
        if not any(query in run for query in chosen):
            raise LearnedSparseError(f"{path}: no query of {collection.name} {split} with a relevant document")
        for query in chosen:
            hits[query].update(dict.fromkeys(document for document, _ in run.get(query, ())[: options.depth]))
    pairs = [(query, document) for query, documents in hits.items() for document in documents]
    return pairs, {query: texts[query] for query in chosen}


def _score(
    scorers: Sequence[CrossEncoder | DotProducts],
    collection: Collection,
    pairs: Sequence[Pair],
    queries: Mapping[str, str],
    options: argparse.Namespace,
) -> int:
    """Write ``query TAB document TAB score``, the mean of ``scorers``, for all ``pairs``.

    The lines so far are in a hidden file beside the output, one for each teacher; --resume scores the pairs that it
    does not have. Returns the number of pairs scored now.
    """
    output, expanded, overwrite = options.output, options.expanded, options.overwrite
    teacher = json.dumps([*(scorer.description for scorer in scorers), str(expanded)])
    part = output.with_name(f".{output.name}.{hashlib.sha256(teacher.encode()).hexdigest()[:8]}.part")
    with locked(output.with_name(f".{output.name}.part")):
        if (output.exists() or part.exists()) and not (options.resume or overwrite):
            state = "exists already" if output.exists() else "a scoring was started"
            raise LearnedSparseError(f"{output}: {state}; continue with --resume, or start again with --overwrite")
        if overwrite:
            part.unlink(missing_ok=True)
        elif output.exists() and not part.exists():
            return 0
        with part.open("ab") as file:
            done = _scored(part)
            left = [pair for pair in pairs if pair not in done]
            documents = collection.documents_by_id({document for _, document in left}, expanded)
            with tqdm(desc="scoring", total=len(left) * len(scorers), unit=" pairs", disable=None) as progress:
                for start in range(0, len(left), BLOCK):
                    block = left[start : start + BLOCK]
                    scores = np.mean([each.scores(queries, documents, block, progress) for each in scorers], axis=0)
                    lines = []
                    for (query, document), score in zip(block, scores.tolist(), strict=True):
                        if not math.isfinite(score):
                            raise LearnedSparseError(
                                f"query {query!r}, document {document!r}: the score is not finite; try --dtype fp32"
                            )
                        lines.append(f"{query}\t{document}\t{score!r}\n")
                    file.write("".join(lines).encode("utf-8", "surrogatepass"))
                    file.flush()
            os.fsync(file.fileno())
        part.replace(output)
    return len(left)


def _scored(part: Path) -> set[Pair]:
    """The pairs in ``part``; removes a last line that a kill has cut off."""
    content = part.read_bytes()
    content = content[: content.rfind(b"\n") + 1]
    os.truncate(part, len(content))
    rows = (line.split("\t") for line in content.decode("utf-8", "surrogatepass").split("\n")[:-1])
    return {(query, document) for query, document, _ in rows}


if __name__ == "__main__":
    run_main(main, "go on with --resume")
