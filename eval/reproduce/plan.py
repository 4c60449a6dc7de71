"""From a matrix to its plan: the cells, for each kind of row the steps it needs, and the command of each step."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from encoders.training.recipe import Recipe, data_source, load_recipe, stated
from eval.reproduce.matrix import Column, Matrix, Row, Sample, expanded_of, load_matrix, seeds_of, slug, weights_of
from eval.reproduce.steps import Kind, Step, json_digest, ordered
from learned_sparse.collections.catalogue import CATALOGUE
from learned_sparse.collections.collection import Collection, data_root, load_collection, local_file
from learned_sparse.collections.descriptions import Source
from learned_sparse.core.encoder import load_encoder
from learned_sparse.core.errors import LearnedSparseError, did_you_mean
from learned_sparse.core.files import home, read_json
from learned_sparse.core.settings import parse_changes
from learned_sparse.core.yaml_files import read_yaml_text

_QUERY_OPTIONS = ("--dtype", "--device", "--revision")
"""Options of a row's ``learned_sparse.encode`` that also apply to its queries."""
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
_TRAINING_BYTES = 400_000_000
"""Weights, the best weights so far, and the state of the optimiser."""
_UNKNOWN_DOCUMENTS = 10_000
DIGEST = 8
"""Hexadecimal digits of a digest in a name."""
_MAX_STEM = 100


Made = Step | Path | Mapping[str, Any]
"""What a step is made of besides its arguments: a step, a file that no step writes, or facts that decide the result."""
_OUTPUT: dict[Kind, str] = {
    "encode": "--model",
    "encode-queries": "--model",
    "index": "--model",
    "index-bm25": "--index",
}
"""Option that names the output of a step, ``--output`` for all other kinds."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """The run of a row, what makes it (a step, or for a given run its file), and what the row has besides."""

    stem: str
    """Readable beginning of names."""
    run: Path
    made_by: Step | Path
    costs: Step | None = None
    """``python -m eval.costs``; None for a run made of others and for a given one."""
    checkpoint: str | None = None
    """Folder or name on the Hub; None for BM25 on text and for a run made of others or given."""
    encoded: tuple[Step, ...] = ()
    """The documents and the queries as a model of this package has encoded them, if it has."""


@dataclass(frozen=True, kw_only=True)
class CellPlan:
    """One row on one column with one seed."""

    row: str
    column: str
    seed: int | None
    """None: the seed of the recipe, or no training."""
    run: Run
    evaluated: Step
    """``python -m eval.evaluate --json --per-query``."""
    overlap: str | None = None
    """Class of SpaDE's Table 4 whose queries alone are measured; None: all queries."""

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """All steps that the cell needs, in order."""
        return tuple(ordered(filter(None, (self.evaluated, self.run.costs))))

    def measured(self) -> dict[str, Any]:
        """The measures of the run: ``scores``, their means, and ``per_query``; empty if the class has no query."""
        content = read_json(self.evaluated.output)
        if self.overlap:
            content = next(one for one in content["classes"] if one["name"] == self.overlap)
        return content["runs"][0] if content["runs"] else {}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The chosen cells of a matrix by row, column and seed, and their steps."""

    name: str
    """Name of the matrix in paths."""
    matrix: Matrix
    data: Path | None
    cells: tuple[CellPlan, ...]

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps of all cells in order, each once."""
        return tuple(ordered(step for cell in self.cells for step in cell.steps))


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
            with contextlib.suppress(*([LearnedSparseError] if lenient else [])):
                targets[key] = builder.target(column)
    cells = tuple(cell for key in matrix.rows if not rows or key in rows for cell in builder.cells(key, targets))
    return Plan(name=name, matrix=matrix, data=data, cells=cells)


def plan_cell(name: str, column: str | None, data: Path | None = None) -> CellPlan:
    """The cell of ``MATRIX:ROW`` on a column (None: the first), of several trainings the first."""
    of, _, row = name.partition(":")
    matrix = load_matrix(of, data)
    columns = [column or next(iter(matrix.columns))]
    cells = make_plan(matrix, Path(of).stem, data or data_root(), rows=[row], columns=columns).cells
    if not cells or not cells[0].run.encoded:
        raise LearnedSparseError(f"{name}: no model encodes {columns[0]!r} here; name another row or --column")
    return cells[0]


