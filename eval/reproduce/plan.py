"""From a matrix to its plan: the cells, and for each kind of row the steps it needs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoders.checkpoints import read_notes
from eval.measures import parse_measure
from eval.reproduce.builder import BM25, MEAN_TERMS, Builder, Target, Weights, local_files, set_words, target
from eval.reproduce.matrix import Column, Matrix, Row, Training, slug
from eval.reproduce.prepare import DOCUMENTS, QRELS, TOPICS
from eval.reproduce.steps import Step, ordered
from learned_sparse.core import (
    LearnedSparseError,
    checkpoint_folder,
    did_you_mean,
    home,
    parse,
)
from learned_sparse.jsonvector import TOPICS as ENCODED_TOPICS
from learned_sparse.search import SEGMENTS_PER_DOCUMENT

if TYPE_CHECKING:
    from encoders.training import Recipe

_QUERY_OPTIONS = ("--dtype", "--device", "--revision")
"""Options of a row's ``learned_sparse.encode`` that also apply to its queries."""
_TERMS = {"uhd": 500, "spade": 250, "sparterm": 30}
"""Approximate number of terms of an encoded document by architecture; other architectures: ``MEAN_TERMS``."""
_STOCK = "learned_sparse.pyserini"
"""Runs stock Pyserini modules on a suitable Java; with Java 21 installed, ``python -m pyserini.MODULE`` is the same."""


@dataclass(frozen=True, kw_only=True)
class CellPlan:
    """One row on one column with one seed."""

    row: str
    column: str
    seed: int | None
    """None: the seed of the recipe, or no training."""
    steps: tuple[Step, ...]
    """All steps that the cell needs, in order."""
    run: Path
    """Run file in TREC's format."""
    evaluated: Path
    """Output of ``python -m eval.evaluate --json --per-query``."""
    costs: Path | None
    """Output of ``python -m eval.costs``; None for a given run."""
    collection: str
    """As ``--collection`` takes it; the folder of the pool for a column with a pool."""
    checkpoint: str | None
    """Folder or name on the Hub; None for BM25 on text and for a given run."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The chosen cells of a matrix by row, column and seed, and their steps in order, each once."""

    name: str
    """Name of the matrix in paths."""
    matrix: Matrix
    data: Path | None
    steps: tuple[Step, ...]
    cells: tuple[CellPlan, ...]


def make_plan(
    matrix: Matrix,
    name: str,
    data: Path | None = None,
    *,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    threads: int | None = None,
    lenient: bool = False,
) -> Plan:
    """The plan of the chosen ``rows`` and ``columns`` (empty: all); ``threads`` of each search and indexing.

    A missing collection is an error, or with ``lenient`` a column without cells.
    """
    for chosen, known, option in ((rows, matrix.rows, "--row"), (columns, matrix.columns, "--column")):
        for word in chosen:
            if word not in known:
                raise LearnedSparseError(f"{option} {word}: not in this matrix{did_you_mean(word, known)}")
    builder = Builder(matrix=matrix, data=data, threads=threads)
    targets: dict[str, Target] = {}
    for key, column in matrix.columns.items():
        if not columns or key in columns:
            try:
                targets[key] = _target(builder, column)
            except LearnedSparseError:
                if not lenient:
                    raise
    cells = tuple(cell for key in matrix.rows if not rows or key in rows for cell in _cells(builder, key, targets))
    steps = tuple(ordered(step for cell in cells for step in cell.steps))
    return Plan(name=name, matrix=matrix, data=data, steps=steps, cells=cells)


