"""From a matrix to its plan: the cells, for each kind of row the steps it needs, and the command of each step."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
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
from encoders.training.recipe import Recipe, data_source, load_recipe, stated
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
                targets[key] = builder.target(column)
            except LearnedSparseError:
                if not lenient:
                    raise
    cells = tuple(cell for key in matrix.rows if not rows or key in rows for cell in builder.cells(key, targets))
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


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a step is made of besides its arguments."""

    needs: tuple[Step, ...] = ()
    reads: tuple[Path, ...] = ()
    """Files that no step writes."""
    facts: dict[str, Any] = field(default_factory=dict)


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
    documents: Inputs
    judged: Inputs = Inputs()
    """Topics and judgements."""
    documents_of: str
    """``--collection`` for steps that read documents only: equal for all parts of a dataset of ir_datasets."""
    size: int
    """Approximate number of documents; ``queries`` likewise."""
    queries: int = 1000
    overlap: Step | None = None
    """Writes the judgements of ``measured_class``."""
    measured_class: str | None = None
    """Class of SpaDE's Table 4 whose queries alone are measured; None: all queries."""

    @property
    def all(self) -> Inputs:
        """Documents, topics and judgements."""
        return dataclasses.replace(self.judged, reads=(*self.documents.reads, *self.judged.reads))

    @property
    def words(self) -> tuple[str, ...]:
        """``--collection`` and ``--split``."""
        return ("--collection", self.collection, "--split", self.split)


def target(collection: str, split: str = "", measures: tuple[str, ...] = ()) -> Target:
    """The split of a collection, or its documents alone; steps download files that are not local."""
    loaded = load_collection(collection)
    source = loaded.description.corpus
    documents = _inputs(loaded, source)
    bytes_here = sum(path.stat().st_size for path in documents.reads if path.is_file())
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
    judged = _inputs(loaded, its.topics, its.qrels)
    judged.facts["remove_query"] = its.remove_query
    return dataclasses.replace(on, measures=measures or its.measures, judged=judged, queries=its.queries or 1000)


def _inputs(collection: Collection, *parts: Source) -> Inputs:
    """The local files of these parts; the others by the names that they are downloaded by."""
    files = [(part, local_file(part, collection.root)) for part in parts]
    missing = [part.ir_datasets or part.registered or list(part.files) for part, file in files if file is None]
    return Inputs(reads=tuple(file for _, file in files if file), facts={"fetched": missing} if missing else {})


