"""Scores of the pairs of runs by a teacher, appended to a file, so that a stopped command resumes where it was."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from encoders.teach.scorers import CrossEncoder, DotProducts, Pair
from learned_sparse.collections.collection import Collection
from learned_sparse.collections.trec import read_run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import locked

BLOCK = 4096
"""Pairs of one block."""


def teach(
    scorers: Sequence[CrossEncoder | DotProducts],
    collection: Collection,
    split: str,
    runs: Sequence[Path],
    output: Path,
    *,
    depth: int,
    shard: int = 0,
    shards: int = 1,
    expanded: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> tuple[int, int, int]:
    """Write ``query TAB document TAB score`` for the first ``depth`` hits of ``runs`` and all relevant documents.

    The score is the mean of ``scorers``. Only queries of ``split`` with a relevant document count: others teach
    nothing. ``shard`` of ``shards`` has every ``shards``-th of these queries. The lines so far are in a hidden file
    beside ``output``, one for each teacher; ``resume`` scores the pairs that it does not have. Returns the numbers of
    pairs, of queries, and of pairs scored now.
    """
    pairs, queries = pairs_to_score(collection, split, runs, depth, shard, shards)
    teacher = json.dumps([*(scorer.description for scorer in scorers), str(expanded)])
    part = output.with_name(f".{output.name}.{hashlib.sha256(teacher.encode()).hexdigest()[:8]}.part")
    with locked(output.with_name(f".{output.name}.part")):
        if (output.exists() or part.exists()) and not (resume or overwrite):
            state = "exists already" if output.exists() else "a scoring was started"
            raise LearnedSparseError(f"{output}: {state}; continue with --resume, or start again with --overwrite")
        if overwrite:
            part.unlink(missing_ok=True)
        elif output.exists() and not part.exists():
            return len(pairs), len(queries), 0
        with part.open("ab") as file:
            done = _scored(part)
            left = [pair for pair in pairs if pair not in done]
            ids = {document for _, document in left}
            documents = {each.id: each for each in collection.documents_shown(expanded=expanded) if each.id in ids}
            if missing := sorted(ids - documents.keys()):
                raise LearnedSparseError(
                    f"{collection.name}: no document {missing[0]!r} ({len(missing)} of the runs and judgements are "
                    "missing); are they of this collection?"
                )
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
    return len(pairs), len(queries), len(left)


def pairs_to_score(
    collection: Collection, split: str, runs: Sequence[Path], depth: int, shard: int, shards: int
) -> tuple[list[Pair], dict[str, str]]:
    """The pairs, query by query, and the texts of the queries."""
    texts = {query.id: query.text for query in collection.queries(split)}
    relevant = {
        query: [document for document, grade in grades.items() if grade > 0]
        for query, grades in collection.qrels(split).items()
        if query in texts and texts[query].strip()
    }
    chosen = sorted(query for query, documents in relevant.items() if documents)[shard::shards]
    hits: dict[str, dict[str, None]] = {query: dict.fromkeys(relevant[query]) for query in chosen}
    for path in runs:
        run = read_run(path)
        if not any(query in run for query in chosen):
            raise LearnedSparseError(f"{path}: no query of {collection.name} {split} with a relevant document")
        for query in chosen:
            hits[query].update(dict.fromkeys(document for document, _ in run.get(query, ())[:depth]))
    pairs = [(query, document) for query, documents in hits.items() for document in documents]
    return pairs, {query: texts[query] for query in chosen}


def _scored(part: Path) -> set[Pair]:
    """The pairs in ``part``; removes a last line that a kill has cut off."""
    content = part.read_bytes()
    content = content[: content.rfind(b"\n") + 1]
    os.truncate(part, len(content))
    rows = (line.split("\t") for line in content.decode("utf-8", "surrogatepass").split("\n")[:-1])
    return {(query, document) for query, document, _ in rows}