def commands_by_hand(plan: Plan, cell: CellPlan) -> list[str]:
    """Commands that reproduce a cell: ours up to the vectors, stock Pyserini and trec_eval for the rest.

    The output of our commands has its usual path, other output is below ``home()/by-hand``.
    """
    row = plan.matrix.rows[cell.row]
    evaluated = next(step for step in cell.steps if cell.evaluated in step.writes)
    searched = next((step for step in cell.steps if cell.run in step.writes), None)
    folder = home() / "by-hand" / cell.evaluated.relative_to(home() / "evaluations").with_suffix("")
    commands = [] if searched is None else [step.command for step in _steps_before_index(cell, searched)]
    export = ["python", "-m", "eval.reproduce.prepare", "export", *evaluated.arguments[:4]]  # --collection, --split
    if row.bm25 == "text":
        bad_lines = [] if plan.matrix.on_bad_line == "error" else ["--on-bad-line", plan.matrix.on_bad_line]
        export += ["--documents", *bad_lines]
    lines = [*commands, shlex.join([*export, "--output", str(folder)])]
    run = cell.run
    if searched is not None:
        run = folder / "run.txt"
        bm25 = row.bm25 is not None or _has_bm25_weights(cell)
        lines.append(_stock_index(row, cell, folder, bm25=bm25))
        lines.append(_stock_search(row, cell, folder, searched, plan.matrix.hits, bm25=bm25))
    words = evaluated.arguments
    for measure in words[words.index("--measures") + 1 : words.index("--per-query")]:
        arguments = [*parse_measure(measure).arguments, str(folder / QRELS), str(run)]
        lines.append(_stock("eval.trec_eval", arguments))
    return lines


def _target(builder: Builder, column: Column) -> Target:
    full = target(column.collection, column.split, column.measures)
    return builder.pool(full, column.pool) if column.pool else full


def _cells(builder: Builder, name: str, targets: dict[str, Target]) -> Iterator[CellPlan]:
    row = builder.matrix.rows[name]
    seeds = builder.matrix.rows[row.model].seeds if row.model else row.seeds
    for column, on in targets.items():
        if row.runs_on(column):
            for seed in seeds or (None,):
                yield _cell(builder, name, column, on, seed)


def _cell(builder: Builder, name: str, column: str, on: Target, seed: int | None) -> CellPlan:
    """The steps of a row on a target, by the kind of the row."""
    row, costs, checkpoint = builder.matrix.rows[name], None, None
    if row.run is not None:
        run = Path(row.run.replace("{collection}", on.name).replace("{split}", on.split))
        evaluated = builder.evaluate(slug(name), on, run, ())
    else:
        if row.bm25 in {"text", "expanded"}:
            stem, searched, costs = _bm25(builder, name, on)
        else:
            stem, searched, costs, checkpoint = _learned(builder, name, on, seed)
        run = searched.writes[0]
        evaluated = builder.evaluate(stem, on, run, (searched,))
    return CellPlan(
        row=name, column=column, seed=seed, run=run, evaluated=evaluated.writes[0],
        steps=tuple(ordered([evaluated, *([costs] if costs else [])])), costs=costs.writes[0] if costs else None,
        collection=on.collection, checkpoint=checkpoint,
    )  # fmt: skip


def _bm25(builder: Builder, name: str, on: Target) -> tuple[str, Step, Step]:
    """Stem of names, search and costs of BM25 over text."""
    row = builder.matrix.rows[name]
    if row.backend == "exact":
        raise LearnedSparseError(f"row {name!r}: BM25 over text needs Lucene; leave 'backend: exact' out")
    if row.bm25 == "text":
        stem, index, searched = BM25, builder.bm25_index(on), builder.bm25_search(on, builder.matrix.hits)
    else:
        stem = slug(name) if builder.matrix.plain_names else f"{BM25}-expanded"
        index = builder.expanded_index(stem, on, Path(str(row.expanded).replace("{collection}", on.name)))
        searched = builder.search(stem, "", on, ("--index", index.writes[0]), (index,))
    return stem, searched, builder.costs(stem, on, ("--index", index.writes[0]), (searched,))


