"""From a matrix to its plan: the cells, and for each kind of row the steps it needs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval.reproduce.builder import (
    BM25,
    MEAN_TERMS,
    TEXT_BYTES,
    Builder,
    Target,
    Weights,
    local_files,
    set_words,
    target,
)
from eval.reproduce.matrix import Column, Matrix, Row, Sample, Training, seeds_of, slug
from eval.reproduce.steps import Step, ordered
from learned_sparse.core.errors import LearnedSparseError, did_you_mean
from learned_sparse.core.files import home, run_file

if TYPE_CHECKING:
    from encoders.training import Recipe

_PREPARE, _STOCK = "eval.reproduce.prepare", "learned_sparse.pyserini"
_QUERY_OPTIONS = ("--dtype", "--device", "--revision")
"""Options of a row's ``learned_sparse.encode`` that also apply to its queries."""
_TERMS = {"uhd": 500, "spade": 250, "sparterm": 30}
"""Approximate number of terms of an encoded document by architecture; other architectures: ``MEAN_TERMS``."""


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
    return Plan(name=name, matrix=matrix, data=data, steps=(), cells=cells).without(())


def _target(builder: Builder, column: Column) -> Target:
    on = target(column.collection, column.split, column.measures)
    if column.sample:
        on = _sample_of(builder, on, column.sample, column.pool)
    elif column.pool:
        on = builder.pool(on, column.pool)
    return _only_overlap(builder, on, column.overlap) if column.overlap else on


def _sample_of(builder: Builder, whole: Target, sample: Sample, pool: int | None) -> Target:
    """A sample of a collection, which holds BM25's top ``pool`` documents of each of its queries."""
    run = builder.bm25_search(whole, max(builder.matrix.hits, pool)) if pool else None
    words: list[str | Path] = ["sample", "--collection", whole.collection, "--split", whole.split]
    words += ["--seed", str(sample.seed), *builder.bad_lines]
    words += ["--queries", str(sample.queries)] if sample.queries is not None else []
    words += ["--documents", str(sample.documents)] if sample.documents is not None else []
    words += ["--run", run.writes[0], "--depth", str(pool)] if run else []
    made_of: dict[str, Any] = {"needs": (run,) if run else whole.needs, "facts": whole.facts}
    made_of["reads"] = (*whole.corpus, *whole.judged)
    sizes = [f"{number}-{unit}" for unit in ("queries", "documents") if (number := getattr(sample, unit))]
    stem = "-".join([whole.name, whole.split, "sample", *sizes, *([f"pool-{pool}"] if pool else [])])
    folder = home() / "data" / builder.named(f"{stem}-seed-{sample.seed}", _PREPARE, words, **made_of)
    queries = sample.queries or whole.queries
    documents = sample.documents or (queries * pool if pool else whole.documents)
    step = builder.step(
        "pool", f"sample of {whole.name}, {whole.split}", _PREPARE, (*words, "--output", folder),
        name=f"data/{folder.name}", writes=(folder,), disk_bytes=documents * TEXT_BYTES, **made_of,
    )  # fmt: skip
    return Target(
        collection=str(folder), documents_of=str(folder), name=folder.name, split=whole.split,
        measures=whole.measures, needs=(step,), documents=documents, queries=queries,
        facts={"remove_query": whole.facts["remove_query"]}, whole=whole.name,
    )  # fmt: skip


def _only_overlap(builder: Builder, on: Target, name: str) -> Target:
    """``on``, measured on one class of SpaDE's Table 4; documents, indexes and runs are those of all queries."""
    words = ("overlap", "--collection", on.collection, "--split", on.split)
    made_of: dict[str, Any] = {"needs": on.needs, "reads": (*on.corpus, *on.judged), "facts": on.facts}
    folder = home() / "data" / builder.named(f"{on.name}-{on.split}-overlap", _PREPARE, words, **made_of)
    step = builder.step(
        "pool", f"queries of {on.name}, {on.split}, by overlap", _PREPARE, (*words, "--output", folder),
        name=f"data/{folder.name}", writes=(folder,), **made_of,
    )  # fmt: skip
    return dataclasses.replace(on, overlap=step, measured_class=name)


def _cells(builder: Builder, name: str, targets: dict[str, Target]) -> Iterator[CellPlan]:
    row = builder.matrix.rows[name]
    for column, on in targets.items():
        if row.runs_on(column):
            for seed in seeds_of(builder.matrix, name) or (None,):
                yield _cell(builder, name, column, on, seed)


