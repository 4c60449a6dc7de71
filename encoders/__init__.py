"""The neural networks: architectures, their training, and checkpoints as encoders of text.

``load`` gives one side of a checkpoint as an encoder, ``train`` makes a checkpoint, and ``ARCHITECTURES`` lists the
models that can be trained. Start reading in ``encoders.models``, then ``encoders.encoding`` and ``encoders.training``.
``encoders.export`` writes models for other tools.
Importing this package imports no torch; its names are loaded at first use.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from learned_sparse.core.lazy import LazyPackage

if TYPE_CHECKING:
    from encoders.checkpoints.hub import default_checkpoint, resolve_checkpoint
    from encoders.encoding.loading import load_encoder as load
    from encoders.models import ARCHITECTURES
    from encoders.training.loop import train

__all__ = ["ARCHITECTURES", "default_checkpoint", "load", "resolve_checkpoint", "train"]

LAZY = {
    "ARCHITECTURES": "encoders.models",
    "default_checkpoint": "encoders.checkpoints.hub",
    "load": "encoders.encoding.loading:load_encoder",
    "resolve_checkpoint": "encoders.checkpoints.hub",
    "train": "encoders.training.loop",
}
sys.modules[__name__].__class__ = LazyPackage
