"""Reports: the pages and figures of a leaderboard, and the line chart of every room of eval.

Start with ``pages``: it fills the templates of ``templates/`` from the ``Results`` of ``results``. ``figures`` is the
only module that draws with matplotlib (extra ``report``), which is loaded at the first drawing.
"""

from __future__ import annotations

from eval.report.figures import Axis, Point, line_chart
from eval.report.pages import write_report

__all__ = ["Axis", "Point", "line_chart", "write_report"]
