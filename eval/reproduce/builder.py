"""Builds the steps of a leaderboard: the command of each kind of step, its inputs and its output paths."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from eval.reproduce.matrix import Matrix
from eval.reproduce.prepare import OVERLAPS, pool_folder
from eval.reproduce.steps import Kind, Step, json_digest
from learned_sparse.collections.catalogue import CATALOGUE
from learned_sparse.collections.collection import Collection, load_collection, local_file
from learned_sparse.collections.descriptions import Source
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import checkpoint_folder, home, index_folder, queries_folder, run_file, vectors_folder
from learned_sparse.core.settings import read_yaml_text

if TYPE_CHECKING:
    from encoders.training import Recipe

BM25 = "bm25"
"""Name of the index and the runs of ``learned_sparse.index --bm25`` and ``learned_sparse.search --bm25``."""
MEAN_TERMS = 120
"""Approximate number of terms of an encoded document, for estimates of disk space."""
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
    described, source = loaded.split(split), loaded.description.corpus
    corpus = _local(source, loaded)
    size = sum(path.stat().st_size for path in corpus if path.is_file())
    return Target(
        collection=collection,
        documents_of=f"{CATALOGUE}{source.ir_datasets}" if collection.startswith(CATALOGUE) else collection,
        documents_facts=_downloads(loaded, source),
        name=loaded.name,
        split=split,
        measures=measures or tuple(described.measures),
        corpus=corpus,
        judged=(*_local(described.topics, loaded), *_local(described.qrels, loaded)),
        facts={**_downloads(loaded, described.topics, described.qrels), "remove_query": described.remove_query},
        documents=loaded.description.documents or size // TEXT_BYTES or _UNKNOWN_DOCUMENTS,
        queries=described.queries or 1000,
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
    terms: int = MEAN_TERMS
    """Approximate number of terms of an encoded document."""
    stem: str
    """Readable beginning of the names of what is made with these weights: the recipe and its changes."""

    def reading(self, file: Path) -> Weights:
        """The same weights used on texts that ``file`` is a part of."""
        return replace(self, reads=(*self.reads, file))


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

    def step(self, kind: Kind, title: str, module: str, words: Iterable[str | Path], **fields: Any) -> Step:
        """Make a step, or return the equal step of the same name; another step of that name is an error."""
        new = Step(kind=kind, title=title, module=module, arguments=tuple(map(str, words)), data=self.data, **fields)
        old = self.made.setdefault(new.name, new)
        if any(getattr(old, part) != getattr(new, part) for part in ("module", "arguments", "needs", "reads", "facts")):
            raise LearnedSparseError(
                f"two steps of this matrix write {home() / new.name}; give one of the rows another name:\n"
                f"  {old.command}\n  {new.command}"
            )
        return old

    def named(self, stem: str, module: str, words: Iterable[str | Path], **made_of: Any) -> str:
        """``stem`` with a digest of everything that an output is made of, or with plain names ``stem``.

        ``words`` are the arguments of the command without those that name its output. A file that is missing is
        named by its absence; its step cannot run.
        """
        if self.matrix.plain_names:
            return stem
        draft = Step(
            name="",
            kind="prepare",
            title="",
            module=module,
            arguments=tuple(map(str, words)),
            data=self.data,
            **made_of,
        )
        try:
            content = draft.made_of
        except LearnedSparseError as error:
            content = {"error": draft.neutral(str(error)), "arguments": draft.neutral(" ".join(draft.arguments))}
        return f"{stem[:_MAX_STEM].rstrip('-')}-{json_digest(content)[:DIGEST]}"

    def bm25_index(self, target: Target) -> Step:
        """Index the text of a collection."""
        words: tuple[str | Path, ...] = ("--bm25", "--collection", target.documents_of, *self.bad_lines)
        made_of = {"needs": target.needs, "reads": target.corpus, "facts": target.documents_facts}
        index = index_folder(target.name, self.named(BM25, "learned_sparse.index", words, **made_of))
        words += ("--index", index) if index.name != BM25 else ()
        return self.step(
            "index-bm25", f"index the text of {target.name}", "learned_sparse.index", words, name=_name(index),
            writes=(index,), unkeyed_arguments=self._threads(), disk_bytes=target.documents * TEXT_BYTES, **made_of,
        )  # fmt: skip

    def bm25_search(self, target: Target, hits: int, stem: str = BM25, parameters: tuple[str, ...] = ()) -> Step:
        """Search the text of a collection with BM25; ``parameters`` are words such as ``--k1 0.82``."""
        index = self.bm25_index(target)
        words: tuple[str | Path, ...] = ("--bm25",)
        words += ("--index", index.writes[0]) if index.writes[0].name != BM25 else ()
        return self.search(stem, BM25, target, (*words, *parameters), (index,), hits=hits)

    def pool(self, whole: Target, depth: int) -> Target:
        """Cut a collection to its relevant documents and BM25's top ``depth`` documents of each query."""
        run = self.bm25_search(whole, max(self.matrix.hits, depth))
        documents = min(whole.documents, whole.queries * depth)
        words: tuple[str | Path, ...] = ("pool", "--collection", whole.collection, "--split", whole.split)
        words += ("--run", run.writes[0], "--depth", str(depth), *self.bad_lines)
        made_of = {"needs": (run,), "reads": (*whole.corpus, *whole.judged), "facts": whole.facts}
        stem = pool_folder(whole.name, whole.split, depth)
        folder = stem.with_name(self.named(stem.name, "eval.reproduce.prepare", words, **made_of))
        words += ("--output", folder) if folder != stem else ()
        step = self.step(
            "pool", f"pool {depth} of {whole.name}, {whole.split}", "eval.reproduce.prepare", words,
            name=_name(folder), writes=(folder,), disk_bytes=documents * TEXT_BYTES, **made_of,
        )  # fmt: skip
        return Target(
            collection=str(folder), documents_of=str(folder), name=folder.name, split=whole.split,
            measures=whole.measures, needs=(step,), documents=documents, queries=whole.queries,
            facts={"remove_query": whole.facts["remove_query"]}, whole=whole.name,
        )  # fmt: skip

    def expanded_file(self, row: str, collection: str) -> Path | None:
        """Predicted queries of ``collection`` for a row: its own file, or that of the row with its checkpoint."""
        own, model = self.matrix.rows[row].expanded, self.matrix.rows[row].model
        file = own or (self.matrix.rows[model].expanded if model is not None else None)
        return None if file is None else Path(file.replace("{collection}", collection))

    def expanded_data(self, row: str, recipe: Recipe) -> list[str]:
        """Changes of ``recipe`` that give a row's predicted queries to each of its sources that is a collection."""
        names = {n: load_collection(part.collection).name for n, part in enumerate(recipe.data) if part.collection}
        files = {number: self.expanded_file(row, name) for number, name in names.items()}
        return [f"data.{number}.expanded={file}" for number, file in files.items() if file is not None]

    def expanded_index(self, stem: str, target: Target, file: Path) -> Step:
        """Index the text of a collection with the queries that expand it, in one field."""
        words: tuple[str | Path, ...] = ("expand", "--collection", target.documents_of, "--expanded", file)
        words += self.bad_lines
        made_of = {"needs": target.needs, "reads": (file, *target.corpus), "facts": target.documents_facts}
        name = self.named(stem, "eval.reproduce.prepare", words, **made_of)
        texts, index = home() / "expanded" / target.name / name, index_folder(target.name, name)
        documents = self.step(
            "prepare", f"expanded text of {target.name}", "eval.reproduce.prepare", (*words, "--output", texts),
            name=_name(texts), writes=(texts,), disk_bytes=target.documents * TEXT_BYTES, **made_of,
        )  # fmt: skip
        return self.step(
            "index-bm25", f"index {stem}, {target.name}", "learned_sparse.index",
            ("--bm25", "--input", texts, "--index", index), name=_name(index), needs=(documents,), writes=(index,),
            unkeyed_arguments=self._threads(), disk_bytes=target.documents * TEXT_BYTES,
        )  # fmt: skip

    def word_pieces(self) -> Step:
        """Write the checkpoint that counts word pieces."""
        folder = checkpoint_folder(self.named("word-pieces", "eval.reproduce.prepare", ("word-pieces",)))
        return self.step(
            "prepare", "the tokenizer of BM25 over word pieces", "eval.reproduce.prepare",
            ("word-pieces", "--output", folder), name=_name(folder), writes=(folder,),
        )  # fmt: skip

    def train(
        self, stem: str, words: Iterable[str | Path], needs: tuple[Step, ...], reads: tuple[Path, ...], recipe: Any
    ) -> Step:
        """Train a recipe, which is given as JSON values too."""
        made_of = {"needs": needs, "reads": reads, "facts": {"recipe": recipe}}
        folder = checkpoint_folder(self.named(stem, "encoders.train", words, **made_of))
        return self.step(
            "train", f"train {folder.name}", "encoders.train", (*words, "--output", folder), name=_name(folder),
            writes=(folder,), unkeyed_arguments=("--resume",), **made_of,
            disk_bytes=400_000_000,  # weights, the best weights so far, and the state of the optimiser
        )  # fmt: skip

    def encode(
        self, stem: str, target: Target, words: Iterable[str], needs: tuple[Step, ...], reads: tuple[Path, ...],
        *, terms: int,
    ) -> Step:  # fmt: skip
        """Encode the documents; ``terms`` is the expected number of terms per document."""
        words = ("--collection", target.documents_of, *self.bad_lines, *words)
        made_of = {
            "needs": (*needs, *target.needs), "reads": (*target.corpus, *reads), "facts": target.documents_facts
        }  # fmt: skip
        folder = vectors_folder(target.name, self.named(stem, "learned_sparse.encode", words, **made_of))
        return self.step(
            "encode", f"encode {stem}, {target.name}", "learned_sparse.encode", ("--model", folder.name, *words),
            name=_name(folder), writes=(folder,), disk_bytes=target.documents * terms * _VECTOR_BYTES, **made_of,
        )  # fmt: skip

    def prune(self, stem: str, target: Target, encoded: Step, rule: tuple[str, ...]) -> Step:
        """Copy encoded documents without what ``rule`` removes."""
        words: tuple[str | Path, ...] = ("prune", "--vectors", encoded.writes[0], *rule)
        name = self.named(f"{stem}-pruned", "learned_sparse.jsonvector", words, needs=(encoded,))
        folder = vectors_folder(target.name, name)
        return self.step(
            "prepare", f"prune {stem}, {target.name}", "learned_sparse.jsonvector", (*words, "--output", folder),
            name=_name(folder), needs=(encoded,), writes=(folder,), disk_bytes=encoded.disk_bytes,
        )  # fmt: skip

    def encode_queries(
        self, stem: str, target: Target, words: Iterable[str], needs: tuple[Step, ...], reads: tuple[Path, ...]
    ) -> Step:
        """Encode the queries of a split."""
        words = ("--collection", target.collection, *words, "--queries", "--split", target.split)
        made_of = {"needs": (*needs, *target.needs), "reads": (*target.judged, *reads), "facts": target.facts}
        name = self.named(stem, "learned_sparse.encode", words, **made_of)
        folder = queries_folder(target.name, target.split, name)
        return self.step(
            "encode-queries", f"encode queries {stem}, {target.name} {target.split}", "learned_sparse.encode",
            ("--model", name, *words), name=_name(folder), writes=(folder,), **made_of,
        )  # fmt: skip

    def index(self, stem: str, target: Target, encoded: Step) -> tuple[Path, Step]:
        """Index encoded documents under their name; if the matrix says ``verify``, compare the index with them."""
        name = encoded.writes[0].name
        folder, words = index_folder(target.name, name), ("--model", name, "--collection", target.documents_of)
        index = self.step(
            "index", f"index {stem}, {target.name}", "learned_sparse.index", words, name=_name(folder),
            needs=(encoded,), writes=(folder,), unkeyed_arguments=self._threads(),
            disk_bytes=encoded.disk_bytes * _INDEX_BYTES // _VECTOR_BYTES,
        )  # fmt: skip
        if not self.matrix.verify:
            return folder, index
        checked = (*words, "--verify", str(self.matrix.verify))
        name = self.named(name, "learned_sparse.index", checked, needs=(index,))
        return folder, self.step(
            "verify", f"verify {stem}, {target.name}", "learned_sparse.index", checked,
            name=f"verified/{target.name}/{name}", needs=(index,),
        )  # fmt: skip

    def search(
        self, stem: str, model: str, target: Target, words: Iterable[str | Path], needs: tuple[Step, ...], *,
        hits: int | None = None,
    ) -> Step:  # fmt: skip
        """Search; the run has its usual path if that is named ``model``."""
        words = (*words, "--collection", target.collection, "--split", target.split)
        words += ("--hits", str(hits or self.matrix.hits))
        made_of = {"needs": (*needs, *target.needs), "reads": target.judged, "facts": target.facts}
        run = run_file(target.name, target.split, self.named(stem, "learned_sparse.search", words, **made_of))
        words += ("--output", run) if run.stem != model else ()
        return self.step(
            "search", f"search {stem}, {target.name} {target.split}", "learned_sparse.search", words,
            name=_name(run), writes=(run,), **made_of,
            unkeyed_arguments=("--threads", str(self.threads or 2), "--batch-size", "64"),
        )  # fmt: skip

    def evaluate(self, stem: str, target: Target, run: Path, needs: tuple[Step, ...]) -> Step:
        """Compute the measures of a run."""
        words: tuple[str | Path, ...] = ("--collection", target.collection, "--split", target.split, "--run", run)
        reads = (*target.judged, *(() if needs else (run,)))
        if target.overlap:
            qrels = target.overlap.writes[0] / OVERLAPS[str(target.measured_class)]
            stem, words, needs = f"{stem}-{qrels.stem}", (*words, "--qrels", qrels), (*needs, target.overlap)
        words += ("--measures", *target.measures, "--per-query", "--json")
        made_of = {"needs": (*needs, *target.needs), "reads": reads, "facts": target.facts}
        name = self.named(stem, "eval.evaluate", words, **made_of)
        file = home() / "evaluations" / target.name / target.split / f"{name}.json"
        return self.step(
            "evaluate", f"evaluate {stem}, {target.name} {target.split}", "eval.evaluate", (*words, "--output", file),
            name=_name(file), writes=(file,), **made_of,
        )  # fmt: skip

    def costs(self, stem: str, target: Target, words: Iterable[str | Path], needs: tuple[Step, ...]) -> Step:
        """Measure the costs of a row; ``words`` name its vectors, queries and index."""
        words = (*words, "--collection", target.collection, "--split", target.split, "--hits", str(self.matrix.hits))
        name = self.named(stem, "eval.costs", words, needs=needs)
        file = home() / "costs" / target.name / target.split / f"{name}.json"
        return self.step(
            "costs", f"costs of {stem}, {target.name} {target.split}", "eval.costs", (*words, "--output", file),
            name=_name(file), needs=needs, writes=(file,),
        )  # fmt: skip

    def _threads(self) -> tuple[str, ...]:
        return ("--threads", str(self.threads)) if self.threads else ()


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


def _name(path: Path) -> str:
    """Name of the step that writes ``path``: the path below the home folder."""
    return path.relative_to(home()).as_posix()


def _downloads(collection: Collection, *parts: Source) -> dict[str, Any]:
    """The parts that are not local, by the names they are downloaded by."""
    missing = [part for part in parts if not _local(part, collection)]
    return {"fetched": [part.ir_datasets or part.registered or list(part.files) for part in missing]} if missing else {}


def _local(source: Source, collection: Collection) -> tuple[Path, ...]:
    file = local_file(source, collection.root)
    return () if file is None else (file,)
