"""Low-rank adapters (LoRA, Hu et al. 2022) by the package peft: they alone are trained, and merged when saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.settings import parse

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Lora:
    """``lora`` of a recipe; defaults are those of peft for every linear layer of a network."""

    rank: int = 8
    alpha: int = 8  # the product of the two low-rank matrices is multiplied by alpha / rank
    dropout: float = 0.0
    targets: tuple[str, ...] | None = None  # names of linear layers, such as q_proj; None: all but the decoder


def add_lora(model: Any, options: Mapping[str, Any]) -> None:
    """Put adapters beside linear layers of ``model``, in place; they change no result before training.

    ``options``: the fields of ``Lora``.
    """
    lora = parse(Lora, options, "lora")
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise LearnedSparseError("lora needs the package peft: pip install 'learned-sparse[lora]'") from error
    modules = "all-linear" if lora.targets is None else list(lora.targets)  # all but the decoder
    config = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=modules)
    try:
        inject_adapter_in_model(config, model)
    except ValueError as error:
        raise LearnedSparseError(f"lora: {model.config.model_type} has no linear layers {modules}") from error


def merged_weights(model: Any) -> dict[str, Tensor]:
    """The weights of ``model`` by the names of its class, with its adapters added."""
    weights = {name: weight for name, weight in model.state_dict().items() if ".lora_" not in name}
    for name, module in model.named_modules():
        if hasattr(module, "lora_A"):
            weights[f"{name}.base_layer.weight"] = module.base_layer.weight + module.get_delta_weight("default")
    return {name.replace(".base_layer.", "."): weight.detach() for name, weight in weights.items()}
