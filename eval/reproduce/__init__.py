"""Leaderboards: one YAML file, its matrix of rows and columns, becomes commands, and their output becomes results.

Read in this order: ``matrix`` (what a leaderboard is, and its YAML), ``steps`` (commands and when they are done),
``plan`` (the steps of each cell), ``runner`` (runs them), ``results`` (their numbers as JSON and a table), ``pages``.
The command is ``python -m eval.reproduce``.
"""

__all__ = ["__main__", "matrix", "pages", "plan", "prepare", "results", "runner", "steps"]
"""Public modules."""
