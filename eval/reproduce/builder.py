"""Builds the steps of a leaderboard: the command of each kind of step, its inputs and its output paths."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from eval.reproduce.matrix import Matrix, Sample
from eval.reproduce.prepare import OVERLAPS
from eval.reproduce.steps import Kind, Step, json_digest
from learned_sparse.collections.catalogue import CATALOGUE
from learned_sparse.collections.collection import Collection, load_collection, local_file
from learned_sparse.collections.descriptions import Source
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import checkpoint_folder, home, index_folder, queries_folder, run_file, vectors_folder
from learned_sparse.core.settings import read_yaml_text

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

    def new_terms(self, target: Target, file: Path) -> Step:
        """Write the terms of each document's predicted queries that its text has not; ``file`` has the queries."""
        return self.make(
            "prepare", f"new terms of the predicted queries of {target.name}", PREPARE,
            ("new-terms", "--collection", target.documents_of, "--expanded", file, *self.bad_lines), "new-terms",
            home_folder("expanded", target.name), disk_bytes=target.documents * TEXT_BYTES, needs=target.needs,
            reads=(file, *target.corpus), facts=target.documents_facts,
        )  # fmt: skip

    def expanded_index(self, stem: str, target: Target, file: Path) -> Step:
        """Index the text of a collection with the queries that expand it, in one field."""
        size = target.documents * TEXT_BYTES
        documents = self.make(
            "prepare", f"expanded text of {target.name}", PREPARE,
            ("expand", "--collection", target.documents_of, "--expanded", file, *self.bad_lines), stem,
            home_folder("expanded", target.name), disk_bytes=size, needs=target.needs, reads=(file, *target.corpus),
            facts=target.documents_facts,
        )  # fmt: skip
        return self.make(
            "index-bm25", f"index {stem}, {target.name}", "learned_sparse.index",
            ("--bm25", "--input", documents.writes[0]), stem, partial(index_folder, target.name), output="--index",
            unkeyed=self._threads(), disk_bytes=size, needs=(documents,),
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
