"""The results of a leaderboard.

Read in this order: ``cells`` (numbers of each row and column), ``results`` (comparisons, and all as JSON), ``files``
(written, and read again).
"""

from __future__ import annotations

from eval.reproduce.leaderboard.cells import Cells, Measured, averaged, measured, measured_cells
from eval.reproduce.leaderboard.files import PER_QUERY, RESULTS, TRAININGS, kept_cells, write_leaderboard
from eval.reproduce.leaderboard.results import exit_status, leaderboard, score_verdict

__all__ = [
    "PER_QUERY",
    "RESULTS",
    "TRAININGS",
    "Cells",
    "Measured",
    "averaged",
    "exit_status",
    "kept_cells",
    "leaderboard",
    "measured",
    "measured_cells",
    "score_verdict",
    "write_leaderboard",
]
