"""Commands that reproduce a cell by hand: ours up to the vectors, stock Pyserini and trec_eval for the rest."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from encoders.checkpoints import read_notes
from eval.measures import parse_measure
from eval.reproduce.matrix import Row
from eval.reproduce.plan import CellPlan, Plan
from eval.reproduce.prepare import DOCUMENTS, QRELS, TOPICS
from eval.reproduce.steps import Step, ordered
from learned_sparse.core.files import home
from learned_sparse.core.settings import parse
from learned_sparse.jsonvector.queries import TOPICS as ENCODED_TOPICS
from learned_sparse.search.searching import SEGMENTS_PER_DOCUMENT

_STOCK = "learned_sparse.pyserini"
"""Runs stock Pyserini modules on a suitable Java; with Java 21 installed, ``python -m pyserini.MODULE`` is the same."""


def commands_by_hand(plan: Plan, cell: CellPlan) -> list[str]:
    """Commands that reproduce a cell: ours up to the vectors, stock Pyserini and trec_eval for the rest.

    The output of our commands has its usual path, other output is below ``home()/by-hand``.
    """
    row = plan.matrix.rows[cell.row]
    evaluated = next(step for step in cell.steps if cell.evaluated in step.writes)
    made = next((step for step in cell.steps if cell.run in step.writes), None)
    searched = made if made and made.kind == "search" else None
    folder = home() / "by-hand" / cell.evaluated.relative_to(home() / "evaluations").with_suffix("")
    ours = _steps_before_index(cell, searched) if searched else _steps_of_run(cell)
    export = ["python", "-m", "eval.reproduce.prepare", "export", *evaluated.arguments[:4]]  # --collection, --split
    if row.bm25 == "text":
        bad_lines = [] if plan.matrix.on_bad_line == "error" else ["--on-bad-line", plan.matrix.on_bad_line]
        export += ["--documents", *bad_lines]
    lines = [*(step.command for step in ours), shlex.join([*export, "--output", str(folder)])]
    run = cell.run
    if searched is not None:
        run = folder / "run.txt"
        bm25 = row.bm25 is not None or _has_bm25_weights(cell)
        lines.append(_stock_index(row, cell, folder, bm25=bm25))
        lines.append(_stock_search(row, cell, folder, searched, plan.matrix.hits, bm25=bm25))
    words = evaluated.arguments
    qrels = words[words.index("--qrels") + 1] if "--qrels" in words else str(folder / QRELS)
    for measure in words[words.index("--measures") + 1 : words.index("--per-query")]:
        arguments = [*parse_measure(measure).arguments, qrels, str(run)]
        lines.append(_stock("eval.trec_eval", arguments))
    return lines


def _steps_before_index(cell: CellPlan, searched: Step) -> Iterator[Step]:
    """The steps up to the cell's vectors: BM25's runs for training and pools, checkpoints, encoding."""
    ours = {step for step in cell.steps if step.kind in {"prepare", "train", "pool", "encode", "encode-queries"}}
    needed = set(ordered(need for step in ours for need in step.needs))
    for step in cell.steps:
        if step in ours or (step in needed and step.kind not in {"verify", "costs", "evaluate"} and step != searched):
            yield step


def _steps_of_run(cell: CellPlan) -> Iterator[Step]:
    """The steps up to a run that is not searched but given, re-ranked or chosen from others."""
    return (step for step in cell.steps if step.kind not in {"verify", "costs", "evaluate"})


def _has_bm25_weights(cell: CellPlan) -> bool:
    """Whether the model of a cell gives term frequencies, which BM25 scores: SparTerm's expansion-only documents."""
    from encoders import ARCHITECTURES

    trained = [step.facts["recipe"] for step in cell.steps if step.kind == "train"]
    if trained:
        name, settings = trained[-1]["architecture"], trained[-1]["settings"]
    elif cell.checkpoint is not None and Path(cell.checkpoint).is_dir():
        notes = read_notes(Path(cell.checkpoint))
        name, settings = notes.architecture, notes.settings
    else:  # a masked-LM on the Hub
        return False
    family = ARCHITECTURES[name]
    return family.scoring(parse(family.settings, settings, name)) == "bm25"


def _stock_index(row: Row, cell: CellPlan, folder: Path, *, bm25: bool) -> str:
    kind, options = "JsonVectorCollection", ["--pretokenized"]
    if row.bm25 == "text":
        kind, source, options = "JsonCollection", folder / DOCUMENTS, []
    elif row.bm25 == "expanded":
        kind, source, options = "JsonCollection", _last_output(cell, "prepare"), []
    else:
        source = _last_output(cell, "prepare" if row.prune else "encode") / "vectors"
        options += [] if bm25 else ["--impact"]
    words = ["--collection", kind, "--input", str(source), "--index", str(folder / "index")]
    return _stock("index.lucene", [*words, "--generator", "DefaultLuceneDocumentGenerator", "--threads", "1", *options])


def _stock_search(row: Row, cell: CellPlan, folder: Path, searched: Step, hits: int, *, bm25: bool) -> str:
    if row.bm25 in {"text", "expanded"}:
        options, topics = ["--bm25", *row.bm25_words], folder / TOPICS
    else:
        topics = _last_output(cell, "encode-queries") / ENCODED_TOPICS
        options = ["--bm25", "--pretokenized", *row.bm25_words] if bm25 else ["--impact", "--min-idf", "-1"]
    options += ["--remove-query"] if searched.facts.get("remove_query") else []
    if "--segment-length" in row.options and not {"sum", "decay"} & set(row.options):
        passages = SEGMENTS_PER_DOCUMENT * hits
        options += ["--max-passage", "--max-passage-hits", str(hits), "--hits", str(passages)]
    else:
        options += ["--hits", str(hits)]
    words = ["--index", str(folder / "index"), "--topics", str(topics), "--output", str(folder / "run.txt")]
    return _stock("search.lucene", [*words, *options])


def _stock(module: str, words: Sequence[str]) -> str:
    return shlex.join(["python", "-m", _STOCK, module, *words])


def _last_output(cell: CellPlan, kind: str) -> Path:
    return [step for step in cell.steps if step.kind == kind][-1].writes[0]
