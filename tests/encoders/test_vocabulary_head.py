"""The tiled head equals the formula that holds every score."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from encoders.head import tiled_scores
from encoders.head.vocabulary_head import Pooling, Saturation, first_occurrences, lexical_pool, pool, pool_columns

WAYS: list[tuple[Pooling, Saturation]] = [("sum", "log"), ("sum", "none"), ("max", "log"), ("max", "none")]
LENGTHS = {
    "padded": [7, 3, 0, 5],
    "full": [7, 7],
    "one token": [1, 7, 1],
    "equal": [5, 5, 0, 0, 2, 2, 2],
    "long": [79, 33, 33, 0, 31],
    "long, full": [45, 45],
}


Inputs = tuple[Tensor, Tensor, Tensor, Tensor]


def naive(hidden: Tensor, mask: Tensor, weight: Tensor, bias: Tensor, *, pooling: str, saturation: str) -> Tensor:
    """The formula, holding (batch, tokens, vocabulary)."""
    scores = (hidden @ weight.T + bias).relu()
    scores = (scores.log1p() if saturation == "log" else scores) * mask[:, :, None]
    return scores.sum(1) if pooling == "sum" else scores.max(1).values


def inputs(lengths: list[int], *, shift: float = 0.0, terms: int = 53, dtype: torch.dtype = torch.float32) -> Inputs:
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(len(lengths), max(lengths), 6, generator=generator, dtype=dtype)
    weight = torch.randn(terms, 6, generator=generator, dtype=dtype)
    bias = torch.randn(terms, generator=generator, dtype=dtype) + shift
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return hidden.requires_grad_(), mask, weight.requires_grad_(), bias.requires_grad_()


@pytest.fixture(autouse=True)
def _several_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile width that does not divide the vocabulary."""
    monkeypatch.setattr(tiled_scores, "_tile_columns", lambda _: 16)


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("shift", [-6.0, 0.0, 4.0], ids=["few active", "half active", "most active"])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
@pytest.mark.parametrize(("pooling", "saturation"), WAYS)
def test_values_and_gradients_equal_the_naive_formula(
    pooling: Pooling, saturation: Saturation, lengths: list[int], shift: float
) -> None:
    ours, theirs = inputs(lengths, shift=shift), inputs(lengths, shift=shift)
    result = pool(*ours, pooling=pooling, saturation=saturation)
    expected = naive(*theirs, pooling=pooling, saturation=saturation)
    torch.testing.assert_close(result, expected)
    with torch.no_grad():
        torch.testing.assert_close(pool(*ours, pooling=pooling, saturation=saturation), expected)
    upstream = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2))
    (result * upstream).sum().backward()
    (expected * upstream).sum().backward()
    for place in (0, 2, 3):
        torch.testing.assert_close(ours[place].grad, theirs[place].grad)


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("shift", [-6.0, 0.0])
@pytest.mark.parametrize(("pooling", "saturation"), WAYS)
def test_gradcheck(pooling: Pooling, saturation: Saturation, shift: float) -> None:
    hidden, mask, weight, bias = inputs([4, 2], shift=shift, terms=20, dtype=torch.float64)

    def run(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return pool(hidden, mask, weight, bias, pooling=pooling, saturation=saturation)

    assert torch.autograd.gradcheck(run, (hidden, weight, bias), fast_mode=True)


@pytest.mark.parametrize("frozen", ["hidden", "weight"])
@pytest.mark.parametrize(("pooling", "saturation"), WAYS)
def test_a_frozen_input_gets_no_gradient(pooling: Pooling, saturation: Saturation, frozen: str) -> None:
    hidden, mask, weight, bias = inputs([4, 2])
    (hidden if frozen == "hidden" else weight).requires_grad_(False)
    pool(hidden, mask, weight, bias, pooling=pooling, saturation=saturation).sum().backward()
    assert (hidden.grad is None) == (frozen == "hidden")
    assert (weight.grad is None) == (frozen == "weight")
    assert bias.grad is not None


def test_by_hand() -> None:
    """Two tokens, three terms: scores (1, -1, 0) + bias and (3, 0, -2) + bias, bias (0, 0, 1)."""
    hidden = torch.tensor([[[1.0, -1.0, 0.0], [3.0, 0.0, -2.0]]])
    eye, bias, mask = torch.eye(3), torch.tensor([0.0, 0.0, 1.0]), torch.ones(1, 2)
    assert pool(hidden, mask, eye, bias, pooling="sum").tolist() == [[4.0, 0.0, 1.0]]
    assert pool(hidden, mask, eye, bias, pooling="max").tolist() == [[3.0, 0.0, 1.0]]
    assert pool(hidden, mask, eye, bias - 2, pooling="max", relu=False).tolist() == [[1.0, -2.0, -1.0]]
    logged = pool(hidden, mask, eye, bias, pooling="sum", saturation="log")
    torch.testing.assert_close(logged, torch.tensor([[8.0, 1.0, 2.0]]).log())  # log 2 + log 4, log 1, log 2 + log 1


def test_raw_maxima_keep_their_sign_and_gradient() -> None:
    hidden, mask, weight, bias = inputs([5, 3, 0], shift=-9.0)
    raw = pool(hidden, mask, weight, bias, pooling="max", relu=False)
    scores = (hidden @ weight.T + bias).masked_fill(~mask.bool()[:, :, None], float("-inf")).max(1).values
    torch.testing.assert_close(raw[:2], scores[:2])
    assert (raw[:2] < 0).any()
    assert raw[2].eq(0).all()  # an empty text
    raw.sum().backward()
    torch.testing.assert_close(bias.grad, torch.full_like(bias, 2.0))  # not from the empty text
    assert torch.isfinite(hidden.grad).all()  # type: ignore[arg-type]


def test_no_relu_with_sums_is_refused() -> None:
    with pytest.raises(ValueError, match="max pooling"):
        pool(*inputs([2]), pooling="sum", relu=False)


@pytest.mark.parametrize(("pooling", "saturation"), WAYS)
def test_lexical_is_the_full_vector_times_the_bag_of_words(pooling: Pooling, saturation: Saturation) -> None:
    ids = torch.tensor([[2, 7, 7, 2, 9, 4, 7], [5, 5, 3, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0], [1, 2, 3, 4, 2, 0, 0]])
    ours, theirs = inputs(LENGTHS["padded"], shift=0.5), inputs(LENGTHS["padded"], shift=0.5)
    hidden, mask, weight, bias = ours
    literal = mask.bool() & (ids != 9)
    bag = torch.zeros(4, 53).scatter_add(1, ids, literal.float()).clamp(max=1)
    result = lexical_pool(hidden, ids, mask, literal, weight, bias, pooling=pooling, saturation=saturation)
    expected = naive(*theirs, pooling=pooling, saturation=saturation) * bag
    torch.testing.assert_close(result, expected)
    (result * torch.arange(53)).sum().backward()
    (expected * torch.arange(53)).sum().backward()
    for place in (0, 2, 3):
        torch.testing.assert_close(ours[place].grad, theirs[place].grad)


def test_first_occurrences() -> None:
    ids = torch.tensor([[5, 6, 5, 6, 7, 5]])
    literal = torch.tensor([[False, True, True, True, True, True]])
    assert first_occurrences(ids, literal).tolist() == [[False, True, True, False, True, False]]


@pytest.mark.parametrize("columns", [[], [3], [52, 0, 17], list(range(0, 53, 2)), list(range(50))])
@pytest.mark.parametrize(("pooling", "saturation"), WAYS)
def test_columns(pooling: Pooling, saturation: Saturation, columns: list[int]) -> None:
    ours, theirs = inputs([7, 3]), inputs([7, 3])
    keep = torch.zeros(53)
    keep[columns] = 1
    chosen = torch.tensor(columns, dtype=torch.long)
    result = pool_columns(*ours, columns=chosen, pooling=pooling, saturation=saturation)
    expected = naive(*theirs, pooling=pooling, saturation=saturation) * keep
    torch.testing.assert_close(result, expected)
    result.sum().backward()
    expected.sum().backward()
    for place in (0, 2, 3):
        torch.testing.assert_close(ours[place].grad, theirs[place].grad)


@pytest.mark.parametrize("shift", [-6.0, 0.0])
@pytest.mark.parametrize(("pooling", "saturation"), WAYS)
def test_bf16_autocast(pooling: Pooling, saturation: Saturation, shift: float) -> None:
    ours, theirs = inputs([7, 3], shift=shift), inputs([7, 3], shift=shift)
    with torch.autocast("cpu", torch.bfloat16):
        result = pool(*ours, pooling=pooling, saturation=saturation)
    assert result.dtype == torch.float32  # pooled in float32
    expected = naive(*theirs, pooling=pooling, saturation=saturation)
    torch.testing.assert_close(result, expected, rtol=0.02, atol=0.06)
    assert not torch.equal(result, expected)  # the matrix product did run in bf16
    result.sum().backward()
    expected.sum().backward()
    for place in (0, 2, 3):
        assert ours[place].grad.dtype == torch.float32  # type: ignore[union-attr]
        similarity = torch.cosine_similarity(ours[place].grad.flatten(), theirs[place].grad.flatten(), dim=0)  # type: ignore[union-attr]
        assert similarity > 0.98


@pytest.mark.parametrize("kind", ["pool", "lexical"])
@pytest.mark.parametrize(("pooling", "saturation"), WAYS)
def test_bf16_weights_are_pooled_in_float32(
    pooling: Pooling, saturation: Saturation, kind: Literal["pool", "lexical"]
) -> None:
    hidden, mask, weight, bias = (tensor.detach() for tensor in inputs([7, 3]))
    half, half_weight, half_bias = (tensor.bfloat16() for tensor in (hidden, weight, bias))
    if kind == "pool":
        result = pool(half, mask, half_weight, half_bias, pooling=pooling, saturation=saturation)
        expected = naive(hidden, mask, weight, bias, pooling=pooling, saturation=saturation)
    else:
        ids = torch.arange(14).view(2, 7)
        result = lexical_pool(half, ids, mask, mask, half_weight, half_bias, pooling=pooling, saturation=saturation)
        expected = lexical_pool(hidden, ids, mask, mask, weight, bias, pooling=pooling, saturation=saturation)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, expected, rtol=0.03, atol=0.1)