def _learned(builder: Builder, name: str, on: Target, seed: int | None) -> tuple[str, Step, Step, str]:
    """Stem of names, search, costs and checkpoint of a learned model, or of BM25 over word pieces."""
    row, weights = builder.matrix.rows[name], _weights(builder, name, seed)
    encoded = _encoded(builder, row.index_of or name, on, seed)
    vectors, exact = encoded.writes[0], row.backend == "exact"
    stem = _stem(builder, name, seed, row.options, row.encode, row.queries)
    query_stem = _stem(builder, name, seed, row.encode, row.queries)
    query_words = _encode_words(query_stem, weights, builder, row, queries=True)
    queries = builder.encode_queries(query_stem, on, query_words, weights.needs, weights.reads)
    files: list[str | Path] = ["--vectors", vectors, "--queries", queries.writes[0]]
    words = ["--model", vectors.name, *set_words(row.queries), *(["--backend", "exact"] if exact else [])]
    if exact:
        searched = builder.search(stem, vectors.name, on, words, (encoded,))
    else:
        folder, index = builder.index(stem, on, encoded)
        searched, files = builder.search(stem, vectors.name, on, words, (index,)), [*files, "--index", folder]
    return stem, searched, builder.costs(stem, on, files, (searched, queries)), weights.checkpoint


def _encoded(builder: Builder, name: str, on: Target, seed: int | None) -> Step:
    row, weights = builder.matrix.rows[name], _weights(builder, name, seed)
    stem = _stem(builder, name, seed, row.options, row.encode)
    words = _encode_words(stem, weights, builder, row, queries=False)
    return builder.encode(stem, on, words, weights.needs, weights.reads, terms=weights.terms)


def _stem(builder: Builder, name: str, seed: int | None, *settings: Iterable[str] | dict[str, Any]) -> str:
    """Readable beginning of the names of a row's output: its checkpoint and what it changes about the model."""
    if builder.matrix.plain_names:
        return folder_name(name, seed)
    pairs = [[f"{key} {value}" for key, value in part.items()] if isinstance(part, dict) else part for part in settings]
    return slug(" ".join([_weights(builder, name, seed).stem, *(word for part in pairs for word in part)]))


def _encode_words(stem: str, weights: Weights, builder: Builder, row: Row, *, queries: bool) -> list[str]:
    """Arguments of ``learned_sparse.encode`` besides the model and the collection."""
    words: list[str] = []
    if weights.checkpoint != str(checkpoint_folder(stem)):
        words += ["--checkpoint", weights.checkpoint]
    if builder.matrix.dtype and "--dtype" not in row.options:
        words += ["--dtype", builder.matrix.dtype]
    if queries:
        pairs = zip(row.options, row.options[1:], strict=False)
        words += [word for pair in pairs if pair[0] in _QUERY_OPTIONS for word in pair]
        return [*words, *set_words(row.encode | row.queries)]
    return [*words, *row.options, *set_words(row.encode)]


def folder_name(name: str, seed: int | None) -> str:
    """Plain name of a row's output.

    >>> folder_name("SpaDE k=10", None), folder_name("splade", 1)
    ('spade-k-10', 'splade-seed-1')
    """
    return slug(name) if seed is None else f"{slug(name)}-seed-{seed}"


def _weights(builder: Builder, name: str, seed: int | None) -> Weights:
    """The checkpoint of a row."""
    if (name, seed) not in builder.weights:
        builder.weights[name, seed] = _new_weights(builder, name, seed)
    return builder.weights[name, seed]


def _new_weights(builder: Builder, name: str, seed: int | None) -> Weights:
    """The checkpoint of another row, of word pieces, named by the row, or trained by its recipe."""
    row = builder.matrix.rows[name]
    if row.model is not None:
        return _weights(builder, row.model, seed)
    if row.bm25 is not None:
        step = builder.word_pieces()
        return Weights(checkpoint=str(step.writes[0]), needs=(step,), stem="word-pieces")
    if row.checkpoint is not None:
        folder = Path(row.checkpoint)
        return Weights(checkpoint=row.checkpoint, reads=(folder,) if folder.is_dir() else (), stem=slug(folder.name))
    return _trained(builder, name, seed)


