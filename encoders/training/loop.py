"""One training run: stages of steps, validated, saved, resumed, and finished as a checkpoint."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from encoders.backbone.device import process_settings, random_state
from encoders.checkpoints.tokenizer import tokenizer_sha256
from encoders.encoding.model import save_checkpoint
from encoders.training.data.batches import Batches, Sampler, StepBatch
from encoders.training.data.negatives import NegativeSampler, Rank
from encoders.training.data.sources import load_source, sample_documents, sample_texts
from encoders.training.data.texts import TextStores
from encoders.training.learner import CoLearner, Learner, make_learner
from encoders.training.optimizing import learning_rate_share
from encoders.training.options import spade_options
from encoders.training.pruning import Pruner
from encoders.training.recipe import NegativeSource, Recipe, Stage
from encoders.training.recipe_file import Changes, load_recipe, to_mapping
from encoders.training.session import CALIBRATION_TEXTS, IDF_DOCUMENTS, Session, Stopping
from encoders.training.state.folder import Progress, RunFolder, TrainingReport
from encoders.training.state.journal import Journal
from encoders.training.state.tensors import load_state, save_state
from encoders.training.validation import TermCounts, Validator, hold_out, is_better
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import checkpoint_folder, sha256, write_json
from learned_sparse.core.locks import locked
from learned_sparse.jsonvector.manifest import versions

AnyLearner = Learner | CoLearner


def train(
    recipe: str | Path | Recipe,
    *,
    data: Sequence[str] = (),
    output: Path | str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    settings: Changes = (),
    device: str | None = None,
    max_seconds: float | None = None,
    quiet: bool = True,
    log_with: Sequence[Any] = (),
) -> Path:
    """Train a model and return its checkpoint folder.

    * ``recipe``: the name of a recipe of the package, a YAML file, or a ``Recipe``
    * ``data``: replaces the recipe's data: collections ``NAME[:SPLIT][,run=FILE]`` or text triples ``FILE.tsv``
    * ``output``: the checkpoint folder (default: that of the recipe's model); the state of the run is kept below it
    * ``resume``: go on from the last saved state; on a CPU, the final weights equal those of an undisturbed run
    * ``overwrite``: replace a run in ``output``
    * ``settings``: values of the recipe to change, ``{"stages.0.steps": 100}`` or ``["stages.0.steps=100"]``
    * ``max_seconds``: end early with the best weights so far
    * ``quiet``: no progress bar
    * ``log_with``: also report to these trackers: ``tensorboard``, ``wandb``, or trackers of accelerate
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe, changes=settings, data=data)
    elif data or settings:
        raise LearnedSparseError("train: 'data' and 'settings' change a recipe given by name or file")
    folder = checkpoint_folder(recipe.model) if output is None else Path(output)
    report = run_recipe(
        recipe, folder, resume=resume, overwrite=overwrite, device=device, max_seconds=max_seconds, quiet=quiet,
        log_with=log_with,
    )  # fmt: skip
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
    """Train ``recipe`` into the checkpoint folder ``output``; options as of ``train``.

    The state is kept in ``output/training``. With ``resume`` the run goes on from there, or starts if there is none.
    """
    folder = RunFolder(output)
    progress = folder.begin(recipe, resume=resume, overwrite=overwrite)
    if folder.finished.exists() and not overwrite:
        return folder.report(progress, finished=True)
    torch.manual_seed(recipe.seed)
    random.seed(recipe.seed)
    session = Session(recipe, device, log_with, output / "training")
    is_main = session.processes.is_main_process
    with (
        locked(output) if is_main else nullcontext(),
        process_settings(session.precision, session.device),
        Stopping(max_seconds, session) as stopping,
    ):
        progress = folder.begin(recipe, resume=resume, overwrite=overwrite)  # what another writer has left meanwhile
        return _Run(recipe, folder, session, progress, stopping, overwrite=overwrite, quiet=quiet).run()


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
        self._recipe, self._folder, self._session, self._stopping = recipe, folder, session, stopping
        settings, validation = session.model.settings, recipe.validation
        expanded = session.family.uses_expanded(settings)
        stores = TextStores(expanded=expanded, on_bad_line=recipe.on_bad_line)
        self._sources = [load_source(source, recipe.negatives, stores) for source in recipe.data]
        self._held_out = None
        if validation is not None and validation.holdout is not None:
            self._sources, self._held_out = hold_out(self._sources, validation)
        mixtures = session.family.mixtures(settings) if recipe.mix else ()
        options: dict[str, Any] = {"stores": stores, "held_out": self._held_out, "if_main": session.if_main}
        self._validator = None if validation is None else Validator(validation, recipe.seed, mixtures, **options)
        fingerprints = self._fingerprints()
        computed_by = {**versions(), "precision": session.precision}
        folder.check_data(progress, fingerprints, computed_by)
        self._progress = replace(progress, recipe=to_mapping(recipe), data=fingerprints, versions=computed_by)
        if recipe.idf_bias or session.has_query_weights:
            documents = sample_documents(self._sources, IDF_DOCUMENTS, recipe.seed)
            session.begin_query_weights(documents)
            if recipe.idf_bias:
                session.add_idf_bias(documents)
        self._check_teachers()
        negatives = recipe.negatives_of(recipe.stages[progress.stage])
        self._negatives = NegativeSampler(negatives, self._sources, folder.mined, session.if_main)
        is_main = session.processes.is_main_process
        session.if_main(lambda: folder.start(overwrite=overwrite))
        log, steps = folder.log if is_main else None, [stage.steps for stage in recipe.stages]
        self._journal = Journal(log, quiet=quiet or not is_main, track=session.start_trackers(), stages=steps)
        self._started = time.monotonic()

    def _check_teachers(self) -> None:
        """Raise if a stage distils and the examples of a source have no teacher's scores."""
        for stage in self._recipe.stages:
            for part in self._sources:
                if stage.distillation is not None and not part.examples.scored:
                    raise LearnedSparseError(
                        f"stage {stage.name}: distillation: data: {part.name}: no teacher's scores; give the source "
                        "'scores' (python -m encoders.teach makes them)"
                    )

    def _fingerprints(self) -> dict[str, str]:
        """Hashes of the contents that a run reads, by name."""
        hashes = {"tokenizer": tokenizer_sha256(self._session.model.tokenizer)}
        for number, part in enumerate(self._sources):
            hashes[f"data.{number}"] = part.examples.fingerprint
            if part.source.run is not None:
                hashes[f"data.{number}.run"] = sha256(part.source.run)
        if self._validator is not None:
            hashes["validation"] = self._validator.fingerprint()
        return hashes

    def run(self) -> TrainingReport:
        resumed = self._folder.state if self._folder.state.exists() else None
        try:
            for number in range(self._progress.stage, len(self._recipe.stages)):
                if number > self._progress.stage:
                    self._progress = self._next_stage(number)
                if not self._stage(self._recipe.stages[number], resumed):
                    break
                resumed = None
            last = len(self._recipe.stages) - 1
            finished = self._progress.stage == last and self._is_done(self._recipe.stages[last])
            written = finished or not self._stopping.interrupted
            if written:
                self._export(finished)
        finally:
            self._journal.close()
        return self._folder.report(self._progress, finished=finished, written=written)

    def _next_stage(self, number: int) -> Progress:
        """Put the best weights of the last stage back; scores of different stages are not comparable."""
        self._folder.load_best(self._progress, self._session.model.weighers)
        steps_before = self._progress.steps_before + self._progress.step
        done = self._progress
        return Progress(
            stage=number, steps_before=steps_before, seconds=done.seconds, recipe=done.recipe, data=done.data,
            versions=done.versions,
        )  # fmt: skip

    def _stage(self, stage: Stage, resumed: Path | None) -> bool:
        """Train ``stage`` from the current step; returns whether it was completed."""
        learner = make_learner(stage, self._session)
        if (negatives := self._recipe.negatives_of(stage)) != self._negatives.settings:
            self._negatives = NegativeSampler(negatives, self._sources, self._folder.mined, self._session.if_main)
        self._pruner = self._session.pruner(stage)
        if resumed is not None:
            self._restore(resumed, learner)
        self._journal.start(stage.name, self._progress.step, stage.steps)
        while not self._is_done(stage):
            start = self._progress.step
            if learner.ranks and self._negatives.is_due(start, self._progress.mined_at):
                self._mine(stage, start)
            end = self._negatives.next_due(start, stage.steps)
            for batch in self._batches(stage).stream(range(start, end)):
                self._one_step(stage, learner, batch)
                if self._stopping.now():
                    self._save(learner)
                    return False
                if self._is_done(stage):
                    break
        self._save(learner)
        return True

    def _is_done(self, stage: Stage) -> bool:
        """Whether all steps are done, or patience has run out."""
        patience = self._recipe.validation.patience if self._recipe.validation else None
        return self._progress.step >= stage.steps or (patience is not None and self._progress.stale >= patience)

    def _one_step(self, stage: Stage, learner: AnyLearner, batch: StepBatch) -> None:
        pruner = self._pruner
        values = learner.step(batch, nullcontext if pruner is None else lambda: pruner.counting(batch.step))
        step = batch.step + 1
        self._progress = replace(self._progress, step=step)
        self._journal.advance(len(batch.examples))
        if self._progress.stage == 0 and step == 1:
            self._session.check_start(values.get("terms_per_document", 0.0))
        if step % self._recipe.log_every == 0 or step in (1, stage.steps):
            rate = {"learning_rate": stage.learning_rate * learning_rate_share(stage, batch.step)}
            self._journal.log_step(self._progress.stage, step, values | rate)
        if pruner is not None:
            self._prune(pruner, batch.step)
        validation = self._recipe.validation
        interval = stage.validate_every or (validation.every if validation is not None else stage.steps)
        if step % interval == 0 or step == stage.steps:
            self._validate(stage, learner)
        if step % self._recipe.save_every == 0 and not self._is_done(stage):
            self._save(learner)

    def _prune(self, pruner: Pruner, step: int) -> None:
        """Prune at the end of a window; scores from before and after a smaller gamma are not comparable."""
        values, restart = pruner.after(step)
        if values:
            self._journal.log_event(self._progress.stage, step + 1, values)
        if restart:
            self._progress = replace(self._progress, best_score=None, best_step=None, mixture=None, stale=0)

    def _validate(self, stage: Stage, learner: AnyLearner) -> None:
        """Score the model and keep its weights if they are the stage's best."""
        validator, session = self._validator, self._session
        if validator is None or not learner.ranks or stage.validate_every == 0:
            return
        counts, others = TermCounts(), dict[str, float]()
        component, rank = stage.component, session.ranking(None, stage.component, counts)
        search = validator.by_search(component)  # all processes take part; any other validation is that of the main one
        found = (lambda compute: compute()) if search else session.on_main
        result = found(lambda: validator.score(session.encode, component, rank, others))
        score, mixture = self._scored(result, others | counts.measures(session.total))
        if self._progress.step < stage.full_lambda_step:
            return  # the weights are less sparse than the recipe wants; later ones do not compare
        if is_better(score, self._progress.best_score):
            step = self._progress.step
            self._progress = replace(self._progress, best_score=score, best_step=step, mixture=mixture, stale=0)
            session.if_main(lambda: self._folder.save_best(self._progress, session.model.weighers))
        else:
            self._progress = replace(self._progress, stale=self._progress.stale + 1)

    def _scored(
        self, result: tuple[float, float], others: Mapping[str, float] = MappingProxyType({})
    ) -> tuple[float, Mapping[str, Any] | None]:
        """Log a validation; its MRR@10 and the settings of the best mixture, if there is one."""
        score, index = result[0], int(result[1])
        mixture = None if self._validator is None or index < 0 else self._validator.mixtures[index].settings
        mixed = {} if mixture is None else {"mixture": dict(mixture)}
        self._journal.log_event(
            self._progress.stage, self._progress.step, {"MRR@10": round(score, 6), **mixed, **others}
        )
        return score, mixture

    def _mine(self, stage: Stage, step: int) -> None:
        seed, session = [self._recipe.seed, self._progress.stage, step], self._session

        def ranking(part: NegativeSource) -> Rank:
            return session.ranking(part.checkpoint, stage.component)

        searched = self._negatives.mine(ranking, seed, again=self._progress.mined_at is not None)
        self._progress = replace(self._progress, mined_at=step)
        self._journal.log_event(self._progress.stage, step, {"mined queries": searched})

    def _batches(self, stage: Stage) -> Batches:
        recipe, session, cotraining = self._recipe, self._session, spade_options(stage).cotraining
        examples = self._negatives.examples()
        stream = self._progress.stage
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

    def _save(self, learner: AnyLearner) -> None:
        session, now = self._session, time.monotonic()
        seconds = round(self._progress.seconds + now - self._started, 3)
        self._progress, self._started = replace(self._progress, seconds=seconds), now
        counts = {} if self._pruner is None else self._pruner.tensors()
        random_states = torch.cat(session.gather(random_state(session.device).unsqueeze(0).to(session.device))).cpu()

        def write(state: Path) -> None:
            self._negatives.save(state)
            save_state(state / "state.safetensors", session.model.weighers, learner.optimizer, random_states, counts)

        session.if_main(lambda: self._folder.save(self._progress, write))

    def _restore(self, state: Path, learner: AnyLearner) -> None:
        """Put a saved state back."""
        session, path = self._session, state / "state.safetensors"
        process = session.process_index, session.num_processes
        counts = load_state(path, session.model.weighers, learner.optimizer, session.device, *process)
        if self._pruner is not None and session.processes.is_main_process:
            self._pruner.restore(counts, session.device)
        self._negatives.restore(state)

    def _export(self, finished: bool) -> None:
        """Write the checkpoint: the best weights (without validation the last), with the best mixture."""
        session, progress, validator = self._session, self._progress, self._validator
        self._folder.load_best(progress, session.model.weighers)
        session.use_settings(None)
        mixture = progress.mixture
        if mixture is None and validator is not None and validator.mixtures:
            _, mixture = self._scored(session.on_main(lambda: validator.best_mixture(session.encode)))
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
