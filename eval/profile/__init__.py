"""How a model uses its dimensions: the command eval.profile, and what it shares with eval.dimensions.

Read ``frequencies`` first: document frequencies, stop-dimensions, their tables and charts. ``scores`` divides scores
into literal and expanded terms. ``texts`` relates dimensions to lengths and words.
"""

from __future__ import annotations

from eval.profile.frequencies import (
    Section,
    format_sections,
    frequency_chart,
    stop_dimensions,
    stop_section,
    usage,
    usage_section,
)
from eval.profile.texts import (
    LengthGroup,
    LengthSample,
    Meaning,
    TokenCounter,
    by_length,
    density_chart,
    meanings,
    read_encoded_documents,
    read_encoded_queries,
)

__all__ = [
    "LengthGroup",
    "LengthSample",
    "Meaning",
    "Section",
    "TokenCounter",
    "by_length",
    "density_chart",
    "format_sections",
    "frequency_chart",
    "meanings",
    "read_encoded_documents",
    "read_encoded_queries",
    "stop_dimensions",
    "stop_section",
    "usage",
    "usage_section",
]
