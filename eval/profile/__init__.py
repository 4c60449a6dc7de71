"""How a model uses its dimensions: the command eval.profile, and what it shares with eval.dimensions.

Read ``frequencies`` first: document frequencies, stop-dimensions, their tables and charts. ``scores`` divides scores
into literal and expanded terms. ``texts`` relates dimensions to lengths and words.
"""

from __future__ import annotations

from eval.profile.frequencies import (
    Section,
    StopDimension,
    Usage,
    format_sections,
    frequency_chart,
    stop_dimensions,
    stop_section,
    usage,
    usage_section,
)
from eval.profile.texts import LengthGroup, Meaning, density, density_chart, meanings, read_encoded

__all__ = [
    "LengthGroup",
    "Meaning",
    "Section",
    "StopDimension",
    "Usage",
    "density",
    "density_chart",
    "format_sections",
    "frequency_chart",
    "meanings",
    "read_encoded",
    "stop_dimensions",
    "stop_section",
    "usage",
    "usage_section",
]
