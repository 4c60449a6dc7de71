"""The vocabulary head equals the formula over all scores, in values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from encoders.head import vocabulary_head
from encoders.head.vocabulary_head import Pooling, Saturation, lexical_pool, pool, pool_columns

POOLINGS: list[tuple[Pooling, Saturation]] = [("sum", "log"), ("sum", "none"), ("max", "log"), ("max", "none")]
LENGTHS = {
    "padded": [7, 3, 0, 5],
    "full": [7, 7],
    "one token": [1, 7, 1],
    "equal": [5, 5, 0, 0, 2, 2, 2],
    "long": [79, 33, 33, 0, 31],
    "long, full": [45, 45],
}
SHIFTS = (-6.0, 0.0, 4.0)  # of the bias: few, half or most of the scores are positive
TERMS = 53
IDS = torch.tensor([[2, 7, 7, 2, 9, 4, 7], [5, 5, 3, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0], [1, 2, 3, 4, 2, 0, 0]])

Inputs = tuple[Tensor, Tensor, Tensor, Tensor]
Function = Callable[[Tensor, Tensor, Tensor], Any]


def naive(
    hidden: Tensor, mask: Tensor, weight: Tensor, bias: Tensor, *, pooling: str, saturation: str, relu: bool = True
) -> Tensor:
    """The formula with all scores ``(batch, tokens, vocabulary)`` in memory."""
    scores = hidden @ weight.T + bias
    if not relu:
        maxima = scores.masked_fill(~mask.bool()[:, :, None], float("-inf")).amax(1)
        return maxima.where(mask.bool().any(1, keepdim=True), 0.0)
    scores = scores.relu()
    scores = (scores.log1p() if saturation == "log" else scores) * mask[:, :, None]
    return scores.sum(1) if pooling == "sum" else scores.amax(1)


def inputs(lengths: list[int], *, shift: float = 0.0, terms: int = TERMS, dtype: torch.dtype = torch.float32) -> Inputs:
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(len(lengths), max(lengths), 6, generator=generator, dtype=dtype)
    weight = torch.randn(terms, 6, generator=generator, dtype=dtype)
    bias = torch.randn(terms, generator=generator, dtype=dtype) + shift
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return hidden.requires_grad_(), mask, weight.requires_grad_(), bias.requires_grad_()


def check(ours: Function, theirs: Function, learned: list[Tensor]) -> None:
    """Values without and with gradient, and the gradients of a random weighted sum; all in float64."""
    result, expected = ours(*learned), theirs(*learned)
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(ours(*learned), expected, rtol=1e-12, atol=1e-12)
    upstream = torch.randn(expected.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    gradients = torch.autograd.grad((result * upstream).sum(), learned)
    references = torch.autograd.grad((expected * upstream).sum(), learned)
    for gradient, reference in zip(gradients, references, strict=True):
        torch.testing.assert_close(gradient, reference, rtol=1e-10, atol=1e-10)


@pytest.fixture(autouse=True)
def _several_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile width that does not divide the vocabulary."""
    monkeypatch.setattr(vocabulary_head, "_COLUMNS_OF_ONEDNN", 16)
    monkeypatch.setattr(vocabulary_head, "_COLUMNS_ON_CPU", (16, 16))


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize(("pooling", "saturation"), POOLINGS)
def test_pool(pooling: Pooling, saturation: Saturation, relu: bool) -> None:
    if not relu and (pooling, saturation) != ("max", "none"):
        with pytest.raises(ValueError, match="max pooling"):
            pool(*inputs([2]), pooling=pooling, saturation=saturation, relu=relu)
        return
    options: dict[str, Any] = {"pooling": pooling, "saturation": saturation, "relu": relu}
    for lengths, shift in product(LENGTHS.values(), SHIFTS):
        hidden, mask, weight, bias = inputs(lengths, shift=shift, dtype=torch.float64)

        def ours(hidden: Tensor, weight: Tensor, bias: Tensor, mask: Tensor = mask) -> Tensor:
            return pool(hidden, mask, weight, bias, **options)

        def theirs(hidden: Tensor, weight: Tensor, bias: Tensor, mask: Tensor = mask) -> Tensor:
            return naive(hidden, mask, weight, bias, **options)

        check(ours, theirs, [hidden, weight, bias])


def test_both_backward_passes_of_sums_are_tested() -> None:
    """Few positive scores let every tile keep its entries; many let no tile keep them."""
    for shift in SHIFTS[::2]:
        hidden, mask, weight, bias = inputs(LENGTHS["padded"], shift=shift)
        spans: list[tuple[int, int]] = []
        with torch.no_grad():
            rows = vocabulary_head.TiledScores(hidden, mask, weight, bias).sum(log=True, dense=spans)[1]
        assert (len(rows) > 0) == (shift < 0)
        assert spans == ([] if shift < 0 else [(0, 16), (16, 32), (32, 48), (48, 53)])


