"""Room eval.profile."""

from __future__ import annotations

from eval.profile.density import density_chart
from eval.profile.dimension_analysis import analyse
from eval.profile.dimension_profile import frequency_chart
from eval.profile.dimension_report import as_json, page

__all__ = ["analyse", "as_json", "density_chart", "frequency_chart", "page"]
