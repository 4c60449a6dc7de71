"""Low-rank adapters (LoRA, Hu et al. 2022) by the package peft: they alone are trained, and merged when saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from learned_sparse.core.errors import LearnedSparseError

if TYPE_CHECKING:
    from torch import Tensor


def add_lora(
    model: Any, *, rank: int = 8, alpha: int = 8, dropout: float = 0.0, targets: Sequence[str] | None = None
) -> None:
    """Put adapters beside linear layers of ``model``, in place; they change no result before training.

    The options are those of ``lora`` in a recipe.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise LearnedSparseError("lora needs the package peft: pip install 'learned-sparse[lora]'") from error
    modules = "all-linear" if targets is None else list(targets)  # all but the decoder
    config = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=modules)
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
