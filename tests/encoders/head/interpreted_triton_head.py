"""The kernels equal the naive formula; test_triton_head.py runs this file in Triton's interpreter."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from encoders.head import Pooling, Saturation, pool, triton_head, vocabulary_head
from encoders.head.triton_head import FusedScores

POOLINGS: list[tuple[Pooling, Saturation]] = [("sum", "log"), ("sum", "none"), ("max", "log"), ("max", "none")]
Inputs = tuple[Tensor, Tensor, Tensor, Tensor]


def inputs(lengths: list[int], shift: float = 0.0, *, terms: int = 21, width: int = 20) -> Inputs:
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(len(lengths), max(lengths), width, generator=generator)
    weight = torch.randn(terms, width, generator=generator)
    bias = torch.randn(terms, generator=generator) + shift
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return hidden.requires_grad_(), mask, weight.requires_grad_(), bias.requires_grad_()


def naive(hidden: Tensor, mask: Tensor, weight: Tensor, bias: Tensor, pooling: str, saturation: str) -> Tensor:
    scores = (hidden @ weight.T + bias).relu()
    scores = (scores.log1p() if saturation == "log" else scores) * mask[:, :, None]
    return scores.sum(1) if pooling == "sum" else scores.amax(1)


@pytest.fixture(autouse=True)
def _kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the kernels on the CPU, with small tiles that do not divide the shapes."""
    monkeypatch.setattr(vocabulary_head, "_uses_triton", lambda *_: True)
    monkeypatch.setattr(triton_head, "_ROWS", 16)
    monkeypatch.setattr(triton_head, "_COLUMNS", 16)
    monkeypatch.setattr(triton_head, "_COLUMNS_BACKWARD", 16)
    monkeypatch.setattr(triton_head, "_WIDTH_IN_BYTES", 64)
    monkeypatch.setattr(triton_head, "_GRADIENT_COLUMNS", 17)


@pytest.mark.parametrize(
    ("lengths", "shift"),
    [([7, 3, 0, 5], -6.0), ([19, 9], 0.0), ([2, 1, 0, 2, 1], 0.0)],
    ids=["few active", "several blocks", "many short"],
)
@pytest.mark.parametrize(("pooling", "saturation"), POOLINGS)
def test_values_and_gradients(pooling: Pooling, saturation: Saturation, lengths: list[int], shift: float) -> None:
    ours, theirs = inputs(lengths, shift), inputs(lengths, shift)
    result = pool(*ours, pooling=pooling, saturation=saturation)
    expected = naive(*theirs, pooling, saturation)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        without_gradient = pool(*ours, pooling=pooling, saturation=saturation)
        torch.testing.assert_close(without_gradient, expected, rtol=1e-5, atol=1e-5)
    upstream = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2))
    (result * upstream).sum().backward()
    (expected * upstream).sum().backward()
    for argument in (0, 2, 3):
        torch.testing.assert_close(ours[argument].grad, theirs[argument].grad, rtol=1e-4, atol=1e-4)


# Not in bf16, which Triton's interpreter multiplies as integers.


@pytest.mark.parametrize(("pooling", "saturation"), POOLINGS)
def test_half_precision(pooling: Pooling, saturation: Saturation) -> None:
    hidden, mask, weight, bias = (tensor.detach() for tensor in inputs([9, 4]))
    half = [tensor.half() for tensor in (hidden, weight, bias)]
    result = pool(half[0], mask, half[1], half[2], pooling=pooling, saturation=saturation)
    expected = naive(*(half[0].float(), mask, half[1].float(), half[2].float()), pooling, saturation)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)  # sums are in float32


@pytest.mark.parametrize(("pooling", "saturation"), POOLINGS)
def test_autocast(pooling: Pooling, saturation: Saturation) -> None:
    ours, theirs = inputs([7, 3]), inputs([7, 3])
    with torch.autocast("cpu", torch.float16):
        result = pool(*ours, pooling=pooling, saturation=saturation)
    expected = naive(*theirs, pooling, saturation)
    torch.testing.assert_close(result, expected, rtol=0.003, atol=0.02)
    assert not torch.equal(result, expected)
    result.sum().backward()
    expected.sum().backward()
    for argument in (0, 2, 3):
        mine, reference = ours[argument].grad, theirs[argument].grad
        assert mine is not None
        assert reference is not None
        assert mine.dtype == torch.float32
        assert torch.cosine_similarity(mine.flatten(), reference.flatten(), dim=0) > 0.98


def test_masked_positions_in_the_middle_are_ignored() -> None:
    hidden, _, weight, bias = inputs([11, 11])
    mask = torch.tensor([[0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]])
    for pooling, saturation in POOLINGS:
        result = pool(hidden, mask, weight, bias, pooling=pooling, saturation=saturation)
        torch.testing.assert_close(result, naive(hidden, mask, weight, bias, pooling, saturation))


def test_raw_maxima_keep_their_sign() -> None:
    hidden, mask, weight, bias = inputs([5, 3, 0], -9.0)
    scores = (hidden @ weight.T + bias).masked_fill(~mask.bool()[:, :, None], float("-inf")).amax(1)
    with torch.no_grad():
        raw = pool(hidden, mask, weight, bias, pooling="max", relu=False)
    torch.testing.assert_close(raw[:2], scores[:2])
    assert (raw[:2] < 0).any()
    assert raw[2].eq(0).all()
    pool(hidden, mask, weight, bias, pooling="max", relu=False).sum().backward()
    torch.testing.assert_close(bias.grad, torch.full_like(bias, 2.0))


def test_ties_go_to_the_first_position() -> None:
    hidden = torch.tensor([[[1.0, 0.0], [2.0, 5.0], [2.0, 5.0], [0.0, 5.0]] * 5])
    scores = FusedScores(1, 20, torch.ones(1, 20, dtype=torch.bool), torch.float32)
    maxima, winners = scores.max_with_row(hidden[0], torch.eye(2))
    assert maxima.tolist() == [[2.0, 5.0]]
    assert winners.tolist() == [[1, 1]]


@pytest.mark.parametrize(("pooling", "saturation"), POOLINGS)
def test_nan_is_kept(pooling: Pooling, saturation: Saturation) -> None:
    hidden, mask, weight, bias = (tensor.detach() for tensor in inputs([18, 18, 18]))
    hidden[1, 13] = math.nan
    for learns in (False, True):
        result = pool(hidden.requires_grad_(learns), mask, weight, bias, pooling=pooling, saturation=saturation)
        assert result[1].isnan().all()
        assert not result[[0, 2]].isnan().any()


@pytest.mark.parametrize("columns", [0, 1])
def test_few_columns(columns: int) -> None:
    hidden, mask, weight, bias = inputs([3, 2], terms=max(columns, 1))
    result = pool(hidden, mask, weight[:columns], bias[:columns], pooling="sum")
    assert result.shape == (2, columns)
    result.sum().backward()


def test_states_that_are_not_contiguous() -> None:
    hidden, mask, weight, bias = (tensor.detach() for tensor in inputs([6, 4]))
    turned = hidden.transpose(0, 1).contiguous().transpose(0, 1)
    spread = torch.stack([weight, weight], dim=2)[:, :, 0]
    result = pool(turned, mask, spread, bias, pooling="max")
    torch.testing.assert_close(result, naive(hidden, mask, weight, bias, "max", "none"))
