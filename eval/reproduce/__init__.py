"""Leaderboards: one YAML file, its matrix of rows and columns, becomes commands, and their output becomes results.

Read in this order: ``matrix`` (what a leaderboard is, and its YAML), ``steps`` and ``builder`` (commands
and when they are done), ``plan`` (the steps of each cell), ``runner`` (runs them), ``leaderboard`` (results as JSON
and pages). The command is ``python -m eval.reproduce``.

Names are loaded at first use: ``python -m eval.reproduce.prepare`` must find its own module not yet imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from learned_sparse.core.lazy import lazy_names

if TYPE_CHECKING:
    from eval.reproduce.matrix import load_matrix
    from eval.reproduce.plan import CellPlan, Plan, make_plan
    from eval.reproduce.prepare import pooled
    from eval.reproduce.runner import Runner, in_this_process, only_one
    from eval.reproduce.steps import Step, log_of

__all__ = [
    "CellPlan",
    "Plan",
    "Runner",
    "Step",
    "in_this_process",
    "load_matrix",
    "log_of",
    "make_plan",
    "only_one",
    "pooled",
]

_MODULES = {
    "CellPlan": "plan",
    "Plan": "plan",
    "Step": "steps",
    "load_matrix": "matrix",
    "log_of": "steps",
    "make_plan": "plan",
    "pooled": "prepare",
}
__getattr__, __dir__ = lazy_names(__name__, {name: f"{__name__}.{_MODULES.get(name, 'runner')}" for name in __all__})