class _Largest(TorchDispatchMode):
    """Watches the size of every tensor made."""

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
@pytest.mark.parametrize(("pooling", "saturation"), WAYS)
def test_the_scores_of_all_tokens_and_terms_are_never_held(
    pooling: Pooling, saturation: Saturation, lengths: list[int]
) -> None:
    tensors = inputs(lengths, terms=1000, shift=-6.0)
    with _Largest() as watch:
        pool(*tensors, pooling=pooling, saturation=saturation).sum().backward()
    assert 2 * 1000 <= watch.largest < sum(lengths) * 1000 / 5


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("shift", [-6.0, 4.0])
@pytest.mark.parametrize("pooling", ["sum", "max"])
def test_a_state_that_is_not_a_number_is_not_hidden(pooling: Pooling, shift: float) -> None:
    hidden, mask, weight, bias = inputs([7, 3, 0], shift=shift)
    with torch.no_grad():
        hidden[1, 2] = float("nan")
        hidden[0, 5] = float("nan")
        mask[0, 5] = 0
    weights = pool(hidden, mask, weight, bias, pooling=pooling, saturation="log")
    assert weights.isnan().all(1).tolist() == [False, True, False]
    assert weights.isnan().any(1).tolist() == [False, True, False]


@pytest.mark.parametrize("pooling", ["sum", "max"])
def test_gradients_too_small_to_matter_are_zeros(pooling: Pooling) -> None:
    """What is next to the smallest numbers would only slow the layers below down."""
    hidden, mask, weight, bias = inputs([7, 3], dtype=torch.float32, shift=4.0)
    weights = pool(hidden, mask, weight, bias, pooling=pooling, saturation="log")
    upstream = torch.tensor([[1e-35], [1e-28]]).expand_as(weights)
    weights.backward(upstream)
    assert hidden.grad is not None
    assert not hidden.grad[0].any()
    assert hidden.grad[1].any()


@pytest.mark.gpu
@pytest.mark.parametrize(("pooling", "saturation"), WAYS)
def test_on_a_gpu(pooling: Pooling, saturation: Saturation) -> None:
    hidden, mask, weight, bias = inputs([7, 3, 0])
    ours = [tensor.detach().cuda().requires_grad_(tensor.requires_grad) for tensor in (hidden, mask, weight, bias)]
    theirs = inputs([7, 3, 0])
    result = pool(ours[0], ours[1], ours[2], ours[3], pooling=pooling, saturation=saturation)
    expected = naive(*theirs, pooling=pooling, saturation=saturation)
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-4)
    result.sum().backward()
    expected.sum().backward()
    for place in (0, 2, 3):
        torch.testing.assert_close(ours[place].grad.cpu(), theirs[place].grad, rtol=1e-3, atol=1e-3)  # type: ignore[union-attr]
