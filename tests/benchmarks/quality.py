"""``python -m tests.benchmarks.quality WORK --data DIR``: quality at equal minutes, beside sentence-transformers.

Each contender trains the same start weights on the same queries and hard negatives, in as many steps of the same batch
as it makes in ``--minutes`` of one core (measured first). Learning rates are chosen on dev queries, with equally many
trials for each. The best contender of each group on dev is trained with more seeds; with ``--longer``, ours distilled
is also trained for longer, on the same queries and on all training queries. The test splits are searched with these
models only. Collections are whole. ``python -m tests.benchmarks.report`` writes the table. All takes hours; what is in
WORK is not made again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml

from encoders.backbone.device import training_precision
from eval.measures import evaluate
from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.trec import read_run
from learned_sparse.core.errors import LearnedSparseError, run_main
from learned_sparse.core.files import atomic_write, read_json, write_json
from learned_sparse.core.settings import positive
from tests.benchmarks.run import environment, installed

TRAINED = ("msmarco-mini", "squad-sent")
TESTS = (("msmarco-mini", "test"), ("squad-sent", "test"), ("scifact", "test"), ("vaswani", "test"))
MEASURE, SEEDS, RATES = "nDCG@10", (0, 1, 2), (1e-4, 2e-4)
"""Learning rates of the dev trials of each contender."""
BATCH, NEGATIVES = 16, 2
QUERIES, TOY_QUERIES, TOY_DOCUMENTS = 4000, 40, 300
"""Training queries of each collection, drawn once."""
CANDIDATES, DEPTH = 4, 50
"""Hard negatives that the teacher scores, of each of two searchers, drawn from their first DEPTH hits."""
TEACHER_STEPS, TEACHER_LENGTH = 250, 128
PROBES = (2, 7)
"""Steps of two short trainings; the difference of their CPU times gives the time of a step."""
PRECISION = training_precision("auto", torch.device("cpu"))
"""Of all trainings: bf16 where this machine computes it."""
MEMORY = {"MALLOC_MMAP_THRESHOLD_": "2000000000", "MALLOC_TRIM_THRESHOLD_": "8000000000"}
"""glibc keeps freed memory: a step of sentence-transformers takes 3 seconds instead of 7, ours the same."""
PACKAGES = ("torch", "transformers", "sentence-transformers")
Tests = dict[str, dict[str, float]]
"""The measure of each test query, by collection and split."""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One way of training: ours, or with ``loss`` that of sentence-transformers.

    The best of each ``group`` on dev queries is searched for test queries.
    """

    title: str
    group: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of our architecture: bags of words for queries, which have no regulariser then, as in SPLADE-doc."""
    stage: Mapping[str, Any] = field(default_factory=dict)
    loss: str | None = None
    teacher: bool = False
    """Whether it has the teacher's scores, and hits of a first student among its negatives instead of BM25's alone.

    The teacher scores a negative at least 1 below the relevant document, so that few negatives are relevant.
    """

    @property
    def timed_as(self) -> str:
        """The contender whose step takes as long: measured once, so that noise favours neither."""
        return {None: "plain", "cached": "peer-cached"}.get(self.loss, "peer")


def _bag_of_words(weighting: str, title: str, **stage: Any) -> Contender:
    settings = {"query": "bag-of-words", "query_weighting": weighting}
    title = f"ours: plain, queries without an encoder, {title}"
    return Contender(title=title, group=weighting, settings=settings, stage=stage)


_ST = "sentence-transformers:"
DISTILLED = "distilled"
"""The contender that the others are compared with, and that may be trained for longer."""
CONTENDERS = {
    "plain": Contender(title="ours: plain", group="plain"),
    DISTILLED: Contender(title="ours: distilled", group=DISTILLED, teacher=True, stage={"distillation": {"kl": 0.3}}),
    "peer": Contender(title=f"{_ST} SpladeLoss, MultipleNegativesRanking", group="peer", loss="ranking"),
    "peer-cached": Contender(title=f"{_ST} CachedSpladeLoss, MultipleNegativesRanking", group="peer", loss="cached"),
    "peer-kl": Contender(title=f"{_ST} SpladeLoss, DistillKLDiv", group="peer distilled", loss="kl", teacher=True),
    "peer-margin": Contender(title=f"{_ST} SpladeLoss, MarginMSE", group="peer distilled", loss="margin", teacher=True),
    "boolean-queries": _bag_of_words("binary", "weight 1"),
    "idf-queries": _bag_of_words("idf", "IDF"),
    "learned-queries": _bag_of_words("learned", "learned", learning_rates={"head": 1e-3}),
}
GROUPS = tuple(dict.fromkeys(contender.group for contender in CONTENDERS.values()))


def recipe(contender: str, data: list[dict[str, Any]], rate: float, steps: int, seed: int) -> dict[str, Any]:
    """Our recipe of a contender; sentence-transformers takes the same values from it."""
    kind, third = CONTENDERS[contender], max(1, steps // 3)
    lambdas = {"lambda_document": 3e-4, "lambda_query": 0.0 if kind.settings else 3e-4}
    stage = {
        "name": "ranking", "steps": steps, "batch_size": BATCH, "learning_rate": rate,
        "warm_up_steps": max(1, steps // 10), "rank": {"loss": "in_batch", "others_hard_negatives": True},
        "regularizer": {"kind": "flops", "ramp_steps": third, **lambdas}, **kind.stage,
    }  # fmt: skip
    margin = {"margin": 1.0} if kind.teacher else {}
    return {
        "base": "small-splade", "model": f"quality-{contender}", "seed": seed, "data": data, "stages": [stage],
        "negatives": {"kind": "given", "per_query": NEGATIVES, "ranks": [1, DEPTH], **margin},
        "settings": dict(kind.settings),
    }  # fmt: skip


_locks: dict[str, threading.Lock] = {}


def main(argv: list[str] | None = None) -> int:
    """Make everything that is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.quality", description=main.__doc__)
    parser.add_argument("work", type=Path, help="folder of all steps, kept between calls")
    parser.add_argument("--data", type=Path, required=True, help="folder with the collections in BEIR's layout")
    parser.add_argument("--minutes", type=float, default=8.0, help="training of each model on one core (default 8)")
    parser.add_argument("--longer", type=float, default=0, help="train distilled also for so many times the minutes")
    parser.add_argument("--jobs", type=positive, default=2, help="commands at a time, of one thread each (default 2)")
    parser.add_argument("--toy", action="store_true", help="a few steps and documents, to try the script")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "quality.json")
    options = parser.parse_args(argv)
    work = Work(options.work.resolve(), options.data.resolve(), options.minutes, options.toy)
    write_json(options.output, result(work, options.longer, options.jobs))
    print(f"{options.output}: written")
    return 0


