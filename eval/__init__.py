"""From runs and judgements to measures, costs and leaderboards.

``from eval import evaluate, compare``: measure a run, and test the difference of two runs.

Read ``eval.measures`` (trec_eval) and ``eval.stats`` (differences) first. ``eval.costs`` measures FLOPS, index size and
latency. ``eval.reproduce`` runs leaderboards and writes their pages. The other modules are commands that analyse one
model or run, and what they share: ``runs``, ``tables`` and ``charts``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from learned_sparse.core.lazy import LazyPackage

if TYPE_CHECKING:
    from eval.measures import evaluate as evaluate
    from eval.stats import compare as compare

__all__ = ["compare", "evaluate"]

LAZY = {"compare": "eval.stats", "evaluate": "eval.measures"}
sys.modules[__name__].__class__ = LazyPackage  # `eval.evaluate` is also a command; the attribute is the function