@dataclass(frozen=True, kw_only=True)
class Weights:
    """A checkpoint and what it is made of: the step that makes it, or a local folder."""

    checkpoint: str
    """Folder or name on the Hub."""
    made_of: Inputs = Inputs()
    architecture: str = ""
    """With ``settings`` and ``max_length``, of documents, what the size of an encoded document is projected from."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    max_length: int = MEAN_TOKENS
    stem: str
    """Readable beginning of the names of what is made with these weights: the recipe and its changes."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """The run of a row, what makes it (a step, or for a given run its file), and its costs if they are measured."""

    stem: str
    """Readable beginning of names."""
    run: Path
    made_by: Step | Path
    costs: Step | None = None
    checkpoint: str | None = None


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
        self,
        kind: Kind,
        title: str,
        module: str,
        words: Iterable[str | Path],
        stem: str,
        at: Callable[[str], Path],
        *made_of: Inputs | Step | Path,
        output: str | None = "--output",
        unkeyed: tuple[str, ...] = (),
        disk_bytes: int = 0,
    ) -> Step:
        """Make a step, or return the equal step of the same name; another step of that name is an error.

        Its output is ``at(NAME)``, where NAME is ``stem`` with a digest of everything that the output is made of, or
        ``stem`` alone with plain names. The option ``output`` gives it to the command; None: there is no output.
        """
        arguments = tuple(map(str, words))
        steps_and_parts = [Inputs(reads=(one,)) if isinstance(one, Path) else one for one in made_of]
        parts = [Inputs(needs=(one,)) if isinstance(one, Step) else one for one in steps_and_parts]
        draft = Step(
            name="", kind=kind, title=title, module=module, arguments=arguments, data=self.data,
            needs=tuple(step for part in parts for step in part.needs),
            reads=tuple(file for part in parts for file in part.reads),
            facts={key: value for part in parts for key, value in part.facts.items()},
        )  # fmt: skip
        path = at(stem if self.matrix.plain_names else f"{stem[:_MAX_STEM].rstrip('-')}-{_digest(draft)}")
        if output is not None:
            arguments += (output, path.name if output == "--model" else str(path))
        name, writes = path.relative_to(home()).as_posix(), () if output is None else (path,)
        if kind in ("index", "index-bm25") and self.threads:
            unkeyed = ("--threads", str(self.threads))
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

    def target(self, column: Column) -> Target:
        """The split of a column, its part, or one of its classes."""
        on = target(column.collection, column.split, column.measures)
        if column.sample or column.pool:
            on = self.part(on, column.sample, column.pool)
        if not column.overlap:
            return on
        # documents, indexes and runs are those of all queries; one class of SpaDE's Table 4 is measured
        step = self.make(
            "pool", f"queries of {on.name}, {on.split}, by overlap", PREPARE, ("overlap", *on.words),
            f"{on.name}-{on.split}-overlap", home_folder("data"), on.all,
        )  # fmt: skip
        return dataclasses.replace(on, overlap=step, measured_class=column.overlap)

    def part(self, whole: Target, sample: Sample | None, pool: int | None) -> Target:
        """A sample of a collection, or all its judged queries; with the top ``pool`` documents of BM25 for each."""
        words, stem = ["sample", *whole.words, *self._bad_lines()], [whole.name, whole.split]
        queries, documents, pooled = whole.queries, None, list[Step]()
        if sample:
            stem, queries, documents = [*stem, "sample"], sample.queries or queries, sample.documents
            for unit, number in (("queries", sample.queries), ("documents", sample.documents)):
                words += [f"--{unit}", str(number)] if number else []
                stem += [f"{number}-{unit}"] if number else []
            words += ["--seed", str(sample.seed)]
        if pool:
            pooled = [self.bm25_search(whole, max(self.matrix.hits, pool))]
            words += ["--run", str(pooled[0].writes[0]), "--depth", str(pool)]
            stem += [f"pool-{pool}"]
        stem += [f"seed-{sample.seed}"] if sample else []
        documents = documents or (queries * pool if pool else whole.size)
        step = self.make(
            "pool", f"part of {whole.name}, {whole.split}", PREPARE, words, "-".join(stem), home_folder("data"),
            *pooled, whole.all, disk_bytes=documents * TEXT_BYTES,
        )  # fmt: skip
        folder, remove_query = step.writes[0], {"remove_query": whole.judged.facts["remove_query"]}
        return Target(
            collection=str(folder), documents_of=str(folder), name=folder.name, split=whole.split,
            measures=whole.measures, documents=Inputs(needs=(step,)),
            judged=Inputs(needs=(step,), facts=remove_query), size=documents, queries=queries, whole=whole.name,
        )  # fmt: skip

    def cells(self, name: str, targets: Mapping[str, Target]) -> Iterator[CellPlan]:
        """The cells of a row, each with its evaluation and its costs."""
        for column, on in targets.items():
            for seed in (seeds_of(self.matrix, name) or (None,)) if self.matrix.rows[name].runs_on(column) else ():
                its = self.run(name, on, seed)
                stem, words = its.stem, [*on.words, "--run", str(its.run)]
                made_of = [its.made_by]
                if on.overlap:
                    qrels = on.overlap.writes[0] / OVERLAPS[str(on.measured_class)]
                    stem, words, made_of = (
                        f"{stem}-{qrels.stem}",
                        [*words, "--qrels", str(qrels)],
                        [*made_of, on.overlap],
                    )
                evaluated = self.make(
                    "evaluate", f"evaluate {stem}, {on.name} {on.split}", "eval.evaluate",
                    (*words, "--measures", *on.measures, "--per-query", "--json"), stem,
                    home_folder("evaluations", on.name, on.split, suffix=".json"), *made_of, on.judged,
                )  # fmt: skip
                yield CellPlan(
                    row=name, column=column, seed=seed, run=its.run, evaluated=evaluated.writes[0],
                    steps=tuple(ordered([evaluated, *([its.costs] if its.costs else [])])),
                    costs=its.costs.writes[0] if its.costs else None, checkpoint=its.checkpoint,
                )  # fmt: skip

    def run(self, name: str, on: Target, seed: int | None) -> Run:
        """The run of a row on a target, by the kind of the row."""
        row = self.matrix.rows[name]
        match row:
            case GivenRow():
                run = Path(row.run.replace("{collection}", on.name).replace("{split}", on.split))
                return Run(stem=slug(name), run=run, made_by=run)
            case BestOfRow() | FusionRow():
                return self.of_several(name, row, on, seed)
            case CrossEncoderRow() | ModelRow() if row.rerank:
                return self.reranked(name, row, on, seed)
            case BM25Row() if row.bm25 != "word-pieces":
                return self.bm25(name, row, on)
            case _:
                return self.learned(name, on, seed)

    def reranked(self, name: str, row: CrossEncoderRow | ModelRow, on: Target, seed: int | None) -> Run:
        """Another row's run, re-ranked by the row's model or cross-encoder; it is in the folder of the step."""
        first = self.run(str(row.rerank), on, seed if seeds_of(self.matrix, str(row.rerank)) else None)
        made_of: list[Inputs | Step | Path] = []
        if isinstance(row, CrossEncoderRow):
            local = Path(row.cross_encoder)
            words, stem, checkpoint = ["--cross-encoder", row.cross_encoder], slug(local.name), None
            made_of += [local] if local.is_dir() else []
        else:
            weights, stem = self.weights_of(name, seed), self._stem(name, seed, row.encode)
            checkpoint, expansions = weights.checkpoint, self.expansions(row, on)
            words = ["--checkpoint", checkpoint, *set_words(row.encode), *_expanded(expansions)]
            made_of += [weights.made_of, *expansions]
        words = ["--depth", str(row.depth), *words, *row.options, *self._dtype(row.options)]
        stem = folder_name(name, seed) if self.matrix.plain_names else f"{first.stem}-top-{row.depth}-{stem}"
        step = self.make(
            "rerank", f"re-rank {name}, {on.name} {on.split}", "eval.rerank",
            (*on.words, "--run", f"first={first.run}", *words), stem, home_folder("reranked", on.name, on.split),
            *made_of, first.made_by, on.all,
        )  # fmt: skip
        run = step.writes[0] / f"first-top{row.depth}.txt"
        return Run(stem=stem, run=run, made_by=step, checkpoint=checkpoint)

    def of_several(self, name: str, row: BestOfRow | FusionRow, on: Target, seed: int | None) -> Run:
        """A run made of several runs: for each query the best one, or their reciprocal rank fusion."""
        parts = [self.run(part, on, seed) for part in (row.best_of if isinstance(row, BestOfRow) else row.fusion)]
        stem, module, words = folder_name(name, seed), PREPARE, ["best", *on.words, "--measure"]
        if isinstance(row, BestOfRow):
            words += [row.best_by, "--run"]
        else:
            module, hits = "learned_sparse.pyserini", str(self.matrix.hits)
            words = ["fusion", "--method", "rrf", "--depth", hits, "--k", hits, "--runs"]
        step = self.make(
            "rerank", f"join {name}, {on.name} {on.split}", module, [*words, *(part.run for part in parts)], stem,
            partial(run_file, on.name, on.split), *(part.made_by for part in parts), on.judged,
        )  # fmt: skip
        return Run(stem=stem, run=step.writes[0], made_by=step)

    def bm25(self, name: str, row: BM25Row, on: Target) -> Run:
        """BM25 over text, or over the text with the queries that expand it, in one field."""
        stem, flag = slug(name) if row.words else BM25, ["--bm25"]
        if row.expanded is None:
            index = self.bm25_index(on)
        else:
            stem, flag = slug(name) if self.matrix.plain_names else f"{BM25}-expanded", []
            documents = self.rewritten("expand", "expanded text", stem, on, _filled(row.expanded, on))
            index = self.make(
                "index-bm25", f"index {stem}, {on.name}", "learned_sparse.index",
                ("--bm25", "--input", documents.writes[0]), stem, partial(index_folder, on.name), documents,
                output="--index", disk_bytes=documents.disk_bytes,
            )  # fmt: skip
        words = ["--index", str(index.writes[0]), *row.words]
        searched = self.search(stem, on, [*flag, *words], index)
        costs = self.costs(stem, on, words, searched)
        return Run(stem=stem, run=searched.writes[0], made_by=searched, costs=costs)

    def bm25_index(self, on: Target) -> Step:
        """Index the text of a collection."""
        return self.make(
            "index-bm25", f"index the text of {on.name}", "learned_sparse.index",
            ("--bm25", "--collection", on.documents_of, *self._bad_lines()), BM25, partial(index_folder, on.name),
            on.documents, output="--index", disk_bytes=on.size * TEXT_BYTES,
        )  # fmt: skip

    def bm25_search(self, on: Target, hits: int) -> Step:
        """Search the text of a collection with BM25."""
        index = self.bm25_index(on)
        return self.search(BM25, on, ("--bm25", "--index", index.writes[0]), index, hits=hits)

    def rewritten(self, action: str, title: str, stem: str, on: Target, file: Path) -> Step:
        """Write the texts or new terms of each document with its predicted queries, of which ``file`` has all."""
        return self.make(
            "prepare", f"{title} of {on.name}", PREPARE,
            (action, "--collection", on.documents_of, "--expanded", file, *self._bad_lines()), stem,
            home_folder("expanded", on.name), file, on.documents, disk_bytes=on.size * TEXT_BYTES,
        )  # fmt: skip

    def learned(self, name: str, on: Target, seed: int | None) -> Run:
        """A learned model, or BM25 over word pieces."""
        row, weights = self._model(name), self.weights_of(name, seed)
        bm25_words = its.words if isinstance(its := self.matrix.rows[name], BM25Row) else ()
        encoded = self.encoded(row.index_of or name, on, seed)
        vectors = encoded.writes[0]
        stem = self._stem(name, seed, row.options, row.encode, row.queries)
        query_stem = self._stem(name, seed, row.encode, row.queries)
        pairs = [pair for pair in itertools.pairwise(row.options) if pair[0] in _QUERY_OPTIONS]
        query_words = [*self._encode_words(query_stem, weights, row), *itertools.chain(*pairs)]
        query_words += set_words(row.encode | row.queries)
        made_of: list[Inputs | Step] = [weights.made_of]
        if "--with" in row.options:  # documents say how queries weigh BM25
            query_words, made_of = [*query_words, "--with", str(vectors)], [*made_of, encoded]
        queries = self.make(
            "encode-queries", f"encode queries {query_stem}, {on.name} {on.split}", "learned_sparse.encode",
            ("--collection", on.collection, *query_words, "--queries", "--split", on.split), query_stem,
            partial(queries_folder, on.name, on.split), *made_of, on.judged, output="--model",
        )  # fmt: skip
        changed = set_words(row.queries)
        files: list[str | Path] = ["--vectors", vectors, "--queries", queries.writes[0], *bm25_words, "--encoding"]
        files, words = [*files, *changed], ["--model", vectors.name, *changed, *bm25_words]
        searchable = encoded
        if row.backend != "lucene":
            words, files = [*words, "--backend", row.backend], [*files, "--backend", row.backend]
        else:
            index = searchable = self.make(
                "index", f"index {stem}, {on.name}", "learned_sparse.index", ("--collection", on.documents_of), stem,
                lambda _: index_folder(on.name, vectors.name), encoded, output="--model",
                disk_bytes=encoded.disk_bytes * _INDEX_BYTES // _VECTOR_BYTES,
            )  # fmt: skip
            files += ["--index", index.writes[0]]
            if self.matrix.verify:  # compare some documents of the index with their vectors
                searchable = self.make(
                    "verify", f"verify {stem}, {on.name}", "learned_sparse.index",
                    (*index.arguments, "--verify", str(self.matrix.verify)), index.writes[0].name,
                    home_folder("verified", on.name), index, output=None,
                )  # fmt: skip
        searched = self.search(stem, on, words, searchable)
        costs = self.costs(stem, on, files, searched, queries)
        return Run(stem=stem, run=searched.writes[0], made_by=searched, costs=costs, checkpoint=weights.checkpoint)

    def encoded(self, name: str, on: Target, seed: int | None) -> Step:
        """The documents, encoded by the model of a row and pruned."""
        row, weights = self._model(name), self.weights_of(name, seed)
        stem, expansions = self._stem(name, seed, row.options, row.encode), self.expansions(row, on)
        words = [*self._encode_words(stem, weights, row), *row.options, *set_words(row.encode), *_expanded(expansions)]
        encoded = self.make(
            "encode", f"encode {stem}, {on.name}", "learned_sparse.encode",
            ("--collection", on.documents_of, *self._bad_lines(), *words), stem, partial(vectors_folder, on.name),
            weights.made_of, *expansions, on.documents, output="--model",
            disk_bytes=on.size * expected_terms(weights, row.encode) * _VECTOR_BYTES,
        )  # fmt: skip
        if not row.prune:
            return encoded
        return self.make(
            "prepare", f"prune {stem}, {on.name}", "learned_sparse.jsonvector",
            ("prune", "--vectors", encoded.writes[0], *row.prune), f"{stem}-pruned", partial(vectors_folder, on.name),
            encoded, disk_bytes=encoded.disk_bytes,
        )  # fmt: skip

    def search(
        self, stem: str, on: Target, words: Iterable[str | Path], searchable: Step, hits: int | None = None
    ) -> Step:
        """Search for the queries of a split."""
        return self.make(
            "search", f"search {stem}, {on.name} {on.split}", "learned_sparse.search",
            (*words, *on.words, "--hits", str(hits or self.matrix.hits)), stem, partial(run_file, on.name, on.split),
            searchable, on.judged, unkeyed=("--threads", str(self.threads or 2), "--batch-size", "64"),
        )  # fmt: skip

    def costs(self, stem: str, on: Target, words: Iterable[str | Path], *needs: Step) -> Step:
        """Measure the costs of a row; ``words`` name its vectors, queries and index."""
        return self.make(
            "costs", f"costs of {stem}, {on.name} {on.split}", "eval.costs",
            (*words, *on.words, "--hits", str(self.matrix.hits)), stem,
            home_folder("costs", on.name, on.split, suffix=".json"), *needs,
        )  # fmt: skip

    def expansions(self, row: Row, on: Target) -> tuple[Path | Step, ...]:
        """What ``--expanded`` reads for a row, if anything: predicted queries, or the step that makes new terms.

        A row has its own file and ``expansion``, or those of the row with its checkpoint.
        """
        own = isinstance(row, ModelRow) and (row.expanded or row.expansion)
        its = row if own else weights_of(self.matrix, row)
        if not isinstance(its, ModelRow) or its.expanded is None:
            return ()
        file = _filled(its.expanded, on)
        if its.expansion == "queries":
            return (file,)
        return (self.rewritten("new-terms", "new terms of the predicted queries", "new-terms", on, file),)

    def weights_of(self, name: str, seed: int | None) -> Weights:
        """The checkpoint of a row: of word pieces, named by the row or its model, or trained by its recipe."""
        row = weights_of(self.matrix, self.matrix.rows[name])
        if isinstance(row, RecipeRow):
            name = next(key for key, its in self.matrix.rows.items() if its is row)
            if (name, seed) not in self.weights:
                self.weights[name, seed] = self.trained(name, row, seed)
            return self.weights[name, seed]
        if isinstance(row, CheckpointRow):
            folder = Path(row.checkpoint)
            known: dict[str, Any] = {}
            if (folder / NOTES).is_file():
                with contextlib.suppress(LearnedSparseError):  # a damaged checkpoint, which its step reports
                    notes = read_notes(folder)
                    known = {"architecture": notes.architecture, "settings": notes.settings}
            made_of = Inputs(reads=(folder,) if folder.is_dir() else ())
            return Weights(checkpoint=row.checkpoint, made_of=made_of, stem=slug(folder.name), **known)
        title = "the tokenizer of BM25 over word pieces"
        step = self.make("prepare", title, PREPARE, ("word-pieces",), "word-pieces", checkpoint_folder)
        return Weights(checkpoint=str(step.writes[0]), made_of=Inputs(needs=(step,)), stem="word-pieces")

    def trained(self, name: str, row: RecipeRow, seed: int | None) -> Weights:
        """Train the recipe of a row, on the data of the matrix if it names any, with BM25's runs for negatives."""
        matrix, training, made = self.matrix, self.matrix.training, list[Step]()
        data = training.data if training else ()
        changes = [*row.changes, *([] if seed is None else [f"seed={seed}"])]
        stem = slug(" ".join([Path(row.recipe).stem, *changes]).replace(f"{self.data}/", ""))
        changes += [] if matrix.on_bad_line == "error" else [f"on_bad_line={matrix.on_bad_line}"]
        for number, part in enumerate(map(data_source, data)):
            if training and training.negatives and "collection" in part:
                on = target(part["collection"], part.get("split", "train"))
                made.append(self.bm25_search(on, training.negatives))
                changes.append(f"data.{number}.run={made[-1].writes[0]}")
        if training and training.validation and load_recipe(row.recipe, changes=row.changes).validation:
            changes.append(f"validation.collection={training.validation}")
        for number, source in enumerate(load_recipe(row.recipe, changes=changes, data=data).data):
            if row.expanded and source.collection:
                expansions = self.expansions(row, target(source.collection))
                changes += [f"data.{number}.expanded={path}" for path in _expanded(expansions)[1:]]
                made += [step for step in expansions if isinstance(step, Step)]
        recipe = load_recipe(row.recipe, changes=changes, data=data)
        words = ["--recipe", row.recipe]
        words += [word for argument in data for word in ("--data", argument)]
        words += [word for change in changes for word in ("--set", change)]
        folder = folder_name(name, seed) if matrix.plain_names else stem
        made_of = Inputs(needs=tuple(made), reads=_training_files(recipe, made), facts={"recipe": stated(recipe)})
        step = self.make(
            "train", f"train {folder}", "encoders.train", words, folder, checkpoint_folder, made_of,
            unkeyed=("--resume",), disk_bytes=_TRAINING_BYTES,
        )  # fmt: skip
        return Weights(
            checkpoint=str(step.writes[0]), made_of=Inputs(needs=(step,)), stem=stem, architecture=recipe.architecture,
            settings=recipe.settings, max_length=recipe.max_length.document,
        )  # fmt: skip

    def _model(self, name: str) -> ModelRow:
        """The settings of a row's model; BM25 over word pieces has none but its options."""
        row = self.matrix.rows[name]
        return row if isinstance(row, ModelRow) else ModelRow(options=row.options if isinstance(row, BM25Row) else ())

    def _stem(self, name: str, seed: int | None, *settings: Iterable[str] | dict[str, Any]) -> str:
        """Readable beginning of the names of a row's output: its checkpoint and what it changes about the model."""
        if self.matrix.plain_names:
            return folder_name(name, seed)
        parts = [[f"{key} {value}" for key, value in of.items()] if isinstance(of, dict) else of for of in settings]
        return slug(" ".join([self.weights_of(name, seed).stem, *itertools.chain(*parts)]))

    def _encode_words(self, stem: str, weights: Weights, row: ModelRow) -> list[str]:
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
    paths = [part.writes[0] if isinstance(part, Step) else part for part in expansions]
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
    files: list[Path] = [Path(recipe.backbone)] if Path(recipe.backbone).is_dir() else []
    read: list[Target] = []
    for part in recipe.data:
        given = (part.examples, part.topics, part.qrels, part.run, part.expanded, part.scores)
        files += [path for path in given if path]
        read += [target(part.collection, "" if part.topics else part.split)] if part.collection else []
    if recipe.validation:
        split = "" if recipe.validation.holdout else recipe.validation.split or "dev"
        read.append(target(recipe.validation.collection, split))
    files += [path for on in read for path in on.all.reads]
    written = {path for step in made for path in step.writes}
    return tuple(path for path in dict.fromkeys(files) if path not in written)


def home_folder(*parts: str, suffix: str = "") -> Callable[[str], Path]:
    """Function from a name to the path of that name in a folder below the home folder."""
    return lambda name: home().joinpath(*parts, f"{name}{suffix}")


def _digest(step: Step) -> str:
    """Digest of a step for its name. A missing file is named by its absence; its step cannot run."""
    try:
        return step.key[:DIGEST]
    except LearnedSparseError as error:
        return json_digest([step.neutral(str(error)), step.neutral(step.command)])[:DIGEST]


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
