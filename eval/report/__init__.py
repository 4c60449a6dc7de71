"""Room eval.report."""

from __future__ import annotations

from eval.report.__main__ import write
from eval.report.figures import Axis, Point, line_chart

__all__ = ["Axis", "Point", "line_chart", "write"]
