"""What changes with the step, as pure functions of it: a resumed run needs no state for them."""

from __future__ import annotations


def quadratic_ramp(step: int, ramp_steps: int) -> float:
    """The share of lambda in force at ``step`` (from 0): ``((step + 1) / T)^2`` until step T, then 1 (SPLADE §3.2).

    >>> [quadratic_ramp(step, 4) for step in (0, 1, 3, 4)]
    [0.0625, 0.25, 1.0, 1.0]
    """
    return 1.0 if ramp_steps <= 0 else min(1.0, (step + 1) / ramp_steps) ** 2


def linear_warm_up_decay(step: int, warm_up_steps: int, total_steps: int, *, decay: bool = True) -> float:
    """The share of the learning rate at ``step`` (from 0): up linearly for the warm-up, then down to 0 at the end.

    >>> [linear_warm_up_decay(step, 2, 6) for step in range(6)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    if step < warm_up_steps:
        return (step + 1) / warm_up_steps
    return (total_steps - step) / max(1, total_steps - warm_up_steps) if decay else 1.0
