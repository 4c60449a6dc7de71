"""One training run: stages of steps, validated, saved, resumed, and finished as a checkpoint."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from encoders.backbone.device import process_settings, random_state
from encoders.checkpoints.tokenizer import tokenizer_sha256
from encoders.encoding.model import save_checkpoint
from encoders.models.architecture import QUERY_WEIGHTS
from encoders.training.data.batches import Batches, Sampler, StepBatch
from encoders.training.data.negatives import NegativeSampler
from encoders.training.data.sources import load_source, sample_documents, sample_texts
from encoders.training.data.texts import TextStores
from encoders.training.learner import Learner, learning_rate_share
from encoders.training.recipe import Recipe, Stage, spade_options
from encoders.training.recipe_file import Changes, load_recipe, to_mapping
from encoders.training.session import CALIBRATION_TEXTS, IDF_DOCUMENTS, Session, Stopping
from encoders.training.state import Journal, Progress, RunFolder, load_state, load_weights, save_state, save_weights
from encoders.training.validation import HeldOut, Validator, hold_out
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import checkpoint_folder, sha256, write_json
from learned_sparse.core.locks import locked
from learned_sparse.jsonvector.manifest import versions

if TYPE_CHECKING:
    from encoders.training.spade import CoLearner


@dataclass(frozen=True, kw_only=True)
class TrainingReport:
    """The result of a run."""

    checkpoint: Path
    finished: bool
    steps: int  # over all stages
    best_score: float | None
    seconds: float  # of training, over all resumptions
    written: bool  # whether the checkpoint was written: not if the run was interrupted


def train(
    recipe: str | Path | Recipe,
    *,
    data: Sequence[str] = (),
    output: Path | str | None = None,
    settings: Changes = (),
    quiet: bool = True,
    **options: Any,
) -> Path:
    """Train a model and return its checkpoint folder.

    * ``recipe``: the name of a recipe of the package, a YAML file, or a ``Recipe``
    * ``data``: replaces the recipe's data: collections ``NAME[:SPLIT][,run=FILE]`` or text triples ``FILE.tsv``
    * ``output``: the checkpoint folder (default: that of the recipe's model); the state of the run is kept below it
    * ``settings``: values of the recipe to change, ``{"stages.0.steps": 100}`` or ``["stages.0.steps=100"]``
    * ``quiet``: no progress bar
    * ``options``: those of ``run_recipe``: ``resume``, ``overwrite``, ``device``, ``max_seconds``, ``log_with``
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe, changes=settings, data=data)
    elif data or settings:
        raise LearnedSparseError("train: 'data' and 'settings' change a recipe given by name or file")
    folder = checkpoint_folder(recipe.model) if output is None else Path(output)
    report = run_recipe(recipe, folder, quiet=quiet, **options)
    if not report.written:
        raise KeyboardInterrupt(f"training was interrupted after step {report.steps}; go on with resume=True")
    return report.checkpoint


def run_recipe(
    recipe: Recipe,
    output: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    device: str | None = None,
    max_seconds: float | None = None,
    quiet: bool = False,
    log_with: Sequence[Any] = (),
) -> TrainingReport:
    """Train ``recipe`` into the checkpoint folder ``output``; the state of the run is kept in ``output/training``.

    * ``resume``: go on from the last saved state, or start if there is none; on a CPU, the final weights equal those of
      an undisturbed run
    * ``overwrite``: replace a run in ``output``
    * ``max_seconds``: end early with the best weights so far
    * ``quiet``: no progress bar
    * ``log_with``: also report to these trackers: ``tensorboard``, ``wandb``, or trackers of accelerate
    """
    folder = RunFolder(output)
    progress = folder.begin(recipe, resume=resume, overwrite=overwrite)
    if folder.finished.exists() and not overwrite:
        return _report(output, progress, finished=True, written=True)
    torch.manual_seed(recipe.seed)
    random.seed(recipe.seed)
    session = Session(recipe, device, log_with, output / "training")
    is_main, stopping = session.processes.is_main_process, Stopping(max_seconds, session)
    with (
        locked(output) if is_main else nullcontext(),
        process_settings(session.precision, session.device),
        stopping.on_signals(),
    ):
        progress = folder.begin(recipe, resume=resume, overwrite=overwrite)  # what another writer has left meanwhile
        return _Run(recipe, folder, session, progress, stopping, overwrite=overwrite, quiet=quiet).run()


