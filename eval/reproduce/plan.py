"""From a matrix to its plan: the cells, and for each kind of row the steps it needs."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from encoders.checkpoints.notes import NOTES, read_notes
from encoders.training import Recipe, data_source, load_recipe, stated
from eval.reproduce.builder import (
    BM25,
    PREPARE,
    Builder,
    Target,
    Weights,
    expansions_path,
    expected_terms,
    home_folder,
    local_files,
    only_documents,
    set_words,
    target,
)
from eval.reproduce.matrix import (
    BestOfRow,
    BM25Row,
    CheckpointRow,
    Column,
    CrossEncoderRow,
    FusionRow,
    GivenRow,
    Matrix,
    ModelRow,
    RecipeRow,
    Row,
    Training,
    seeds_of,
    slug,
    weights_of,
)
from eval.reproduce.steps import Step, ordered
from learned_sparse.core.errors import LearnedSparseError, did_you_mean
from learned_sparse.core.files import home, run_file

_QUERY_OPTIONS = ("--dtype", "--device", "--revision")
"""Options of a row's ``learned_sparse.encode`` that also apply to its queries."""


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

    def without(self, pairs: Collection[tuple[str, str]]) -> Plan:
        """The plan of the cells whose row and column are not in ``pairs``."""
        cells = tuple(cell for cell in self.cells if (cell.row, cell.column) not in pairs)
        steps = tuple(ordered(step for cell in cells for step in cell.steps))
        return dataclasses.replace(self, cells=cells, steps=steps)


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
    rows, columns = _chosen(rows, matrix.rows, "--row"), _chosen(columns, matrix.columns, "--column")
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
    return Plan(name=name, matrix=matrix, data=data, steps=(), cells=cells).without(())


def _chosen(words: Sequence[str], known: Collection[str], option: str) -> list[str]:
    """The ``known`` names among ``words``, in which ``*`` stands for any characters."""
    names: dict[str, None] = {}
    for word in words:
        pattern = ".*".join(map(re.escape, word.split("*")))
        if not (matching := [name for name in known if re.fullmatch(pattern, name)]):
            raise LearnedSparseError(f"{option} {word}: not in this matrix{did_you_mean(word, known)}")
        names.update(dict.fromkeys(matching))
    return list(names)


def _target(builder: Builder, column: Column) -> Target:
    on = target(column.collection, column.split, column.measures)
    if column.sample or column.pool:
        on = builder.part(on, column.sample, column.pool)
    if not column.overlap:
        return on
    # documents, indexes and runs are those of all queries; one class of SpaDE's Table 4 is measured
    step = builder.make(
        "pool", f"queries of {on.name}, {on.split}, by overlap", PREPARE,
        ("overlap", "--collection", on.collection, "--split", on.split), f"{on.name}-{on.split}-overlap",
        home_folder("data"), needs=on.needs, reads=(*on.corpus, *on.judged), facts=on.facts,
    )  # fmt: skip
    return dataclasses.replace(on, overlap=step, measured_class=column.overlap)


def _cells(builder: Builder, name: str, targets: dict[str, Target]) -> Iterator[CellPlan]:
    row = builder.matrix.rows[name]
    for column, on in targets.items():
        if row.runs_on(column):
            for seed in seeds_of(builder.matrix, name) or (None,):
                its = _run_of(builder, name, on, seed)
                evaluated = builder.evaluate(its.stem, on, its.run, (its.step,) if its.step else ())
                yield CellPlan(
                    row=name, column=column, seed=seed, run=its.run, evaluated=evaluated.writes[0],
                    steps=tuple(ordered([evaluated, *([its.costs] if its.costs else [])])),
                    costs=its.costs.writes[0] if its.costs else None, collection=on.collection,
                    checkpoint=its.checkpoint,
                )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Run:
    """The run of a row, the step that makes it (None for a given run), and its costs if they are measured."""

    stem: str
    """Readable beginning of names."""
    run: Path
    step: Step | None = None
    costs: Step | None = None
    checkpoint: str | None = None


