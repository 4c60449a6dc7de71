"""Device and data type of a model, and compilation by torch.compile."""

from __future__ import annotations

import os

import torch
from torch import nn

from encoders.backbone.hidden_states import HiddenStates
from encoders.backbone.masked_lm import Tower
from learned_sparse.core import LearnedSparseError, did_you_mean

DTYPE_VARIABLE = "LEARNED_SPARSE_DTYPE"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def choose_device(name: str | None) -> torch.device:
    """The device ``name``; for ``None`` or ``"auto"``, CUDA, else Apple's GPU, else the CPU."""
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


def default_batch_size(device: torch.device) -> str:
    """Tokens per forward pass: a GPU needs large batches; on a CPU small ones are as fast and take less memory."""
    return {"cpu": "2048t", "cuda": "16384t"}.get(device.type, "4096t")


def choose_dtype(name: str | None, device: torch.device) -> str:
    """A key of ``DTYPES``. ``None`` or ``"auto"``: that of ``LEARNED_SPARSE_DTYPE``, else the fastest on the device.

    The fastest is bf16 where the device has bf16 instructions, else fp32; on CUDA devices without bf16, fp16.
    """
    where = "dtype"
    if name in (None, "auto"):
        where, name = DTYPE_VARIABLE, os.environ.get(DTYPE_VARIABLE) or "auto"
    if name != "auto":
        if name not in DTYPES:
            raise LearnedSparseError(f"{where} {name!r}{did_you_mean(name, [*DTYPES, 'auto'])}")
        return name
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    return "bf16" if device.type == "cpu" and cpu_has_bf16() else "fp32"


def cpu_has_bf16() -> bool:
    """Whether this CPU multiplies bf16 matrices in hardware."""
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def compile_towers(weigher: nn.Module, name: str) -> None:
    """Compile the forward pass of each tower for batches of any size, in place, and run it once.

    A missing compiler is an error that opens with ``name``.
    """
    for tower in [module for module in weigher.modules() if isinstance(module, Tower | HiddenStates)]:
        tower.model.compile(dynamic=True)
        device = next(tower.parameters()).device
        ids = torch.ones(2, 8, dtype=torch.long, device=device)
        try:
            with torch.inference_mode():
                tower(ids, torch.ones_like(ids))
        except RuntimeError as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            compiler = "Triton" if device.type == "cuda" else "a C++ compiler such as g++"
            raise LearnedSparseError(
                f"{name}: torch.compile failed ({reason}); it needs {compiler}: install it, or omit --compile"
            ) from error
