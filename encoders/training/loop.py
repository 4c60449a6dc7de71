"""One training run: stages of steps, validated, saved, resumed, and finished as a checkpoint."""

from __future__ import annotations

import functools
import json
import logging
import math
import os
import random
import signal
import threading
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
from encoders.training.data.batches import Batches
from encoders.training.data.examples import Examples, TextStores
from encoders.training.data.sources import NegativeSampler, if_main, load_source, sample_documents
from encoders.training.learner import Learner, learning_rate_share
from encoders.training.recipe import Changes, Recipe, Stage, load_recipe, to_mapping
from encoders.training.session import IDF_DOCUMENTS, Session
from encoders.training.state import Journal, Progress, RunFolder, load_state, load_weights, save_state, save_weights
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import checkpoint_folder, locked, sha256, write_json

if TYPE_CHECKING:
    from encoders.training.validation import Validator

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TrainingReport:
    """The result of a run."""

    checkpoint: Path
    progress: Progress  # with the steps over all stages, the best score, and the seconds over all resumptions
    finished: bool


def train(
    recipe: str | Path | Recipe,
    output: Path | str | None = None,
    *,
    data: Sequence[str] = (),
    settings: Changes = (),
    resume: bool = False,
    overwrite: bool = False,
    device: str | None = None,
    max_seconds: float | None = None,
    quiet: bool = True,
    log_with: Sequence[Any] = (),
) -> TrainingReport:
    """Train a model into a checkpoint folder; the state of the run is kept in ``training`` below it.

    * ``recipe``: the name of a recipe of the package, a YAML file, or a ``Recipe``
    * ``output``: the checkpoint folder (default: that of the recipe's model)
    * ``data``: replaces the recipe's data: collections ``NAME[:SPLIT][,run=FILE]`` or text triples ``FILE.tsv``
    * ``settings``: values of the recipe to change, ``{"stages.0.steps": 100}`` or ``["stages.0.steps=100"]``
    * ``resume``: go on from the last saved state, or start if there is none; on a CPU, the final weights equal those of
      an undisturbed run
    * ``overwrite``: replace a run in ``output``
    * ``max_seconds``: end early with the best weights so far
    * ``quiet``: no progress bar
    * ``log_with``: also report to these trackers: ``tensorboard``, ``wandb``, or trackers of accelerate

    Ctrl-C and SIGTERM end the run after the current step with ``KeyboardInterrupt`` and without a checkpoint.
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe, changes=settings, data=data)
    elif data or settings:
        raise LearnedSparseError("train: 'data' and 'settings' change a recipe given by name or file")
    folder = RunFolder(checkpoint_folder(recipe.model) if output is None else Path(output))
    progress = folder.begin(recipe, resume=resume, overwrite=overwrite)
    if folder.finished.exists() and not overwrite:
        return TrainingReport(checkpoint=folder.path, progress=progress, finished=True)
    torch.manual_seed(recipe.seed)
    random.seed(recipe.seed)
    session = Session(recipe, device, log_with, folder.log.parent)
    lock = locked(folder.path) if session.processes.is_main_process else nullcontext()
    with lock, process_settings(session.precision, session.device):
        progress = folder.begin(recipe, resume=resume, overwrite=overwrite)  # what another writer has left meanwhile
        options: dict[str, Any] = {"max_seconds": max_seconds, "overwrite": overwrite, "quiet": quiet}
        return Training(recipe, folder, session, progress, **options).run()


class Training:
    """One run, from its last state to the checkpoint."""

    def __init__(
        self,
        recipe: Recipe,
        folder: RunFolder,
        session: Session,
        progress: Progress,
        *,
        max_seconds: float | None,
        overwrite: bool,
        quiet: bool,
    ) -> None:
        """Read the data and check them against ``progress``; then start the log."""
        self._until = math.inf if max_seconds is None else time.monotonic() + max_seconds
        self._recipe, self._folder, self._session, self.interrupted = recipe, folder, session, False
        settings, validation = session.model.settings, recipe.validation
        stores = TextStores(expanded=settings.uses_expanded, on_bad_line=recipe.on_bad_line)
        self._sources = [load_source(source, recipe.negatives, stores) for source in recipe.data]
        held_out: list[Examples] | None = None
        self._held_out: dict[str, int] | None = None  # numbers of queries and of examples
        self._validator: Validator | None = None
        if validation is not None:
            from encoders.training.validation import Validator, hold_out

            if validation.holdout is not None:
                self._sources, held_out, self._held_out = hold_out(self._sources, validation)
            mixtures = settings.mixtures() if recipe.mix else ()
            self._validator = Validator(validation, recipe.seed, mixtures, stores=stores, held_out=held_out)
        fingerprints = {"tokenizer": tokenizer_sha256(session.model.tokenizer)}  # of the contents that a run reads
        for number, part in enumerate(self._sources):
            fingerprints[f"data.{number}"] = part.fingerprint
            if part.source.run is not None:
                fingerprints[f"data.{number}.run"] = sha256(part.source.run)
        if self._validator is not None:
            fingerprints["validation"] = self._validator.fingerprint()
        folder.check_data(progress, fingerprints)
        self._progress = replace(progress, recipe=to_mapping(recipe), data=fingerprints)
        if recipe.idf_bias or QUERY_WEIGHTS in session.model.towers:
            session.start_from(sample_documents(self._sources, IDF_DOCUMENTS, recipe.seed))
        for stage in recipe.stages:
            for part in self._sources:
                if stage.distillation is not None and not part.scored:
                    raise LearnedSparseError(
                        f"stage {stage.name}: distillation: data: {part.name}: no teacher's scores; give the source "
                        "'scores' (python -m encoders.teach makes them)"
                    )
        first = recipe.negatives_of(recipe.stages[progress.stage])  # an error in them leaves the folder as it is
        self._negatives = NegativeSampler(first, self._sources, folder.mined)
        is_main = session.processes.is_main_process
        if_main(lambda: folder.start(overwrite=overwrite))
        session.processes.init_trackers(recipe.model, config={"recipe": json.dumps(to_mapping(recipe))})
        log = folder.log if is_main else Path(os.devnull)
        self._journal = Journal(log, quiet=quiet or not is_main, track=session.processes.log)
        self._started = time.monotonic()

    def run(self) -> TrainingReport:
        """Train the stages that are left. A first Ctrl-C ends the run after the current step, a second one at once."""
        numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()

        def interrupt(*_: object) -> None:
            self.interrupted = True
            restore()
            _logger.warning("stopping after this step; press Ctrl-C again to stop at once")

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        before = {number: signal.signal(number, interrupt) for number in numbers}
        try:
            resumed = self._folder.state if self._folder.state.exists() else None
            stages = self._recipe.stages
            for number in range(self._progress.stage, len(stages)):
                done = self._progress
                if number > done.stage:  # scores of different stages are not comparable
                    self._load_best()
                    kept: dict[str, Any] = {"seconds": done.seconds, "recipe": done.recipe, "data": done.data}
                    self._progress = Progress(stage=number, steps_before=done.steps_before + done.step, **kept)
                if not self._stage(stages[number], resumed):
                    break
                resumed = None
            finished = self._progress.stage == len(stages) - 1 and self._is_done(stages[-1])
            if self.interrupted and not finished:
                raise KeyboardInterrupt(f"training was interrupted after step {self._progress.steps}")
            self._export(finished)
            return TrainingReport(checkpoint=self._folder.path, progress=self._progress, finished=finished)
        finally:
            restore()
            self._journal.close()

    def stops(self) -> bool:
        """Whether to end after this step, by ``max_seconds`` or a signal; the same in all processes."""
        stop = self.interrupted or time.monotonic() >= self._until
        votes = torch.tensor([float(stop), float(self.interrupted)], device=self._session.device)
        stops, interruptions = self._session.sum(votes).tolist()
        self.interrupted = interruptions > 0
        return bool(stops > 0)

    def _load_best(self) -> None:
        """Put the best weights of the stage into the model; without validation the weights stay."""
        if self._progress.best_step is not None:
            load_weights(self._folder.best(self._progress), self._session.model.weighers)

    def _stage(self, stage: Stage, resumed: Path | None) -> bool:
        """Train ``stage`` from the current step, and from the state ``resumed``; returns whether it was completed."""
        recipe, session, progress = self._recipe, self._session, self._progress
        interval = stage.validate_every or (recipe.validation.every if recipe.validation else stage.steps)
        self._learner = learner = Learner(stage, session)
        if recipe.negatives_of(stage) != self._negatives.settings:
            self._negatives = NegativeSampler(recipe.negatives_of(stage), self._sources, self._folder.mined)
        if resumed is not None:
            process = session.process_index, session.num_processes
            counts = load_state(resumed, session.model.weighers, learner.optimizer, session.device, *process)
            if learner.pruner is not None and session.processes.is_main_process:
                learner.pruner.restore(counts, session.device)
            self._negatives.restore(resumed)
        self._journal.start(stage.name, self._progress.step, stage.steps)
        while not self._is_done(stage):
            start, mined_at = progress.step, progress.mined_at
            if learner.ranks and self._negatives.is_due(start, mined_at):
                checkpoint = self._negatives.settings.checkpoint
                searched = self._negatives.mine(
                    functools.partial(session.rank, checkpoint=checkpoint, component=stage.component)
                )
                progress.mined_at = start
                self._journal.log(self._progress, {"mined queries": searched})
            batches = Batches(self._negatives.examples(), stage, session, progress.stage)
            for updates in batches.stream(range(start, self._negatives.next_due(start, stage.steps))):
                values = learner.step(progress.step, updates, batches)
                progress.step = step = progress.step + 1
                self._journal.advance(sum(len(update.examples) for update in updates))
                if step % recipe.log_every == 0 or step in (1, stage.steps):
                    rate = stage.learning_rate * learning_rate_share(stage, step - 1)
                    self._journal.log(self._progress, {**values, "learning_rate": rate})
                if learner.pruner is not None:
                    pruned, restart = learner.pruner.after(step - 1)
                    if pruned:
                        self._journal.log(self._progress, pruned)
                    if restart:  # scores from before and after a smaller gamma are not comparable
                        progress.best_score = progress.best_step = progress.mixture = None
                        progress.stale = 0
                if step % interval == 0 or step == stage.steps:
                    self._validate(stage)
                if step % recipe.save_every == 0 and not self._is_done(stage):
                    self._save()
                if self.stops():
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

    def _validate(self, stage: Stage) -> None:
        """Score the model and keep its weights if they are the stage's best."""
        validator, session, progress = self._validator, self._session, self._progress
        if validator is None or not self._learner.ranks or stage.validate_every == 0:
            return
        score, mixture = self._score(validator, stage.component)
        if progress.step < stage.full_lambda_step:
            return  # the weights are less sparse than the recipe wants; later ones do not compare
        if progress.best_score is None or score > progress.best_score:  # equal scores keep the earlier weights
            progress.best_score, progress.best_step, progress.mixture, progress.stale = score, progress.step, mixture, 0
            if_main(lambda: save_weights(self._folder.best(progress), session.model.weighers))
        else:
            progress.stale += 1

    def _score(self, validator: Validator, component: str | None) -> tuple[float, Mapping[str, Any] | None]:
        score, mixture, others = validator.score(self._session, component)
        mixed = {} if mixture is None else {"mixture": dict(mixture)}
        self._journal.log(self._progress, {"MRR@10": round(score, 6), **mixed, **others})
        return score, mixture

    def _save(self) -> None:
        session, learner, now = self._session, self._learner, time.monotonic()
        self._progress.seconds = round(self._progress.seconds + now - self._started, 3)
        self._started = now
        counts = {} if learner.pruner is None else learner.pruner.tensors()
        random_states = torch.cat(session.gather(random_state(session.device).unsqueeze(0).to(session.device))).cpu()
        if session.processes.is_main_process:
            with self._folder.saving(self._progress) as state:
                self._negatives.save(state)
                save_state(state, session.model.weighers, learner.optimizer, random_states, counts)
        session.processes.wait_for_everyone()

    def _export(self, finished: bool) -> None:
        """Write the checkpoint: the best weights (without validation the last), with the best mixture."""
        session, progress, validator = self._session, self._progress, self._validator
        self._load_best()
        session.use_settings(None)
        mixture = progress.mixture
        if mixture is None and validator is not None and validator.mixtures:
            _, mixture = self._score(validator, None)
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
            **({} if self._held_out is None else {"held_out": self._held_out}),
        }
        if session.processes.is_main_process:
            model = session.finish(mixture, self._sources)
            model.recipe, model.training = to_mapping(self._recipe), notes
            save_checkpoint(self._folder.path, model)
            if finished:
                write_json(self._folder.finished, notes)
        session.processes.wait_for_everyone()