def locked(path: Path) -> threading.Lock:
    """The lock of a file or folder that several jobs may need."""
    return _locks.setdefault(str(path), threading.Lock())


def made(path: Path, make: Callable[[Path], object]) -> Path:
    """``path``, which ``make`` writes whole if it is not there; other threads that need it wait."""
    with locked(path):
        if not path.exists():
            make(path)
    return path


def save(path: Path, lines: Iterable[str]) -> None:
    """Write a file whole or not at all."""
    with atomic_write(path) as file:
        file.write("".join(lines).encode())


@dataclass(frozen=True)
class Work:
    """The folder of a comparison with one number of training queries; every method makes a thing, or finds it there."""

    folder: Path
    data: Path
    minutes: float
    toy: bool
    queries: int | None = QUERIES
    """Training queries of each collection; None: all."""

    @property
    def own(self) -> Path:
        """The folder of what depends on the training queries."""
        return self.folder / (f"{self.queries}-queries" if self.queries else "all-queries")

    @property
    def base(self) -> Work:
        """The work whose teacher, student and start weights all share."""
        return dataclasses.replace(self, queries=QUERIES)

    def command(self, *arguments: object) -> float:
        """Run ``python -m`` with ``arguments`` on one thread; CPU seconds."""
        environment = {**os.environ, **MEMORY, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        words, log = [sys.executable, "-m", *map(str, arguments)], self.folder / "log.txt"
        with log.open("ab") as file, subprocess.Popen(words, stdout=file, stderr=file, env=environment) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise LearnedSparseError(f"{' '.join(words[2:])}: failed; see {log}")
        return usage.ru_utime + usage.ru_stime

    # -- collections and searches --------------------------------------------------------------------------------------

    def collection(self, name: str) -> Path:
        """A collection with the training queries that are drawn."""
        return made(self.own / "data" / name, self._sample)

    def _sample(self, folder: Path) -> None:
        source, temporary, draw = self.data / folder.name, folder.with_name(f".{folder.name}"), random.Random(0)
        if not (source / "corpus.jsonl").is_file():
            raise LearnedSparseError(f"{source}: no corpus.jsonl; --data names the folder with the collections")
        shutil.rmtree(temporary, ignore_errors=True)
        (temporary / "qrels").mkdir(parents=True)
        corpus = (source / "corpus.jsonl").read_text("utf-8").splitlines(keepends=True)
        corpus = corpus[: TOY_DOCUMENTS if self.toy else None]
        identifiers = {json.loads(line)["_id"] for line in corpus}
        for path in sorted((source / "qrels").glob("*.tsv")):
            header, *lines = path.read_text("utf-8").splitlines(keepends=True)
            lines = [line for line in lines if line.split("\t")[1] in identifiers]
            queries = sorted({line.split("\t")[0] for line in lines})
            if path.stem == "train" and self.queries:
                queries = draw.sample(queries, min(TOY_QUERIES if self.toy else self.queries, len(queries)))
            chosen = [line for line in lines if line.split("\t")[0] in set(queries)]
            save(temporary / "qrels" / path.name, [header, *chosen])
        save(temporary / "corpus.jsonl", corpus)
        shutil.copy(source / "queries.jsonl", temporary)
        temporary.rename(folder)

    def judged(self, name: str, split: str) -> Mapping[str, Mapping[str, int]]:
        """The judgements of a split."""
        return load_collection(self.collection(name)).qrels(split)

    def training_queries(self) -> int:
        """Number of training queries of all collections."""
        return sum(len(self.judged(name, "train")) for name in TRAINED)

    def run(self, model: Path | None, name: str, split: str) -> Path:
        """The run of a model over exact products, or BM25's."""
        run = self.own / "runs" / f"{model.name if model else 'bm25'}.{name}.{split}.trec"
        return made(run, partial(self._search, model, name, split))

    def _search(self, model: Path | None, name: str, split: str, run: Path) -> None:
        collection = self.collection(name)
        source = self.own / "vectors" / model.name / name if model else self.own / "bm25" / name
        with locked(source):  # of several splits
            if model:
                texts = ("--checkpoint", model, "--collection", collection, "--max-length", 128)
                self.command("learned_sparse.encode", "--model", "splade", *texts, "--output", source, "--resume")
            elif not source.exists():
                self.command("learned_sparse.index", "--bm25", "--collection", collection, "--index", source)
        how = ("--backend", "exact", "--vectors", source) if model else ("--bm25", "--index", source)
        hits = 1000 if split != "train" else DEPTH
        on = ("--collection", collection, "--split", split, "--output", run, "--hits", hits)
        self.command("learned_sparse.search", *how, *on)

    def scores(self, model: Path | None, name: str, split: str) -> dict[str, float]:
        """The measure of each judged query."""
        found = evaluate(self.run(model, name, split), self.judged(name, split), [MEASURE])
        return dict(found.per_query[MEASURE])

    def dev(self, model: Path | None) -> dict[str, float]:
        """Means of the measure on dev queries of the trained collections."""
        return {name: mean(self.scores(model, name, "dev").values()) for name in TRAINED}

    def tests(self, model: Path | None) -> Tests:
        """The measure of each test query."""
        return {f"{name} {split}": self.scores(model, name, split) for name, split in TESTS}

    # -- training ------------------------------------------------------------------------------------------------------

    def recipe(self, contender: str, rate: float, steps: int, seed: int) -> dict[str, Any]:
        """The recipe of a contender on the training queries of all collections."""
        data: list[dict[str, Any]] = []
        for name in TRAINED:
            source: dict[str, Any] = {"collection": str(self.collection(name)), "split": "train"}
            if CONTENDERS[contender].teacher:
                source |= {"run": str(self.candidates(name)), "scores": str(self.teach(name))}
            else:
                source |= {"run": str(self.run(None, name, "train"))}
            data.append(source)
        return recipe(contender, data, rate, steps, seed)

    def ours(self, recipe: Mapping[str, Any], folder: Path) -> float:
        """Train a recipe of ours; CPU seconds."""
        again = "--overwrite" if "kind" in recipe else "--resume"  # cross-encoders are trained in one go
        words = ("--recipe", self.saved(recipe, folder), "--output", folder, "--quiet", again)
        return self.command("encoders.train", *words)

    def saved(self, recipe: Mapping[str, Any], folder: Path) -> Path:
        """The recipe of the model ``folder`` as a file."""
        path = folder.parents[1] / "recipes" / f"{folder.name}.yaml"
        save(path, [yaml.safe_dump(dict(recipe))])
        return path

    def train(self, contender: str, rate: float, times: float = 1, seed: int = SEEDS[0]) -> Path:
        """A model that is trained ``times`` the minutes."""
        folder = self.own / "models" / f"{contender}.{rate:g}.{self.steps(contender, times)}.{seed}"
        finished = folder / ("config.json" if CONTENDERS[contender].loss else "training/finished.json")
        made(finished, lambda _: self._train(contender, rate, self.steps(contender, times), seed, folder))
        return folder

    def _train(self, contender: str, rate: float, steps: int, seed: int, folder: Path) -> float:
        recipe, loss = self.recipe(contender, rate, steps, seed), CONTENDERS[contender].loss
        if loss is None:
            return self.ours(recipe, folder)
        start, first = self.base.own / "models" / "start", self.base.recipe("plain", 1e-12, 1, 0)  # almost no step
        made(start / "training" / "finished.json", lambda _: self.base.ours(first, start))
        words = ("--checkpoint", start, "--to", "sentence-transformers", "--license", "apache-2.0", "--output")
        exported = made(start.with_name("start-for-peers"), partial(self.command, "encoders.export", *words))
        return self.command("tests.benchmarks.quality_peer", self.saved(recipe, folder), loss, exported, folder)

    def steps(self, contender: str, times: float = 1) -> int:
        """Steps in the given minutes of one core, ``times`` as long, from the CPU time of two short trainings."""
        contender = CONTENDERS[contender].timed_as
        path = made(self.folder / "seconds" / f"{contender}.json", partial(self.base.time_steps, contender))
        return max(2, round(60 * self.minutes * times / float(read_json(path)["seconds"])))

    def time_steps(self, contender: str, path: Path) -> None:
        """Write the seconds of a step, and the processor."""
        seconds = []
        for steps in PROBES:
            folder = self.own / "models" / f"probe-{contender}"
            shutil.rmtree(folder, ignore_errors=True)
            seconds.append(self._train(contender, RATES[0], steps, 0, folder))
        step = (seconds[1] - seconds[0]) / (PROBES[1] - PROBES[0])
        write_json(path, {"seconds": step, "processor": environment()["cpu"]})

    # -- the teacher ---------------------------------------------------------------------------------------------------

    def teacher(self) -> Path:
        """A cross-encoder trained on the same queries with BM25's negatives."""
        recipe = self.base.recipe("plain", 0, 1, 0)
        steps = 2 if self.toy else TEACHER_STEPS
        values = {
            "kind": "cross-encoder", "model": "quality-teacher", "backbone": "minilm", "data": recipe["data"],
            "negatives": recipe["negatives"] | {"per_query": 3}, "batch_size": BATCH, "max_length": TEACHER_LENGTH,
            "steps": steps, "learning_rate": 1e-4, "precision": PRECISION, "warm_up_steps": max(1, steps // 10),
        }  # fmt: skip
        return made(self.base.own / "models" / "teacher", partial(self.ours, values))

    def candidates(self, name: str) -> Path:
        """Hard negatives of each training query, drawn from BM25's and a first student's hits, as a run."""
        return made(self.own / "runs" / f"candidates.{name}.train.trec", partial(self._draw, name))

    def _draw(self, name: str, path: Path) -> None:
        student, draw, lines = self.base.train("plain", RATES[0]), random.Random(1), []
        runs = [read_run(self.run(model, name, "train")) for model in (None, student)]
        for query in sorted(self.judged(name, "train")):
            drawn: dict[str, None] = {}
            for run in runs:
                hits = [document for document, _ in run.get(query, ())]
                drawn |= dict.fromkeys(draw.sample(hits, min(CANDIDATES, len(hits))))
            lines += [f"{query} Q0 {document} {rank} {1000 - rank} drawn\n" for rank, document in enumerate(drawn, 1)]
        save(path, lines)

    def teach(self, name: str) -> Path:
        """The teacher's scores of the candidates and the relevant documents."""
        words = (
            "encoders.teach", "--collection", self.collection(name), "--split", "train", "--run", self.candidates(name),
            "--depth", 2 * CANDIDATES, "--cross-encoder", self.teacher(), "--max-length", TEACHER_LENGTH,
            "--dtype", "auto", "--resume", "--output",
        )  # fmt: skip
        return made(self.own / "scores" / f"{name}.tsv", partial(self.command, *words))


# -- the comparison ----------------------------------------------------------------------------------------------------


def result(work: Work, longer: float, jobs: int) -> dict[str, Any]:
    """Make all that is missing; settings, trials, and the scores of all test queries."""
    longest = [(DISTILLED, longer, queries) for queries in (None, QUERIES)] if longer else []
    rows = [*longest, *((group, 1.0, QUERIES) for group in GROUPS)]
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda name: work.run(None, name, "train"), TRAINED))
        list(pool.map(work.steps, dict.fromkeys(contender.timed_as for contender in CONTENDERS.values())))
        tested = [pool.submit(tested_row, work, *row) for row in rows]
        tests = dict(row.result() for row in tested)
    steps = {name: work.steps(name) for name in CONTENDERS}
    return {
        "toy": work.toy, "reference": DISTILLED, "order": list(CONTENDERS), "minutes": work.minutes,
        "measure": MEASURE, "titles": {name: contender.title for name, contender in CONTENDERS.items()},
        "timed_on": read_json(work.folder / "seconds" / "plain.json")["processor"],
        "steps": steps | {longer_row(*row[1:]): work.steps(DISTILLED, longer) for row in longest},
        "bm25_dev": work.dev(None),
        "sizes": {
            "batch": BATCH, "hard_negatives": NEGATIVES, "teacher_steps": TEACHER_STEPS,
            "training_queries": work.training_queries(),
        },
        "dev": {name: {f"{rate:g}": score for rate, score in trials(work, name).items()} for name in CONTENDERS},
        "trained": [f"{name} test" for name in TRAINED], "bm25": work.tests(None), "tests": tests,
        "machines": [environment()["cpu"]], "precision": PRECISION, "versions": installed(*PACKAGES),
    }  # fmt: skip


