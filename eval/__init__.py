"""From runs and judgements to measures, costs and leaderboards.

``from eval import evaluate, compare``: measure a run, and test the difference of two runs.

Read ``eval.measures`` (trec_eval) and ``eval.stats`` (differences) first. ``eval.costs`` measures FLOPS, index size and
latency. ``eval.reproduce`` runs leaderboards and writes their pages. The other modules are commands that analyse one
model or run, and what they share: ``runs``, ``tables`` and ``charts``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from learned_sparse.core.lazy import lazy_names

if TYPE_CHECKING:
    from eval.measures import evaluate as evaluate
    from eval.stats import compare as compare

__all__ = ["compare", "evaluate"]

# `eval.evaluate` is also a command; `lazy_names` keeps the function as the attribute of this package.
__getattr__, __dir__ = lazy_names(__name__, {"compare": "eval.stats", "evaluate": "eval.measures"})
