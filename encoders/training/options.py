"""Stage options that one architecture has: SparTerm's gate, SpaDE's pointwise loss, co-training and pruning.

A recipe gives them as ``options`` of a stage; ``STAGE_OPTIONS`` says which architecture reads which. Torch is not
imported, because recipes are read without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.settings import parse

if TYPE_CHECKING:
    from encoders.training.recipe import Stage


@dataclass(frozen=True, kw_only=True)
class StageOptions:
    """Options of a stage; an architecture that is not in ``STAGE_OPTIONS`` has none."""

    def check(self, stage: Stage, where: str) -> None:
        """Raise if the options contradict each other or ``stage``; ``where`` opens the message."""


@dataclass(frozen=True, kw_only=True)
class SparTermOptions(StageOptions):
    """SparTerm's Eq. 8 and 9; the two weights are the paper's (§4.2)."""

    joint: bool = False  # objective: rank: train the gate as well, on L_rank + L_exp (Eq. 9)
    negative_weight: float = 1e-3  # lambda_1 of Eq. 8
    positive_weight: float = 1.0  # lambda_2

    def check(self, stage: Stage, where: str) -> None:
        """Raise if ``joint`` has no ranking loss to join."""
        if self.joint and stage.objective != "rank":
            raise LearnedSparseError(f"{where}: 'joint' goes with objective: rank")


@dataclass(frozen=True, kw_only=True)
class Pointwise:
    """The query likelihood in SpaDE's Eq. 12: ``-weight * v_q . log softmax(v_d+)``."""

    weight: float = 0.0  # the paper's lambda is 1
    component: str | None = None  # add it only where this component is trained alone; None: always


@dataclass(frozen=True, kw_only=True)
class CoTraining:
    """SpaDE §3.3: examples that are hard for one component train the other one.

    One step of the stage looks at ``select_from`` examples. Each component scores all of them; the ``share`` with its
    largest losses trains the other component, in updates of ``batch_size`` examples (the last one may be smaller).
    """

    components: tuple[str, ...]  # two of them
    select_from: int = 1024  # examples of one step, over all processes; the paper selects from the whole training set
    share: float = 0.3  # tau (§3.3); 1: no selection, both train on everything ("w/o co-training" of Table 6)

    @property
    def selected(self) -> int:
        """The number of selected examples: ``share`` of ``select_from``, rounded down, at least 1.

        >>> CoTraining(components=("a", "b"), select_from=100, share=0.29).selected
        29
        """
        return max(1, int(self.share * self.select_from + 1e-9))  # 0.29 * 100 is just below 29

    def check(self, where: str) -> None:
        """Raise if the values contradict each other; ``where`` opens the message."""
        if len(set(self.components)) != 2 or len(self.components) != 2:
            raise LearnedSparseError(f"{where}: cotraining: 'components' are two different ones")
        if self.select_from < 1 or not 0 < self.share <= 1:
            raise LearnedSparseError(f"{where}: cotraining: 'select_from' is at least 1, 'share' above 0 and at most 1")


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """SpaDE §3.4: terms that have weight in more than ``gamma`` of the documents lose it.

    Documents are counted in windows of the stage, beginning at ``begin``; terms are pruned at the end of each window. A
    smaller gamma restarts the search for the best weights and patience, as in the published code.
    """

    gamma: float = 0.7  # the paper's; in force at the end of ``schedule``
    begin: int = 0  # steps of the stage
    window: int  # steps
    schedule: tuple[float, ...] = ()  # gamma after the first window, the second ... (published code: .90, .85 ...)
    cumulative: bool = False  # published code: pruned terms stay pruned, and no window after ``schedule`` prunes

    def check(self, where: str) -> None:
        """Raise if a value is out of range; ``where`` opens the message."""
        if self.window < 1 or self.begin < 0:
            raise LearnedSparseError(f"{where}: pruning: 'window' is at least 1, 'begin' at least 0")
        if self.cumulative and (not self.schedule or self.schedule[-1] != self.gamma):
            raise LearnedSparseError(f"{where}: pruning: cumulative pruning ends with 'schedule': end it with gamma")
        for gamma in (*self.schedule, self.gamma):
            if not 0 < gamma <= 1:
                raise LearnedSparseError(f"{where}: pruning: {gamma} is not a share of documents; give 0 < gamma <= 1")


@dataclass(frozen=True, kw_only=True)
class SpaDEOptions(StageOptions):
    """SpaDE's pointwise loss, co-training and corpus-level pruning."""

    pointwise: Pointwise = field(default_factory=Pointwise)
    cotraining: CoTraining | None = None
    pruning: Pruning | None = None

    def check(self, stage: Stage, where: str) -> None:
        """Raise if the options contradict each other or ``stage``."""
        if (self.cotraining or self.pruning) and stage.objective != "rank":
            raise LearnedSparseError(f"{where}: 'cotraining' and 'pruning' go with objective: rank")
        if self.cotraining is not None:
            if stage.component is not None:
                raise LearnedSparseError(f"{where}: 'cotraining' excludes 'component'; leave it out")
            self.cotraining.check(where)
        if self.pruning is not None:
            self.pruning.check(where)


STAGE_OPTIONS: Mapping[str, type[StageOptions]] = {"spade": SpaDEOptions, "sparterm": SparTermOptions}
"""Architecture to the options of its stages."""


def read_options(architecture: str, values: Any, where: str) -> StageOptions:
    """The options of a stage from a mapping; an unknown one is an error. Options that were read already stay."""
    kind = STAGE_OPTIONS.get(architecture, StageOptions)
    if type(values) is kind:
        return values
    if values == StageOptions():
        values = {}
    if not isinstance(values, Mapping):
        raise LearnedSparseError(f"{where}: options: expected a mapping, got {values!r:.80}")
    if values and kind is StageOptions:
        raise LearnedSparseError(f"{where}: architecture {architecture} has no options of stages; leave them out")
    return parse(kind, values, f"{where}: options")


def spade_options(stage: Stage) -> SpaDEOptions:
    """The options of a stage of SpaDE; the stages of other architectures neither co-train nor prune."""
    return stage.options if isinstance(stage.options, SpaDEOptions) else SpaDEOptions()
