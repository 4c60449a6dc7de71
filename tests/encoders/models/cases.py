"""Settings of every architecture for the contract tests: each switch, and the useful combinations."""

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
    {"mode": "expansion-only", "query": "tf"},
    {"mode": "expansion-only", "query": "tf", "gate_pool": "raw_max", "threshold": 0.45, "bow_special_tokens": "all"},
    {"gate_pool": "max"},
    {"gate_pool": "raw_max", "threshold": 0.2},
    {"max_terms": 5},
    {"mode": "literal-only", "max_terms": 3},
    {"pool_special_tokens": False, "bow_special_tokens": "all", "block_special_terms": False},
    {"mode": "literal-only", "bow_special_tokens": "unknown", "block_special_terms": False},
]
_FREQUENT = {"the": 0.9, "of": 0.75, "skin": 0.5, "[CLS]": 0.3}
SPADE: list[dict[str, Any]] = [
    {},
    {"components": "weighting"},
    {"components": "expansion", "k": 1},
    {"k": 2, "alpha": 0.3},
    {"k": None},
    {"k": None, "expansion_activation": "none"},
    {"repeats": "first"},
    {"repeats": "mean"},
    {"weighting_activation": "none"},
    {"repeats": "mean", "weighting_activation": "none"},
    {"pool_special_tokens": False, "block_special_terms": True},
    {"bow_special_tokens": "unknown", "weighting_separators": True},
    {"expanded": "weighting"},
    {"expanded": "expansion", "weighting_separators": True},
    {"expanded": "none"},
    {"gamma": 0.7, "frequencies": _FREQUENT},
    {"components": "weighting", "gamma": 0.4, "frequencies": _FREQUENT},
]
UNICOIL: list[dict[str, Any]] = [
    {},
    {"query_repeats": "max"},
    {"query": "separate", "repeats": "mean", "query_repeats": "first"},
    {"query": "bag-of-words", "head": "two-layer", "dropout": 0.1},
    {"separators": True, "bow_special_tokens": "all"},
    {"activation": "none", "repeats": "mean", "query_repeats": "max", "expanded": False},
]
DEEPCT: list[dict[str, Any]] = [{}, {"smoothing": "sqrt", "scale": 10.0}, {"expanded": True}]
DEEPIMPACT: list[dict[str, Any]] = [{}, {"repeats": "max", "separators": True}]
TILDEV2: list[dict[str, Any]] = [{}, {"query_weighting": "binary", "bow_special_tokens": "none"}]
_UHD: dict[str, Any] = {"dimensions": 48, "k": 4, "layers": [1, 2], "weight_sparsity": 0.3}
_UHD_CHANGES: list[dict[str, Any]] = [
    {},
    {"encoders": "joint"},
    {"encoders": "joint", "layers": [0, 2], "k": 1},
    {"normalize": "bucket"},
    {"normalize": "none", "k": 48},
    {"pool_special_tokens": False},
    {"query_k": 5, "document_k": 9},
    {"query_k": 5, "query_k_scope": "bucket", "document_k": 6, "document_k_scope": "bucket"},
    {"bucket_weights": [2, 3]},
    {"bucket_weights": [0, 1], "query_k": 4},
    {"encoders": "joint", "bucket_weights": [1, 0]},
    {"binarize": True, "document_k": 8, "bucket_weights": [1, 2]},
]
UHD = [{**_UHD, **change} for change in _UHD_CHANGES]
BY_ARCHITECTURE = {
    "deepct": DEEPCT,
    "deepimpact": DEEPIMPACT,
    "spade": SPADE,
    "sparterm": SPARTERM,
    "splade": SPLADE,
    "tildev2": TILDEV2,
    "uhd": UHD,
    "unicoil": UNICOIL,
}
CASES: list[Case] = [
    (architecture, settings) for architecture, all_settings in BY_ARCHITECTURE.items() for settings in all_settings
]
SMALLEST: dict[str, dict[str, Any]] = {"uhd": _UHD}
"""Settings that make an architecture small enough for a tiny backbone."""
FILES = dict.fromkeys(("deepct", "deepimpact", "tildev2", "unicoil"), "term_weighting")
"""File name of the tests and the reference of an architecture, if it differs from the architecture's name."""


def name(case: Case) -> str:
    """A readable test id."""
    return "-".join([case[0], *(f"{key}={value}" for key, value in case[1].items())])
