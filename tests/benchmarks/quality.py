"""``python -m tests.benchmarks.quality WORK --data DIR``: quality at equal minutes, beside sentence-transformers.

Each contender trains the same start weights on the same queries and hard negatives, in as many steps of the same batch
as it makes in ``--minutes`` of one core (measured first). Learning rates are chosen on dev queries, with equally many
trials for each. The best contender of each group on dev is trained with more seeds, one of ours also for longer; then
the test splits are searched once. Collections are whole. Steps that are done are kept.
``python -m tests.benchmarks.report`` writes the table into README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from eval.measures import evaluate
from learned_sparse.collections import load_collection, read_run
from learned_sparse.core import LearnedSparseError, atomic_write, positive, read_json, run_main, write_json
from tests.benchmarks import harness
from tests.benchmarks.quality_contenders import BATCH, CONTENDERS, DISTILLED, MEMORY, NEGATIVES, PRECISION, recipe_of

PACKAGES = ("torch", "transformers", "sentence-transformers")
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


def main(argv: list[str] | None = None) -> int:
    """Run all steps that are missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.quality", description=main.__doc__)
    parser.add_argument("work", type=Path, help="folder of all steps, kept between calls")
    parser.add_argument("--data", type=Path, required=True, help="folder with the collections in BEIR's layout")
    parser.add_argument("--minutes", type=float, default=8.0, help="training of each model on one core (default 8)")
    parser.add_argument("--longer", type=float, default=0, help="train ours, distilled, also for so many times")
    parser.add_argument("--jobs", type=positive, default=2, help="commands at a time, of one thread each (default 2)")
    parser.add_argument("--toy", action="store_true", help="a few steps and documents, to try the script")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "quality.json")
    options = parser.parse_args(argv)
    work = Work(options.work.resolve(), options.data.resolve(), options.minutes, options.jobs, toy=options.toy)
    write_json(options.output, work.result(options.longer))
    print(f"{options.output}: written")
    return 0


