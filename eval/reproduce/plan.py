"""From a matrix to its plan: the cells, for each kind of row the steps it needs, and the command of each step."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from encoders.checkpoints.notes import NOTES, read_notes
from encoders.training import Recipe, data_source, load_recipe, stated
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
    Sample,
    Training,
    seeds_of,
    slug,
    weights_of,
)
from eval.reproduce.prepare import OVERLAPS
from eval.reproduce.steps import Kind, Step, json_digest, ordered
from learned_sparse.collections.catalogue import CATALOGUE
from learned_sparse.collections.collection import Collection, load_collection, local_file
from learned_sparse.collections.descriptions import Source
from learned_sparse.core.errors import LearnedSparseError, did_you_mean
from learned_sparse.core.files import checkpoint_folder, home, index_folder, queries_folder, run_file, vectors_folder
from learned_sparse.core.settings import read_yaml_text

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

    def without(self, pairs: Container[tuple[str, str]]) -> Plan:
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


def _chosen(words: Sequence[str], known: Mapping[str, Any], option: str) -> list[str]:
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
    if its.expansion == "queries":
        return file
    return builder.rewritten("new-terms", "new terms of the predicted queries", "new-terms", on, file)


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


PREPARE = "eval.reproduce.prepare"
MEAN_TOKENS = 77
"""Approximate number of tokens of a document that a model reads: of a passage of MS MARCO."""
BM25 = "bm25"
"""Name of the index and the runs of ``learned_sparse.index --bm25`` and ``learned_sparse.search --bm25``."""
_TERMS = {"spade": 250, "sparterm": 50}
"""Approximate number of terms of an encoded document by architecture: those of small-real."""
_MEAN_TERMS = 120
"""Of any other architecture."""
_DISTINCT = 0.42
"""Share of different dimensions among the winners of a document's tokens in one bucket of UHD-BERT.

Measured on small-real: documents of 80 tokens have 810 dimensions in three buckets with 8 winners of each token.
"""
TEXT_BYTES = 400
"""Approximate size of a document as text, in a pool or a BM25 index."""
_VECTOR_BYTES, _INDEX_BYTES = 14, 3
"""Approximate size of a term of a document: as JSON, and in Lucene."""
_UNKNOWN_DOCUMENTS = 10_000
DIGEST = 8
"""Hexadecimal digits of a digest in a name."""
_MAX_STEM = 100


@dataclass(frozen=True, kw_only=True)
class Target:
    """One split of one collection, or of a pool that a step cuts from it."""

    collection: str
    """As ``--collection`` takes it."""
    name: str
    """Name of the collection in paths."""
    whole: str = ""
    """Name of the collection that a pool or a sample is a part of."""
    split: str
    measures: tuple[str, ...] = ()
    needs: tuple[Step, ...] = ()
    corpus: tuple[Path, ...] = ()
    """Local files of the documents."""
    judged: tuple[Path, ...] = ()
    """Local files of topics and judgements."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Facts besides the files that decide the queries and judgements."""
    documents_of: str
    """``--collection`` for steps that read documents only: equal for all parts of a dataset of ir_datasets."""
    documents_facts: dict[str, Any] = field(default_factory=dict)
    """Facts besides the files that decide the documents."""
    documents: int = _UNKNOWN_DOCUMENTS
    """Approximate number of documents; ``queries`` likewise."""
    queries: int = 1000
    overlap: Step | None = None
    """Writes the judgements of ``measured_class``."""
    measured_class: str | None = None
    """Class of SpaDE's Table 4 whose queries alone are measured; None: all queries."""


def target(collection: str, split: str, measures: tuple[str, ...] = ()) -> Target:
    """The split of a collection; steps download files that are not local."""
    loaded = load_collection(collection)
    described = loaded.split(split)
    return dataclasses.replace(
        only_documents(collection),
        split=split,
        measures=measures or tuple(described.measures),
        judged=(*_local(described.topics, loaded), *_local(described.qrels, loaded)),
        facts={**_downloads(loaded, described.topics, described.qrels), "remove_query": described.remove_query},
        queries=described.queries or 1000,
    )


