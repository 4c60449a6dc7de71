"""Room eval.fidelity."""

from __future__ import annotations

from eval.fidelity.steps import BM25

__all__ = ["BM25"]
