"""The folder of ``tests.benchmarks.quality``: collections, runs, models, the teacher's scores, and measurements."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from eval.measures import evaluate
from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.trec import read_run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import atomic_write, read_json, write_json
from tests.benchmarks import harness
from tests.benchmarks.quality_contenders import BATCH, CONTENDERS, MEMORY, PRECISION, recipe_of

TRAINED = ("msmarco-mini", "squad-sent")
TESTS = (("msmarco-mini", "test"), ("squad-sent", "test"), ("scifact", "test"), ("vaswani", "test"))
MEASURE = "nDCG@10"
SEEDS = (0, 1, 2)
RATES = (1e-4, 2e-4)
"""Learning rates of the dev trials of each contender."""
QUERIES = 4000
"""Training queries of each collection, drawn once."""
CANDIDATES = {"bm25": 4, "student": 4}
"""Hard negatives of each query that the teacher scores, drawn from the first DEPTH hits of each searcher."""
DEPTH = 50
TEACHER_STEPS, TEACHER_LENGTH = 250, 128
RERANKED = 20
"""Hits of BM25 for each dev query that the teacher re-ranks, to see what it knows."""
PROBES = (2, 7)
"""Steps of two short trainings; the difference of their CPU times gives the time of a step."""


class Parts:
    """Finished measurements by name, in one file."""

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self._path, self._lock = path, threading.Lock()
        new: dict[str, Any] = {"settings": dict(settings), "values": {}, "machines": []}
        self._content = read_json(path) if path.exists() else new
        if self._content["settings"] != settings:
            raise LearnedSparseError(
                f"{path}: has {self._content['settings']}, this call {settings}; use its settings, or name another file"
            )

    @property
    def machines(self) -> list[str]:
        """Processors of the machines that measured."""
        return list(self._content["machines"])

    def once(self, name: str, measure: Callable[[], Any]) -> Any:
        """The measurement ``name``; it is made if the file does not have it."""
        values = self._content["values"]
        if name not in values:
            value = measure()
            with self._lock:
                values[name] = value
                processor = harness.environment()["cpu"]
                self._content["machines"] = sorted({*self.machines, processor})
                write_json(self._path, self._content)
        return values[name]


class Work:
    """The folder of a comparison; every method makes one thing, or finds it there."""

    def __init__(
        self, folder: Path, data: Path, parts: Parts, minutes: float, jobs: int, *, toy: bool,
        queries: int | None = QUERIES, shared: Work | None = None,
    ) -> None:  # fmt: skip
        """``queries``: training queries of each collection; ``shared``: has the start weights and the teacher."""
        self.folder, self.parts, self.minutes, self.jobs, self.toy = folder, parts, minutes, jobs, toy
        self.data, self.queries, self.shared = data, queries, shared or self
        self.others: dict[int | None, Work] = {}
        self.locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        """Of what two jobs may need at the same time, by name."""
        for name in dict.fromkeys((*TRAINED, *(name for name, _ in TESTS))):
            self.sample(data / name)

    def with_queries(self, queries: int | None) -> Work:
        """The same with other training queries, in a folder of its own."""
        if queries == self.queries:
            return self
        with self.locks["others"]:
            if queries not in self.others:
                folder = self.folder / (f"{queries}-queries" if queries else "all-queries")
                self.others[queries] = Work(
                    folder, self.data, self.parts, self.minutes, self.jobs, toy=self.toy, queries=queries, shared=self
                )
            return self.others[queries]

    def training_queries(self) -> int:
        """Number of training queries of all collections."""
        return sum(len(load_collection(self.collection(name)).qrels("train")) for name in TRAINED)

    def collection(self, name: str) -> Path:
        """The folder of a collection with the training queries that were drawn."""
        return self.folder / "data" / name

    def sample(self, source: Path) -> None:
        """Copy the collection ``source`` with training queries that are drawn."""
        if not (source / "corpus.jsonl").is_file():
            raise LearnedSparseError(f"{source}: no corpus.jsonl; --data names the folder with the collections")
        folder = self.collection(source.name)
        if folder.exists():
            return
        draw = random.Random(0)
        temporary = folder.with_name(f".{source.name}")
        shutil.rmtree(temporary, ignore_errors=True)
        (temporary / "qrels").mkdir(parents=True)
        corpus = (source / "corpus.jsonl").read_text("utf-8").splitlines(keepends=True)
        if self.toy:
            corpus = corpus[:300]
        identifiers = {json.loads(line)["_id"] for line in corpus}
        for path in sorted((source / "qrels").glob("*.tsv")):
            header, *lines = path.read_text("utf-8").splitlines(keepends=True)
            lines = [line for line in lines if line.split("\t")[1] in identifiers]
            queries = sorted({line.split("\t")[0] for line in lines})
            if path.stem == "train":
                count = len(queries) if self.queries is None else few(self.queries, toy=self.toy)
                queries = sorted(draw.sample(queries, min(count, len(queries))))
            chosen = [line for line in lines if line.split("\t")[0] in set(queries)]
            (temporary / "qrels" / path.name).write_text(header + "".join(chosen), encoding="utf-8")
        (temporary / "corpus.jsonl").write_text("".join(corpus), encoding="utf-8")
        shutil.copy(source / "queries.jsonl", temporary / "queries.jsonl")
        temporary.rename(folder)

    # -- commands ------------------------------------------------------------------------------------------------------

    def command(self, *arguments: object) -> float:
        """Run ``python -m`` with ``arguments`` on one thread; CPU seconds."""
        environment = {**os.environ, **MEMORY, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        log = self.folder / "log.txt"
        with (
            log.open("ab") as file,
            subprocess.Popen(
                [sys.executable, "-m", *map(str, arguments)], stdout=file, stderr=file, env=environment
            ) as process,
        ):
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise LearnedSparseError(f"{' '.join(map(str, arguments))}: failed; see {log}")
        return usage.ru_utime + usage.ru_stime

    def each(self, function: Any, items: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Call ``function`` for all ``items``, ``jobs`` at a time."""
        with ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(lambda item: function(*item), items))

    def bm25_run(self, name: str, split: str) -> Path:
        """BM25's run of a split."""
        index, run = self.folder / "bm25" / name, self.folder / "runs" / f"bm25.{name}.{split}.trec"
        if not index.exists():
            self.command("learned_sparse.index", "--bm25", "--collection", self.collection(name), "--index", index)
        if not run.exists():
            self.command(
                "learned_sparse.search", "--bm25", "--index", index, "--collection", self.collection(name),
                "--split", split, "--output", run, "--hits", 1000 if split != "train" else DEPTH,
            )  # fmt: skip
        return run

    def run(self, model: Path, name: str, split: str) -> Path:
        """The run of a model: documents encoded, all exact products."""
        collection = self.collection(name)
        run = self.folder / "runs" / f"{model.name}.{name}.{split}.trec"
        vectors = self.folder / "vectors" / model.name / name
        with self.locks[f"{model.name} {name}"]:
            if not run.exists():
                self.command(
                    "learned_sparse.encode", "--model", "splade", "--checkpoint", model, "--collection", collection,
                    "--output", vectors, "--max-length", 128, "--resume",
                )  # fmt: skip
                self.command(
                    "learned_sparse.search", "--backend", "exact", "--vectors", vectors, "--collection", collection,
                    "--split", split, "--output", run, "--hits", 1000 if split != "train" else DEPTH,
                )  # fmt: skip
        return run

    def scores(self, run: Path, name: str, split: str) -> dict[str, float]:
        """The measure of each judged query."""
        return dict(evaluate(run, load_collection(self.collection(name)).qrels(split), [MEASURE]).per_query[MEASURE])

    # -- training ------------------------------------------------------------------------------------------------------

    def recipe(self, contender: str, rate: float, steps: int, seed: int, *, probe: bool = False) -> dict[str, Any]:
        """Our recipe of a contender: for sentence-transformers it names the same data.

        A probe measures time before there is a teacher: it takes BM25's hits for candidates, with scores of 0.
        """
        kind = CONTENDERS[contender]
        data = []
        for name in TRAINED:
            source = {"collection": str(self.collection(name)), "split": "train"}
            if kind.teacher:
                source["scores"] = str(self.zeros(name) if probe else self.teach(name))
            source["run"] = str(self.candidates(name) if kind.teacher and not probe else self.bm25_run(name, "train"))
            data.append(source)
        return recipe_of(contender, rate, steps, seed, data, DEPTH)

    def zeros(self, name: str) -> Path:
        """Scores of 0 for BM25's hits and the relevant documents of the training queries."""
        path = self.folder / "rates" / f"{name}.tsv"
        if not path.exists():
            run, lines = read_run(self.bm25_run(name, "train")), []
            for query, relevant in load_collection(self.collection(name)).qrels("train").items():
                documents = dict.fromkeys([*relevant, *(document for document, _ in run.get(query, ()))])
                lines += [f"{query}\t{document}\t0\n" for document in documents]
            with atomic_write(path) as file:
                file.write("".join(lines).encode())
        return path

    def start(self) -> Path:
        """The start weights of all, for sentence-transformers: one step at a learning rate of almost 0."""
        if self.shared is not self:
            return self.shared.start()
        folder = self.folder / "models" / "start"
        if not folder.exists():
            self.ours(self.recipe("plain", 1e-12, 1, 0), folder)
        exported = folder.with_name("start-for-peers")
        if not exported.exists():
            words = ("--to", "sentence-transformers", "--output", exported, "--license", "apache-2.0")
            self.command("encoders.export", "--checkpoint", folder, *words)
        return exported

    def ours(self, recipe: Mapping[str, Any], folder: Path) -> float:
        """Train a recipe of ours; CPU seconds."""
        path = self.folder / "recipes" / f"{folder.name}.yaml"
        with atomic_write(path) as file:
            file.write(yaml.safe_dump(dict(recipe)).encode())
        again = "--overwrite" if "kind" in recipe else "--resume"  # cross-encoders are trained in one go
        return self.command("encoders.train", "--recipe", path, "--output", folder, "--quiet", again)

    def train(
        self, contender: str, rate: float, steps: int, seed: int, probe: Path | None = None
    ) -> tuple[Path, float]:
        """A trained model, and the CPU seconds of its training (0 if it was there); ``probe``: folder of a probe."""
        folder = probe or self.folder / "models" / f"{contender}.{rate:g}.{steps}.{seed}"
        recipe = self.recipe(contender, rate, steps, seed, probe=probe is not None)
        loss = CONTENDERS[contender].loss
        with self.locks[folder.name]:
            if any((folder / name).exists() for name in ("training/finished.json", "config.json")):  # ours, theirs
                return folder, 0.0
            if loss is None:
                return folder, self.ours(recipe, folder)
            path = self.folder / "recipes" / f"{folder.name}.yaml"
            with atomic_write(path) as file:
                file.write(yaml.safe_dump(recipe).encode())
            return folder, self.command("tests.benchmarks.quality_peer", path, loss, self.start(), folder)

    def steps(self, contender: str, times: float = 1) -> int:
        """Steps in the given minutes of one core, ``times`` as long, from the CPU time of two short trainings."""
        measured = CONTENDERS[contender].timed_as or contender

        def seconds_per_step() -> float:
            seconds = []
            for steps in PROBES:
                folder = self.folder / "models" / f"probe-{measured}"
                shutil.rmtree(folder, ignore_errors=True)
                seconds.append(self.train(measured, RATES[0], steps, 0, folder)[1])
                shutil.rmtree(folder)
            return (seconds[1] - seconds[0]) / (PROBES[1] - PROBES[0])

        seconds = float(self.parts.once(f"seconds per step of {measured}", seconds_per_step))
        return max(2, round(60 * self.minutes * times / seconds))

    # -- the teacher ---------------------------------------------------------------------------------------------------

    def teacher(self) -> Path:
        """A cross-encoder trained on the same queries with BM25's negatives."""
        if self.shared is not self:
            return self.shared.teacher()
        folder = self.folder / "models" / "teacher"
        with self.locks["teacher"]:
            if not folder.exists():
                recipe = self.recipe("plain", 0, 1, 0)
                values = {
                    "kind": "cross-encoder", "model": "quality-teacher", "backbone": "minilm", "data": recipe["data"],
                    "negatives": dict(recipe["negatives"], per_query=3), "batch_size": BATCH,
                    "max_length": TEACHER_LENGTH, "steps": 2 if self.toy else TEACHER_STEPS, "learning_rate": 1e-4,
                    "precision": PRECISION, "warm_up_steps": 1 if self.toy else TEACHER_STEPS // 10,
                }  # fmt: skip
                self.ours(values, folder)
        return folder

    def candidates(self, name: str) -> Path:
        """Hard negatives of each training query, drawn from BM25's and a first student's hits, as a run."""
        path = self.folder / "runs" / f"candidates.{name}.train.trec"
        with self.locks[f"candidates of {name}"]:
            if not path.exists():
                student, _ = self.shared.train("plain", RATES[0], self.steps("plain"), SEEDS[0])
                draw = random.Random(1)
                runs = {
                    "bm25": read_run(self.bm25_run(name, "train")),
                    "student": read_run(self.run(student, name, "train")),
                }
                lines = []
                for query in sorted(load_collection(self.collection(name)).qrels("train")):
                    drawn: dict[str, None] = {}
                    for kind, count in CANDIDATES.items():
                        hits = [document for document, _ in runs[kind].get(query, ())]
                        drawn |= dict.fromkeys(draw.sample(hits, min(count, len(hits))))
                    lines += [f"{query} Q0 {d} {rank} {1000 - rank} drawn\n" for rank, d in enumerate(drawn, 1)]
                with atomic_write(path) as file:
                    file.write("".join(lines).encode())
        return path

    def teach(self, name: str) -> Path:
        """The teacher's scores of the candidates and the relevant documents."""
        path = self.folder / "scores" / f"{name}.tsv"
        with self.locks[f"scores of {name}"]:
            if not path.exists():
                self.command(
                    "encoders.teach", "--collection", self.collection(name), "--split", "train", "--cross-encoder",
                    self.teacher(), "--run", self.candidates(name), "--depth", sum(CANDIDATES.values()),
                    "--max-length", TEACHER_LENGTH, "--dtype", "auto", "--output", path, "--resume",
                )  # fmt: skip
        return path

    def reranked(self) -> dict[str, float]:
        """Means of the measure on dev queries: of BM25, and of its first hits re-ranked by the teacher."""
        means = []
        for name in TRAINED:
            output = self.folder / "reranked" / name
            self.command(
                "eval.rerank", "--collection", self.collection(name), "--split", "dev", "--run",
                f"bm25={self.bm25_run(name, 'dev')}", "--cross-encoder", self.teacher(), "--depth", RERANKED,
                "--max-length", TEACHER_LENGTH, "--output", output,
            )  # fmt: skip
            (run,) = output.glob("*.txt")
            means.append([mean(self.scores(path, name, "dev")) for path in (self.bm25_run(name, "dev"), run)])
        bm25, teacher = (sum(column) / len(means) for column in zip(*means, strict=True))
        return {"BM25": bm25, "teacher": teacher}


def few(count: int, *, toy: bool) -> int:
    """``count``, or a number for a trial of the script."""
    return min(count, 40) if toy else count


def mean(values: Mapping[str, float]) -> float:
    """Mean over queries."""
    return sum(values.values()) / len(values)
