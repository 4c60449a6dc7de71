"""Where a model runs, and in which numbers."""

from __future__ import annotations

import torch

from learned_sparse.core import LearnedSparseError, did_you_mean

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
INT8 = "int8"
"""Linear layers in 8 bits (``encoders.backbone.quantized_linear``), everything else in fp32."""


def choose_device(name: str | None) -> torch.device:
    """``None`` or ``"auto"``: CUDA if there is one, else Apple's GPU, else the CPU."""
    if name in (None, "auto"):
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise LearnedSparseError(f"device {name!r}: {reason}; leave --device out to have one chosen") from error
    return device


def default_batch_size(device: torch.device) -> str:
    """A GPU wants work; on a CPU smaller batches are as fast, and take less memory."""
    return {"cpu": "2048t", "cuda": "16384t"}.get(device.type, "4096t")


def choose_dtype(name: str | None, device: torch.device, *, int8: bool = False) -> str:
    """A key of ``DTYPES``, or with ``int8`` also that. ``None`` or ``"auto"``: bf16 on CUDA and on CPUs with bf16
    instructions (twice as fast), fp32 elsewhere.
    """
    if name not in (None, "auto"):
        known = [*DTYPES, INT8] if int8 else [*DTYPES]
        if name not in known:
            raise LearnedSparseError(f"dtype {name!r}{did_you_mean(name, [*known, 'auto'])}")
        if name == INT8 and device.type != "cpu":
            raise LearnedSparseError(f"dtype int8 runs on the CPU, not on {device.type}: give --device cpu, or bf16")
        return name
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    return "bf16" if device.type == "cpu" and cpu_has_bf16() else "fp32"


def cpu_has_bf16() -> bool:
    """Whether this CPU multiplies bf16 matrices in hardware."""
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))
