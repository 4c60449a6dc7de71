"""Gradients of the head in float64: by small steps (gradcheck), and equal to autograd's through the naive formula."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from encoders.head import tiled_scores, token_layout
from encoders.head.token_top_k import max_pool_entries, top_k_per_row
from encoders.head.vocabulary_head import lexical_pool, pool, pool_columns
from encoders.head.winner_take_all import WinnerTakeAll, unpack

TERMS, WIDTH = 23, 4
WAYS: dict[str, dict[str, Any]] = {
    "sum, log": {"pooling": "sum", "saturation": "log"},
    "sum": {"pooling": "sum", "saturation": "none"},
    "max, log": {"pooling": "max", "saturation": "log"},
    "max": {"pooling": "max", "saturation": "none"},
    "raw max": {"pooling": "max", "saturation": "none", "relu": False},
}
POOLED = {name: way for name, way in WAYS.items() if "relu" not in way}
TEXTS = {"padded": [5, 2, 0, 1], "full": [3, 3]}
FEW, MANY = -5.0, 0.5  # added to the bias: few scores are positive (entries are kept), or most (tiles, all winners)
COLUMNS = torch.tensor([22, 0, 7, 16])
IDS = torch.tensor([[2, 7, 7, 2, 9], [5, 5, 3, 0, 0], [0, 0, 0, 0, 0], [1, 2, 3, 4, 2]])

Function = Callable[[Tensor, Tensor, Tensor], Any]


def inputs(lengths: list[int], shift: float) -> tuple[list[Tensor], Tensor]:
    """Hidden states, weight and bias, to be learned; and the mask."""
    generator = torch.Generator().manual_seed(3)
    shapes = ((len(lengths), max(lengths), WIDTH), (TERMS, WIDTH), (TERMS,))
    learned = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    learned[2] += shift
    return [tensor.requires_grad_() for tensor in learned], torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def naive(
    mask: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor, *, pooling: str, saturation: str, relu: bool = True
) -> Tensor:
    """All scores ``(batch, tokens, vocabulary)``, and nothing but autograd."""
    scores = hidden @ weight.T + bias
    if not relu:
        raw = scores.masked_fill(~mask[:, :, None], float("-inf")).amax(1)
        return raw.where(mask.any(1, keepdim=True), 0.0)
    scores = scores.relu()
    scores = (scores.log1p() if saturation == "log" else scores) * mask[:, :, None]
    return scores.sum(1) if pooling == "sum" else scores.amax(1)


def check(ours: Function, theirs: Function, learned: list[Tensor]) -> None:
    """Values, gradients of a random sum of them, and gradcheck."""
    result, expected = ours(*learned), theirs(*learned)
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
    upstream = torch.randn(expected.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    mine = torch.autograd.grad((result * upstream).sum(), learned, allow_unused=True)
    others = torch.autograd.grad((expected * upstream).sum(), learned, allow_unused=True)
    for one, other in zip(mine, others, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    assert torch.autograd.gradcheck(ours, tuple(learned))


@pytest.fixture(autouse=True)
def _several_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled_scores, "_tile_columns", lambda _: 9)


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("shift", [FEW, MANY])
@pytest.mark.parametrize("lengths", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_pool(way: dict[str, Any], lengths: list[int], shift: float) -> None:
    learned, mask = inputs(lengths, shift)
    check(lambda hidden, weight, bias: pool(hidden, mask, weight, bias, **way), partial(naive, mask, **way), learned)


@pytest.mark.parametrize("shift", [FEW, MANY])
def test_both_passes_of_sums_were_tried(shift: float) -> None:
    """Few positive scores: all tiles keep their entries; many: none does."""
    (hidden, weight, bias), mask = inputs(TEXTS["padded"], shift)
    tiles = tiled_scores.TiledScores(token_layout.lay_out(hidden, mask)[0], torch.float64)
    with torch.no_grad():
        _, entries, spans = tiles.sum_and_entries(hidden[mask], weight, bias, log=True)
    if shift == FEW:
        assert len(entries[0]) > 0
        assert spans == []
    else:
        assert spans == [(0, 9), (9, 18), (18, 23)]


@pytest.mark.parametrize("shift", [FEW, MANY])
@pytest.mark.parametrize("columns", [COLUMNS, torch.arange(20)], ids=["few", "most"])
@pytest.mark.parametrize("way", POOLED.values(), ids=POOLED.keys())
def test_pool_columns(way: dict[str, Any], columns: Tensor, shift: float) -> None:
    learned, mask = inputs(TEXTS["padded"], shift)
    keep = torch.zeros(TERMS, dtype=torch.float64).index_fill_(0, columns, 1.0)
    check(
        lambda hidden, weight, bias: pool_columns(hidden, mask, weight, bias, columns, **way),
        lambda *tensors: naive(mask, *tensors, **way) * keep,
        learned,
    )


@pytest.mark.parametrize("shift", [FEW, MANY])
@pytest.mark.parametrize("way", POOLED.values(), ids=POOLED.keys())
def test_lexical_pool(way: dict[str, Any], shift: float) -> None:
    learned, mask = inputs(TEXTS["padded"], shift)
    literal = mask & (IDS != 9)
    bags = torch.zeros(len(IDS), TERMS, dtype=torch.float64).scatter_add(1, IDS, literal.double()).clamp(max=1)
    check(
        lambda hidden, weight, bias: lexical_pool(hidden, IDS, mask, literal, weight, bias, **way),
        lambda *tensors: naive(mask, *tensors, **way) * bags,
        learned,
    )


@pytest.mark.parametrize("shift", [FEW, MANY])
def test_top_k_and_its_maxima(shift: float) -> None:
    learned, mask = inputs(TEXTS["padded"], shift)
    texts, k = mask.nonzero()[:, 0], 3

    def ours(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return max_pool_entries(*top_k_per_row(hidden[mask], weight, bias, k), texts, len(mask), TERMS)

    def theirs(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        scores = hidden @ weight.T + bias
        kept = scores >= scores.topk(k, dim=2).values[:, :, -1:]
        return (scores.relu() * kept * mask[:, :, None]).amax(1)

    check(ours, theirs, learned)


def test_winner_take_all() -> None:
    """Inputs that a dimension does not see: its weights there are constants, and their gradient is exactly 0."""
    torch.manual_seed(5)
    layer = WinnerTakeAll(WIDTH, TERMS, 0.5).double()
    learned, mask = inputs([4], 0.0)
    seen = unpack(layer.mask, WIDTH)

    def ours(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (hidden[mask], 3))[0]
        return found

    def theirs(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return (hidden[mask] @ weight.T + bias).topk(3, dim=1).values

    weight = layer.weight.detach().clone().requires_grad_()
    result, expected = ours(learned[0], weight, learned[2]), theirs(learned[0], weight, learned[2])
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
    mine = torch.autograd.grad(result.square().sum(), [learned[0], weight, learned[2]])
    others = torch.autograd.grad(expected.square().sum(), [learned[0], weight, learned[2]])
    assert mine[1][~seen].eq(0).all()
    assert others[1][~seen].ne(0).any()
    for place, other in enumerate((others[0], others[1] * seen, others[2])):
        torch.testing.assert_close(mine[place], other, rtol=1e-10, atol=1e-10)
    assert torch.autograd.gradcheck(
        lambda hidden, bias: ours(hidden, weight.detach().requires_grad_(), bias), (learned[0], learned[2])
    )
