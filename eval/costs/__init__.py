"""Room eval.costs."""

from __future__ import annotations

from eval.costs.encoded_files import Sparsity, count_queries, sparsity_of_files
from eval.costs.latency import encode_milliseconds
from eval.costs.sparsity import (
    Counted,
    TermCounts,
    TermsPerText,
    count_terms,
    document_frequencies,
    expected_flops,
    terms_per_text,
)

__all__ = [
    "Counted",
    "Sparsity",
    "TermCounts",
    "TermsPerText",
    "count_queries",
    "count_terms",
    "document_frequencies",
    "encode_milliseconds",
    "expected_flops",
    "sparsity_of_files",
    "terms_per_text",
]
