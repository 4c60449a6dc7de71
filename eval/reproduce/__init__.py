"""Room eval.reproduce."""

from __future__ import annotations

from eval.reproduce.matrix_file import load_matrix
from eval.reproduce.plan import CellPlan, Plan
from eval.reproduce.plan_make import make_plan
from eval.reproduce.pools import pooled
from eval.reproduce.step_batch import Batch, only_one
from eval.reproduce.step_run import in_this_process

__all__ = [
    "Batch",
    "CellPlan",
    "Plan",
    "in_this_process",
    "load_matrix",
    "make_plan",
    "only_one",
    "pooled",
]
