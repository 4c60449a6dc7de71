"""Device, data type and precision of a model, its random numbers, and networks made ready to encode on a CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from learned_sparse.core.errors import LearnedSparseError, did_you_mean
from learned_sparse.core.machine import processors

DTYPE_VARIABLE = "LEARNED_SPARSE_DTYPE"
_ATTENTION = "learned_sparse_products"
_SCORES = 2**19  # attention scores held at once: they stay in the cache, and large tensors cost page faults
_ROWS = 2048  # tokens of a batch that weights are packed for; others work, too
_ACTIVATIONS = ("intermediate_act_fn", "transform_act_fn")  # of BERT and its relatives, after the layer "dense"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def choose_device(name: str | None) -> torch.device:
    """The device ``name``; for ``None`` or ``"auto"``, CUDA, else Apple's GPU, else the CPU.

    Limits torch to the processors of this process; by itself, torch in a container takes all those of the host.
    ``OMP_NUM_THREADS`` and a smaller limit that is already set are kept.
    """
    if "OMP_NUM_THREADS" not in os.environ and torch.get_num_threads() > processors():
        torch.set_num_threads(processors())
    if name in (None, "auto"):
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise LearnedSparseError(f"device {name!r}: {reason}; omit --device to have one chosen") from error
    return device


def choose_dtype(name: str | None, device: torch.device, default: str = "auto") -> str:
    """A key of ``DTYPES``. ``"auto"``: that of ``LEARNED_SPARSE_DTYPE``, else the fastest on the device.

    ``None``: that of ``LEARNED_SPARSE_DTYPE``, else ``default``.
    The fastest is bf16 where the device has bf16 instructions, else fp32; on CUDA devices without bf16, fp16.
    """
    where = "dtype"
    if name in (None, "auto"):
        where, name = DTYPE_VARIABLE, os.environ.get(DTYPE_VARIABLE) or name or default
    if name != "auto":
        if name not in DTYPES:
            raise LearnedSparseError(f"{where} {name!r}{did_you_mean(name, [*DTYPES, 'auto'])}")
        return name
    return "bf16" if has_bf16(device) else "fp16" if device.type == "cuda" else "fp32"


def has_bf16(device: torch.device) -> bool:
    """Whether ``device`` multiplies bf16 matrices in hardware."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    capabilities = torch.cpu.get_capabilities()
    return device.type == "cpu" and any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))


@contextmanager
def process_settings(precision: str, device: torch.device) -> Iterator[None]:
    """Settings of the process for training in ``precision`` on ``device``; restored at the end.

    On CUDA devices, float32 matrix products in TF32 (10 bits of mantissa) unless ``precision`` is ``fp32-strict``. On
    CPUs in bf16, attention as two matrix products: torch's fused attention takes six times as long backwards.
    """
    before = torch.get_float32_matmul_precision(), torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    attention: AbstractContextManager[None] = nullcontext()
    if precision == "fp32-strict":
        torch.set_float32_matmul_precision("highest")
    elif device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    elif (device.type, precision) == ("cpu", "bf16"):
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(enabled=True)  # else the products are float32
        attention = sdpa_kernel(SDPBackend.MATH)
    try:
        with attention:
            yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(enabled=before[1])


def random_state(device: torch.device) -> Tensor:
    """State of torch's random numbers on the CPU, then on ``device``, as bytes ``(n,)``."""
    states = [torch.get_rng_state()]
    if device.type != "cpu":
        states.append(torch.get_device_module(device).get_rng_state(device).cpu())
    return torch.cat(states)


def set_random_state(state: Tensor, device: torch.device) -> bool:
    """Restore ``random_state(device)``; False if ``state`` is of another kind of device: only the CPU's is restored."""
    cpu, of_device = state.cpu().split([size := len(torch.get_rng_state()), len(state) - size])
    torch.set_rng_state(cpu)
    if device.type == "cpu":
        return len(of_device) == 0
    module = torch.get_device_module(device)
    if len(of_device) != len(module.get_rng_state(device)):
        return False
    module.set_rng_state(of_device, device)
    return True


def prepare_network(model: Any) -> None:
    """Make a Hugging Face ``model``, on a CPU, ready to encode: it cannot be trained or saved afterwards.

    Weights are packed, GELU is inside the product, attention is two products. Results differ by rounding only.
    """
    dtype = next(model.parameters()).dtype
    if model.config._attn_implementation == "sdpa":  # noqa: SLF001
        transformers.AttentionInterface.register(_ATTENTION, _attention)
        transformers.AttentionMaskInterface.register(_ATTENTION, transformers.masking_utils.eager_mask)
        model.set_attn_implementation(_ATTENTION)
    if not torch.backends.mkldnn.is_available() or not (
        dtype == torch.float32 or (dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())  # noqa: SLF001
    ):
        return
    # with AVX2 only, the product with GELU takes 1.6 times as long as both by themselves
    slow = torch.backends.cpu.get_cpu_capability() == "AVX2"
    kinds = () if slow else (nn.GELU, transformers.activations.GELUActivation)
    with torch.no_grad():
        for module in list(model.modules()):
            functions = {name: getattr(module, name, None) for name in _ACTIVATIONS}
            gelu = [name for name, function in functions.items() if isinstance(function, kinds)]
            exact = bool(gelu) and getattr(functions[gelu[0]], "approximate", "none") == "none"
            for name, child in list(module.named_children()):
                if type(child) is nn.Linear:
                    setattr(module, name, PackedLinear(child, gelu=exact and name == "dense"))
                    if exact and name == "dense":
                        setattr(module, gelu[0], nn.Identity())


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


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None,  # noqa: ARG001
    scaling: float | None = None, **_: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    """Attention of transformers' interface: ``query``, ``key``, ``value`` are ``(texts, heads, tokens, size)``.

    torch's fused attention takes up to twice as long for heads of 32 or 64.
    """
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