def trials(work: Work, contender: str) -> dict[float, float]:
    """Mean over the trained collections on dev queries, for each learning rate."""
    return {rate: mean(work.dev(work.train(contender, rate)).values()) for rate in RATES}


def best_rate(work: Work, contender: str) -> float:
    """The learning rate with the best dev score; of equal ones the larger."""
    return max((score, rate) for rate, score in trials(work, contender).items())[1]


def tested_row(work: Work, group: str, times: float, queries: int | None) -> tuple[str, list[Tests]]:
    """A row's name and its tests: the best of ``group`` on dev queries, trained ``times`` the minutes."""
    names = [name for name, each in CONTENDERS.items() if each.group == group]
    name = max(names, key=lambda name: max(trials(work, name).values()))
    rate, wider = best_rate(work, name), dataclasses.replace(work, queries=queries)
    seeds = SEEDS[:1] if CONTENDERS[name].settings or (times != 1 and queries) else SEEDS
    row = name if times == 1 else longer_row(times, queries)
    return row, [wider.tests(wider.train(name, rate, times, seed)) for seed in seeds]


def longer_row(times: float, queries: int | None) -> str:
    """Name of a row that is trained longer."""
    return f"{DISTILLED}, {times:g} times the minutes" + ("" if queries else ", all queries")


def mean(values: Iterable[float]) -> float:
    """Arithmetic mean."""
    numbers = list(values)
    return sum(numbers) / len(numbers)


if __name__ == "__main__":
    run_main(main)
