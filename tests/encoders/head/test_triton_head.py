"""Triton kernels of the head: the switch, equality with the formula in Triton's interpreter, compilation for GPUs."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from encoders.head import Pooling, Saturation, pool, vocabulary_head
from encoders.head.vocabulary_head import TRITON_SWITCH

POOLINGS: list[tuple[Pooling, Saturation]] = [("sum", "log"), ("sum", "none"), ("max", "log"), ("max", "none")]
HAS_TRITON = importlib.util.find_spec("triton") is not None
needs_triton = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed; it is for Linux only")

COMPILE = """
import sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from encoders.head import triton_head

kinds = {"texts": "i32", "tokens": "i32", "terms": "i32", "width": "i32", "first": "i32", "last": "i32",
         "stride": "i32", "keep": "*u8", "ends": "*i32", "winners": "*i32", "bias": "*fp32", "pooled": "*fp32",
         "gradient": "*fp32", "d_bias": "*fp32"}
constants = {"PRECISION": "ieee", "WIDTH": 64, "COLUMNS": 64, "RELU": True, "LOG": True}
done = 0
for capability, dtype, texts, tokens in ((80, "fp16", 1, 128), (90, "bf16", 8, 16)):
    for name, winners in (("_max_kernel", False), ("_max_kernel", True), ("_sum_kernel", None),
                          ("_sum_gradient_kernel", None)):
        kernel = getattr(triton_head, name)
        chosen = constants | {"TEXTS": texts, "TOKENS": tokens, "WINNERS": winners}
        positions = {parameter: position for position, parameter in enumerate(kernel.arg_names)}
        source = ASTSource(
            kernel,
            {parameter: "constexpr" if parameter.isupper() else kinds.get(parameter, "*" + dtype)
             for parameter in positions},
            constexprs={(positions[key],): value for key, value in chosen.items() if key in positions},
        )
        compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 8, "num_stages": 2})
        done += 1
print("compiled", done)
"""


@pytest.mark.parametrize(
    ("switch", "device", "capability", "dtype", "expected"),
    [
        ("1", "cuda", (8, 0), torch.bfloat16, True),
        ("1", "cuda", (12, 0), torch.float32, True),
        (None, "cuda", (9, 0), torch.bfloat16, False),
        ("0", "cuda", (9, 0), torch.bfloat16, False),
        ("1", "cuda", (9, 0), torch.float64, False),
        ("1", "cuda", (7, 5), torch.float16, False),
        ("1", "cpu", (9, 0), torch.float32, False),
    ],
)
def test_kernels_are_used_on_gpus_if_switched_on(
    switch: str | None,
    device: str,
    capability: tuple[int, int],
    dtype: torch.dtype,
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.delenv(TRITON_SWITCH, raising=False)
    if switch is not None:
        monkeypatch.setenv(TRITON_SWITCH, switch)
    assert vocabulary_head._uses_triton(torch.device(device), dtype) is expected


@needs_triton
def test_kernels_equal_the_naive_formula_in_tritons_interpreter(python: Any) -> None:
    path = Path(__file__).with_name("interpreted_triton_head.py")
    done = python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", path,
        env=os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 25


@needs_triton
def test_kernels_compile_for_gpus(python: Any, tmp_path: Path) -> None:
    """Compile to machine code, which needs no GPU: the interpreter accepts more than the compiler."""
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    done = python("-c", COMPILE, env=environment | {"TRITON_CACHE_DIR": str(tmp_path)}, timeout=900)
    assert done.stdout.strip() == "compiled 8", done.stderr[-5000:]


def on_gpu(lengths: list[int], dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sizes of a small model that tiles do not divide."""
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(len(lengths), max(lengths), 200, generator=generator)
    weight = torch.randn(1000, 200, generator=generator) / 14
    bias = torch.randn(1000, generator=generator) - 1
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).cuda()
    learned = [tensor.to("cuda", dtype).requires_grad_() for tensor in (hidden, weight, bias)]
    return learned[0], mask, learned[1], learned[2]


@pytest.mark.gpu
@needs_triton
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("lengths", [[300, 1, 0, 129], [5, 8, 2], [128] * 3, [30, 20, 10, 31, 0, 1, 2]])
@pytest.mark.parametrize(("pooling", "saturation"), POOLINGS)
def test_on_a_gpu(
    pooling: Pooling, saturation: Saturation, lengths: list[int], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels equal plain PyTorch on the GPU, and two runs give identical bits."""
    results = []
    for switch in ("1", "1", "0"):
        monkeypatch.setenv(TRITON_SWITCH, switch)
        hidden, mask, weight, bias = on_gpu(lengths, dtype)
        weights = pool(hidden, mask, weight, bias, pooling=pooling, saturation=saturation)
        with torch.no_grad():
            without_gradient = pool(hidden, mask, weight, bias, pooling=pooling, saturation=saturation)
        upstream = torch.randn(weights.shape, generator=torch.Generator().manual_seed(2)).cuda()
        (weights * upstream).sum().backward()
        gradients = [tensor.grad for tensor in (hidden, weight, bias)]
        assert all(gradient is not None for gradient in gradients)
        results.append(
            [weights.detach(), without_gradient, *(gradient.float() for gradient in gradients if gradient is not None)]
        )
    assert all(torch.equal(first, second) for first, second in zip(results[0], results[1], strict=True))
    tolerance = 1e-4 if dtype == torch.float32 else 0.02
    for ours, plain in zip(results[0][:2], results[2][:2], strict=True):
        torch.testing.assert_close(ours, plain, rtol=tolerance, atol=tolerance)
    for ours, plain in zip(results[0][2:], results[2][2:], strict=True):
        similarity = torch.cosine_similarity(ours.flatten(), plain.flatten(), dim=0)
        assert similarity > 1 - tolerance