def _trained(builder: Builder, name: str, seed: int | None) -> Weights:
    """Train the recipe of a row, on the data of the matrix if it names any."""
    from encoders.training import load_recipe, to_mapping

    row, training = builder.matrix.rows[name], builder.matrix.training
    name_or_file = str(row.recipe)
    changes = [*row.changes, *([] if seed is None else [f"seed={seed}"])]
    stem = slug(" ".join([Path(name_or_file).stem, *changes]))
    changes += [] if builder.matrix.on_bad_line == "error" else [f"on_bad_line={builder.matrix.on_bad_line}"]
    runs = _negatives(builder, training) if training else {}
    changes += [f"data.{number}.run={step.writes[0]}" for number, step in runs.items()]
    if training and training.validation and load_recipe(name_or_file).validation:
        changes.append(f"validation.collection={training.validation}")
    data = training.data if training else ()
    recipe = load_recipe(name_or_file, changes=changes, data=data)
    words = ["--recipe", name_or_file]
    words += [word for argument in data for word in ("--data", argument)]
    words += [word for change in changes for word in ("--set", change)]
    step = builder.train(
        folder_name(name, seed) if builder.matrix.plain_names else stem, words, tuple(runs.values()),
        _training_files(recipe, tuple(runs.values())), json.loads(json.dumps(to_mapping(recipe))),
    )  # fmt: skip
    terms = _TERMS.get(recipe.architecture, MEAN_TERMS)
    return Weights(checkpoint=str(step.writes[0]), needs=(step,), terms=terms, stem=stem)


def _negatives(builder: Builder, training: Training) -> dict[int, Step]:
    """BM25's runs of the training queries, by position in the training data."""
    from encoders.training import data_source

    parts = [data_source(argument) for argument in training.data] if training.negatives else []
    return {
        number: builder.bm25_search(target(part["collection"], part.get("split", "train")), training.negatives or 0)
        for number, part in enumerate(parts)
        if "collection" in part
    }


def _training_files(recipe: Recipe, runs: Sequence[Step]) -> tuple[Path, ...]:
    """Local files that a training reads and that no step writes: collections, triples, runs and the backbone."""
    files: list[Path] = [Path(recipe.backbone)] if Path(recipe.backbone).is_dir() else []
    for part in recipe.data:
        files += [path for path in (part.triples, part.topics, part.qrels, part.run, part.expanded) if path]
        files += local_files(part.collection, None if part.topics else part.split) if part.collection else []
    if recipe.validation:
        split = None if recipe.validation.holdout else recipe.validation.split or "dev"
        files += local_files(recipe.validation.collection, split)
        files += [path for path in (recipe.validation.candidates, recipe.validation.expanded) if path]
    written = {path for step in runs for path in step.writes}
    return tuple(path for path in dict.fromkeys(files) if path not in written)


def _steps_before_index(cell: CellPlan, searched: Step) -> Iterator[Step]:
    """The steps up to the cell's vectors: BM25's runs for training and pools, checkpoints, encoding."""
    ours = {step for step in cell.steps if step.kind in {"prepare", "train", "pool", "encode", "encode-queries"}}
    needed = set(ordered(need for step in ours for need in step.needs))
    for step in cell.steps:
        if step in ours or (step in needed and step.kind not in {"verify", "costs", "evaluate"} and step != searched):
            yield step


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
        source = _last_output(cell, "encode") / "vectors"
        options += [] if bm25 else ["--impact"]
    words = ["--collection", kind, "--input", str(source), "--index", str(folder / "index")]
    return _stock("index.lucene", [*words, "--generator", "DefaultLuceneDocumentGenerator", "--threads", "1", *options])


def _stock_search(row: Row, cell: CellPlan, folder: Path, searched: Step, hits: int, *, bm25: bool) -> str:
    if row.bm25 in {"text", "expanded"}:
        options, topics = ["--bm25"], folder / TOPICS
    else:
        topics = _last_output(cell, "encode-queries") / ENCODED_TOPICS
        options = ["--bm25", "--pretokenized"] if bm25 else ["--impact", "--min-idf", "-1"]
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
