"""The results of a leaderboard.

Read in this order: ``results`` (numbers of each row and column, comparisons, all as JSON and tables), ``view``,
``pages`` and ``figures`` (the report).
"""

__all__ = ["figures", "pages", "results", "view"]
"""Public modules."""
