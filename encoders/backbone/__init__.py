"""Room encoders.backbone.backbone."""

from __future__ import annotations

from encoders.backbone.backbone import MASKED_LM, OUTPUT_BIAS, backbone_folder, minilm_folder
from encoders.backbone.compiling import compile_towers
from encoders.backbone.device import DTYPES, INT8, choose_device, choose_dtype, cpu_has_bf16, default_batch_size
from encoders.backbone.hidden_states import HiddenStates, hidden_states_kind
from encoders.backbone.masked_lm import Tower, longest_input, quiet, read_config
from encoders.backbone.quantized_linear import quantize_towers
from encoders.backbone.tower import TowerKind

__all__ = [
    "DTYPES",
    "INT8",
    "MASKED_LM",
    "OUTPUT_BIAS",
    "HiddenStates",
    "Tower",
    "TowerKind",
    "backbone_folder",
    "choose_device",
    "choose_dtype",
    "compile_towers",
    "cpu_has_bf16",
    "default_batch_size",
    "hidden_states_kind",
    "longest_input",
    "minilm_folder",
    "quantize_towers",
    "quiet",
    "read_config",
]
