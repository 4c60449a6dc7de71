"""Scores of the pairs of runs by a teacher, appended to a file, so that a stopped command resumes where it was."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from tqdm import tqdm

from encoders.teach.scorers import DotProducts, Ensemble, Pair, Scorer
from encoders.training import TextStore
from learned_sparse.collections.collection import Collection
from learned_sparse.collections.trec import read_run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import atomic_write
from learned_sparse.core.locks import locked
from learned_sparse.core.records import EXPANDED, Document

BLOCK = 4096
"""Pairs of one block."""


@dataclass(frozen=True, kw_only=True)
class Taught:
    """Counts of a finished scoring."""

    pairs: int
    queries: int
    scored_now: int
    """Pairs that this command has scored; the others were there."""


def teach(
    scorer: Scorer,
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
) -> Taught:
    """Write ``query TAB document TAB score`` for the first ``depth`` hits of ``runs`` and all relevant documents.

    Only queries of ``split`` with a relevant document count: others teach nothing. ``shard`` of ``shards`` has every
    ``shards``-th of these queries. The scores so far are in ``.NAME.part`` beside ``output``, where ``resume`` goes on.
    """
    pairs, queries = pairs_to_score(collection, split, runs, depth, shard, shards)
    part = output.with_name(f".{output.name}.part")
    source = {
        "teacher": scorer.description, "collection": collection.name, "split": split, "depth": depth,
        "shard": [shard, shards], "pairs": hashlib.sha256(json.dumps(pairs).encode()).hexdigest(),
        "expanded": expanded and str(expanded),
    }  # fmt: skip
    source = json.loads(json.dumps(source))
    with locked(part):
        if output.exists() and not (resume or overwrite):
            raise LearnedSparseError(f"{output}: is there already; go on with --resume, or replace it with --overwrite")
        if overwrite:
            part.unlink(missing_ok=True)
        elif part.exists() and not resume:
            raise LearnedSparseError(f"{output}: was begun; go on with --resume, or begin again with --overwrite")
        elif output.exists() and not part.exists():
            return Taught(pairs=len(pairs), queries=len(queries), scored_now=0)
        done = _done(part, source, output) if part.exists() else 0
        with part.open("ab") as file:
            if file.tell() == 0:
                file.write(json.dumps(source).encode() + b"\n")
            _score(scorer, collection, queries, pairs[done:], file, expanded)
        with atomic_write(output) as file, part.open("rb") as scores:
            scores.readline()
            shutil.copyfileobj(scores, file)
        part.unlink()
    return Taught(pairs=len(pairs), queries=len(queries), scored_now=len(pairs) - done)


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


def _done(part: Path, source: Mapping[str, object], output: Path) -> int:
    """The number of scores in ``part``, after a line that a kill cut off was removed; raise if they are of others."""
    with part.open("rb") as file:
        first = file.readline()
        end, done = len(first), 0
        for line in file:
            if line.endswith(b"\n"):
                end, done = end + len(line), done + 1
    if not first.endswith(b"\n"):
        part.unlink()
        return 0
    before = json.loads(first)
    if changed := [key for key, value in source.items() if before.get(key) != value]:
        raise LearnedSparseError(
            f"{output}: was begun with another {', '.join(changed)}; begin again with --overwrite, or name another "
            "--output"
        )
    os.truncate(part, end)
    return done


def _score(
    scorer: Scorer,
    collection: Collection,
    queries: Mapping[str, str],
    pairs: Sequence[Pair],
    file: BinaryIO,
    expanded: Path | None,
) -> None:
    """Append the scores of ``pairs`` to ``file``, block by block."""
    store = _documents(collection, {document for _, document in pairs}, expanded)
    members = len(scorer.description["mean_of"]) if isinstance(scorer, Ensemble) else 1
    with tqdm(desc="scoring", total=len(pairs) * members, unit=" pairs", disable=None) as progress:
        for start in range(0, len(pairs), BLOCK):
            block = pairs[start : start + BLOCK]
            documents = {id: _document(id, store[id]) for id in {document for _, document in block}}
            scores = scorer.scores(queries, documents, block, progress)
            if not np.isfinite(scores).all():
                query, document = block[int(np.argmin(np.isfinite(scores)))]
                raise LearnedSparseError(
                    f"query {query!r}, document {document!r}: the score is not finite; try --dtype fp32"
                )
            lines = (f"{q}\t{d}\t{s!r}\n" for (q, d), s in zip(block, scores.tolist(), strict=True))
            file.write("".join(lines).encode("utf-8", "surrogatepass"))
            file.flush()


def _documents(collection: Collection, wanted: set[str], expanded: Path | None) -> TextStore:
    """The texts of the documents with the ids ``wanted``, with their expansions; raise if one is missing."""
    documents = (Document(each.id, each.with_expanded) for each in collection.documents_shown(expanded=expanded))
    store = TextStore(documents, keep=wanted)
    if missing := sorted(id for id in wanted if id not in store):
        raise LearnedSparseError(
            f"{collection.name}: no document {missing[0]!r} ({len(missing)} of the runs and judgements are missing); "
            "are they of this collection?"
        )
    return store


def _document(id: str, text: str) -> Document:
    """A document of the store."""
    own, marker, expanded = text.partition(EXPANDED)
    return Document(id, own, expanded) if marker else Document(id, own)


def scorer_of(members: Iterable[Scorer]) -> Scorer:
    """The only one of ``members``, or the mean of all."""
    scorers = list(members)
    if any(isinstance(each, DotProducts) for each in scorers) and not all(isinstance(e, DotProducts) for e in scorers):
        raise LearnedSparseError("logits of cross-encoders and dot products have no common scale; teach with one kind")
    return scorers[0] if len(scorers) == 1 else Ensemble(scorers)