class Work:
    """The folder of a comparison; every method makes one thing, or finds it there."""

    def __init__(self, folder: Path, data: Path, minutes: float, jobs: int, *, toy: bool) -> None:
        self.folder, self.minutes, self.jobs, self.toy = folder, minutes, jobs, toy
        folder.mkdir(parents=True, exist_ok=True)
        settings = {"minutes": minutes, "toy": toy, "queries": self.few(QUERIES)}
        self.keep("settings.json", settings)
        for name in dict.fromkeys((*TRAINED, *(name for name, _ in TESTS))):
            self.sample(data / name)

    def few(self, count: int) -> int:
        """``count``, or a number for a trial of the script."""
        return min(count, 40) if self.toy else count

    def keep(self, name: str, value: Any) -> Any:
        """Write ``value``, or compare it with what an earlier call has written."""
        path = self.folder / name
        if path.exists() and read_json(path) != value:
            raise LearnedSparseError(f"{path}: differs from this call; use its settings, or name another folder")
        write_json(path, value)
        return value

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
                queries = sorted(draw.sample(queries, min(self.few(QUERIES), len(queries))))
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
        run = "candidates" if kind.teacher and not probe else "bm25"
        data = []
        for name in TRAINED:
            source = {"collection": str(self.collection(name)), "split": "train"}
            source["run"] = str(self.folder / "runs" / f"{run}.{name}.train.trec")
            if kind.teacher:
                source["scores"] = str(self.zeros(name) if probe else self.folder / "scores" / f"{name}.tsv")
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
        if any((folder / name).exists() for name in ("training/finished.json", "config.json")):  # ours, theirs
            return folder, 0.0
        recipe = self.recipe(contender, rate, steps, seed, probe=probe is not None)
        loss = CONTENDERS[contender].loss
        if loss is None:
            return folder, self.ours(recipe, folder)
        path = self.folder / "recipes" / f"{folder.name}.yaml"
        with atomic_write(path) as file:
            file.write(yaml.safe_dump(recipe).encode())
        return folder, self.command("tests.benchmarks.quality_peer", path, loss, self.start(), folder)

    def steps(self, contender: str, times: float = 1) -> int:
        """Steps in the given minutes of one core, ``times`` as long, from the CPU time of two short trainings."""
        measured = CONTENDERS[contender].timed_as or contender
        path = self.folder / "rates" / f"{measured}.json"
        if not path.exists():
            seconds = []
            for steps in PROBES:
                folder = self.folder / "models" / f"probe-{measured}"
                shutil.rmtree(folder, ignore_errors=True)
                seconds.append(self.train(measured, RATES[0], steps, 0, folder)[1])
                shutil.rmtree(folder)
            write_json(path, {"seconds_per_step": (seconds[1] - seconds[0]) / (PROBES[1] - PROBES[0])})
        return max(2, round(60 * self.minutes * times / float(read_json(path)["seconds_per_step"])))

    # -- the teacher ---------------------------------------------------------------------------------------------------

    def teacher(self) -> Path:
        """A cross-encoder trained on the same queries with BM25's negatives."""
        folder = self.folder / "models" / "teacher"
        if not folder.exists():
            recipe = self.recipe("plain", 0, 1, 0)
            values = {
                "kind": "cross-encoder", "model": "quality-teacher", "backbone": "minilm", "data": recipe["data"],
                "negatives": dict(recipe["negatives"], per_query=3), "batch_size": BATCH, "max_length": TEACHER_LENGTH,
                "steps": self.few(TEACHER_STEPS) if not self.toy else 2, "learning_rate": 1e-4, "precision": PRECISION,
                "warm_up_steps": 1 if self.toy else TEACHER_STEPS // 10,
            }  # fmt: skip
            self.ours(values, folder)
        return folder

    def candidates(self, name: str, student: Path) -> Path:
        """Hard negatives of each training query, drawn from BM25's and a first student's hits, as a run."""
        path = self.folder / "runs" / f"candidates.{name}.train.trec"
        if not path.exists():
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

    def teach(self, name: str, teacher: Path, student: Path) -> Path:
        """The teacher's scores of the candidates and the relevant documents."""
        path = self.folder / "scores" / f"{name}.tsv"
        if not path.exists():
            self.command(
                "encoders.teach", "--collection", self.collection(name), "--split", "train", "--run",
                self.candidates(name, student), "--depth", sum(CANDIDATES.values()), "--cross-encoder", teacher,
                "--max-length", TEACHER_LENGTH, "--dtype", "auto", "--output", path, "--resume",
            )  # fmt: skip
        return path

    def reranked(self, teacher: Path) -> dict[str, float]:
        """Means of the measure on dev queries: of BM25, and of its first hits re-ranked by the teacher."""
        path = self.folder / "reranked.json"
        if not path.exists():
            means = []
            for name in TRAINED:
                output = self.folder / "reranked" / name
                self.command(
                    "eval.rerank", "--collection", self.collection(name), "--split", "dev", "--run",
                    f"bm25={self.bm25_run(name, 'dev')}", "--cross-encoder", teacher, "--depth", RERANKED,
                    "--max-length", TEACHER_LENGTH, "--output", output,
                )  # fmt: skip
                (run,) = output.glob("*.txt")
                means.append([mean(self.scores(path, name, "dev")) for path in (self.bm25_run(name, "dev"), run)])
            bm25, teacher_means = (sum(column) / len(means) for column in zip(*means, strict=True))
            write_json(path, {"BM25": bm25, "teacher": teacher_means})
        return dict(read_json(path))

    # -- the comparison ------------------------------------------------------------------------------------------------

    def trial(self, contender: str, rate: float) -> float:
        """Mean over the trained collections of the measure on dev queries."""
        model, _ = self.train(contender, rate, self.steps(contender), SEEDS[0])
        means = [mean(self.scores(self.run(model, name, "dev"), name, "dev")) for name in TRAINED]
        return sum(means) / len(means)

    def result(self, longer: float) -> dict[str, Any]:
        """Do everything that is missing; settings, trials, and the scores of all test queries."""
        self.each(self.bm25_run, [(name, "train") for name in TRAINED])
        self.start()
        self.each(self.steps, [(name,) for name, each in CONTENDERS.items() if each.timed_as is None])
        steps = {name: self.steps(name) for name in CONTENDERS}

        def student() -> Path:
            model = self.train("plain", RATES[0], steps["plain"], SEEDS[0])[0]
            for name in TRAINED:
                self.run(model, name, "train")
            return model

        trials = [(contender, rate) for contender in CONTENDERS for rate in RATES]
        early = [(name, rate) for name, rate in trials[1:] if not CONTENDERS[name].teacher]  # trials[0] is the student
        beside = [(partial(self.trial, *each),) for each in early]
        teacher, first, *_ = self.each(lambda function: function(), [(self.teacher,), (student,), *beside])
        self.each(lambda name: self.teach(name, teacher, first), [(name,) for name in TRAINED])
        dev = dict(zip(trials, self.each(self.trial, trials), strict=True))
        chosen = {name: max((dev[name, rate], rate) for rate in RATES)[1] for name in CONTENDERS}
        groups = dict.fromkeys(each.group for each in CONTENDERS.values())
        final = [
            max((dev[name, chosen[name]], name) for name, each in CONTENDERS.items() if each.group == group)[1]
            for group in groups
        ]
        longest = {f"{DISTILLED}, {longer:g} times the minutes": (DISTILLED, self.steps(DISTILLED, longer))}
        rows = longest if longer else {}
        rows |= {name: (name, steps[name]) for name in final}
        models = [(row, seed) for row in rows for seed in (SEEDS if row in final else SEEDS[:1])]  # the longest first
        scores = self.each(
            lambda row, seed: self.tested(rows[row][0], chosen[rows[row][0]], rows[row][1], seed), models
        )
        tests = dict(zip(models, scores, strict=True))
        bm25 = {f"{name} {split}": self.scores(self.bm25_run(name, split), name, split) for name, split in TESTS}
        return {
            "toy": self.toy, "reference": DISTILLED, "titles": {name: each.title for name, each in CONTENDERS.items()},
            "minutes": self.minutes, "measure": MEASURE,
            "steps": {**steps, **{row: number for row, (_, number) in rows.items()}},
            "sizes": {
                "batch": BATCH, "hard_negatives": NEGATIVES, "teacher_steps": TEACHER_STEPS,
                "training_queries": sum(len(load_collection(self.collection(name)).qrels("train")) for name in TRAINED),
            },
            "reranked": self.reranked(teacher),
            "dev": {name: {f"{rate:g}": dev[name, rate] for rate in RATES} for name in CONTENDERS},
            "learning_rate": chosen, "trained": [f"{name} test" for name in TRAINED], "bm25": bm25,
            "tests": {row: [tests[each] for each in models if each[0] == row] for row in rows},
            "environment": {"machine": harness.environment(), "versions": harness.installed(*PACKAGES)},
        }  # fmt: skip

    def tested(self, contender: str, rate: float, steps: int, seed: int) -> dict[str, dict[str, float]]:
        """The measure of each test query, by collection and split."""
        model, _ = self.train(contender, rate, steps, seed)
        return {f"{name} {split}": self.scores(self.run(model, name, split), name, split) for name, split in TESTS}


def mean(values: Mapping[str, float]) -> float:
    """Mean over queries."""
    return sum(values.values()) / len(values)


if __name__ == "__main__":
    run_main(main)