def _run_of(builder: Builder, name: str, on: Target, seed: int | None) -> _Run:
    """The run of a row on a target, by the kind of the row."""
    row = builder.matrix.rows[name]
    match row:
        case GivenRow():
            run = Path(row.run.replace("{collection}", on.name).replace("{split}", on.split))
            return _Run(stem=slug(name), run=run)
        case BestOfRow() | FusionRow():
            return _of_several(builder, name, row, on, seed)
        case CrossEncoderRow():
            return _reranked(builder, name, row, on, seed)
        case ModelRow() if row.rerank:
            return _reranked(builder, name, row, on, seed)
        case BM25Row() if row.bm25 != "word-pieces":
            return _bm25(builder, name, row, on)
        case _:
            return _learned(builder, name, on, seed)


def _reranked(builder: Builder, name: str, row: CrossEncoderRow | ModelRow, on: Target, seed: int | None) -> _Run:
    """Another row's run, re-ranked by the row's model or cross-encoder; it is in the folder that the step writes."""
    matrix, first_row = builder.matrix, str(row.rerank)
    first = _run_of(builder, first_row, on, seed if seeds_of(matrix, first_row) else None)
    if isinstance(row, CrossEncoderRow):
        local = Path(row.cross_encoder)
        reads = (local,) if local.is_dir() else ()
        weights = Weights(checkpoint=row.cross_encoder, reads=reads, stem=slug(local.name))
        words, stem = ["--cross-encoder", row.cross_encoder], weights.stem
    else:
        weights, stem = _weights(builder, name, seed), _stem(builder, name, seed, row.encode)
        words = ["--checkpoint", weights.checkpoint, *set_words(row.encode)]
        if expansions := _expansions(builder, row, on):
            words, weights = [*words, "--expanded", str(expansions_path(expansions))], weights.reading(expansions)
    words += [*row.options, *_dtype(matrix, row.options)]
    stem = folder_name(name, seed) if matrix.plain_names else f"{first.stem}-top-{row.depth}-{stem}"
    where = ("--collection", on.collection, "--split", on.split, "--run", f"first={first.run}")
    step = builder.make(
        "rerank", f"re-rank {name}, {on.name} {on.split}", "eval.rerank", (*where, "--depth", str(row.depth), *words),
        stem, home_folder("reranked", on.name, on.split), facts=on.facts,
        needs=(*weights.needs, *([first.step] if first.step else []), *on.needs),
        reads=(*on.corpus, *on.judged, *weights.reads, *(() if first.step else (first.run,))),
    )  # fmt: skip
    run = step.writes[0] / f"first-top{row.depth}.txt"
    checkpoint = None if isinstance(row, CrossEncoderRow) else weights.checkpoint
    return _Run(stem=stem, run=run, step=step, checkpoint=checkpoint)


def _of_several(builder: Builder, name: str, row: BestOfRow | FusionRow, on: Target, seed: int | None) -> _Run:
    """A run made of several runs: for each query the best one, or their reciprocal rank fusion."""
    parts = [_run_of(builder, part, on, seed) for part in (row.best_of if isinstance(row, BestOfRow) else row.fusion)]
    runs, hits = [part.run for part in parts], str(builder.matrix.hits)
    words: list[str | Path]
    if isinstance(row, BestOfRow):
        module = PREPARE
        words = ["best", "--collection", on.collection, "--split", on.split, "--measure", row.best_by, "--run", *runs]
    else:
        module = "learned_sparse.pyserini"
        words = ["fusion", "--method", "rrf", "--depth", hits, "--k", hits, "--runs", *runs]
    step = builder.make(
        "rerank", f"join {name}, {on.name} {on.split}", module, words, folder_name(name, seed),
        partial(run_file, on.name, on.split), needs=(*(part.step for part in parts if part.step), *on.needs),
        reads=(*on.judged, *(part.run for part in parts if not part.step)), facts=on.facts,
    )  # fmt: skip
    return _Run(stem=folder_name(name, seed), run=step.writes[0], step=step)


def _bm25(builder: Builder, name: str, row: BM25Row, on: Target) -> _Run:
    """BM25 over text."""
    if row.expanded is None:
        stem, index = slug(name) if row.words else BM25, builder.bm25_index(on)
    else:
        stem = slug(name) if builder.matrix.plain_names else f"{BM25}-expanded"
        index = builder.expanded_index(stem, on, _filled(row.expanded, on.whole or on.name))
    words: tuple[str | Path, ...] = ("--index", index.writes[0], *row.words)
    searched = builder.search(stem, on, (*(() if row.expanded else ("--bm25",)), *words), (index,))
    costs = builder.costs(stem, on, words, (searched,))
    return _Run(stem=stem, run=searched.writes[0], step=searched, costs=costs)