def only_documents(collection: str) -> Target:
    """The documents of a collection, without a split."""
    loaded = load_collection(collection)
    source = loaded.description.corpus
    corpus = _local(source, loaded)
    size = sum(path.stat().st_size for path in corpus if path.is_file())
    return Target(
        collection=collection,
        documents_of=f"{CATALOGUE}{source.ir_datasets}" if collection.startswith(CATALOGUE) else collection,
        documents_facts=_downloads(loaded, source),
        name=loaded.name,
        split="",
        corpus=corpus,
        documents=loaded.description.documents or size // TEXT_BYTES or _UNKNOWN_DOCUMENTS,
    )


def local_files(collection: str, split: str | None) -> tuple[Path, ...]:
    """The local files of the documents of a collection, and of the topics and judgements of ``split``."""
    loaded = load_collection(collection)
    parts = [loaded.split(split).topics, loaded.split(split).qrels] if split else []
    return tuple(file for part in (loaded.description.corpus, *parts) for file in _local(part, loaded))


@dataclass(frozen=True, kw_only=True)
class Weights:
    """A checkpoint, the steps that make it, and the local files that it is read from."""

    checkpoint: str
    """Folder or name on the Hub."""
    needs: tuple[Step, ...] = ()
    reads: tuple[Path, ...] = ()
    architecture: str = ""
    """With ``settings`` and ``max_length``, of documents, what the size of an encoded document is projected from."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    max_length: int = MEAN_TOKENS
    stem: str
    """Readable beginning of the names of what is made with these weights: the recipe and its changes."""

    def reading(self, expansions: Path | Step) -> Weights:
        """The same weights used on texts that the file ``expansions``, or the output of that step, is a part of."""
        if isinstance(expansions, Step):
            return dataclasses.replace(self, needs=(*self.needs, expansions))
        return dataclasses.replace(self, reads=(*self.reads, expansions))


@dataclass(kw_only=True)
class Builder:
    """Makes the steps of one matrix; a step that several rows need is made once.

    Every output is named by a readable stem and a digest of what it is made of. So matrices share what is equal, and
    whatever differs has another name.
    """

    matrix: Matrix
    data: Path | None
    threads: int | None = None
    made: dict[str, Step] = field(default_factory=dict)
    """All steps by name."""
    weights: dict[tuple[str, int | None], Weights] = field(default_factory=dict)
    """Checkpoints by row and seed."""

    @property
    def bad_lines(self) -> tuple[str, ...]:
        """``--on-bad-line`` of steps that read documents, unless it has its default."""
        return () if self.matrix.on_bad_line == "error" else ("--on-bad-line", self.matrix.on_bad_line)

    def make(
        self,
        kind: Kind,
        title: str,
        module: str,
        words: Iterable[str | Path],
        stem: str,
        at: Callable[[str], Path],
        *,
        output: str | None = "--output",
        unkeyed: tuple[str, ...] = (),
        disk_bytes: int = 0,
        **made_of: Any,
    ) -> Step:
        """Make a step, or return the equal step of the same name; another step of that name is an error.

        Its output is ``at(NAME)``, where NAME is ``stem`` with a digest of everything that the output is made of, or
        ``stem`` alone with plain names. The option ``output`` gives it to the command; None: there is no output.
        """
        arguments = tuple(map(str, words))
        draft = Step(name="", kind=kind, title=title, module=module, arguments=arguments, data=self.data, **made_of)
        path = at(stem if self.matrix.plain_names else f"{stem[:_MAX_STEM].rstrip('-')}-{_digest(draft)}")
        if output is not None:
            arguments += (output, path.name if output == "--model" else str(path))
        name, writes = path.relative_to(home()).as_posix(), () if output is None else (path,)
        new = dataclasses.replace(
            draft, name=name, arguments=arguments, writes=writes, unkeyed_arguments=unkeyed, disk_bytes=disk_bytes
        )
        old = self.made.setdefault(name, new)
        if any(getattr(old, part) != getattr(new, part) for part in ("module", "arguments", "needs", "reads", "facts")):
            raise LearnedSparseError(
                f"two steps of this matrix write {home() / name}; give one of the rows another name:\n"
                f"  {old.command}\n  {new.command}"
            )
        return old

    def bm25_index(self, target: Target) -> Step:
        """Index the text of a collection."""
        return self.make(
            "index-bm25", f"index the text of {target.name}", "learned_sparse.index",
            ("--bm25", "--collection", target.documents_of, *self.bad_lines), BM25,
            partial(index_folder, target.name), output="--index", unkeyed=self._threads(),
            disk_bytes=target.documents * TEXT_BYTES, needs=target.needs, reads=target.corpus,
            facts=target.documents_facts,
        )  # fmt: skip

    def bm25_search(self, target: Target, hits: int, stem: str = BM25, parameters: tuple[str, ...] = ()) -> Step:
        """Search the text of a collection with BM25; ``parameters`` are words such as ``--k1 0.82``."""
        index = self.bm25_index(target)
        return self.search(stem, target, ("--bm25", "--index", index.writes[0], *parameters), (index,), hits=hits)

    def part(self, whole: Target, sample: Sample | None, pool: int | None) -> Target:
        """A sample of a collection, or all its judged queries; with the top ``pool`` documents of BM25 for each."""
        run = self.bm25_search(whole, max(self.matrix.hits, pool)) if pool else None
        words: list[str | Path] = ["sample", "--collection", whole.collection, "--split", whole.split, *self.bad_lines]
        stem, queries, documents = [whole.name, whole.split], whole.queries, None
        if sample:
            stem, queries, documents = [*stem, "sample"], sample.queries or queries, sample.documents
            for unit, number in (("queries", sample.queries), ("documents", sample.documents)):
                words += [f"--{unit}", str(number)] if number else []
                stem += [f"{number}-{unit}"] if number else []
            words += ["--seed", str(sample.seed)]
        if run:
            words, stem = [*words, "--run", run.writes[0], "--depth", str(pool)], [*stem, f"pool-{pool}"]
        stem += [f"seed-{sample.seed}"] if sample else []
        documents = documents or (queries * pool if pool else whole.documents)
        step = self.make(
            "pool", f"part of {whole.name}, {whole.split}", PREPARE, words, "-".join(stem), home_folder("data"),
            disk_bytes=documents * TEXT_BYTES, needs=(run,) if run else whole.needs,
            reads=(*whole.corpus, *whole.judged), facts=whole.facts,
        )  # fmt: skip
        folder = step.writes[0]
        return Target(
            collection=str(folder), documents_of=str(folder), name=folder.name, split=whole.split,
            measures=whole.measures, needs=(step,), documents=documents, queries=queries,
            facts={"remove_query": whole.facts["remove_query"]}, whole=whole.name,
        )  # fmt: skip

    def rewritten(self, action: str, title: str, stem: str, target: Target, file: Path) -> Step:
        """Write the texts or new terms of each document with its predicted queries, of which ``file`` has all."""
        return self.make(
            "prepare", f"{title} of {target.name}", PREPARE,
            (action, "--collection", target.documents_of, "--expanded", file, *self.bad_lines), stem,
            home_folder("expanded", target.name), disk_bytes=target.documents * TEXT_BYTES, needs=target.needs,
            reads=(file, *target.corpus), facts=target.documents_facts,
        )  # fmt: skip

    def expanded_index(self, stem: str, target: Target, file: Path) -> Step:
        """Index the text of a collection with the queries that expand it, in one field."""
        documents = self.rewritten("expand", "expanded text", stem, target, file)
        return self.make(
            "index-bm25", f"index {stem}, {target.name}", "learned_sparse.index",
            ("--bm25", "--input", documents.writes[0]), stem, partial(index_folder, target.name), output="--index",
            unkeyed=self._threads(), disk_bytes=documents.disk_bytes, needs=(documents,),
        )  # fmt: skip

    def word_pieces(self) -> Step:
        """Write the checkpoint that counts word pieces."""
        title = "the tokenizer of BM25 over word pieces"
        return self.make("prepare", title, PREPARE, ("word-pieces",), "word-pieces", checkpoint_folder)

    def train(self, stem: str, words: Iterable[str | Path], recipe: Any, **made_of: Any) -> Step:
        """Train a recipe, which is given as JSON values too."""
        return self.make(
            "train", f"train {stem}", "encoders.train", words, stem, checkpoint_folder, unkeyed=("--resume",),
            disk_bytes=400_000_000,  # weights, the best weights so far, and the state of the optimiser
            facts={"recipe": recipe}, **made_of,
        )  # fmt: skip

    def encode(self, stem: str, target: Target, words: Iterable[str], weights: Weights, *, terms: int) -> Step:
        """Encode the documents; ``terms`` is the expected number of terms of a document."""
        return self.make(
            "encode", f"encode {stem}, {target.name}", "learned_sparse.encode",
            ("--collection", target.documents_of, *self.bad_lines, *words), stem, partial(vectors_folder, target.name),
            output="--model", disk_bytes=target.documents * terms * _VECTOR_BYTES,
            needs=(*weights.needs, *target.needs), reads=(*target.corpus, *weights.reads),
            facts=target.documents_facts,
        )  # fmt: skip

    def prune(self, stem: str, target: Target, encoded: Step, rule: tuple[str, ...]) -> Step:
        """Copy encoded documents without what ``rule`` removes."""
        return self.make(
            "prepare", f"prune {stem}, {target.name}", "learned_sparse.jsonvector",
            ("prune", "--vectors", encoded.writes[0], *rule), f"{stem}-pruned", partial(vectors_folder, target.name),
            disk_bytes=encoded.disk_bytes, needs=(encoded,),
        )  # fmt: skip

    def encode_queries(self, stem: str, target: Target, words: Iterable[str], weights: Weights) -> Step:
        """Encode the queries of a split."""
        return self.make(
            "encode-queries", f"encode queries {stem}, {target.name} {target.split}", "learned_sparse.encode",
            ("--collection", target.collection, *words, "--queries", "--split", target.split), stem,
            partial(queries_folder, target.name, target.split), output="--model",
            needs=(*weights.needs, *target.needs), reads=(*target.judged, *weights.reads), facts=target.facts,
        )  # fmt: skip

    def index(self, stem: str, target: Target, encoded: Step) -> Step:
        """Index encoded documents under their name."""
        folder = index_folder(target.name, encoded.writes[0].name)
        return self.make(
            "index", f"index {stem}, {target.name}", "learned_sparse.index", ("--collection", target.documents_of),
            stem, lambda _: folder, output="--model", needs=(encoded,), unkeyed=self._threads(),
            disk_bytes=encoded.disk_bytes * _INDEX_BYTES // _VECTOR_BYTES,
        )  # fmt: skip

    def verify(self, stem: str, target: Target, index: Step) -> Step:
        """Compare some documents of an index with their vectors."""
        words = (*index.arguments, "--verify", str(self.matrix.verify))
        return self.make(
            "verify", f"verify {stem}, {target.name}", "learned_sparse.index", words,
            index.writes[0].name, home_folder("verified", target.name), output=None, needs=(index,),
        )  # fmt: skip

    def search(
        self, stem: str, target: Target, words: Iterable[str | Path], needs: tuple[Step, ...], hits: int | None = None
    ) -> Step:
        """Search for the queries of a split."""
        words = (*words, "--collection", target.collection, "--split", target.split)
        return self.make(
            "search", f"search {stem}, {target.name} {target.split}", "learned_sparse.search",
            (*words, "--hits", str(hits or self.matrix.hits)), stem, partial(run_file, target.name, target.split),
            unkeyed=("--threads", str(self.threads or 2), "--batch-size", "64"), needs=(*needs, *target.needs),
            reads=target.judged, facts=target.facts,
        )  # fmt: skip

    def evaluate(self, stem: str, target: Target, run: Path, needs: tuple[Step, ...]) -> Step:
        """Compute the measures of a run."""
        words: tuple[str | Path, ...] = ("--collection", target.collection, "--split", target.split, "--run", run)
        reads = (*target.judged, *(() if needs else (run,)))
        if target.overlap:
            qrels = target.overlap.writes[0] / OVERLAPS[str(target.measured_class)]
            stem, words, needs = f"{stem}-{qrels.stem}", (*words, "--qrels", qrels), (*needs, target.overlap)
        return self.make(
            "evaluate", f"evaluate {stem}, {target.name} {target.split}", "eval.evaluate",
            (*words, "--measures", *target.measures, "--per-query", "--json"), stem,
            home_folder("evaluations", target.name, target.split, suffix=".json"), needs=(*needs, *target.needs),
            reads=reads, facts=target.facts,
        )  # fmt: skip

    def costs(self, stem: str, target: Target, words: Iterable[str | Path], needs: tuple[Step, ...]) -> Step:
        """Measure the costs of a row; ``words`` name its vectors, queries and index."""
        words = (*words, "--collection", target.collection, "--split", target.split, "--hits", str(self.matrix.hits))
        return self.make(
            "costs", f"costs of {stem}, {target.name} {target.split}", "eval.costs", words, stem,
            home_folder("costs", target.name, target.split, suffix=".json"), needs=needs,
        )  # fmt: skip

    def _threads(self) -> tuple[str, ...]:
        return ("--threads", str(self.threads)) if self.threads else ()


def home_folder(*parts: str, suffix: str = "") -> Callable[[str], Path]:
    """Function from a name to the path of that name in a folder below the home folder."""
    return lambda name: home().joinpath(*parts, f"{name}{suffix}")


def _digest(step: Step) -> str:
    """Digest of a step for its name. A missing file is named by its absence; its step cannot run."""
    try:
        return step.key[:DIGEST]
    except LearnedSparseError as error:
        return json_digest([step.neutral(str(error)), step.neutral(step.command)])[:DIGEST]


def expansions_path(expansions: Path | Step) -> Path:
    """What ``--expanded`` reads: the file, or the output of the step."""
    return expansions.writes[0] if isinstance(expansions, Step) else expansions


def expected_terms(weights: Weights, changes: Mapping[str, Any]) -> int:
    """Projected number of terms of an encoded document; ``changes`` are settings that encoding changes.

    UHD-BERT's k is of each token and bucket, so that six buckets of its paper give about 15,000.
    """
    if weights.architecture != "uhd":
        return _TERMS.get(weights.architecture, _MEAN_TERMS)
    settings = {"k": 80, "layers": (2, 4, 6, 8, 10, 12), **weights.settings, **changes}
    buckets = len(settings["layers"])
    terms: float = buckets * settings["k"] * min(weights.max_length, MEAN_TOKENS) * _DISTINCT
    kept: float = settings.get("document_k") or terms
    return math.ceil(min(terms, kept * (buckets if settings.get("document_k_scope") == "bucket" else 1)))


def set_words(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """``--set KEY=VALUE`` for each setting, the value as YAML on one line.

    >>> set_words({"k": 2, "layers": [2, 12], "query_k": None, "components": "both"})
    ('--set', 'k=2', '--set', 'layers=[2, 12]', '--set', 'query_k=null', '--set', 'components=both')
    """
    return tuple(word for key, value in settings.items() for word in ("--set", f"{key}={_flow_yaml(value)}"))


def _flow_yaml(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=float("inf"))
    text = text.removesuffix("\n...\n").removesuffix("\n")
    return text if read_yaml_text(text, text) == value else json.dumps(value)  # the text 1e-3


def _downloads(collection: Collection, *parts: Source) -> dict[str, Any]:
    """The parts that are not local, by the names they are downloaded by."""
    missing = [part for part in parts if not _local(part, collection)]
    return {"fetched": [part.ir_datasets or part.registered or list(part.files) for part in missing]} if missing else {}


def _local(source: Source, collection: Collection) -> tuple[Path, ...]:
    file = local_file(source, collection.root)
    return () if file is None else (file,)
