"""The networks under the models: pretrained Hugging Face transformers as towers, on a device and in a data type.

Start reading in ``masked_lm`` (``Tower``: hidden states and decoder); ``hidden_states`` has towers with small heads.
"""

from __future__ import annotations

from encoders.backbone.device import (
    DTYPES,
    autocast,
    choose_device,
    choose_dtype,
    compile_towers,
    cpu_has_bf16,
    default_batch_size,
    limit_threads,
    process_settings,
    random_state,
    set_random_state,
    to_device,
    training_precision,
)
from encoders.backbone.hidden_states import HiddenStates, hidden_states_kind
from encoders.backbone.inference import prepare_for_inference
from encoders.backbone.masked_lm import MASKED_LM, Tower, load_backbone
from encoders.backbone.pretrained import (
    OUTPUT_BIAS,
    TowerKind,
    load_tokenizer,
    longest_input,
    quiet,
    save_random_bert,
)
from encoders.backbone.term_table import TERM_TABLE, TermTable

__all__ = [
    "DTYPES",
    "MASKED_LM",
    "OUTPUT_BIAS",
    "TERM_TABLE",
    "HiddenStates",
    "TermTable",
    "Tower",
    "TowerKind",
    "autocast",
    "choose_device",
    "choose_dtype",
    "compile_towers",
    "cpu_has_bf16",
    "default_batch_size",
    "hidden_states_kind",
    "limit_threads",
    "load_backbone",
    "load_tokenizer",
    "longest_input",
    "prepare_for_inference",
    "process_settings",
    "quiet",
    "random_state",
    "save_random_bert",
    "set_random_state",
    "to_device",
    "training_precision",
]
