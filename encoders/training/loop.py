"""One training run: stages of steps, validated, saved, resumed."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from encoders.encoding import architecture_named
from encoders.training.data import Batches, Sampler, StepBatch, load, sample_documents, sample_texts
from encoders.training.folder import RunFolder
from encoders.training.idf import DOCUMENTS, add_idf_bias
from encoders.training.journal import Journal
from encoders.training.judging import Judge
from encoders.training.negatives import NegativeSource
from encoders.training.objective import Pruner, save_pruning
from encoders.training.recipe import Recipe, Stage
from encoders.training.recipe_file import to_mapping
from encoders.training.session import AnyLearner, Session
from encoders.training.state import Progress, seed_everything
from encoders.training.stopping import Stopping
from encoders.training.validation import is_better


@dataclass(frozen=True, kw_only=True)
class TrainingReport:
    """What a run came to."""

    checkpoint: Path
    finished: bool
    steps: int  # done in all, over all stages
    best_score: float | None
    seconds: float  # spent in training, over all resumptions
    written: bool  # whether the checkpoint was written: not when it was interrupted


def train(
    recipe: Recipe,
    output: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    device: str | None = None,
    max_seconds: float | None = None,
    quiet: bool = False,
) -> TrainingReport:
    """Train ``recipe`` into the checkpoint folder ``output``.

    The state is kept in ``output/training``; with ``resume`` the run goes on from there (or starts, if there is none)
    and ends with the very weights of an undisturbed one. ``max_seconds`` ends it early with the best weights so far.
    """
    folder = RunFolder(output)
    progress = folder.begin(recipe, resume=resume, overwrite=overwrite)
    if folder.is_finished():
        return _report(folder, progress, finished=True)
    seed_everything(recipe.seed)
    session = Session(recipe, device)
    with Stopping(max_seconds, session.processes) as stopping:
        run = _Run(recipe, folder, session, progress, stopping, quiet=quiet)
        return run.run()


class _Run:
    def __init__(
        self,
        recipe: Recipe,
        folder: RunFolder,
        session: Session,
        progress: Progress,
        stopping: Stopping,
        *,
        quiet: bool,
    ) -> None:
        self._recipe, self._folder, self._session, self._stopping = recipe, folder, session, stopping
        expanded = architecture_named(recipe.architecture).uses_expanded(session.model.settings)
        self._sources = [load(source, recipe.negatives, expanded=expanded) for source in recipe.data]
        fingerprints = tuple(part.examples.fingerprint for part in self._sources)
        folder.check_data(progress, fingerprints)
        self._progress = replace(progress, recipe=to_mapping(recipe), data=fingerprints)
        if recipe.idf_bias:
            add_idf_bias(session.model, sample_documents(self._sources, DOCUMENTS, recipe.seed), recipe.idf_bias)
        self._negatives = NegativeSource(recipe, self._sources, folder, session)
        self._judge = Judge(recipe, session, expanded=expanded)
        is_main = session.processes.is_main_process
        log = folder.log if is_main else Path("/dev/null")
        self._journal = Journal(log, stage=progress.stage, step=progress.step, quiet=quiet or not is_main)
        self._started = time.monotonic()

    def run(self) -> TrainingReport:
        resumed = self._folder.state_of(self._progress)
        try:
            for number in range(self._progress.stage, len(self._recipe.stages)):
                if number > self._progress.stage:
                    self._progress = self._next_stage(number)
                if not self._stage(self._recipe.stages[number], resumed):
                    break
                resumed = None
            finished = self._finished()
            write = finished or not self._stopping.interrupted
            if write:
                self._export(finished)
        finally:
            self._journal.close()
        return _report(self._folder, self._progress, finished=finished, written=write)

    def _next_stage(self, number: int) -> Progress:
        """Put the best weights of the last stage back; scores of another objective do not compare with theirs."""
        self._folder.load_best(self._progress, self._session.model.weighers)
        before = self._progress.steps_before + self._progress.step
        return replace(
            self._progress,
            stage=number,
            step=0,
            best_score=None,
            best_step=None,
            stale=0,
            mixture=None,
            steps_before=before,
            mined_at=None,
        )

    def _stage(self, stage: Stage, resumed: Path | None) -> bool:
        """Train ``stage`` from where it stands; whether it came to its end."""
        learner = self._session.learner(stage)
        self._pruner = self._session.pruner(stage)
        if resumed is not None:
            self._session.restore(resumed, learner, self._pruner)
            self._negatives.restore(resumed)
        self._journal.start(stage.name, self._progress.step, stage.steps)
        if self._progress.step == 0 and self._recipe.validation and self._recipe.validation.at_start:
            self._validate(stage)
        while not self._is_done(stage):
            start = self._progress.step
            if self._negatives.is_due(stage, start, self._progress.mined_at):
                self._mine(stage, start)
            end = self._negatives.next_due(stage, start)
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
        """Whether all steps are done, or validation has lost its patience."""
        patience = self._recipe.validation.patience if self._recipe.validation else None
        return self._progress.step >= stage.steps or (patience is not None and self._progress.stale >= patience)

    def _one_step(self, stage: Stage, learner: AnyLearner, batch: StepBatch) -> None:
        pruner = self._pruner
        values = learner.step(batch, nullcontext if pruner is None else lambda: pruner.counting(batch.step))
        step = batch.step + 1
        self._progress = replace(self._progress, step=step)
        self._journal.advance(len(batch.examples))
        if step % self._recipe.log_every == 0 or step in (1, stage.steps):
            rate = {"learning_rate": learner.learning_rate(batch.step)}
            self._journal.write(self._progress.stage, step, values | rate)
        if pruner is not None:
            self._prune(pruner, batch.step)
        validation = self._recipe.validation
        every = stage.validate_every or (validation.every if validation is not None else stage.steps)
        if validation is not None and (step % every == 0 or step == stage.steps):
            self._validate(stage)
        if step % self._recipe.save_every == 0 and not self._is_done(stage):
            self._save(learner)

    def _prune(self, pruner: Pruner, step: int) -> None:
        """Prune at the end of a window; a score from before does not compare with what is pruned further."""
        pruned, restart = pruner.after(step)
        if pruned:
            self._journal.note(self._progress.stage, step + 1, pruned)
        if restart:
            self._progress = replace(self._progress, best_score=None, best_step=None, mixture=None, stale=0)

    def _validate(self, stage: Stage) -> None:
        """Score the model and keep its weights if they are the stage's best."""
        if not self._judge.can_judge(stage):
            return
        score, mixture = self._judge.judge(stage)
        mixed = {} if mixture is None else {"mixture": dict(mixture)}
        self._journal.note(self._progress.stage, self._progress.step, {"MRR@10": round(score, 6), **mixed})
        if is_better(score, self._progress.best_score):
            step = self._progress.step
            self._progress = replace(self._progress, best_score=score, best_step=step, mixture=mixture, stale=0)
            self._session.if_main(lambda: self._folder.save_best(self._progress, self._session.model.weighers))
        else:
            self._progress = replace(self._progress, stale=self._progress.stale + 1)

    def _mine(self, stage: Stage, step: int) -> None:
        found = self._negatives.mine(stage, [self._recipe.seed, self._progress.stage, step])
        self._progress = replace(self._progress, mined_at=step)
        self._journal.note(self._progress.stage, step, {"mined queries": found})

    def _batches(self, stage: Stage) -> Batches:
        recipe, processes = self._recipe, self._session.processes
        examples = self._negatives.examples()
        sizes, weights = [len(part) for part in examples], [source.weight for source in recipe.data]
        stream = self._progress.stage
        return Batches(
            examples,
            Sampler(sizes, weights=weights, seed=recipe.seed * 1000 + stream),
            self._session.model.tokenizer,
            recipe.max_length,
            batch_size=stage.batch_size if stage.cotraining is None else stage.cotraining.select_from,
            micro_batch_size=self._session.micro_batch_size(stage),
            seed=[recipe.seed, stream],
            process=processes.process_index,
            processes=processes.num_processes,
        )

    def _save(self, learner: AnyLearner) -> None:
        now = time.monotonic()
        seconds = round(self._progress.seconds + now - self._started, 3)
        self._progress, self._started = replace(self._progress, seconds=seconds), now
        counts = {} if self._pruner is None else self._pruner.tensors()

        def further(state: Path) -> None:
            self._negatives.save(state)
            save_pruning(state, counts)

        self._folder.save(self._progress, self._session, learner, further)

    def _finished(self) -> bool:
        last = len(self._recipe.stages) - 1
        return self._progress.stage == last and self._is_done(self._recipe.stages[last])

    def _export(self, finished: bool) -> None:
        """The best weights (without validation the last) as a checkpoint, mixed as validates best."""
        self._folder.load_best(self._progress, self._session.model.weighers)
        mixture = self._progress.mixture
        if mixture is None:
            score, mixture = self._judge.best_mixture()
            if mixture is not None:
                self._journal.note(
                    self._progress.stage, self._progress.step, {"MRR@10": round(score, 6), "mixture": dict(mixture)}
                )
        texts = sample_texts(self._sources, self._recipe.quantization.texts, self._recipe.seed)
        self._session.if_main(
            lambda: self._folder.export(
                self._recipe, self._progress, self._session, texts, mixture=mixture, finished=finished
            )
        )


def _report(folder: RunFolder, progress: Progress, *, finished: bool, written: bool = True) -> TrainingReport:
    return TrainingReport(
        checkpoint=folder.path,
        finished=finished,
        steps=progress.steps_before + progress.step,
        best_score=progress.best_score,
        seconds=progress.seconds,
        written=written,
    )
