"""The log of a run as a figure: losses, terms per text, and validation, over the steps of all stages."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from learned_sparse.core.files import atomic_write

Points = tuple[list[float], list[float]]
"""Steps and values."""
_SPARSITY = ("terms_per_query", "terms_per_document")
_SCORE = "MRR@10"
_NOT_LOSSES = frozenset(
    {"stage", "step", "learning_rate", "gradient_norm", "examples_per_second", "negatives_per_query", "lambda_query",
     "lambda_document", "selected", "mined queries", "scored_per_query", _SCORE, *_SPARSITY}
)  # fmt: skip


def draw_log(log: Path, output: Path, stages: Sequence[int]) -> bool:
    """Write the SVG ``output`` from the lines of ``log``; False without matplotlib (extra ``report``).

    ``stages``: steps of each stage, which are drawn one after the other.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        return False
    starts = [sum(stages[:number]) for number in range(len(stages) + 1)]
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    losses, sparsity, scores = curves(lines, starts)
    panels = [
        ("loss", losses), ("terms a text", sparsity), (f"{_SCORE}, validation", {"": scores} if scores[0] else {}),
    ]  # fmt: skip
    shown = [(title, lines_of) for title, lines_of in panels if lines_of]
    height = 2.2 * max(1, len(shown))
    figure = Figure(figsize=(7, height))  # a computed layout takes twice the time
    figure.subplots_adjust(left=0.12, right=0.98, bottom=0.5 / height, top=1 - 0.1 / height, hspace=0.25)
    for number, (title, lines_of) in enumerate(shown, start=1):
        axes = figure.add_subplot(len(shown), 1, number)
        for name, (steps, values) in lines_of.items():
            axes.plot(steps, values, label=name.replace("_", " ") or None, marker="." if len(steps) < 30 else None)
        for start in starts[1:-1]:
            axes.axvline(start, color="0.8", linewidth=1)
        axes.set_ylabel(title)
        axes.set_xlabel("step" if number == len(shown) else "")
        if any(lines_of):
            axes.legend(fontsize="small")
    with atomic_write(output) as file, rc_context({"svg.hashsalt": "learned_sparse"}):  # equal bytes in every run
        figure.savefig(file, format="svg", metadata={"Date": None})
    return True


def curves(
    lines: Iterable[Mapping[str, Any]], starts: Sequence[int]
) -> tuple[dict[str, Points], dict[str, Points], Points]:
    """Losses by name, terms per text by side, and scores of validation, from the lines of a log."""
    losses: dict[str, Points] = defaultdict(lambda: ([], []))
    sparsity: dict[str, Points] = defaultdict(lambda: ([], []))
    scores: Points = ([], [])
    for line in lines:
        step = starts[line["stage"]] + line["step"]
        for name, value in line.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            if name == _SCORE:
                points = scores
            elif name.endswith(_SPARSITY):
                points = sparsity[name]
            elif name in _NOT_LOSSES or ("loss" not in name and name not in ("kl", "margin_mse")):
                continue
            else:
                points = losses[name]
            points[0].append(step)
            points[1].append(value)
    return dict(losses), dict(sparsity), scores