def swept(matrix: Matrix, cell: CellPlan, arguments: Iterable[str], split: str | None) -> Matrix:
    """The combinations of ``arguments`` ``KEY=V,V`` as rows in place of the row of ``cell``, on its column.

    Rows that differ only in settings of queries share their documents. Settings that cannot be changed are refused, and
    a star marks those that the checkpoint has itself.
    """
    row, column, checkpoint = matrix.rows[cell.row], matrix.columns[cell.column], str(cell.run.checkpoint)
    read = expanded_of(matrix, row)
    row = dataclasses.replace(
        row, recipe="", model="", changes=(), seeds=(), columns=(), expected={}, checkpoint=checkpoint,
        expanded=read.expanded, expansion=read.expansion,
    )  # fmt: skip
    encoder = load_encoder(checkpoint, "document", weights=False)
    stored, settings, rows = encoder.description.get("settings", {}), read_settings(arguments), dict[str, Row]()
    for values in itertools.product(*settings.values()):
        changes = dict(zip(settings, values, strict=True))  # the last setting changes fastest
        load_encoder(checkpoint, "query", settings=changes, weights=False)  # refuses settings that cannot be changed
        of_queries = {key: value for key, value in changes.items() if key in encoder.query_only_settings}
        of_both = {key: value for key, value in changes.items() if key not in of_queries}
        name = ", ".join(set_words(changes)[1::2])
        star = " *" if all(stored.get(key) == value for key, value in changes.items()) else ""
        rows[name + star] = dataclasses.replace(row, encode=row.encode | of_both, queries=row.queries | of_queries)
    columns = {cell.column: dataclasses.replace(column, split=split or column.split, rows=())}
    return Matrix(
        title=f"Settings of {cell.row}", columns=columns, rows=rows, hits=matrix.hits, dtype=matrix.dtype,
        on_bad_line=matrix.on_bad_line,
    )  # fmt: skip