def _cell(builder: Builder, name: str, column: str, on: Target, seed: int | None) -> CellPlan:
    """The steps of a row on a target, by the kind of the row."""
    its, costs = _run_of(builder, name, on, seed), None
    evaluated = builder.evaluate(its.stem, on, its.run, (its.step,) if its.step else ())
    if its.costs:
        costs = its.costs.writes[0]
    return CellPlan(
        row=name, column=column, seed=seed, run=its.run, evaluated=evaluated.writes[0],
        steps=tuple(ordered([evaluated, *([its.costs] if its.costs else [])])), costs=costs,
        collection=on.collection, checkpoint=its.checkpoint,
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
    if row.run is not None:
        return _Run(stem=slug(name), run=Path(row.run.replace("{collection}", on.name).replace("{split}", on.split)))
    if row.rerank is not None:
        return _reranked(builder, name, on, seed)
    if row.best_of or row.fusion:
        return _of_several(builder, name, on, seed)
    if row.bm25 in {"text", "expanded"}:
        stem, searched, costs = _bm25(builder, name, on)
        return _Run(stem=stem, run=searched.writes[0], step=searched, costs=costs)
    stem, searched, costs, checkpoint = _learned(builder, name, on, seed)
    return _Run(stem=stem, run=searched.writes[0], step=searched, costs=costs, checkpoint=checkpoint)


def _reranked(builder: Builder, name: str, on: Target, seed: int | None) -> _Run:
    """Another row's run, re-ranked by the row's model or cross-encoder; it is in the folder that the step writes."""
    row, matrix = builder.matrix.rows[name], builder.matrix
    first = _run_of(builder, str(row.rerank), on, seed if seeds_of(matrix, str(row.rerank)) else None)
    if row.cross_encoder is not None:
        local = Path(row.cross_encoder)
        weights = Weights(
            checkpoint=row.cross_encoder, reads=(local,) if local.is_dir() else (), stem=slug(local.name)
        )  # fmt: skip
        words, stem = ["--cross-encoder", row.cross_encoder], weights.stem
    else:
        weights, stem = _weights(builder, name, seed), _stem(builder, name, seed, row.encode)
        words = ["--checkpoint", weights.checkpoint, *set_words(row.encode)]
    if expanded := builder.expanded_file(name, on.whole or on.name):
        words, weights = [*words, "--expanded", str(expanded)], weights.reading(expanded)
    words += [*row.options, *(["--dtype", str(matrix.dtype)] if _needs_dtype(builder, row) else [])]
    where = ("--collection", on.collection, "--split", on.split, "--run", f"first={first.run}")
    words = [*where, "--depth", str(row.depth), *words]
    made_of: dict[str, Any] = {"needs": (*weights.needs, *([first.step] if first.step else []), *on.needs)}
    made_of["reads"] = (*on.corpus, *on.judged, *weights.reads, *(() if first.step else (first.run,)))
    made_of["facts"] = on.facts
    stem = folder_name(name, seed) if matrix.plain_names else f"{first.stem}-top-{row.depth}-{stem}"
    folder = home() / "reranked" / on.name / on.split / builder.named(stem, "eval.rerank", words, **made_of)
    step = builder.step(
        "rerank", f"re-rank {stem}, {on.name} {on.split}", "eval.rerank", (*words, "--output", folder),
        name=folder.relative_to(home()).as_posix(), writes=(folder,), **made_of,
    )  # fmt: skip
    checkpoint = None if row.cross_encoder else weights.checkpoint
    return _Run(stem=stem, run=folder / f"first-top{row.depth}.txt", step=step, checkpoint=checkpoint)


def _of_several(builder: Builder, name: str, on: Target, seed: int | None) -> _Run:
    """A run made of several runs: for each query the best one, or their reciprocal rank fusion."""
    row, stem, hits = builder.matrix.rows[name], folder_name(name, seed), str(builder.matrix.hits)
    parts = [_run_of(builder, part, on, seed) for part in row.best_of or row.fusion or ()]
    runs = [part.run for part in parts]
    words: list[str | Path] = ["fusion", "--method", "rrf", "--depth", hits, "--k", hits, "--runs", *runs]
    if row.best_of:
        words = ["best", "--collection", on.collection, "--split", on.split]
        words += ["--measure", str(row.best_by), "--run", *runs]
    module = _PREPARE if row.best_of else _STOCK
    made_of: dict[str, Any] = {"needs": (*(part.step for part in parts if part.step), *on.needs), "facts": on.facts}
    made_of["reads"] = (*on.judged, *(part.run for part in parts if not part.step))
    run = run_file(on.name, on.split, builder.named(stem, module, words, **made_of))
    step = builder.step(
        "rerank", f"join {stem}, {on.name} {on.split}", module, (*words, "--output", run),
        name=run.relative_to(home()).as_posix(), writes=(run,), **made_of,
    )  # fmt: skip
    return _Run(stem=stem, run=run, step=step)


def _bm25(builder: Builder, name: str, on: Target) -> tuple[str, Step, Step]:
    """Stem of names, search and costs of BM25 over text."""
    row = builder.matrix.rows[name]
    if row.bm25 == "text":
        stem, index = slug(name) if row.bm25_words else BM25, builder.bm25_index(on)
        searched = builder.bm25_search(on, builder.matrix.hits, stem, row.bm25_words)
    else:
        stem = slug(name) if builder.matrix.plain_names else f"{BM25}-expanded"
        index = builder.expanded_index(stem, on, builder.expanded_file(name, on.whole or on.name) or Path())
        searched = builder.search(stem, "", on, ("--index", index.writes[0], *row.bm25_words), (index,))
    return stem, searched, builder.costs(stem, on, ("--index", index.writes[0], *row.bm25_words), (searched,))


def _learned(builder: Builder, name: str, on: Target, seed: int | None) -> tuple[str, Step, Step, str]:
    """Stem of names, search, costs and checkpoint of a learned model, or of BM25 over word pieces."""
    row, weights = builder.matrix.rows[name], _weights(builder, name, seed)
    encoded = _encoded(builder, row.index_of or name, on, seed)
    vectors, exact = encoded.writes[0], row.backend == "exact"
    stem = _stem(builder, name, seed, row.options, row.encode, row.queries)
    query_stem = _stem(builder, name, seed, row.encode, row.queries)
    joined = ["--with", str(vectors)] if "--with" in row.options else []  # documents say how queries weigh BM25
    query_words = [*_encode_words(query_stem, weights, builder, row, queries=True), *joined]
    needs = (*weights.needs, encoded) if joined else weights.needs
    queries = builder.encode_queries(query_stem, on, query_words, needs, weights.reads)
    files: list[str | Path] = ["--vectors", vectors, "--queries", queries.writes[0], *row.bm25_words]
    files += ["--encoding", *set_words(row.queries)]
    words = ["--model", vectors.name, *set_words(row.queries), *row.bm25_words]
    if exact:
        searched = builder.search(stem, vectors.name, on, [*words, "--backend", "exact"], (encoded,))
    else:
        folder, index = builder.index(stem, on, encoded)
        searched, files = builder.search(stem, vectors.name, on, words, (index,)), [*files, "--index", folder]
    return stem, searched, builder.costs(stem, on, files, (searched, queries)), weights.checkpoint


def _encoded(builder: Builder, name: str, on: Target, seed: int | None) -> Step:
    row, weights = builder.matrix.rows[name], _weights(builder, name, seed)
    stem = _stem(builder, name, seed, row.options, row.encode)
    words = _encode_words(stem, weights, builder, row, queries=False)
    if expanded := builder.expanded_file(name, on.whole or on.name):
        words, weights = [*words, "--expanded", str(expanded)], weights.reading(expanded)
    encoded = builder.encode(stem, on, words, weights.needs, weights.reads, terms=weights.terms)
    return builder.prune(stem, on, encoded, row.prune) if row.prune else encoded


def _stem(builder: Builder, name: str, seed: int | None, *settings: Iterable[str] | dict[str, Any]) -> str:
    """Readable beginning of the names of a row's output: its checkpoint and what it changes about the model."""
    if builder.matrix.plain_names:
        return folder_name(name, seed)
    pairs = [[f"{key} {value}" for key, value in part.items()] if isinstance(part, dict) else part for part in settings]
    return slug(" ".join([_weights(builder, name, seed).stem, *(word for part in pairs for word in part)]))


def _encode_words(stem: str, weights: Weights, builder: Builder, row: Row, *, queries: bool) -> list[str]:
    """Arguments of ``learned_sparse.encode`` besides the model and the collection."""
    named = "--with" not in row.options and weights.checkpoint == str(home() / "checkpoints" / stem)
    words = [] if named else ["--checkpoint", weights.checkpoint]
    words += ["--dtype", str(builder.matrix.dtype)] if _needs_dtype(builder, row) else []
    if queries:
        pairs = zip(row.options, row.options[1:], strict=False)
        words += [word for pair in pairs if pair[0] in _QUERY_OPTIONS for word in pair]
        return [*words, *set_words(row.encode | row.queries)]
    return [*words, *row.options, *set_words(row.encode)]


def _needs_dtype(builder: Builder, row: Row) -> bool:
    return builder.matrix.dtype is not None and "--dtype" not in row.options


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
    stem = slug(" ".join([Path(name_or_file).stem, *changes]).replace(f"{builder.data}/", ""))
    changes += [] if builder.matrix.on_bad_line == "error" else [f"on_bad_line={builder.matrix.on_bad_line}"]
    runs = _negatives(builder, training) if training else {}
    changes += [f"data.{number}.run={step.writes[0]}" for number, step in runs.items()]
    if training and training.validation and load_recipe(name_or_file, changes=row.changes).validation:
        changes.append(f"validation.collection={training.validation}")
    data = training.data if training else ()
    changes += builder.expanded_data(name, load_recipe(name_or_file, changes=changes, data=data))
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
        files += [path for path in (part.examples, part.scores) if path]
        files += local_files(part.collection, None if part.topics else part.split) if part.collection else []
    if recipe.validation:
        split = None if recipe.validation.holdout else recipe.validation.split or "dev"
        files += local_files(recipe.validation.collection, split)
        files += [recipe.validation.expanded] if recipe.validation.expanded else []
    written = {path for step in runs for path in step.writes}
    return tuple(path for path in dict.fromkeys(files) if path not in written)