@pytest.mark.parametrize(("pooling", "saturation"), POOLINGS)
def test_lexical_is_the_full_vector_times_the_bag_of_words(pooling: Pooling, saturation: Saturation) -> None:
    options: dict[str, Any] = {"pooling": pooling, "saturation": saturation}
    hidden, mask, weight, bias = inputs(LENGTHS["padded"], shift=0.5, dtype=torch.float64)
    literal = mask.bool() & (IDS != 9)
    bags = torch.zeros(len(IDS), TERMS, dtype=torch.float64).scatter_add(1, IDS, literal.double()).clamp(max=1)
    check(
        lambda hidden, weight, bias: lexical_pool(hidden, IDS, mask, literal, weight, bias, **options),
        lambda hidden, weight, bias: naive(hidden, mask, weight, bias, **options) * bags,
        [hidden, weight, bias],
    )


@pytest.mark.parametrize("columns", [[], [3], [52, 0, 17], list(range(50))], ids=len)
def test_columns(columns: list[int]) -> None:
    hidden, mask, weight, bias = inputs(LENGTHS["padded"], dtype=torch.float64)
    chosen = torch.tensor(columns, dtype=torch.long)
    keep = torch.zeros(TERMS, dtype=torch.float64).index_fill_(0, chosen, 1.0)
    check(
        lambda hidden, weight, bias: pool_columns(hidden, mask, weight, bias, chosen),
        lambda hidden, weight, bias: naive(hidden, mask, weight, bias, pooling="sum", saturation="none") * keep,
        [hidden, weight, bias],
    )


@pytest.mark.parametrize("shift", [-6.0, 0.0])
@pytest.mark.parametrize(("pooling", "saturation"), POOLINGS)
def test_bf16_autocast(pooling: Pooling, saturation: Saturation, shift: float) -> None:
    ours, theirs = inputs([7, 3], shift=shift), inputs([7, 3], shift=shift)
    with torch.autocast("cpu", torch.bfloat16):
        result = pool(*ours, pooling=pooling, saturation=saturation)
    assert result.dtype == torch.float32  # pooled in float32
    expected = naive(*theirs, pooling=pooling, saturation=saturation)
    torch.testing.assert_close(result, expected, rtol=0.02, atol=0.06)
    assert not torch.equal(result, expected)  # the matrix product was in bf16
    result.sum().backward()
    expected.sum().backward()
    for number in (0, 2, 3):
        assert ours[number].grad.dtype == torch.float32  # type: ignore[union-attr]
        similarity = torch.cosine_similarity(ours[number].grad.flatten(), theirs[number].grad.flatten(), dim=0)  # type: ignore[union-attr]
        assert similarity > 0.98


class _Largest(TorchDispatchMode):
    """Records the size of the largest tensor created."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.largest = 0

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        result = function(*arguments, **(options or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, Tensor):
                self.largest = max(self.largest, tensor.numel())
        return result


@pytest.mark.parametrize("lengths", [[40, 40], [40, 31]], ids=["full", "padded"])
@pytest.mark.parametrize(("pooling", "saturation"), POOLINGS)
def test_the_scores_of_all_tokens_and_terms_are_never_in_memory(
    pooling: Pooling, saturation: Saturation, lengths: list[int]
) -> None:
    tensors = inputs(lengths, terms=1000, shift=-6.0)
    with _Largest() as recorder:
        pool(*tensors, pooling=pooling, saturation=saturation).sum().backward()
    assert 2 * 1000 <= recorder.largest < sum(lengths) * 1000 / 5


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("shift", [-6.0, 4.0])
@pytest.mark.parametrize("pooling", ["sum", "max"])
def test_nan_states_give_nan_weights(pooling: Pooling, shift: float) -> None:
    hidden, mask, weight, bias = inputs([7, 3, 0], shift=shift)
    with torch.no_grad():
        hidden[1, 2] = float("nan")
        hidden[0, 5] = float("nan")
        mask[0, 5] = 0
    weights = pool(hidden, mask, weight, bias, pooling=pooling, saturation="log")
    assert weights.isnan().all(1).tolist() == [False, True, False]
    assert weights.isnan().any(1).tolist() == [False, True, False]


@pytest.mark.parametrize("pooling", ["sum", "max"])
def test_tiny_gradients_are_set_to_zero(pooling: Pooling) -> None:
    """Products with denormal numbers would slow down the backward pass of the layers below."""
    hidden, mask, weight, bias = inputs([7, 3], dtype=torch.float32, shift=4.0)
    weights = pool(hidden, mask, weight, bias, pooling=pooling, saturation="log")
    upstream = torch.tensor([[1e-35], [1e-28]]).expand_as(weights)
    weights.backward(upstream)
    assert hidden.grad is not None
    assert not hidden.grad[0].any()
    assert hidden.grad[1].any()