def read_settings(arguments: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """``{setting: values}`` of arguments ``KEY=VALUE,VALUE,...``; values are YAML, so lists have brackets.

    >>> read_settings(["k=2,5,null", "layers=[2, 4],[12]", "normalize=bucket,none"])
    {'k': (2, 5, None), 'layers': ([2, 4], [12]), 'normalize': ('bucket', 'none')}
    """
    parts = ((key.strip(), text.strip()) for key, _, text in (argument.partition("=") for argument in arguments))
    changes = parse_changes([f"{key}={text and f'[{text}]'}" for key, text in parts])
    return {key: tuple(values) for key, values in changes.items()}


def _chosen(words: Sequence[str], known: Mapping[str, Any], option: str) -> list[str]:
    """The ``known`` names among ``words``, in which ``*`` stands for any characters."""
    names: dict[str, None] = {}
    for word in words:
        pattern = ".*".join(map(re.escape, word.split("*")))
        if not (matching := [name for name in known if re.fullmatch(pattern, name)]):
            raise LearnedSparseError(f"{option} {word}: not in this matrix{did_you_mean(word, known)}")
        names.update(dict.fromkeys(matching))
    return list(names)


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
    """Empty for documents alone."""
    measures: tuple[str, ...] = ()
    documents: tuple[Made, ...]
    judged: tuple[Made, ...] = ()
    """Topics and judgements; the last says whether a query's own document is removed from its hits."""
    documents_of: str
    """``--collection`` for steps that read documents only: equal for all parts of a dataset of ir_datasets."""
    size: int
    """Approximate number of documents; ``queries`` likewise."""
    queries: int = 1000
    flops_queries: Path | None = None
    """As that of ``Column``."""

    @property
    def words(self) -> tuple[str, ...]:
        """``--collection`` and ``--split``."""
        return ("--collection", self.collection, "--split", self.split)


def target(collection: str, split: str = "", measures: tuple[str, ...] = ()) -> Target:
    """The split of a collection, or its documents alone; steps download files that are not local."""
    loaded = load_collection(collection)
    source = loaded.description.corpus
    documents = _made_of(loaded, source)
    bytes_here = sum(path.stat().st_size for path in documents if isinstance(path, Path) and path.is_file())
    on = Target(
        collection=collection,
        documents_of=f"{CATALOGUE}{source.ir_datasets}" if collection.startswith(CATALOGUE) else collection,
        name=loaded.name,
        split=split,
        documents=documents,
        size=loaded.description.documents or bytes_here // TEXT_BYTES or _UNKNOWN_DOCUMENTS,
    )
    if not split:
        return on
    its = loaded.split(split)
    judged = (*_made_of(loaded, *loaded.sources(split)), {"remove_query": its.remove_query})
    return dataclasses.replace(on, measures=measures or its.measures, judged=judged, queries=its.queries or 1000)


def _made_of(collection: Collection, *parts: Source) -> tuple[Made, ...]:
    """The local files of these parts; the others by the names that they are downloaded by."""
    files = [(part, local_file(part, collection.root)) for part in parts]
    missing = [part.ir_datasets or part.registered or list(part.files) for part, file in files if file is None]
    return (*(file for _, file in files if file), *([{"fetched": missing}] if missing else []))


@dataclass(frozen=True, kw_only=True)
class Weights:
    """A checkpoint and what it is made of: the step that makes it, or a local folder."""

    checkpoint: str
    """Folder or name on the Hub."""
    made_of: tuple[Made, ...] = ()
    recipe: Recipe | None = None
    """What the size of an encoded document is projected from."""
    stem: str
    """Readable beginning of the names of what is made with these weights: the recipe and its changes."""


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
    """Trained checkpoints by row and seed."""

    def make(
        self, kind: Kind, stem: str, at: str, words: Iterable[str | Path], *made_of: Made, disk_bytes: int = 0
    ) -> Step:
        """Make a step, or return the equal step of the same name; another step of that name is an error.

        ``words``: a module and its arguments. ``at``: the output below the home folder, in which ``*`` stands for
        ``stem`` with a digest of everything that the output is made of, or with plain names for ``stem`` alone.
        """
        module, *arguments = map(str, words)
        draft = Step(
            name="",
            kind=kind,
            module=module,
            arguments=tuple(arguments),
            output=home(),
            data=self.data,
            needs=tuple(dict.fromkeys(part for part in made_of if isinstance(part, Step))),
            reads=tuple(dict.fromkeys(part for part in made_of if isinstance(part, Path))),
            facts=dict(itertools.chain(*(part.items() for part in made_of if isinstance(part, Mapping)))),
        )
        short = stem[:_MAX_STEM].rstrip("-")
        name = at.replace("*", short if self.matrix.plain_names else f"{short}-{_digest(draft)}")
        path, option = home() / name, _OUTPUT.get(kind, "--output")
        output = [option, path.name if option == "--model" else str(path)]
        if option == "--model" and "--input" in arguments:  # only texts of a collection have a default folder
            output += ["--output", str(path)]
        unkeyed = ("--resume",) if kind == "train" else ()
        if kind == "search" or (self.threads and kind in ("index", "index-bm25")):
            unkeyed = ("--threads", str(self.threads or 2), *(("--batch-size", "64") if kind == "search" else ()))
        new = dataclasses.replace(
            draft,
            name=name,
            arguments=(*arguments, *output),
            output=path,
            unkeyed_arguments=unkeyed,
            disk_bytes=disk_bytes,
        )
        old = self.made.setdefault(name, new)
        if (old.command, old.needs, old.reads, old.facts) != (new.command, new.needs, new.reads, new.facts):
            both = f"{old.command}\n  {new.command}"
            raise LearnedSparseError(f"two steps of this matrix write {path}; rename one of the rows:\n  {both}")
        return old

    def target(self, column: Column, seed: int | None = None) -> Target:
        """The split of a column, or its part; ``seed``: of the training whose fold is measured."""
        on = target(column.collection, column.split_of(seed), column.measures)
        if column.sample:
            on = self.part(on, column.sample)
        return dataclasses.replace(on, flops_queries=Path(column.flops_queries) if column.flops_queries else None)

    def part(self, whole: Target, sample: Sample) -> Target:
        """A part of a collection, which a step writes as a collection of its own."""
        words, pooled = [PREPARE, "sample", *whole.words, *self._bad_lines()], list[Step]()
        for name, number in dataclasses.asdict(sample).items():
            words += [f"--{name}", str(number)] if number is not None and name != "pool" else []
        if sample.pool:
            pooled = [self.bm25_search(whole, max(self.matrix.hits, sample.pool))]
            words += ["--run", str(pooled[0].output), "--depth", str(sample.pool)]
        queries = sample.queries or whole.queries
        size = sample.documents or (queries * sample.pool if sample.pool else whole.size)
        stem, made_of = f"{whole.name}-{whole.split}-part", (*pooled, *whole.documents, *whole.judged)
        step = self.make("pool", stem, "data/*", words, *made_of, disk_bytes=size * TEXT_BYTES)
        folder = step.output
        return dataclasses.replace(
            whole, collection=str(folder), documents_of=str(folder), name=folder.name, whole=whole.name,
            documents=(step,), judged=(step, whole.judged[-1]), size=size, queries=queries,
        )  # fmt: skip

    def cells(self, name: str, targets: Mapping[str, Target]) -> Iterator[CellPlan]:
        """The cells of a row, each with its evaluation and its costs; a class of queries has the runs of all."""
        for key, on in targets.items():
            column, seeds = self.matrix.columns[key], seeds_of(self.matrix, name)
            for seed in (seeds or column.folds or (None,)) if self.matrix.runs_on(name, key) else ():
                if column.folds:
                    on = self.target(column, seed)
                its = self.run(name, on, seed if seeds else None)
                stem, words = its.stem, ["eval.evaluate", *on.words, "--run", str(its.run), "--measures", *on.measures]
                words += ["--per-query", "--json"]
                made_of = [its.made_by, *on.judged]
                if column.overlap:
                    stem, words, made_of = f"{stem}-overlap", [*words, "--overlap"], [*made_of, *on.documents]
                at = f"evaluations/{on.name}/{on.split}/*.json"
                evaluated = self.make("evaluate", stem, at, words, *made_of)
                yield CellPlan(row=name, column=key, seed=seed, run=its, evaluated=evaluated, overlap=column.overlap)

    def run(self, name: str, on: Target, seed: int | None) -> Run:
        """The run of a row on a target, by the kind of the row."""
        row = self.matrix.rows[name]
        if row.run:
            run = Path(row.run.replace("{collection}", on.name).replace("{split}", on.split))
            return Run(stem=slug(name), run=run, made_by=run)
        if row.best_of or row.fusion:
            return self.of_several(name, row, on, seed)
        if row.rerank:
            return self.reranked(name, row, on, seed)
        if row.bm25 and row.bm25 != "word-pieces":
            return self.bm25(name, row, on)
        return self.learned(name, row, on, seed)

    def reranked(self, name: str, row: Row, on: Target, seed: int | None) -> Run:
        """Another row's run, re-ranked by the row's model or cross-encoder; it is in the folder of the step."""
        first = self.run(row.rerank, on, seed if seeds_of(self.matrix, row.rerank) else None)
        words = ["eval.rerank", *on.words, "--run", f"first={first.run}", "--depth", str(row.depth)]
        made_of: list[Made] = []
        if row.cross_encoder:
            local = Path(row.cross_encoder)
            stem, checkpoint = slug(local.name), None
            words += ["--cross-encoder", row.cross_encoder]
            made_of += [local] if local.is_dir() else []
        else:
            weights, expansions = self.weights_of(name, seed), self.expansions(row, on)
            stem, checkpoint = self._stem(name, seed, row.encode), weights.checkpoint
            words += ["--checkpoint", checkpoint, *set_words(row.encode), *_expanded(expansions)]
            made_of += [*weights.made_of, *expansions]
        words += [*row.options, *self._dtype(row.options)]
        stem = folder_name(name, seed) if self.matrix.plain_names else f"{first.stem}-top-{row.depth}-{stem}"
        made_of += [first.made_by, *on.documents, *on.judged]
        step = self.make("rerank", stem, f"reranked/{on.name}/{on.split}/*", words, *made_of)
        return Run(stem=stem, run=step.output / f"first-top{row.depth}.txt", made_by=step, checkpoint=checkpoint)

    def of_several(self, name: str, row: Row, on: Target, seed: int | None) -> Run:
        """A run made of several runs: for each query the best one, or their reciprocal rank fusion."""
        parts = [self.run(part, on, seed) for part in row.best_of or row.fusion]
        if row.best_of:
            words = [PREPARE, "best", *on.words, "--measure", row.best_by, "--run"]
        else:
            hits = str(self.matrix.hits)
            words = ["learned_sparse.pyserini", "fusion", "--method", "rrf", "--depth", hits, "--k", hits, "--runs"]
        stem, made_of = folder_name(name, seed), (*(part.made_by for part in parts), *on.judged)
        words += [str(part.run) for part in parts]
        step = self.make("rerank", stem, f"runs/{on.name}/{on.split}/*.txt", words, *made_of)
        return Run(stem=stem, run=step.output, made_by=step)

    def bm25(self, name: str, row: Row, on: Target) -> Run:
        """BM25 over text, or over the text with the queries that expand it, in one field."""
        stem, flag = slug(name) if row.bm25_words else BM25, ["--bm25"]
        if not row.expanded:
            index = self.bm25_index(on)
        else:
            stem, flag = slug(name) if self.matrix.plain_names else f"{BM25}-expanded", []
            documents = self.rewritten("expand", stem, on, _filled(row.expanded, on))
            words = ["learned_sparse.index", "--bm25", "--input", str(documents.output)]
            at, size = f"indexes/{on.name}/*", documents.disk_bytes
            index = self.make("index-bm25", stem, at, words, documents, disk_bytes=size)
        options = ["--index", str(index.output), *row.bm25_words]
        searched = self.search(stem, on, [*flag, *options], index)
        costs = self.costs(stem, on, options, on.flops_queries, searched)
        return Run(stem=stem, run=searched.output, made_by=searched, costs=costs)

    def bm25_index(self, on: Target) -> Step:
        """Index the text of a collection."""
        words = ["learned_sparse.index", "--bm25", "--collection", on.documents_of, *self._bad_lines()]
        size = on.size * TEXT_BYTES
        return self.make("index-bm25", BM25, f"indexes/{on.name}/*", words, *on.documents, disk_bytes=size)

    def bm25_search(self, on: Target, hits: int) -> Step:
        """Search the text of a collection with BM25."""
        index = self.bm25_index(on)
        return self.search(BM25, on, ("--bm25", "--index", index.output), index, hits=hits)

    def rewritten(self, action: str, stem: str, on: Target, file: Path) -> Step:
        """Write the texts or new terms of each document with its predicted queries, of which ``file`` has all."""
        words = [PREPARE, action, "--collection", on.documents_of, "--expanded", str(file), *self._bad_lines()]
        at, size = f"expanded/{on.name}/*", on.size * TEXT_BYTES
        return self.make("prepare", stem, at, words, file, *on.documents, disk_bytes=size)

    def learned(self, name: str, row: Row, on: Target, seed: int | None) -> Run:
        """A learned model, or BM25 over word pieces."""
        read = target(row.segments) if row.segments else on
        weights, encoded = self.weights_of(name, seed), self.encoded(name, row, read, seed)
        vectors, hits = encoded.output, self.matrix.hits
        stem = self._stem(name, seed, row.options, row.encode, row.queries)
        query_stem = self._stem(name, seed, row.encode, row.queries)
        pairs = [pair for pair in itertools.pairwise(row.options) if pair[0] in _QUERY_OPTIONS]
        query_words = [*self._encode_words(query_stem, weights, row), *itertools.chain(*pairs)]
        query_words += set_words(row.encode | row.queries)
        made_of = list(weights.made_of)
        if "--with" in row.options:  # documents say how queries weigh BM25
            query_words, made_of = [*query_words, "--with", str(vectors)], [*made_of, encoded]
        words = ["learned_sparse.encode", "--collection", on.collection, *query_words, "--queries", "--split", on.split]
        at, flops_queries = f"queries/{on.name}/{on.split}/*", None
        queries = self.make("encode-queries", query_stem, at, words, *made_of, *on.judged)
        if on.flops_queries:
            words = ["learned_sparse.encode", "--input", str(on.flops_queries), *query_words, "--queries"]
            at = f"queries/{on.name}/flops/*"
            flops_queries = self.make("encode-queries", query_stem, at, words, *made_of, on.flops_queries)
        changed = set_words(row.queries)
        files: list[str | Path] = ["--vectors", vectors, "--queries", queries.output, *row.bm25_words, "--encoding"]
        files, words = [*files, *changed], ["--model", vectors.name, *changed, *row.bm25_words]
        searchable = encoded
        if row.backend != "lucene":
            words, files = [*words, "--backend", row.backend], [*files, "--backend", row.backend]
        else:
            index_words = ["learned_sparse.index", "--collection", read.documents_of]
            at, size = f"indexes/{read.name}/{vectors.name}", encoded.disk_bytes * _INDEX_BYTES // _VECTOR_BYTES
            index = searchable = self.make("index", stem, at, index_words, encoded, disk_bytes=size)
            files += ["--index", index.output]
            if row.segments:
                words, hits = ["--index", str(index.output), "--max-passage", *words[2:]], 10 * hits
        searched = self.search(stem, on, words, searchable, hits=hits)
        costs = self.costs(stem, on, files, flops_queries, searched, queries)
        return Run(
            stem=stem, run=searched.output, made_by=searched, costs=costs, checkpoint=weights.checkpoint,
            encoded=(encoded, queries),
        )  # fmt: skip

    def encoded(self, name: str, row: Row, on: Target, seed: int | None) -> Step:
        """The documents, encoded by the model of a row and pruned."""
        weights, expansions = self.weights_of(name, seed), self.expansions(row, on)
        stem = self._stem(name, seed, row.options, row.encode)
        words = ["learned_sparse.encode", "--collection", on.documents_of, *self._bad_lines()]
        words += [*self._encode_words(stem, weights, row), *row.options, *set_words(row.encode)]
        words += _expanded(expansions)
        at, size = f"vectors/{on.name}/*", on.size * expected_terms(weights.recipe, row.encode) * _VECTOR_BYTES
        made_of = (*weights.made_of, *expansions, *on.documents)
        encoded = self.make("encode", stem, at, words, *made_of, disk_bytes=size)
        if not row.prune:
            return encoded
        words = ["learned_sparse.jsonvector", "prune", "--vectors", str(encoded.output), *row.prune]
        return self.make("prepare", f"{stem}-pruned", at, words, encoded, disk_bytes=size)

    def search(
        self, stem: str, on: Target, words: Iterable[str | Path], searchable: Step, hits: int | None = None
    ) -> Step:
        """Search for the queries of a split."""
        words = ["learned_sparse.search", *words, *on.words, "--hits", str(hits or self.matrix.hits)]
        return self.make("search", stem, f"runs/{on.name}/{on.split}/*.txt", words, searchable, *on.judged)

    def costs(
        self, stem: str, on: Target, words: Iterable[str | Path], flops: Step | Path | None, *needs: Step
    ) -> Step:
        """Measure the costs of a row; ``words`` name its vectors, queries and index, ``flops`` its FLOPS queries."""
        words, made_of = ["eval.costs", *words, *on.words, "--hits", str(self.matrix.hits)], list[Made](needs)
        if flops:
            stem = f"{stem}-flops"
            words += ["--flops-queries", flops.output if isinstance(flops, Step) else flops]
            made_of.append(flops)
        return self.make("costs", stem, f"costs/{on.name}/{on.split}/*.json", words, *made_of)

    def expansions(self, row: Row, on: Target) -> tuple[Path | Step, ...]:
        """What ``--expanded`` reads for a row, if anything: predicted queries, or the step that makes new terms."""
        its = expanded_of(self.matrix, row)
        if not its.expanded:
            return ()
        file = _filled(its.expanded, on)
        return (file,) if its.expansion == "queries" else (self.rewritten("new-terms", "new-terms", on, file),)

    def weights_of(self, name: str, seed: int | None) -> Weights:
        """The checkpoint of a row: of word pieces, named by the row or its model, or trained by its recipe."""
        row = weights_of(self.matrix, self.matrix.rows[name])
        if row.recipe:
            name = next(key for key, its in self.matrix.rows.items() if its is row)
            if (name, seed) not in self.weights:
                self.weights[name, seed] = self.trained(name, row, seed)
            return self.weights[name, seed]
        if row.checkpoint:
            folder = Path(row.checkpoint)
            made_of = (folder,) if folder.is_dir() else ()
            return Weights(checkpoint=row.checkpoint, made_of=made_of, stem=slug(folder.name))
        step = self.make("prepare", "word-pieces", "checkpoints/*", [PREPARE, "word-pieces"])
        return Weights(checkpoint=str(step.output), made_of=(step,), stem="word-pieces")

    def trained(self, name: str, row: Row, seed: int | None) -> Weights:
        """Train the recipe of a row, on the data of the matrix if it names any, with BM25's runs for negatives."""
        matrix, training, made = self.matrix, self.matrix.training, list[Step]()
        data = training.data_of(seed) if training else ()
        changes = [*row.changes, *([] if seed is None else [f"seed={seed}"])]
        stem = slug(" ".join([Path(row.recipe).stem, *changes]).replace(f"{self.data}/", ""))
        changes += [] if matrix.on_bad_line == "error" else [f"on_bad_line={matrix.on_bad_line}"]
        for number, part in enumerate(map(data_source, data)):
            if training and training.negatives and "collection" in part:
                on = target(part["collection"], part.get("split", "train"))
                made.append(self.bm25_search(on, training.negatives))
                changes.append(f"data.{number}.run={made[-1].output}")
        if training and training.validation and load_recipe(row.recipe, changes=row.changes).validation:
            changes.append(f"validation.collection={training.validation}")
        for number, source in enumerate(load_recipe(row.recipe, changes=changes, data=data).data):
            if row.expanded and source.collection:
                expansions = self.expansions(row, target(source.collection))
                changes += [f"data.{number}.expanded={path}" for path in _expanded(expansions)[1:]]
                made += [step for step in expansions if isinstance(step, Step)]
        if row.start:
            start = self.weights_of(row.start, seed if seeds_of(matrix, row.start) else None)
            changes.append(f"backbone={start.checkpoint}")
            made += [step for step in start.made_of if isinstance(step, Step)]
        recipe = load_recipe(row.recipe, changes=changes, data=data)
        words = ["encoders.train", "--recipe", row.recipe]
        words += [word for argument in data for word in ("--data", argument)]
        words += [word for change in changes for word in ("--set", change)]
        folder = folder_name(name, seed) if matrix.plain_names else stem
        made_of: list[Made] = [*made, *_training_files(recipe, made), {"recipe": stated(recipe)}]
        step = self.make("train", folder, "checkpoints/*", words, *made_of, disk_bytes=_TRAINING_BYTES)
        return Weights(checkpoint=str(step.output), made_of=(step,), stem=stem, recipe=recipe)

    def _stem(self, name: str, seed: int | None, *settings: Iterable[str] | dict[str, Any]) -> str:
        """Readable beginning of the names of a row's output: its checkpoint and what it changes about the model."""
        if self.matrix.plain_names:
            return folder_name(name, seed)
        parts = [[f"{key} {value}" for key, value in of.items()] if isinstance(of, dict) else of for of in settings]
        return slug(" ".join([self.weights_of(name, seed).stem, *itertools.chain(*parts)]))

    def _encode_words(self, stem: str, weights: Weights, row: Row) -> list[str]:
        """``--checkpoint`` and ``--dtype`` of ``learned_sparse.encode``, where they are not its defaults."""
        named = "--with" not in row.options and weights.checkpoint == str(home() / "checkpoints" / stem)
        return [*([] if named else ["--checkpoint", weights.checkpoint]), *self._dtype(row.options)]

    def _dtype(self, options: Iterable[str]) -> list[str]:
        """``--dtype`` of the matrix, unless the options of a row have another."""
        return [] if self.matrix.dtype is None or "--dtype" in options else ["--dtype", self.matrix.dtype]

    def _bad_lines(self) -> tuple[str, ...]:
        """``--on-bad-line`` of steps that read documents, unless it has its default."""
        return () if self.matrix.on_bad_line == "error" else ("--on-bad-line", self.matrix.on_bad_line)


def _expanded(expansions: Iterable[Path | Step]) -> list[str]:
    """``--expanded`` with the file, or the output of the step."""
    paths = [part.output if isinstance(part, Step) else part for part in expansions]
    return [word for path in paths for word in ("--expanded", str(path))]


def _filled(file: str, on: Target) -> Path:
    return Path(file.replace("{collection}", on.whole or on.name))


def folder_name(name: str, seed: int | None) -> str:
    """Plain name of a row's output.

    >>> folder_name("SpaDE k=10", None), folder_name("splade", 1)
    ('spade-k-10', 'splade-seed-1')
    """
    return slug(name) if seed is None else f"{slug(name)}-seed-{seed}"


def _training_files(recipe: Recipe, made: Iterable[Step]) -> tuple[Path, ...]:
    """Local files that a training reads and that no step writes: collections, triples, runs and the backbone."""
    files: list[Made] = [Path(recipe.backbone)] if Path(recipe.backbone).is_dir() else []
    read: list[Target] = []
    for part in recipe.data:
        given = (part.examples, part.topics, part.qrels, part.run, part.expanded, part.scores)
        files += [path for path in given if path]
        read += [target(part.collection, "" if part.topics else part.split)] if part.collection else []
    if recipe.validation:
        split = "" if recipe.validation.holdout else recipe.validation.split or "dev"
        read.append(target(recipe.validation.collection, split))
    files += [made_of for on in read for made_of in (*on.documents, *on.judged)]
    written = {step.output for step in made}
    return tuple(path for path in files if isinstance(path, Path) and path not in written)


def _digest(step: Step) -> str:
    """Digest of a step for its name. A missing file is named by its absence; its step cannot run."""
    try:
        return step.key[:DIGEST]
    except LearnedSparseError as error:
        return json_digest([step.neutral(str(error)), step.neutral(step.command)])[:DIGEST]


def expected_terms(recipe: Recipe | None, changes: Mapping[str, Any]) -> int:
    """Projected number of terms of an encoded document; ``changes`` are settings that encoding changes.

    ``recipe``: that of the model; None for a checkpoint, which counts as one of the usual size. UHD-BERT's k is
    of each token and bucket, so that six buckets of its paper give about 15,000.
    """
    if recipe is None or recipe.architecture != "uhd":
        return _TERMS.get(recipe.architecture if recipe else "", _MEAN_TERMS)
    settings = {"k": 80, "layers": (2, 4, 6, 8, 10, 12), **recipe.settings, **changes}
    buckets = len(settings["layers"])
    terms: float = buckets * settings["k"] * min(recipe.max_length["document"], MEAN_TOKENS) * _DISTINCT
    kept: float = settings.get("document_k") or terms
    return math.ceil(min(terms, kept * (buckets if settings.get("document_k_scope") == "bucket" else 1)))


def set_words(settings: Mapping[str, Any]) -> list[str]:
    """``--set KEY=VALUE`` for each setting, the value as YAML on one line.

    >>> set_words({"k": 2, "layers": [2, 12], "query_k": None, "components": "both"})
    ['--set', 'k=2', '--set', 'layers=[2, 12]', '--set', 'query_k=null', '--set', 'components=both']
    """
    return [word for key, value in settings.items() for word in ("--set", f"{key}={_flow_yaml(value)}")]


def _flow_yaml(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=float("inf"))
    text = text.removesuffix("\n...\n").removesuffix("\n")
    return text if read_yaml_text(text, text) == value else json.dumps(value)  # the text 1e-3
