"""Networks made ready to encode on a CPU: packed weights, GELU inside the product, attention as two products.

Results differ from those of transformers by rounding only. Such a network cannot be trained or saved.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor, nn

_ATTENTION = "learned_sparse_products"
_SCORES = 2**19  # attention scores held at once: they stay in the cache, and large tensors cost page faults
_ROWS = 2048  # tokens of a batch that weights are packed for; others work, too
_ACTIVATIONS = ("intermediate_act_fn", "transform_act_fn")  # of BERT and its relatives, after the layer "dense"


def prepare_network(model: Any) -> None:
    """Change a Hugging Face ``model``, on a CPU, in place."""
    dtype = next(model.parameters()).dtype
    if model.config._attn_implementation == "sdpa":  # noqa: SLF001
        transformers.AttentionInterface.register(_ATTENTION, _attention)
        transformers.AttentionMaskInterface.register(_ATTENTION, transformers.masking_utils.eager_mask)
        model.set_attn_implementation(_ATTENTION)
    if torch.backends.mkldnn.is_available() and (
        dtype == torch.float32 or (dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())  # noqa: SLF001
    ):
        with torch.no_grad():
            for module in list(model.modules()):
                activation = next((name for name in _ACTIVATIONS if _is_gelu(getattr(module, name, None))), None)
                for name, child in list(module.named_children()):
                    if type(child) is nn.Linear:
                        gelu = name == "dense" and activation is not None
                        setattr(module, name, PackedLinear(child, gelu=gelu))
                        if gelu:
                            setattr(module, str(activation), nn.Identity())


class PackedLinear(nn.Module):
    """``nn.Linear``, perhaps with GELU, whose weight is in the order in which oneDNN reads it."""

    def __init__(self, linear: nn.Linear, *, gelu: bool) -> None:
        super().__init__()
        self.in_features, self.out_features, self.bias = linear.in_features, linear.out_features, linear.bias
        self._packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), _ROWS)  # noqa: SLF001
        self._activation = "gelu" if gelu else "none"

    @property
    def weight(self) -> Tensor:
        """The weight ``(out_features, in_features)``, for a model that reads it itself."""
        weight: Tensor = self._packed.to_dense()
        return weight

    def forward(self, states: Tensor) -> Tensor:
        """``(..., in_features)`` to ``(..., out_features)``."""
        result: Tensor = torch.ops.mkldnn._linear_pointwise(  # noqa: SLF001
            states, self._packed, self.bias, self._activation, [], "none"
        )
        return result


def _is_gelu(activation: Any) -> bool:
    """Whether ``activation`` is GELU with the error function, and oneDNN is no slower with it.

    On a processor with AVX2 only, the product with GELU takes 1.6 times as long as both by themselves.
    """
    if torch.backends.cpu.get_cpu_capability() == "AVX2":
        return False
    if isinstance(activation, nn.GELU):
        return activation.approximate == "none"
    return isinstance(activation, transformers.activations.GELUActivation)


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None,
    scaling: float | None = None, **_: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    """Attention of transformers' interface: ``query``, ``key``, ``value`` are ``(texts, heads, tokens, size)``.

    torch's fused attention takes up to twice as long for heads of 32 or 64.
    """
    del module
    texts, heads, tokens, size = query.shape
    if key.shape[1] != heads:  # several heads of queries share keys and values
        key, value = (part.repeat_interleave(heads // part.shape[1], dim=1) for part in (key, value))
    result = query.new_empty(texts, tokens, heads, value.shape[3])
    step = max(_SCORES // (heads * tokens * key.shape[2]), 1)
    for start in range(0, texts, step):
        part = slice(start, start + step)
        scores = (query[part] @ key[part].transpose(2, 3)).mul_(size**-0.5 if scaling is None else scaling)
        if attention_mask is not None:
            scores += attention_mask[part] if len(attention_mask) == texts else attention_mask
        result[part] = (scores.softmax(-1) @ value[part]).transpose(1, 2)
    return result, None
