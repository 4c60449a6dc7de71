"""8-bit linear layers on the CPU: weights rounded once, what they read rounded anew for every batch."""

from __future__ import annotations

import warnings

from torch import nn

from encoders.backbone.hidden_states import HiddenStates
from encoders.backbone.masked_lm import Tower
from learned_sparse.core import LearnedSparseError


def quantize_towers(weigher: nn.Module) -> None:
    """Make the linear layers of every tower 8-bit, in place; embeddings, decoder and heads stay as they are.

    Weights have a scale for each output. Inputs have one scale for a whole batch, so that a text's weights depend a
    little on the texts it is encoded with.
    """
    for module in list(weigher.modules()):
        if isinstance(module, (Tower, HiddenStates)):
            _quantize(module.model)


def _quantize(model: nn.Module) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch means to move this to another package, with another name
        try:
            from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic
        except ImportError as error:
            raise LearnedSparseError(
                "dtype int8: this version of torch has no dynamic quantisation; use fp32"
            ) from error
        quantize_dynamic(model, {nn.Linear: per_channel_dynamic_qconfig}, inplace=True)
