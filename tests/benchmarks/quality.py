"""``python -m tests.benchmarks.quality WORK --data DIR``: quality at equal minutes, beside sentence-transformers.

Each contender trains the same start weights on the same queries and hard negatives, in as many steps of the same batch
as it makes in ``--minutes`` of one core (measured first). Learning rates are chosen on dev queries, with equally many
trials for each. The best contender of each group on dev is trained with more seeds; ours distilled is also trained for
longer, on the same queries and on all training queries. The test splits are searched with these models only.
Collections are whole. ``python -m tests.benchmarks.report`` writes the table. All takes hours; what is in WORK is not
made again.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import random
import shutil
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
import yaml
from datasets import Dataset
from sentence_transformers import SparseEncoder
from sentence_transformers.sparse_encoder import SparseEncoderTrainer, SparseEncoderTrainingArguments, losses

from encoders.backbone.device import has_bf16
from encoders.training.recipe import Recipe, Stage, load_recipe
from encoders.training.sources import examples_in_order
from eval.measures import evaluate
from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.trec import read_run
from learned_sparse.core.errors import run_main
from learned_sparse.core.files import new_file, new_folder, read_json, write_json
from learned_sparse.ray import command_of
from tests.benchmarks.run import child, environment, versions

TRAINED = ("msmarco-mini", "squad-sent")
TESTS = (("msmarco-mini", "test"), ("squad-sent", "test"), ("scifact", "test"), ("vaswani", "test"))
MEASURE, SEEDS, RATES = "nDCG@10", (0, 1, 2), (1e-4, 2e-4)
"""Learning rates of the dev trials of each contender."""
BATCH, NEGATIVES = 16, 2
MINUTES, LONGER = 8.0, 4
"""Of a training, and how many times as long ours distilled is trained besides."""
QUERIES = 4000
"""Training queries of each collection, drawn once."""
CANDIDATES, DEPTH = 4, 50
"""Hard negatives that the teacher scores, of each of two searchers, drawn from their first DEPTH hits."""
TEACHER_STEPS, TEACHER_LENGTH = 250, 128
PROBES = (2, 7)
"""Steps of two short trainings; the difference of their CPU times gives the time of a step."""
PRECISION = "bf16" if has_bf16(torch.device("cpu")) else "fp32"
"""Of all trainings: bf16 where this machine computes it."""
MEMORY = {"MALLOC_MMAP_THRESHOLD_": "2000000000", "MALLOC_TRIM_THRESHOLD_": "8000000000"}
"""glibc keeps freed memory: a step of sentence-transformers takes 3 seconds instead of 7, ours the same."""
TIMED = {None: "plain", "cached": "peer-cached"}
"""By loss, the contender whose step takes as long: measured once, so that noise favours neither; others: ``peer``."""
Scores = dict[str, dict[str, float]]
"""The measure of each query, by collection and split."""


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


def main(argv: list[str] | None = None) -> int:
    """Make everything that is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.quality", description=main.__doc__)
    parser.add_argument("work", type=Path, help="folder of all steps, kept between calls")
    parser.add_argument("--data", type=Path, required=True, help="folder with the collections in BEIR's layout")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="training of each model on one core (default 8)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "quality.json")
    options = parser.parse_args(argv)
    os.environ.update(MEMORY, OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    folder, data = options.work.resolve(), options.data.resolve()
    drawn = Work(folder / "drawn", folder / "data", options.minutes)
    for name, _ in TESTS:
        made(drawn.data / name, partial(draw_queries, data / name))
    write_json(options.output, result(drawn, Work(folder / "whole", data, options.minutes, drawn)))
    print(f"{options.output}: written")
    return 0


def command(module: str, *arguments: object) -> float:
    """Run ``python -m module`` in a process of its own; CPU seconds."""
    return float(child(_run, module=module, arguments=list(map(str, arguments)))["cpu_seconds"])


def _run(module: str, arguments: list[str]) -> dict[str, Any]:
    if command_of(module)(arguments):
        raise RuntimeError(f"{module} {' '.join(arguments)}: failed")
    return {}


def draw_queries(source: Path, folder: Path) -> None:
    """A copy of a collection with fewer training queries."""
    with new_folder(folder) as temporary:
        shutil.copytree(source, temporary, dirs_exist_ok=True)
        path = temporary / "qrels" / "train.tsv"
        if path.is_file():
            header, *lines = path.read_text("utf-8").splitlines(keepends=True)
            queries = sorted({line.split("\t")[0] for line in lines})
            chosen = set(random.Random(0).sample(queries, min(QUERIES, len(queries))))
            path.write_text("".join([header, *(line for line in lines if line.split("\t")[0] in chosen)]), "utf-8")


def made(path: Path, make: Callable[[Path], object]) -> Path:
    """``path``, which ``make`` writes whole if it is not there."""
    if not path.exists():
        make(path)
    return path


def save(path: Path, lines: Iterable[str]) -> None:
    """Write a file whole or not at all."""
    with new_file(path) as temporary:
        temporary.write_text("".join(lines), encoding="utf-8")


@dataclass(frozen=True)
class Work:
    """The folder of a comparison on the collections in ``data``; every method makes a thing, or finds it there."""

    folder: Path
    data: Path
    minutes: float
    drawn: Work | None = None
    """The work with the drawn queries, whose teacher, student and start weights others share."""

    @property
    def base(self) -> Work:
        """The work that has teacher, student and start weights."""
        return self.drawn or self

    # -- searches ------------------------------------------------------------------------------------------------------

    def judged(self, name: str, split: str) -> Mapping[str, Mapping[str, int]]:
        """The judgements of a split."""
        return load_collection(self.data / name).qrels(split)

    def run(self, model: Path | None, name: str, split: str) -> Path:
        """The run of a model over exact products, or BM25's."""
        run = self.folder / "runs" / f"{model.name if model else 'bm25'}.{name}.{split}.trec"
        return made(run, partial(self._search, model, name, split))

    def _search(self, model: Path | None, name: str, split: str, run: Path) -> None:
        on, how = ("--collection", self.data / name), ["--bm25", "--index", self.folder / "bm25" / name]
        if model:
            how = ["--backend", "exact", "--vectors", self.folder / "vectors" / model.name / name]
            texts = ("--model", "splade", "--checkpoint", model, "--max-length", 128, "--output", how[-1], "--resume")
            command("learned_sparse.encode", *on, *texts)
        else:
            made(self.folder / "bm25" / name, partial(command, "learned_sparse.index", "--bm25", *on, "--index"))
        hits = 1000 if split != "train" else DEPTH
        command("learned_sparse.search", *how, *on, "--split", split, "--output", run, "--hits", hits)

    def measured(self, model: Path | None, splits: Iterable[tuple[str, str]]) -> Scores:
        """The measure of each judged query, by collection and split."""
        return {
            f"{name} {split}": dict(
                evaluate(self.run(model, name, split), self.judged(name, split), [MEASURE]).per_query[MEASURE]
            )
            for name, split in splits
        }

    def dev(self, model: Path | None) -> dict[str, float]:
        """Means of the measure on dev queries of the trained collections."""
        scores = self.measured(model, ((name, "dev") for name in TRAINED))
        return {name: fmean(of_queries.values()) for name, of_queries in scores.items()}

    # -- training ------------------------------------------------------------------------------------------------------

    def recipe(self, contender: str, rate: float, steps: int, seed: int) -> dict[str, Any]:
        """The recipe of a contender on the training queries of all collections."""
        data: list[dict[str, Any]] = []
        for name in TRAINED:
            source = {"collection": str(self.data / name), "split": "train"}
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
        return command("encoders.train", *words)

    def saved(self, recipe: Mapping[str, Any], folder: Path) -> Path:
        """The recipe of the model ``folder`` as a file."""
        path = folder.parents[1] / "recipes" / f"{folder.name}.yaml"
        save(path, [yaml.safe_dump(dict(recipe))])
        return path

    def train(self, contender: str, rate: float, times: float = 1, seed: int = SEEDS[0]) -> Path:
        """A model that is trained ``times`` the minutes."""
        steps = self.steps(contender, times)
        folder = self.folder / "models" / f"{contender}.{rate:g}.{steps}.{seed}"
        finished = folder / ("config.json" if CONTENDERS[contender].loss else "training/finished.json")
        made(finished, lambda _: self._train(contender, rate, steps, seed, folder))
        return folder

    def _train(self, contender: str, rate: float, steps: int, seed: int, folder: Path) -> float:
        recipe, loss, base = self.recipe(contender, rate, steps, seed), CONTENDERS[contender].loss, self.base
        if loss is None:
            return self.ours(recipe, folder)
        start = base.folder / "models" / "start"
        first = base.recipe("plain", 1e-12, 1, 0)  # almost no step
        made(start / "training" / "finished.json", lambda _: base.ours(first, start))
        words = ("--checkpoint", start, "--to", "sentence-transformers", "--license", "apache-2.0", "--output")
        exported = made(start.with_name("start-for-peers"), partial(command, "encoders.export", *words))
        path = self.saved(recipe, folder)
        return float(child(train_peer, recipe=path, loss=loss, start=exported, output=folder)["cpu_seconds"])

    def steps(self, contender: str, times: float = 1) -> int:
        """Steps in the given minutes of one core, ``times`` as long, from the CPU time of two short trainings."""
        contender = TIMED.get(CONTENDERS[contender].loss, "peer")
        path = made(self.base.folder / "seconds" / f"{contender}.json", partial(self.base.time_steps, contender))
        return max(2, round(60 * self.minutes * times / float(read_json(path))))

    def time_steps(self, contender: str, path: Path) -> None:
        """Write the seconds of a step."""
        seconds = []
        for steps in PROBES:
            folder = self.folder / "models" / f"probe-{contender}"
            shutil.rmtree(folder, ignore_errors=True)
            seconds.append(self._train(contender, RATES[0], steps, 0, folder))
        write_json(path, (seconds[1] - seconds[0]) / (PROBES[1] - PROBES[0]))

    # -- the teacher ---------------------------------------------------------------------------------------------------

    def teacher(self) -> Path:
        """A cross-encoder trained on the same queries with BM25's negatives."""
        recipe = self.base.recipe("plain", 0, 1, 0)
        steps = max(2, round(TEACHER_STEPS * self.minutes / MINUTES))
        values = {
            "kind": "cross-encoder", "model": "quality-teacher", "backbone": "minilm", "data": recipe["data"],
            "negatives": recipe["negatives"] | {"per_query": 3}, "batch_size": BATCH, "max_length": TEACHER_LENGTH,
            "steps": steps, "learning_rate": 1e-4, "precision": PRECISION, "warm_up_steps": max(1, steps // 10),
        }  # fmt: skip
        return made(self.base.folder / "models" / "teacher", partial(self.ours, values))

    def candidates(self, name: str) -> Path:
        """Hard negatives of each training query, drawn from BM25's and a first student's hits, as a run."""
        return made(self.folder / "runs" / f"candidates.{name}.train.trec", partial(self._draw, name))

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
            "encoders.teach", "--collection", self.data / name, "--split", "train", "--run", self.candidates(name),
            "--depth", 2 * CANDIDATES, "--cross-encoder", self.teacher(), "--max-length", TEACHER_LENGTH,
            "--dtype", "auto", "--resume", "--output",
        )  # fmt: skip
        return made(self.folder / "scores" / f"{name}.tsv", partial(command, *words))


# -- sentence-transformers ---------------------------------------------------------------------------------------------


def train_peer(recipe: Path, loss: str, start: Path, output: Path) -> dict[str, Any]:
    """Train and save a model by a recipe of one stage, whose values sentence-transformers takes."""
    of = load_recipe(recipe)
    (stage,) = of.stages
    torch.manual_seed(of.seed)
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # stage.dropout is false
    model = SparseEncoder(str(start), device="cpu", config_kwargs=no_dropout)
    model.max_seq_length = of.max_length["document"]
    learned: dict[str, Callable[[SparseEncoder], Any]] = {
        "kl": partial(losses.SparseDistillKLDivLoss, temperature=1.0), "margin": losses.SparseMarginMSELoss,
    }  # fmt: skip
    of_scores = learned.get(loss, losses.SparseMultipleNegativesRankingLoss)(model)
    regularized = (losses.CachedSpladeLoss if loss == "cached" else losses.SpladeLoss)(
        model=model, loss=of_scores,
        query_regularizer_weight=stage.regularizer.lambda_query,
        document_regularizer_weight=stage.regularizer.lambda_document,
    )  # fmt: skip
    with new_folder(output) as folder:
        arguments = SparseEncoderTrainingArguments(
            output_dir=str(folder / "states"), max_steps=stage.steps, seed=of.seed, learning_rate=stage.learning_rate,
            per_device_train_batch_size=stage.batch_size, warmup_steps=stage.warm_up_steps,
            weight_decay=stage.weight_decay, max_grad_norm=stage.max_gradient_norm or 0.0, use_cpu=True,
            save_strategy="no", report_to="none", disable_tqdm=True, dataloader_drop_last=True,
            bf16=PRECISION == "bf16",
        )  # fmt: skip
        SparseEncoderTrainer(
            model=model, args=arguments, train_dataset=_dataset(of, stage, loss), loss=regularized
        ).train()
        model.save_pretrained(str(folder))
    return {}


def _dataset(recipe: Recipe, stage: Stage, loss: str) -> Dataset:
    """The examples of all steps, in the order of our own training; ``label`` is what the loss learns from a teacher.

    The teacher has not scored the random documents of a query with too few negatives. Our losses leave them out; those
    of sentence-transformers need a number and get the lowest score of all.
    """
    count = stage.steps * stage.batch_size
    examples = list(examples_in_order(recipe.data, recipe.negatives, count, recipe.seed))
    lowest = min((score for each in examples for score in each.scores if not math.isnan(score)), default=0.0)
    rows: list[dict[str, Any]] = []
    for example in examples:
        scores = [lowest if math.isnan(score) else score for score in example.scores]
        row: dict[str, Any] = {"query": example.query, "positive": example.positive}
        row |= {f"negative_{number}": text for number, text in enumerate(example.negatives, 1)}
        if loss == "kl":
            row["label"] = scores
        elif loss == "margin":
            row["label"] = [scores[0] - score for score in scores[1:]]
        rows.append(row)
    return Dataset.from_list(rows)


def _arguments(recipe: Recipe, stage: Stage, states: Path) -> SparseEncoderTrainingArguments:
    return SparseEncoderTrainingArguments(
        output_dir=str(states), max_steps=stage.steps, seed=recipe.seed, per_device_train_batch_size=stage.batch_size,
        learning_rate=stage.learning_rate, warmup_steps=stage.warm_up_steps, weight_decay=stage.weight_decay,
        max_grad_norm=stage.max_gradient_norm or 0.0, use_cpu=True, save_strategy="no", report_to="none",
        disable_tqdm=True, dataloader_drop_last=True, bf16=PRECISION == "bf16",
    )  # fmt: skip


# -- the comparison ----------------------------------------------------------------------------------------------------


def result(work: Work, whole: Work) -> dict[str, Any]:
    """Make all that is missing; settings, trials, and the scores of all test queries.

    What several trainings share is made before them; then two commands run at a time, of one thread each.
    """
    steps = {name: work.steps(name) for name in CONTENDERS}
    for each, name in itertools.product((work, whole), TRAINED):
        each.teach(name)
    with ThreadPoolExecutor(2) as pool:
        trials = list(itertools.product(CONTENDERS, RATES))
        means = pool.map(lambda trial: fmean(work.dev(work.train(*trial)).values()), trials)
        dev = dict(zip(trials, means, strict=True))
        best = {group: max((score, trial) for trial, score in dev.items() if CONTENDERS[trial[0]].group == group)[1]
                for group in GROUPS}  # fmt: skip
        jobs = [
            (name, work, name, rate, 1, seed) for name, rate in best.values()
            for seed in (SEEDS[:1] if CONTENDERS[name].settings else SEEDS)
        ]  # fmt: skip
        longer = f"{DISTILLED}, {LONGER} times the minutes"
        jobs.append((longer, work, *best[DISTILLED], LONGER, SEEDS[0]))
        jobs += [(f"{longer}, all queries", whole, *best[DISTILLED], LONGER, seed) for seed in SEEDS]
        tested = list(pool.map(lambda job: job[1].measured(job[1].train(*job[2:]), TESTS), jobs))
    tests: dict[str, list[Scores]] = {}
    for (row, _, name, _, times, _), scores in zip(jobs, tested, strict=True):
        tests.setdefault(row, []).append(scores)
        steps[row] = work.steps(name, times)
    return {
        "reference": DISTILLED, "order": list(CONTENDERS), "minutes": work.minutes, "measure": MEASURE, "steps": steps,
        "titles": {name: contender.title for name, contender in CONTENDERS.items()},
        "bm25_dev": work.dev(None),
        "sizes": {
            "batch": BATCH, "hard_negatives": NEGATIVES, "teacher_steps": TEACHER_STEPS,
            "training_queries": sum(len(work.judged(name, "train")) for name in TRAINED),
        },
        "dev": {name: {f"{rate:g}": dev[name, rate] for rate in RATES} for name in CONTENDERS},
        "trained": [f"{name} test" for name in TRAINED], "bm25": work.measured(None, TESTS), "tests": tests,
        "timed_on": environment()["cpu"], "machines": [environment()["cpu"]], "precision": PRECISION,
        "versions": versions(),
    }  # fmt: skip


if __name__ == "__main__":
    run_main(main)
