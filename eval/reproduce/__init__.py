"""Leaderboards: one YAML file, its matrix of rows and columns, becomes commands, and their output becomes results.

Read in this order: ``matrix`` (what a leaderboard is) and ``matrix_file`` (its YAML), ``steps`` and ``builder``
(commands and when they are done), ``plan`` (the steps of each cell), ``runner`` (runs them), ``leaderboard`` (results
as JSON and pages). The command is ``python -m eval.reproduce``.
"""

__all__ = ["matrix", "matrix_file", "plan", "prepare", "runner", "steps"]
"""Public modules."""
