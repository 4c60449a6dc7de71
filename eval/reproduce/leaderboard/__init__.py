"""The results of a leaderboard.

Read in this order: ``cells`` (numbers of each row and column), ``results`` (comparisons, and all as JSON), ``files``
(written, and read again), ``view``, ``pages`` and ``figures`` (the report).
"""

from __future__ import annotations

from eval.reproduce.leaderboard.cells import Cells
from eval.reproduce.leaderboard.files import RESULTS, VALUES, judge_again, kept_cells, write_leaderboard
from eval.reproduce.leaderboard.pages import write_report
from eval.reproduce.leaderboard.results import Trainings, exit_status

__all__ = [
    "RESULTS", "VALUES", "Cells", "Trainings", "exit_status", "judge_again", "kept_cells", "write_leaderboard",
    "write_report",
]  # fmt: skip
