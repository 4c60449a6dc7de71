"""The blocked search for the largest scores of each token equals sorting all scores."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from encoders.head import token_top_k
from encoders.head.token_top_k import keep_largest, largest_shares, max_pool_entries, top_k_per_row

SIZES = [(7, 53, 3), (1, 300, 4), (40, 1000, 1), (9, 64, 64), (5, 33, 32), (0, 20, 2), (20, 4000, 20)]

Inputs = tuple[Tensor, Tensor, Tensor]


def inputs(rows: int, n: int, *, integers: bool = False, dtype: torch.dtype = torch.float32) -> Inputs:
    """With ``integers``, all values are small integers, so that many scores are equal."""
    generator = torch.Generator().manual_seed(n)
    tensors = [torch.randn(*shape, generator=generator, dtype=dtype) for shape in ((rows, 6), (n, 6), (n,))]
    hidden, weight, bias = [(tensor.round() if integers else tensor).requires_grad_() for tensor in tensors]
    return hidden, weight, bias


def sorted_scores(rows: Tensor, weight: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Definition: all scores in descending order, ties by column."""
    values, columns = torch.sort(rows @ weight.T + bias, dim=1, descending=True, stable=True)
    return values[:, :k], columns[:, :k]


@pytest.fixture(autouse=True)
def _several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks, of which the last is not full."""
    monkeypatch.setattr(token_top_k, "_BLOCK_ON_CPU", 3000)


@pytest.mark.parametrize("integers", [False, True], ids=["floats", "integers"])
@pytest.mark.parametrize(("rows", "n", "k"), SIZES)
def test_equals_sorting_all_scores(rows: int, n: int, k: int, integers: bool) -> None:
    tensors = inputs(rows, n, integers=integers, dtype=torch.float64)
    values, columns = top_k_per_row(*tensors, k)
    expected, reference = sorted_scores(*tensors, k)
    torch.testing.assert_close(values, expected)
    assert torch.equal(columns, reference)
    upstream = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    gradients = torch.autograd.grad((values * upstream).sum(), tensors)
    references = torch.autograd.grad((expected * upstream).sum(), tensors)
    for gradient, expected_gradient in zip(gradients, references, strict=True):
        torch.testing.assert_close(gradient, expected_gradient)  # 0 for columns that are in no top k
    with torch.no_grad():
        assert torch.equal(top_k_per_row(*tensors, k)[1], reference)


@pytest.mark.parametrize(("rows", "n", "k"), SIZES)
def test_equal_scores_in_bf16(rows: int, n: int, k: int) -> None:
    """Small integers are exact in bf16, and nearly every row has equal scores on both sides of the cut."""
    hidden, weight, bias = (tensor.detach() for tensor in inputs(rows, n, integers=True))
    values, columns = top_k_per_row(hidden.bfloat16(), weight.bfloat16(), bias.bfloat16(), k)
    expected, reference = sorted_scores(hidden, weight, bias, k)
    assert values.dtype == torch.float32
    assert torch.equal(values, expected)
    assert torch.equal(columns, reference)
    assert torch.equal(top_k_per_row(hidden.bfloat16(), weight.bfloat16(), bias, k)[0], expected)  # as under autocast


def test_the_buffer_of_scores_is_as_wide_as_their_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = [tensor.detach() for tensor in inputs(7, 53)]
    with monkeypatch.context() as patch:
        patch.setattr(torch, "full", full := Mock(wraps=torch.full))
        top_k_per_row(tensors[0], tensors[1], tensors[2], 3)
    assert full.call_args[0][0][1] == 64


@pytest.mark.parametrize("k", [0, 54])
def test_k_out_of_range(k: int) -> None:
    with pytest.raises(ValueError, match="1 to 53"):
        top_k_per_row(*inputs(2, 53), k)


def test_the_largest_of_each_row() -> None:
    """Ties keep the first columns; ``k`` may exceed the number of columns."""
    weights = torch.tensor([[0.5, 2.0, 0.5, 1.0], [0.0, 0.0, 3.0, 0.0]], requires_grad=True)
    assert keep_largest(weights, 3).tolist() == [[0.5, 2.0, 0.0, 1.0], [0.0, 0.0, 3.0, 0.0]]
    assert torch.equal(keep_largest(weights, 9), weights)
    keep_largest(weights, 2).sum().backward()
    assert weights.grad is not None
    assert weights.grad.tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]]


def test_pooled_by_hand() -> None:
    """Text 0 has rows 0, 2 and 3, text 1 has row 1, text 2 has none. A gradient goes to the first of equal maxima."""
    values = torch.tensor([[2.0, 5.0], [7.0, -3.0], [3.0, -1.0], [3.0, 5.0]], requires_grad=True)
    columns = torch.tensor([[1, 0], [1, 2], [1, 4], [1, 3]])
    texts = torch.tensor([0, 1, 0, 0])
    pooled = max_pool_entries(values, columns, texts, 3, 5)
    assert pooled.equal(max_pool_entries(values.detach(), columns, texts, 3, 5))
    assert pooled.tolist() == [[5.0, 3.0, 0, 5.0, 0], [0, 7.0, 0, 0, 0], [0, 0, 0, 0, 0]]
    (pooled * torch.tensor([1.0, 10.0, 100.0, 1000.0, 10000.0])).sum().backward()
    assert values.grad is not None
    assert values.grad.tolist() == [[0.0, 1.0], [10.0, 0.0], [10.0, 0.0], [0.0, 1000.0]]
    shares = largest_shares(values.detach() / 10, columns, torch.tensor([0, 0, 4, 6]), torch.tensor([1, 3]))
    assert (shares.token.tolist(), shares.column.tolist()) == ([0, 6], [1, 3])
    assert shares.value.tolist() == pytest.approx([0.7, 0.5])
