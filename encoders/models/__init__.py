"""The architectures, by name."""

from __future__ import annotations

from encoders.models.architecture import SIDES, Architecture, Mixture, Side, TermWeighers
from encoders.models.bag_of_words import BagOfWords
from encoders.models.sparterm import SPARTERM, SparTerm, SparTermSettings
from encoders.models.splade import SPLADE, Splade, SpladeSettings

ARCHITECTURES: dict[str, Architecture] = {
    "sparterm": SPARTERM,
    "splade": SPLADE,
}

__all__ = [
    "ARCHITECTURES",
    "SIDES",
    "Architecture",
    "BagOfWords",
    "Mixture",
    "Side",
    "SparTerm",
    "SparTermSettings",
    "Splade",
    "SpladeSettings",
    "TermWeighers",
]
