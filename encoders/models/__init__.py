"""The architectures by name. Read ``architecture`` first, then ``splade``, the shortest one.

A new architecture is one file here, one line of ``ARCHITECTURES``, a recipe, and tests.
"""

from __future__ import annotations

from encoders.models.architecture import (
    SIDES,
    Architecture,
    Labels,
    Mixture,
    Objective,
    Prunable,
    TermWeighers,
    Tokens,
)
from encoders.models.spade import SPADE, SpaDE, SpaDESettings
from encoders.models.sparterm import SPARTERM, SparTerm, SparTermSettings
from encoders.models.splade import SPLADE, Splade, SpladeSettings
from encoders.models.term_weighting import (
    DEEPCT,
    DEEPIMPACT,
    TILDEV2,
    UNICOIL,
    DeepCTSettings,
    DeepImpactSettings,
    TildeV2Settings,
    UniCoilSettings,
)
from encoders.models.token_weights import QUERY_WEIGHTS, BagOfWords
from encoders.models.uhd import UHD, UHD_BERT, UHDSettings

ARCHITECTURES: dict[str, Architecture] = {
    "deepct": DEEPCT,
    "deepimpact": DEEPIMPACT,
    "spade": SPADE,
    "sparterm": SPARTERM,
    "splade": SPLADE,
    "tildev2": TILDEV2,
    "uhd": UHD_BERT,
    "unicoil": UNICOIL,
}

__all__ = [
    "ARCHITECTURES",
    "QUERY_WEIGHTS",
    "SIDES",
    "UHD",
    "Architecture",
    "BagOfWords",
    "DeepCTSettings",
    "DeepImpactSettings",
    "Labels",
    "Mixture",
    "Objective",
    "Prunable",
    "SpaDE",
    "SpaDESettings",
    "SparTerm",
    "SparTermSettings",
    "Splade",
    "SpladeSettings",
    "TermWeighers",
    "TildeV2Settings",
    "Tokens",
    "UHDSettings",
    "UniCoilSettings",
]
