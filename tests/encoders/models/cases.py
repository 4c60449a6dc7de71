"""Settings of every architecture that the contract tests run: each switch, and the combinations that make sense."""

from __future__ import annotations

from itertools import product
from typing import Any

Case = tuple[str, dict[str, Any]]

SPLADE: list[dict[str, Any]] = [
    {"pooling": pooling, "saturation": saturation, "expansion": expansion}
    for pooling, saturation, expansion in product(["sum", "max"], ["log", "none"], ["full", "lexical"])
] + [
    {"query": "separate", "pooling": "max"},
    {"query": "bag-of-words"},
    {"query": "bag-of-words", "query_weighting": "tf", "bow_special_tokens": "all"},
    {"pool_special_tokens": False, "block_special_terms": True},
    {"pool_special_tokens": False, "expansion": "lexical", "bow_special_tokens": "none"},
]
SPARTERM: list[dict[str, Any]] = [
    {"mode": mode, "query": query, "query_gate": gate}
    for mode, query, gate in product(["expansion-enhanced"], ["tf", "symmetric", "asymmetric"], ["same", "literal"])
] + [
    {"mode": "literal-only"},
    {"mode": "literal-only", "query": "tf"},
    {"mode": "literal-only", "query": "asymmetric"},
    {"mode": "expansion-only", "query": "tf"},
    {"mode": "expansion-only", "query": "tf", "gate_pool": "raw_max", "threshold": 0.45, "bow_special_tokens": "all"},
    {"gate_pool": "max"},
    {"gate_pool": "raw_max", "threshold": 0.2},
    {"max_terms": 5},
    {"mode": "literal-only", "max_terms": 3},
    {"pool_special_tokens": False, "bow_special_tokens": "all", "block_special_terms": False},
    {"mode": "literal-only", "bow_special_tokens": "unknown", "block_special_terms": False},
]
CASES: list[Case] = [("splade", settings) for settings in SPLADE] + [("sparterm", settings) for settings in SPARTERM]


def name(case: Case) -> str:
    """A readable test id."""
    return "-".join([case[0], *(f"{key}={value}" for key, value in case[1].items())])