def _learned(builder: Builder, name: str, on: Target, seed: int | None) -> _Run:
    """A learned model, or BM25 over word pieces."""
    row, weights = _model(builder.matrix, name), _weights(builder, name, seed)
    bm25_words = its.words if isinstance(its := builder.matrix.rows[name], BM25Row) else ()
    encoded = _encoded(builder, row.index_of or name, on, seed)
    vectors = encoded.writes[0]
    stem = _stem(builder, name, seed, row.options, row.encode, row.queries)
    query_stem = _stem(builder, name, seed, row.encode, row.queries)
    query_words, query_weights = _encode_words(query_stem, weights, builder.matrix, row, queries=True), weights
    if "--with" in row.options:  # documents say how queries weigh BM25
        query_words = [*query_words, "--with", str(vectors)]
        query_weights = dataclasses.replace(weights, needs=(*weights.needs, encoded))
    queries = builder.encode_queries(query_stem, on, query_words, query_weights)
    files: list[str | Path] = ["--vectors", vectors, "--queries", queries.writes[0], *bm25_words]
    files += ["--encoding", *set_words(row.queries)]
    words = ["--model", vectors.name, *set_words(row.queries), *bm25_words]
    if row.backend != "lucene":
        backend = ["--backend", row.backend]
        searched, files = builder.search(stem, on, [*words, *backend], (encoded,)), [*files, *backend]
    else:
        index = builder.index(stem, on, encoded)
        files += ["--index", index.writes[0]]
        searched = builder.search(
            stem, on, words, (builder.verify(stem, on, index) if builder.matrix.verify else index,)
        )
    costs = builder.costs(stem, on, files, (searched, queries))
    return _Run(stem=stem, run=searched.writes[0], step=searched, costs=costs, checkpoint=weights.checkpoint)


def _encoded(builder: Builder, name: str, on: Target, seed: int | None) -> Step:
    row, weights = _model(builder.matrix, name), _weights(builder, name, seed)
    stem = _stem(builder, name, seed, row.options, row.encode)
    words = _encode_words(stem, weights, builder.matrix, row, queries=False)
    if expansions := _expansions(builder, row, on):
        words, weights = [*words, "--expanded", str(expansions_path(expansions))], weights.reading(expansions)
    encoded = builder.encode(stem, on, words, weights, terms=expected_terms(weights, row.encode))
    return builder.prune(stem, on, encoded, row.prune) if row.prune else encoded


def _model(matrix: Matrix, name: str) -> ModelRow:
    """The settings of a row's model; BM25 over word pieces has none but its options."""
    row = matrix.rows[name]
    return row if isinstance(row, ModelRow) else ModelRow(options=row.options if isinstance(row, BM25Row) else ())


def _stem(builder: Builder, name: str, seed: int | None, *settings: Iterable[str] | dict[str, Any]) -> str:
    """Readable beginning of the names of a row's output: its checkpoint and what it changes about the model."""
    if builder.matrix.plain_names:
        return folder_name(name, seed)
    pairs = [[f"{key} {value}" for key, value in part.items()] if isinstance(part, dict) else part for part in settings]
    return slug(" ".join([_weights(builder, name, seed).stem, *(word for part in pairs for word in part)]))


def _encode_words(stem: str, weights: Weights, matrix: Matrix, row: ModelRow, *, queries: bool) -> list[str]:
    """Arguments of ``learned_sparse.encode`` besides the model and the collection."""
    named = "--with" not in row.options and weights.checkpoint == str(home() / "checkpoints" / stem)
    words = [] if named else ["--checkpoint", weights.checkpoint]
    words += _dtype(matrix, row.options)
    if queries:
        pairs = zip(row.options, row.options[1:], strict=False)
        words += [word for pair in pairs if pair[0] in _QUERY_OPTIONS for word in pair]
        return [*words, *set_words(row.encode | row.queries)]
    return [*words, *row.options, *set_words(row.encode)]


def _dtype(matrix: Matrix, options: Iterable[str]) -> list[str]:
    """``--dtype`` of the matrix, unless the options of a row have another."""
    return [] if matrix.dtype is None or "--dtype" in options else ["--dtype", matrix.dtype]