def _report(checkpoint: Path, progress: Progress, *, finished: bool, written: bool) -> TrainingReport:
    return TrainingReport(
        checkpoint=checkpoint,
        finished=finished,
        steps=progress.steps_before + progress.step,
        best_score=progress.best_score,
        seconds=progress.seconds,
        written=written,
    )


def make_learner(stage: Stage, session: Session) -> Learner | CoLearner:
    """The model of ``session`` under ``stage``, with the settings of the stage and a fresh optimizer."""
    session.use_settings(stage)
    options, pruner = spade_options(stage), None
    if options.pruning is not None:
        from encoders.training.spade import Pruner

        pruner = Pruner(stage, session.family.prunable(session.model.weighers.document), session.sum)
    if options.cotraining is not None:
        from encoders.training.spade import CoLearner

        return CoLearner(stage, options, session, pruner)
    return Learner(stage, session, pruner)


class _Run:
    def __init__(
        self,
        recipe: Recipe,
        folder: RunFolder,
        session: Session,
        progress: Progress,
        stopping: Stopping,
        *,
        overwrite: bool,
        quiet: bool,
    ) -> None:
        """Read the data and check them against ``progress``; then start the log."""
        self._recipe, self._folder, self._session, self._stopping = recipe, folder, session, stopping
        settings, validation = session.model.settings, recipe.validation
        expanded = session.family.uses_expanded(settings)
        stores = TextStores(expanded=expanded, on_bad_line=recipe.on_bad_line)
        self._sources = [load_source(source, recipe.negatives, stores) for source in recipe.data]
        self._held_out: HeldOut | None = None
        if validation is not None and validation.holdout is not None:
            self._sources, self._held_out = hold_out(self._sources, validation)
        mixtures = session.family.mixtures(settings) if recipe.mix else ()
        options: dict[str, Any] = {"stores": stores, "held_out": self._held_out, "if_main": session.if_main}
        self._validator = None if validation is None else Validator(validation, recipe.seed, mixtures, **options)
        fingerprints = {"tokenizer": tokenizer_sha256(session.model.tokenizer)}  # of the contents that a run reads
        for number, part in enumerate(self._sources):
            fingerprints[f"data.{number}"] = part.examples.fingerprint
            if part.source.run is not None:
                fingerprints[f"data.{number}.run"] = sha256(part.source.run)
        if self._validator is not None:
            fingerprints["validation"] = self._validator.fingerprint()
        computed_by = {**versions(), "precision": session.precision}
        folder.check_data(progress, fingerprints, computed_by)
        self._progress = replace(progress, recipe=to_mapping(recipe), data=fingerprints, versions=computed_by)
        if recipe.idf_bias or QUERY_WEIGHTS in session.model.towers:
            session.start_from(sample_documents(self._sources, IDF_DOCUMENTS, recipe.seed))
        for stage in recipe.stages:
            for part in self._sources:
                if stage.distillation is not None and not part.examples.scored:
                    raise LearnedSparseError(
                        f"stage {stage.name}: distillation: data: {part.name}: no teacher's scores; give the source "
                        "'scores' (python -m encoders.teach makes them)"
                    )
        self._negatives = self._sampler(recipe.stages[progress.stage])
        is_main = session.processes.is_main_process
        session.if_main(lambda: folder.start(overwrite=overwrite))
        session.processes.init_trackers(recipe.model, config={"recipe": json.dumps(to_mapping(recipe))})
        log, steps = folder.log if is_main else Path(os.devnull), [stage.steps for stage in recipe.stages]
        self._journal = Journal(log, quiet=quiet or not is_main, track=session.processes.log, stages=steps)
        self._started = time.monotonic()

    def _sampler(self, stage: Stage) -> NegativeSampler:
        negatives = self._recipe.negatives_of(stage)
        return NegativeSampler(negatives, self._sources, self._folder.mined, self._session.if_main)

    def run(self) -> TrainingReport:
        resumed = self._folder.state if self._folder.state.exists() else None
        stages = self._recipe.stages
        try:
            for number in range(self._progress.stage, len(stages)):
                if number > self._progress.stage:  # scores of different stages are not comparable
                    self._load_best()
                    done = self._progress
                    self._progress = Progress(
                        stage=number, steps_before=done.steps_before + done.step, seconds=done.seconds,
                        recipe=done.recipe, data=done.data, versions=done.versions,
                    )  # fmt: skip
                if not self._stage(stages[number], resumed):
                    break
                resumed = None
            finished = self._progress.stage == len(stages) - 1 and self._is_done(stages[-1])
            written = finished or not self._stopping.interrupted
            if written:
                self._export(finished)
        finally:
            self._journal.close()
        return _report(self._folder.path, self._progress, finished=finished, written=written)

    def _load_best(self) -> None:
        """Put the best weights of the stage into the model; without validation the weights stay."""
        if self._progress.best_step is not None:
            load_weights(self._folder.best(self._progress), self._session.model.weighers)

    def _stage(self, stage: Stage, resumed: Path | None) -> bool:
        """Train ``stage`` from the current step; returns whether it was completed."""
        self._learner = make_learner(stage, self._session)
        if self._recipe.negatives_of(stage) != self._negatives.settings:
            self._negatives = self._sampler(stage)
        if resumed is not None:
            self._restore(resumed)
        self._journal.start(stage.name, self._progress.step, stage.steps)
        while not self._is_done(stage):
            start = self._progress.step
            if self._learner.ranks and self._negatives.is_due(start, self._progress.mined_at):
                self._mine(stage, start)
            end = self._negatives.next_due(start, stage.steps)
            for batch in self._batches(stage).stream(range(start, end)):
                self._one_step(stage, batch)
                if self._stopping.now():
                    self._save()
                    return False
                if self._is_done(stage):
                    break
        self._save()
        return True

    def _is_done(self, stage: Stage) -> bool:
        """Whether all steps are done, or patience has run out."""
        patience = self._recipe.validation.patience if self._recipe.validation else None
        return self._progress.step >= stage.steps or (patience is not None and self._progress.stale >= patience)

    def _one_step(self, stage: Stage, batch: StepBatch) -> None:
        values, step = self._learner.step(batch), batch.step + 1
        self._progress = replace(self._progress, step=step)
        self._journal.advance(len(batch.examples))
        if step % self._recipe.log_every == 0 or step in (1, stage.steps):
            rate = {"learning_rate": stage.learning_rate * learning_rate_share(stage, batch.step)}
            self._log(values | rate)
        if self._learner.pruner is not None:
            pruned, restart = self._learner.pruner.after(batch.step)
            if pruned:
                self._log(pruned)
            if restart:  # scores from before and after a smaller gamma are not comparable
                self._progress = replace(self._progress, best_score=None, best_step=None, mixture=None, stale=0)
        validation = self._recipe.validation
        interval = stage.validate_every or (validation.every if validation is not None else stage.steps)
        if step % interval == 0 or step == stage.steps:
            self._validate(stage)
        if step % self._recipe.save_every == 0 and not self._is_done(stage):
            self._save()

    def _log(self, values: Mapping[str, Any]) -> None:
        self._journal.log(self._progress.stage, self._progress.step, values)

    def _validate(self, stage: Stage) -> None:
        """Score the model and keep its weights if they are the stage's best."""
        validator, session, progress = self._validator, self._session, self._progress
        if validator is None or not self._learner.ranks or stage.validate_every == 0:
            return
        score, mixture, others = validator.score(session, stage.component)
        self._log_validation(score, mixture, others)
        if progress.step < stage.full_lambda_step:
            return  # the weights are less sparse than the recipe wants; later ones do not compare
        if progress.best_score is None or score > progress.best_score:  # equal scores keep the earlier weights
            self._progress = replace(progress, best_score=score, best_step=progress.step, mixture=mixture, stale=0)
            session.if_main(lambda: save_weights(self._folder.best(self._progress), session.model.weighers))
        else:
            self._progress = replace(progress, stale=progress.stale + 1)

    def _log_validation(self, score: float, mixture: Mapping[str, Any] | None, others: Mapping[str, float]) -> None:
        mixed = {} if mixture is None else {"mixture": dict(mixture)}
        self._log({"MRR@10": round(score, 6), **mixed, **others})

    def _mine(self, stage: Stage, step: int) -> None:
        seed, session = [self._recipe.seed, self._progress.stage, step], self._session
        searched = self._negatives.mine(
            lambda part: session.ranking(part.checkpoint, stage.component),
            seed,
            again=self._progress.mined_at is not None,
        )
        self._progress = replace(self._progress, mined_at=step)
        self._log({"mined queries": searched})

    def _batches(self, stage: Stage) -> Batches:
        recipe, session, cotraining = self._recipe, self._session, spade_options(stage).cotraining
        examples, stream = self._negatives.examples(), self._progress.stage
        return Batches(
            examples,
            Sampler([len(part) for part in examples], seed=recipe.seed * 1000 + stream),
            session.model.tokenizer,
            recipe.max_length,
            batch_size=stage.batch_size,
            select_from=None if cotraining is None else cotraining.select_from,
            micro_batch_size=stage.micro_batch_size,
            seed=[recipe.seed, stream],
            process=session.process_index,
            processes=session.num_processes,
            device=session.device,
        )

    def _save(self) -> None:
        session, learner, now = self._session, self._learner, time.monotonic()
        seconds = round(self._progress.seconds + now - self._started, 3)
        self._progress, self._started = replace(self._progress, seconds=seconds), now
        counts = {} if learner.pruner is None else learner.pruner.tensors()
        random_states = torch.cat(session.gather(random_state(session.device).unsqueeze(0).to(session.device))).cpu()

        def write(state: Path) -> None:
            self._negatives.save(state)
            save_state(state / "state.safetensors", session.model.weighers, learner.optimizer, random_states, counts)

        session.if_main(lambda: self._folder.save(self._progress, write))

    def _restore(self, state: Path) -> None:
        """Put a saved state back."""
        session, learner = self._session, self._learner
        process, path = (session.process_index, session.num_processes), state / "state.safetensors"
        counts = load_state(path, session.model.weighers, learner.optimizer, session.device, *process)
        if learner.pruner is not None and session.processes.is_main_process:
            learner.pruner.restore(counts, session.device)
        self._negatives.restore(state)

    def _export(self, finished: bool) -> None:
        """Write the checkpoint: the best weights (without validation the last), with the best mixture."""
        session, progress, validator = self._session, self._progress, self._validator
        self._load_best()
        session.use_settings(None)
        mixture = progress.mixture
        if mixture is None and validator is not None and validator.mixtures:
            score, mixture, others = validator.score(session, None)
            self._log_validation(score, mixture, others)
        texts = sample_texts(self._sources, CALIBRATION_TEXTS, self._recipe.seed)
        notes = {
            "device": session.device.type,
            "precision": session.precision,
            "threads": torch.get_num_threads(),
            "finished": finished,
            "stage": progress.stage,
            "step": progress.step,
            "MRR@10": progress.best_score,
            "best_step": progress.best_step,
            "seconds": progress.seconds,
            **({} if mixture is None else {"mixture": dict(mixture)}),
        }
        if self._held_out is not None:
            notes["held_out"] = {"queries": self._held_out.queries, "examples": self._held_out.examples}

        def write() -> None:
            model = session.finish(mixture, texts)
            model.recipe, model.training = to_mapping(self._recipe), notes
            save_checkpoint(self._folder.path, model)
            if finished:
                write_json(self._folder.finished, notes)

        session.if_main(write)
