"""What a leaderboard is, and its YAML file.

Read ``definition`` first: columns and rows. ``matrix_file`` reads the file and checks it; ``checks`` and ``budgets``
check the claims in it.
"""

from __future__ import annotations

from eval.reproduce.matrix.budgets import Budget, budget_of, recipe_of
from eval.reproduce.matrix.definition import (
    DATA,
    PUBLISHED_COSTS,
    Column,
    Matrix,
    Row,
    Sample,
    Training,
    columns_of_average,
    seeds_of,
    slug,
)
from eval.reproduce.matrix.matrix_file import MATRICES, column_measures, fill_data, known_matrices, load_matrix

__all__ = [
    "DATA",
    "MATRICES",
    "PUBLISHED_COSTS",
    "Budget",
    "Column",
    "Matrix",
    "Row",
    "Sample",
    "Training",
    "budget_of",
    "column_measures",
    "columns_of_average",
    "fill_data",
    "known_matrices",
    "load_matrix",
    "recipe_of",
    "seeds_of",
    "slug",
]
