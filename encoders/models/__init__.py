"""The architectures by name. Read ``architecture`` first, then ``splade``, the shortest one.

A new architecture is one file here, one line of ``ARCHITECTURES``, a recipe, and tests; or a package of its own that
names it as an entry point of the group ``learned_sparse.architectures``. A module is imported when its architecture is
looked up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from learned_sparse.core.encoder import Side
from learned_sparse.core.lazy import Register

if TYPE_CHECKING:
    from encoders.models.architecture import Architecture

SIDES: tuple[Side, Side] = ("query", "document")

ARCHITECTURES: Register[Architecture[Any]] = Register(
    "learned_sparse.architectures",
    {
        "deepct": "encoders.models.term_weighting:DEEPCT",
        "deepimpact": "encoders.models.term_weighting:DEEPIMPACT",
        "spade": "encoders.models.spade:SPADE",
        "sparterm": "encoders.models.sparterm:SPARTERM",
        "splade": "encoders.models.splade:SPLADE",
        "tildev2": "encoders.models.term_weighting:TILDEV2",
        "uhd": "encoders.models.uhd:UHD_BERT",
        "unicoil": "encoders.models.term_weighting:UNICOIL",
    },
)

__all__ = [
    "ARCHITECTURES",
    "SIDES",
    "architecture",
    "objectives",
    "spade",
    "sparterm",
    "splade",
    "term_weighting",
    "token_weights",
    "uhd",
]
