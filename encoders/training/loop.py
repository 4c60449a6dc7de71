"""One training run: stages of steps, validated, saved, resumed, and finished as a checkpoint."""

from __future__ import annotations

import json
import logging
import math
import random
import shutil
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from tqdm import tqdm

from encoders.backbone.device import process_settings, random_state
from encoders.checkpoints.tokenizer import tokenizer_sha256
from encoders.encoding.model import save_checkpoint
from encoders.models import SIDES
from encoders.models.architecture import QUERY_WEIGHTS
from encoders.training.examples import Examples, JudgedExamples, sample_documents
from encoders.training.learner import Learner, learning_rate_share
from encoders.training.recipe import Changes, Recipe, Stage, load_recipe, to_mapping
from encoders.training.session import IDF_DOCUMENTS, Session, load_state, load_weights, save_state, save_weights
from encoders.training.sources import Corpora, load_source
from learned_sparse.collections.topics import Query
from learned_sparse.collections.trec import write_run
from learned_sparse.core.errors import LearnedSparseError, folder_kind, wrong_path
from learned_sparse.core.files import (
    checkpoint_folder,
    locked,
    new_folder,
    read_json,
    restore_folder,
    sha256,
    write_json,
)
from learned_sparse.core.settings import parse

if TYPE_CHECKING:
    from encoders.training.validation import Validator

_logger = logging.getLogger(__name__)
_SHOWN = {"loss": ".4g", "terms_per_query": ".0f", "terms_per_document": ".0f"}
"""Logged values that the progress bar shows, and their formats."""
_FREE = {"log_every", "save_every", "model", "data"}
"""Settings that may change when a run is resumed: they affect no weights, or fingerprints compare what they name."""


