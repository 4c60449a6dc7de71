"""What a stage of a recipe cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from learned_sparse.core import LearnedSparseError

if TYPE_CHECKING:
    from encoders.training.recipe import Negatives, Stage


def check_stage(where: str, stage: Stage, negatives: Negatives) -> None:
    """An error, opened by ``where``, for what cannot be computed or could not learn."""
    if stage.steps < 1 or stage.batch_size < 1:
        raise LearnedSparseError(f"{where}: 'steps' and 'batch_size' must be at least 1")
    if stage.micro_batch_size is not None and stage.batch_size % stage.micro_batch_size:
        raise LearnedSparseError(f"{where}: micro_batch_size {stage.micro_batch_size} must divide {stage.batch_size}")
    if stage.objective == "rank":
        _check_ranking(where, stage, 0 if negatives.kind == "none" else negatives.per_query)
    elif stage.component is not None or stage.cotraining is not None or stage.pruning is not None:
        raise LearnedSparseError(f"{where}: 'component', 'cotraining' and 'pruning' go with objective: rank")
    _check_cotraining(where, stage)
    _check_pruning(where, stage)


def _check_ranking(where: str, stage: Stage, hard_negatives: int) -> None:
    if hard_negatives == 0 and (stage.rank.loss == "pairwise" or _selects_by_pairs(stage)):
        raise LearnedSparseError(f"{where}: the pairwise loss needs hard negatives; set negatives: per_query")
    alone = (stage.micro_batch_size or stage.batch_size) == 1
    if alone and (hard_negatives == 0 or stage.rank.loss == "hinge"):
        raise LearnedSparseError(f"{where}: a batch of one query without hard negatives has nothing to rank against")


def _selects_by_pairs(stage: Stage) -> bool:
    return stage.cotraining is not None and stage.cotraining.share < 1 and stage.cotraining.loss == "pairwise"


def _check_cotraining(where: str, stage: Stage) -> None:
    settings = stage.cotraining
    if settings is None:
        return
    if stage.component is not None or stage.joint:
        raise LearnedSparseError(
            f"{where}: 'cotraining' names its components itself; leave out 'component' and 'joint'"
        )
    if len(set(settings.components)) != 2 or len(settings.components) != 2:
        raise LearnedSparseError(f"{where}: cotraining: 'components' are two different ones")
    if settings.select_from < 1 or not 0 < settings.share <= 1:
        raise LearnedSparseError(f"{where}: cotraining: 'select_from' is at least 1, 'share' above 0 and at most 1")


def _check_pruning(where: str, stage: Stage) -> None:
    settings = stage.pruning
    if settings is None:
        return
    if settings.window < 1 or settings.begin < 0:
        raise LearnedSparseError(f"{where}: pruning: 'window' is at least 1, 'begin' at least 0")
    wrong = [gamma for gamma in (*settings.schedule, settings.gamma) if not 0 < gamma <= 1]
    if wrong:
        raise LearnedSparseError(f"{where}: pruning: {wrong[0]} is not a share of documents; give one above 0, up to 1")