def _expansions(builder: Builder, row: Row, on: Target) -> Path | Step | None:
    """What ``--expanded`` reads for a row: a file of predicted queries, or the step that makes new terms of them.

    A row has its own file and ``expansion``, or those of the row with its checkpoint.
    """
    own = isinstance(row, ModelRow) and (row.expanded or row.expansion)
    its = row if own else weights_of(builder.matrix, row)
    if not isinstance(its, ModelRow) or its.expanded is None:
        return None
    file = _filled(its.expanded, on.whole or on.name)
    return file if its.expansion == "queries" else builder.new_terms(on, file)


def _filled(file: str, collection: str) -> Path:
    return Path(file.replace("{collection}", collection))


def folder_name(name: str, seed: int | None) -> str:
    """Plain name of a row's output.

    >>> folder_name("SpaDE k=10", None), folder_name("splade", 1)
    ('spade-k-10', 'splade-seed-1')
    """
    return slug(name) if seed is None else f"{slug(name)}-seed-{seed}"


def _weights(builder: Builder, name: str, seed: int | None) -> Weights:
    """The checkpoint of a row: of word pieces, named by the row or its model, or trained by its recipe."""
    row = weights_of(builder.matrix, builder.matrix.rows[name])
    if isinstance(row, RecipeRow):
        return _trained(builder, name, row, seed)
    if isinstance(row, CheckpointRow):
        folder = Path(row.checkpoint)
        known: dict[str, Any] = {}
        if (folder / NOTES).is_file():
            with contextlib.suppress(LearnedSparseError):  # a damaged checkpoint, which its step reports
                notes = read_notes(folder)
                known = {"architecture": notes.architecture, "settings": notes.settings}
        reads = (folder,) if folder.is_dir() else ()
        return Weights(checkpoint=row.checkpoint, reads=reads, stem=slug(folder.name), **known)
    step = builder.word_pieces()
    return Weights(checkpoint=str(step.writes[0]), needs=(step,), stem="word-pieces")


def _trained(builder: Builder, name: str, row: RecipeRow, seed: int | None) -> Weights:
    """Train the recipe of a row, on the data of the matrix if it names any."""
    matrix, training = builder.matrix, builder.matrix.training
    name = next(key for key, its in matrix.rows.items() if its is row)
    if (name, seed) in builder.weights:
        return builder.weights[name, seed]
    changes = [*row.changes, *([] if seed is None else [f"seed={seed}"])]
    stem = slug(" ".join([Path(row.recipe).stem, *changes]).replace(f"{builder.data}/", ""))
    changes += [] if matrix.on_bad_line == "error" else [f"on_bad_line={matrix.on_bad_line}"]
    runs = _negatives(builder, training) if training else {}
    changes += [f"data.{number}.run={step.writes[0]}" for number, step in runs.items()]
    if training and training.validation and load_recipe(row.recipe, changes=row.changes).validation:
        changes.append(f"validation.collection={training.validation}")
    data = training.data if training else ()
    made = list(runs.values())
    for number, part in enumerate(load_recipe(row.recipe, changes=changes, data=data).data):
        if not (row.expanded and part.collection):
            continue
        if expansions := _expansions(builder, row, only_documents(part.collection)):
            changes.append(f"data.{number}.expanded={expansions_path(expansions)}")
            made += [expansions] if isinstance(expansions, Step) else []
    recipe = load_recipe(row.recipe, changes=changes, data=data)
    words = ["--recipe", row.recipe]
    words += [word for argument in data for word in ("--data", argument)]
    words += [word for change in changes for word in ("--set", change)]
    step = builder.train(
        folder_name(name, seed) if matrix.plain_names else stem, words, stated(recipe),
        needs=tuple(made), reads=_training_files(recipe, made),
    )  # fmt: skip
    weights = Weights(
        checkpoint=str(step.writes[0]), needs=(step,), stem=stem, architecture=recipe.architecture,
        settings=recipe.settings, max_length=recipe.max_length.document,
    )  # fmt: skip
    builder.weights[name, seed] = weights
    return weights


def _negatives(builder: Builder, training: Training) -> dict[int, Step]:
    """BM25's runs of the training queries, by position in the training data."""
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
        files += [path for path in (part.examples, part.scores) if path]
        files += local_files(part.collection, None if part.topics else part.split) if part.collection else []
    if recipe.validation:
        split = None if recipe.validation.holdout else recipe.validation.split or "dev"
        files += local_files(recipe.validation.collection, split)
    written = {path for step in runs for path in step.writes}
    return tuple(path for path in dict.fromkeys(files) if path not in written)
