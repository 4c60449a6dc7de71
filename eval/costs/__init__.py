"""Costs of searching: expected FLOPS, terms per text, index size and latency.

Read ``sparsity`` first: FLOPS and term statistics of vectors. ``latency`` times queries; ``__main__`` is the command
``eval.costs`` that measures all costs of one row of a leaderboard.
"""

from __future__ import annotations

from eval.costs.sparsity import (
    Sparsity,
    TermCounts,
    TermsPerText,
    count_documents,
    count_queries,
    count_terms,
    expected_flops,
    sparsity_of,
    sparsity_of_files,
    terms_per_text,
)

__all__ = [
    "Sparsity",
    "TermCounts",
    "TermsPerText",
    "count_documents",
    "count_queries",
    "count_terms",
    "expected_flops",
    "sparsity_of",
    "sparsity_of_files",
    "terms_per_text",
]
