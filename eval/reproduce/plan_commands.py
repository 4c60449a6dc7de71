"""The commands that give a cell's numbers by hand: ours up to the vectors, stock Pyserini and trec_eval from there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from eval.measures import parse_measure
from eval.reproduce.matrix import Row
from eval.reproduce.plan import CellPlan, Plan, Step, ordered
from eval.reproduce.step_export import DOCUMENTS, QRELS, TOPICS
from learned_sparse.core import home
from learned_sparse.jsonvector import TOPICS as ENCODED_TOPICS
from learned_sparse.search import SEGMENTS_PER_DOCUMENT

_STOCK = "learned_sparse.pyserini"
"""Runs stock modules on a Java that they can run on; where that is 21 or newer, ``python -m pyserini.MODULE`` does."""
_OURS = {"prepare", "train", "pool", "encode", "encode-queries"}
_SKIPPED = {"verify", "costs", "evaluate"}


def commands(plan: Plan, cell: CellPlan) -> list[str]:
    """What to type, in order; what ours write is at its usual place, the rest below ``home()/by-hand``."""
    row, evaluated = plan.matrix.rows[cell.row], _writer(cell, cell.evaluated)
    folder = home() / "by-hand" / cell.evaluated.relative_to(home() / "evaluations").with_suffix("")
    searched = None if row.run is not None else _writer(cell, cell.run)
    made = [] if searched is None else list(_ours(searched, cell))
    where = _of(evaluated, "--collection"), _of(evaluated, "--split")
    plain = ["--documents"] if row.bm25 == "text" else []
    export = ["python", "-m", "eval.reproduce.step_export", "--collection", where[0], "--split", where[1]]
    lines = [*made, shlex.join([*export, *plain, "--output", str(folder)])]
    run = cell.run
    if searched is not None:
        run = folder / "run.txt"
        lines += [_index(row, cell, folder), _search(row, cell, folder, run, searched, plan.matrix.hits)]
    return [*lines, *_measures(evaluated, folder / QRELS, run)]


def _ours(searched: Step, cell: CellPlan) -> Iterator[str]:
    """What is made before the cell's own index: BM25's runs for training and pools, checkpoints, vectors."""
    own = {step for step in cell.steps if step.kind in _OURS}
    others = set(ordered(need for made in own for need in made.needs))
    for step in cell.steps:
        if step in own or (step in others and step.kind not in _SKIPPED and step is not searched):
            yield step.command


def _index(row: Row, cell: CellPlan, folder: Path) -> str:
    kind, options = "JsonVectorCollection", ["--pretokenized"]
    if row.bm25 == "text":
        kind, source, options = "JsonCollection", folder / DOCUMENTS, []
    elif row.bm25 == "expanded":
        kind, source, options = "JsonCollection", _last(cell, "prepare").writes[0], []
    else:
        source = _last(cell, "encode").writes[0] / "vectors"
        options += [] if row.bm25 else ["--impact"]
    words = ["--collection", kind, "--input", str(source), "--index", str(folder / "index")]
    return _stock("index.lucene", [*words, "--generator", "DefaultLuceneDocumentGenerator", "--threads", "1", *options])


def _search(row: Row, cell: CellPlan, folder: Path, run: Path, searched: Step, hits: int) -> str:
    if row.bm25 in {"text", "expanded"}:
        options, topics = ["--bm25"], folder / TOPICS
    else:
        topics = _last(cell, "encode-queries").writes[0] / ENCODED_TOPICS
        options = ["--bm25", "--pretokenized"] if row.bm25 else ["--impact", "--min-idf", "-1"]
    options += ["--remove-query"] if searched.facts.get("remove_query") else []
    if "--segment-length" in row.options:
        options += ["--max-passage", "--max-passage-hits", str(hits), "--hits", str(SEGMENTS_PER_DOCUMENT * hits)]
    else:
        options += ["--hits", str(hits)]
    words = ["--index", str(folder / "index"), "--topics", str(topics), "--output", str(run)]
    return _stock("search.lucene", [*words, *options])


def _measures(evaluated: Step, qrels: Path, run: Path) -> Iterator[str]:
    words = evaluated.arguments
    for measure in words[words.index("--measures") + 1 : words.index("--per-query")]:
        yield _stock("eval.trec_eval", [*parse_measure(measure).arguments, str(qrels), str(run)])


def _stock(module: str, words: Sequence[str]) -> str:
    return shlex.join(["python", "-m", _STOCK, module, *words])


def _writer(cell: CellPlan, path: Path) -> Step:
    return next(step for step in cell.steps if path in step.writes)


def _last(cell: CellPlan, kind: str) -> Step:
    return [step for step in cell.steps if step.kind == kind][-1]


def _of(step: Step, option: str) -> str:
    return step.arguments[step.arguments.index(option) + 1]