@dataclass(kw_only=True)
class Progress:
    """Position of a run: ``step`` steps of stage ``stage`` (both from 0) are done."""

    stage: int = 0
    step: int = 0
    best_score: float | None = None
    best_step: int | None = None
    stale: int = 0  # validations in a row without a better score
    mixture: Mapping[str, Any] | None = None  # settings of the best mixture, found with the best weights
    steps: int = 0  # over all stages
    mined_at: int | None = None  # step of the last mining of hard negatives
    seconds: float = 0.0  # over all resumptions
    finished: bool = False  # whether the checkpoint is that of all stages
    recipe: Mapping[str, Any] = field(default_factory=dict)  # completed from its base
    data: Mapping[str, str] = field(default_factory=dict)  # fingerprints of what is read, by name

    @property
    def best_weights(self) -> str:
        """File name of the best weights of the stage."""
        return f"best-{self.stage:02d}-{self.best_step or 0:09d}.safetensors"


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
) -> Progress:
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
    output = checkpoint_folder(recipe.model) if output is None else Path(output)
    progress = begin(output, recipe, resume=resume, overwrite=overwrite)
    if (output / "training" / "finished.json").exists() and not overwrite:
        return replace(progress, finished=True)
    torch.manual_seed(recipe.seed)
    random.seed(recipe.seed)
    session = Session(recipe, device, log_with, output / "training")
    with locked(output) if session.is_main else nullcontext(), process_settings(session.precision, session.device):
        progress = begin(output, recipe, resume=resume, overwrite=overwrite)  # what another writer has left meanwhile
        until = math.inf if max_seconds is None else time.monotonic() + max_seconds
        run = Training(recipe, output, session, progress, until=until, overwrite=overwrite, quiet=quiet)
        numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        before = {each: signal.signal(each, run.interrupt) for each in numbers}
        try:
            for number in range(progress.stage, len(recipe.stages)):
                if not run.stage(number):
                    break
            return run.export()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class Training:
    """One run, from its last state to the checkpoint: the files of ``training``, and the stages that are left."""

    def __init__(
        self,
        recipe: Recipe,
        output: Path,
        session: Session,
        progress: Progress,
        *,
        until: float,
        overwrite: bool,
        quiet: bool,
    ) -> None:
        """Read the data and check them against ``progress``; then remove an earlier run, if one is replaced."""
        self._recipe, self._output, self._session, self._quiet = recipe, output, session, quiet or not session.is_main
        self._until, self.interrupted = until, False
        self._folder, self._state = output / "training", output / "training" / "state"
        settings, validation = session.model.settings, recipe.validation
        corpora = Corpora(reads_expanded=settings.uses_expanded, on_bad_line=recipe.on_bad_line)
        self._sources: list[Examples] = []
        for source in recipe.data:
            self._sources.append(load_source(source, recipe.negatives, corpora))
        held_out: list[Examples] | None = None
        self._held_out: dict[str, int] | None = None  # numbers of queries and of examples
        self._validator: Validator | None = None
        if validation is not None:
            from encoders.training.validation import Validator, hold_out

            if validation.holdout is not None:
                self._sources, held_out, self._held_out = hold_out(self._sources, validation)
            mixtures = settings.mixtures() if recipe.mix else ()
            self._validator = Validator(validation, recipe.seed, mixtures, corpora=corpora, held_out=held_out)
        fingerprints = {"tokenizer": tokenizer_sha256(session.model.tokenizer)}  # of the contents that a run reads
        for number, part in enumerate(self._sources):
            fingerprints[f"data.{number}"] = part.fingerprint
            if part.source.run is not None:
                fingerprints[f"data.{number}.run"] = sha256(part.source.run)
        if self._validator is not None:
            fingerprints["validation"] = self._validator.fingerprint()
        names = {*fingerprints, *progress.data} if progress.data else set()
        if changed := sorted(name for name in names if progress.data.get(name) != fingerprints.get(name)):
            raise LearnedSparseError(
                f"{output}: the training data have changed since the run began ({', '.join(changed)}); "
                "--overwrite starts again"
            )
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
        self._negatives = recipe.stages[progress.stage].negatives or recipe.negatives
        for part in self._sources:  # an error in them leaves the folder as it is
            part.draw_by(self._negatives)
        if session.is_main:
            if overwrite or not self._state.exists():
                shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(parents=True, exist_ok=True)
        session.processes.wait_for_everyone()
        self._resumed = self._state if self._state.exists() else None
        session.processes.init_trackers(recipe.model, config={"recipe": json.dumps(to_mapping(recipe))})
        self._started = self._logged = time.monotonic()
        self._examples, self._bar = 0, tqdm(disable=True)  # since the last line of the log

    def interrupt(self, *_: object) -> None:
        """End the run after the current step; called again, at once."""
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        _logger.warning("stopping after this step; press Ctrl-C again to stop at once")

    def stops(self) -> bool:
        """Whether to end after this step, by ``max_seconds`` or a signal; the same in all processes."""
        stop = self.interrupted or time.monotonic() >= self._until
        if self._session.num_processes == 1:
            return stop
        votes = torch.tensor([float(stop), float(self.interrupted)], device=self._session.device)
        stops, interruptions = self._session.sum(votes).tolist()
        self.interrupted = interruptions > 0
        return bool(stops > 0)

    def stage(self, number: int) -> bool:
        """Train stage ``number`` from its current step; returns whether it was completed."""
        self._begin(number)
        recipe, stage, learner = self._recipe, self._recipe.stages[number], self._learner
        progress, negatives = self._progress, self._negatives
        searches = learner.ranks and negatives.kind in ("self", "checkpoint") and negatives.per_query > 0
        every = negatives.every if negatives.kind == "self" else None
        validates = self._validator is not None and learner.ranks and stage.validate_every != 0
        interval = stage.validate_every or (recipe.validation.every if recipe.validation else stage.steps)
        self._bar.close()
        self._bar = tqdm(
            total=stage.steps, initial=progress.step, desc=stage.name, unit="step", dynamic_ncols=True,
            disable=self._quiet or None,  # None: without a terminal
        )  # fmt: skip
        while not self._is_done(stage):
            start, end, mined_at = progress.step, stage.steps, progress.mined_at
            if searches and (mined_at is None or (every is not None and start % every == 0 and start != mined_at)):
                self._mine(stage)
            if every is not None:
                end = min(end, (start // every + 1) * every)
            for updates in learner.stream(range(start, end)):
                if (cotraining := stage.options.cotraining) is not None:
                    from encoders.training.spade import cotrain

                    values = cotrain(learner, progress.step, updates, cotraining)
                else:
                    with learner.counting():
                        values = learner.update(progress.step, updates[0], stage.component)
                progress.step = step = progress.step + 1
                progress.steps += 1
                self._bar.update()
                self._examples += sum(len(examples) for examples, _ in updates)
                if step % recipe.log_every == 0 or step in (1, stage.steps):
                    rate = stage.learning_rate * learning_rate_share(stage, step - 1)
                    self._log({**values, "learning_rate": rate})
                if learner.pruner is not None:
                    pruned, restart = learner.pruner.after(step - 1)
                    if pruned:
                        self._log(pruned)
                    if restart:  # scores from before and after a smaller gamma are not comparable
                        progress.best_score = progress.best_step = progress.mixture = None
                        progress.stale = 0
                if validates and (step % interval == 0 or step == stage.steps):
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

    def _begin(self, number: int) -> None:
        """Prepare stage ``number``: from the best weights of the stage before, or from the state that is resumed."""
        recipe, session, stage, progress = self._recipe, self._session, self._recipe.stages[number], self._progress
        if number > progress.stage:  # scores of different stages are not comparable
            if progress.best_step is not None:
                load_weights(self._folder / progress.best_weights, session.model.weighers)
            kept: dict[str, Any] = {"seconds": progress.seconds, "recipe": progress.recipe, "data": progress.data}
            self._progress = Progress(stage=number, steps=progress.steps, **kept)
        self._learner = learner = Learner(stage, session, self._sources, number)
        if (negatives := stage.negatives or recipe.negatives) != self._negatives:
            self._negatives = negatives
            for part in self._sources:
                part.draw_by(negatives)
        if self._resumed is not None:
            process = session.process_index, session.num_processes
            counts = load_state(self._resumed, session.model.weighers, learner.optimizer, session.device, *process)
            if learner.pruner is not None and session.is_main:
                learner.pruner.restore(counts, session.device)
            for index, part in enumerate(self._sources):
                if isinstance(part, JudgedExamples) and (path := self._resumed / f"mined-{index}.trec").exists():
                    part.mined = path
                    part.take_candidates(path)
            self._resumed = None

    def _is_done(self, stage: Stage) -> bool:
        """Whether all steps are done, or patience has run out."""
        patience = self._recipe.validation.patience if self._recipe.validation else None
        return self._progress.step >= stage.steps or (patience is not None and self._progress.stale >= patience)

    def _mine(self, stage: Stage) -> None:
        """Search the hard negatives with the model of the stage, or with the checkpoint that it names."""
        session, negatives, progress, count = self._session, self._negatives, self._progress, 0
        for number, part in enumerate(self._sources):
            if isinstance(part, JudgedExamples):
                queries, depth = [Query(id, part.queries[id]) for id in part.positives], negatives.ranks[1] + 1
                run = session.rank(  # one hit more: the positive is removed
                    queries, part.texts, depth, checkpoint=negatives.checkpoint, component=stage.component
                )
                part.mined, count = self._folder / f"mined-{number}.trec", count + len(queries)
                if session.is_main:
                    write_run(part.mined, run, "mined")
                session.processes.wait_for_everyone()
                part.take_candidates(part.mined)
        progress.mined_at = progress.step
        self._log({"mined queries": count})

    def _validate(self, stage: Stage) -> None:
        """Score the model and keep its weights if they are the stage's best."""
        progress, (score, mixture) = self._progress, self._score(stage.component)
        ramps = [ramp for kind, _, ramp, _ in map(stage.regularizer_of, SIDES) if kind != "none"]
        if progress.step < min(max(ramps, default=0), stage.steps):
            return  # the weights are less sparse than the recipe wants; later ones do not compare
        if progress.best_score is None or score > progress.best_score:  # equal scores keep the earlier weights
            progress.best_score, progress.best_step, progress.mixture, progress.stale = score, progress.step, mixture, 0
            if self._session.is_main:
                save_weights(self._folder / progress.best_weights, self._session.model.weighers)
            self._session.processes.wait_for_everyone()
        else:
            progress.stale += 1

    def _score(self, component: str | None) -> tuple[float, Mapping[str, Any] | None]:
        score, mixture, others = cast("Validator", self._validator).score(self._session, component)
        mixed = {} if mixture is None else {"mixture": dict(mixture)}
        self._log({"MRR@10": round(score, 6), **mixed, **others})
        return score, mixture

    def _log(self, values: Mapping[str, Any]) -> None:
        """Log the values of a training step, or of a validation, a pruning or a mining.

        A line of JSON for each in ``log.jsonl``; a resumed run appends to it. A run that was killed and resumed logs
        some steps twice; the last line of a step counts.
        """
        progress, now = self._progress, time.monotonic()
        if "loss" in values:
            rate = self._examples / max(now - self._logged, 1e-9)
            values = {**values, "examples_per_second": round(rate, 2)}
            shown = {name: format(values[name], form) for name, form in _SHOWN.items() if name in values}
            self._bar.set_postfix(shown, refresh=False)
        elif not self._quiet:
            _logger.info("step %d: %s", progress.step, ", ".join(f"{name} {value}" for name, value in values.items()))
        numbers = {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
        self._session.processes.log(numbers, progress.steps)
        if self._session.is_main:
            with (self._folder / "log.jsonl").open("a", encoding="utf-8", newline="\n") as file:
                file.write(json.dumps({"stage": progress.stage, "step": progress.step, **values}) + "\n")
        self._logged, self._examples = time.monotonic(), 0

    def _save(self) -> None:
        """Replace the state of the run, which a killed run resumes from, as a whole."""
        session, learner, progress, now = self._session, self._learner, self._progress, time.monotonic()
        progress.seconds, self._started = round(progress.seconds + now - self._started, 3), now
        counts = {} if learner.pruner is None else learner.pruner.tensors()
        random_states = torch.cat(session.gather(random_state(session.device).unsqueeze(0).to(session.device))).cpu()
        if session.is_main:
            with new_folder(self._state) as folder:
                for part in self._sources:
                    if isinstance(part, JudgedExamples) and part.mined is not None:
                        shutil.copyfile(part.mined, folder / part.mined.name)
                save_state(folder, session.model.weighers, learner.optimizer, random_states, counts)
                write_json(folder / "state.json", asdict(progress), record=True)
            for path in self._folder.glob("best-*.safetensors"):
                if path.name != progress.best_weights:
                    path.unlink()
        session.processes.wait_for_everyone()

    def export(self) -> Progress:
        """Write the checkpoint: the best weights (without validation the last), with the best mixture."""
        session, progress, stages = self._session, self._progress, self._recipe.stages
        self._bar.close()
        progress.finished = progress.stage == len(stages) - 1 and self._is_done(stages[-1])
        if self.interrupted and not progress.finished:
            raise KeyboardInterrupt(f"training was interrupted after step {progress.steps}")
        if progress.best_step is not None:
            load_weights(self._folder / progress.best_weights, session.model.weighers)
        session.use_settings(None)
        mixture = progress.mixture
        if mixture is None and self._validator is not None and self._validator.mixtures:
            _, mixture = self._score(None)
        notes = {
            "device": session.device.type,
            "precision": session.precision,
            "threads": torch.get_num_threads(),
            "finished": progress.finished,
            "stage": progress.stage,
            "step": progress.step,
            "MRR@10": progress.best_score,
            "best_step": progress.best_step,
            "seconds": progress.seconds,
            **({} if mixture is None else {"mixture": dict(mixture)}),
            **({} if self._held_out is None else {"held_out": self._held_out}),
        }
        if session.is_main:
            session.use_settings(None, mixture)
            if None in (model := session.model).quantizers.values():
                session.calibrate(self._sources)
            model.recipe, model.training = to_mapping(self._recipe), notes
            save_checkpoint(self._output, model)
            if progress.finished:
                write_json(self._folder / "finished.json", notes)
        session.processes.wait_for_everyone()
        return progress


def begin(output: Path, recipe: Recipe, *, resume: bool, overwrite: bool) -> Progress:
    """Progress of a run in ``output``: that of the last state with ``resume``, else none. Writes nothing."""
    if folder_kind(output) not in {"", "a checkpoint", "a model of transformers", "an empty folder"}:
        raise wrong_path(output, "a checkpoint", "name another --output")
    restore_folder(state := output / "training" / "state")
    if overwrite:
        return Progress()
    if not resume and (state.exists() or (output / "learned_sparse.json").exists()):
        raise LearnedSparseError(
            f"{output}: this folder holds a run; go on with --resume, replace it with --overwrite, "
            "or name another --output"
        )
    if not state.exists():
        return Progress()
    path = state / "state.json"
    progress: Progress = parse(Progress, read_json(path, record=True), str(path))
    try:
        begun = parse(Recipe, progress.recipe, f"{path}: recipe")
    except LearnedSparseError as error:  # a key that is gone since
        raise LearnedSparseError(f"{error}; --overwrite starts again") from error
    if (before := _settings(begun)) != (now := _settings(recipe)):
        from learned_sparse.jsonvector.manifest import as_text, differences

        changed = as_text(differences(before, now))
        raise LearnedSparseError(f"{output}: cannot resume with another recipe ({changed}); --overwrite starts again")
    return progress


def _settings(recipe: Recipe) -> dict[str, Any]:
    """What a resumed run has in common with its beginning, besides the contents of what it reads."""
    settings = {key: value for key, value in to_mapping(recipe).items() if key not in _FREE}
    stages = {str(number): stage for number, stage in enumerate(settings["stages"])}
    return settings | {"stages": stages, "validation": (settings["validation"] or {}) | {"collection": None}}
