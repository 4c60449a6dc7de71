"""What validation says about a model in training: MRR@10, and how its components are best mixed."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from encoders.encoding import architecture_named
from encoders.models import Mixture
from encoders.training.recipe import Recipe, Stage
from encoders.training.session import Session
from encoders.training.validation.validation import Validator

Score = tuple[float, Mapping[str, Any] | None]


class Judge:
    """Validation of one run; every process learns what the main process finds."""

    def __init__(self, recipe: Recipe, session: Session, *, expanded: bool) -> None:
        """``expanded``: the model reads documents with what expands them."""
        settings = recipe.validation
        self._session = session
        self._validator = None if settings is None else Validator(settings, recipe.seed, expanded=expanded)
        family = architecture_named(recipe.architecture)
        self._mixtures: list[Mixture] = []
        if recipe.mix and self._validator is not None:
            self._mixtures = list(family.mixtures(session.model.settings))

    def can_judge(self, stage: Stage) -> bool:
        """Whether there is validation, and a model to search with: a gate alone is none."""
        return self._validator is not None and stage.objective != "gate"

    def judge(self, stage: Stage) -> Score:
        """MRR@10 of what ``stage`` trains: one component, the best mixture of all, or the whole model as it is.

        With the settings of that mixture, if there are mixtures to choose from.
        """
        if stage.component is None and self._mixtures:
            return self.best_mixture()
        return self._session.on_main(lambda: self._score(stage.component)), None

    def best_mixture(self) -> Score:
        """MRR@10 of the best mixture and its settings; 0 and none where nothing is mixed."""
        if self._validator is None or not self._mixtures:
            return 0.0, None
        found: list[tuple[float, int]] = []
        score = self._session.on_main(lambda: self._search(found))
        place = int(self._session.on_main(lambda: float(found[0][1])))
        return score, self._mixtures[place].settings

    def _score(self, component: str | None) -> float:
        if self._validator is None:
            raise ValueError("no validation")
        return self._validator.score(functools.partial(self._session.encode, component=component))

    def _search(self, found: list[tuple[float, int]]) -> float:
        if self._validator is None:
            raise ValueError("no validation")
        found.append(self._validator.best_mixture(self._mixtures, self._session.encode))
        return found[0][0]
