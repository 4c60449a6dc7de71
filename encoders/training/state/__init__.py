"""What a run keeps and reports: its folder with states and best weights, its log, and a plot of it.

Read ``folder`` first; ``tensors`` writes the safetensors of a state, ``journal`` the log, and ``plot`` draws it.
"""

from __future__ import annotations

from encoders.training.state.folder import Progress, RunFolder, TrainingReport
from encoders.training.state.journal import Journal, Track
from encoders.training.state.plot import draw_log
from encoders.training.state.tensors import load_state, load_weights, parameters_and_buffers, save_weights

__all__ = [
    "Journal",
    "Progress",
    "RunFolder",
    "Track",
    "TrainingReport",
    "draw_log",
    "load_state",
    "load_weights",
    "parameters_and_buffers",
    "save_weights",
]
