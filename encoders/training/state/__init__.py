"""What a run keeps and reports: its folder with the last state and the best weights, and its log.

Read ``folder`` first; ``tensors`` writes the safetensors of a state, ``journal`` the log.
"""

from __future__ import annotations

from encoders.training.state.folder import Progress, RunFolder, TrainingReport
from encoders.training.state.journal import Journal, Track
from encoders.training.state.tensors import load_state, load_weights, save_state, save_weights

__all__ = [
    "Journal",
    "Progress",
    "RunFolder",
    "Track",
    "TrainingReport",
    "load_state",
    "load_weights",
    "save_state",
    "save_weights",
]
