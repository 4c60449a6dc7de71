"""Screened terms: none that has weight is missing, whatever the numbers; results equal those of the plain head."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from encoders.head import vocabulary_head as head
from encoders.head.vocabulary_head import Pooling, Screen, TiledScores, pool

DTYPES = (torch.float32, torch.bfloat16)
SCALES = (1e-42, 1e-38, 1e-30, 1e-19, 1e-3, 1.0, 1e3, 1e18, 1e30, 3e38)


def exact_int_mm(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    return (left.double() @ right.double()).int()


@pytest.fixture(autouse=True)
def _exact_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integer products that are exact: the processor's own if they are; float32 products of one order."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setattr(head, "_MOST_CANDIDATES", 1.0)
    if not head._exact_int8(torch.ones(17, 64)):
        monkeypatch.setattr(torch, "_int_mm", exact_int_mm)


Decoder = tuple[Tensor, Tensor]


def both(
    hidden: Tensor,
    mask: Tensor,
    decoder: Decoder,
    pooling: Pooling,
    screened: Screen | None = None,
    *,
    log: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Plain and screened weights, and the candidates."""
    scores, screened = TiledScores(hidden, mask, *decoder), screened or Screen()
    plain = (scores.max(relu=True, log=log) if pooling == "max" else scores.sum(log=log))[0]
    found = screened._found(scores, pooling, log=log)
    assert found is not None
    return plain, found[0], screened.candidates(scores)[0]


def sparse_model(texts: int = 5, tokens: int = 9, size: int = 64, terms: int = 1300) -> tuple[Tensor, ...]:
    """Hidden states with outlier dimensions, a mask, and a decoder that gives few of the terms weight."""
    generator = torch.Generator().manual_seed(2)
    hidden = torch.randn(texts, tokens, size, generator=generator)
    hidden[:, :, 3] *= 40
    mask = torch.arange(tokens) < torch.tensor([tokens, 1, 0, 4, 6])[:texts, None]
    weight = torch.randn(terms, size, generator=generator) / size**0.5
    weight[:, 3] /= 40
    return hidden, mask, weight, torch.full((terms,), -2.5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("pooling", ["max", "sum"])
@pytest.mark.parametrize("log", [True, False])
def test_the_same_bits_as_the_plain_head(pooling: Pooling, log: bool, dtype: torch.dtype) -> None:
    hidden, mask, weight, bias = sparse_model()
    hidden, weight, bias = hidden.to(dtype), weight.to(dtype), bias.to(dtype)
    plain, result, candidates = both(hidden, mask, (weight, bias), pooling, log=log)
    assert torch.equal(plain, result)
    active = plain.count_nonzero(1)
    assert (active > 0).tolist() == [True, True, False, True, True]
    assert candidates.sum() < 2 * active.sum() < 0.2 * plain.numel()  # screening leaves something out


@settings(max_examples=150, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(DTYPES), pooling=st.sampled_from(["max", "sum"]))
def test_no_term_with_weight_is_missing(data: st.DataObject, dtype: torch.dtype, pooling: Pooling) -> None:
    """Rows of all magnitudes, equal rows, zeros, denormal numbers; biases at, just below and just above the border."""
    seed = data.draw(st.integers(0, 2**31))
    size, terms = data.draw(st.sampled_from([16, 64, 130])), data.draw(st.sampled_from([1, 2, 63, 513]))
    generator = torch.Generator().manual_seed(seed)

    def numbers(*shape: int) -> Tensor:
        scale = torch.tensor(data.draw(st.lists(st.sampled_from(SCALES), min_size=1, max_size=3)))
        chosen = scale[torch.randint(len(scale), (*shape[:-1], 1), generator=generator)]
        return (torch.randn(*shape, generator=generator) * chosen).to(dtype)

    hidden, weight = numbers(3, 4, size), numbers(terms, size)
    if data.draw(st.booleans()):
        hidden, weight = hidden[:, :1].expand(-1, 4, -1).contiguous(), weight[:1].expand(terms, -1).contiguous()
    mask = torch.tensor([[1, 1, 1, 1], [0, 1, 0, 1], [1, 0, 0, 0]]).bool()
    scores = torch.nan_to_num((hidden[0].float() @ weight.float().T).amax(0), 0, 0, 0)
    steps = data.draw(st.sampled_from([-1e-2, -1e-6, -6e-8, 0.0, 6e-8, 1e-6, 1e-2]))
    bias = (-scores * (1 + steps)).to(dtype)
    screened = Screen()
    if data.draw(st.booleans()):  # factors from other states
        screened.candidates(TiledScores(numbers(3, 4, size), mask, weight, bias))
    plain, result, candidates = both(hidden, mask, (weight, bias), pooling, screened)
    missing = ~(plain <= 0) & ~candidates  # a sum may be NaN
    assert not missing.any(), (plain[missing], bias)
    of_rows = [part.abs().amax(-1).double() for part in (hidden, weight)]
    least, most = (float(of_rows[0].min() * of_rows[1].min()), float(of_rows[0].max() * of_rows[1].max()))
    least = min(least, *(float(rows.min()) for rows in of_rows))
    if pooling == "max" and least > 1e-30 and most < 1e34:  # overflow and underflow depend on the order of additions
        assert torch.equal(plain, result)


def test_nan_states_give_nan_weights() -> None:
    hidden, mask, weight, bias = sparse_model()
    hidden[0, 2, 5] = float("nan")
    hidden[3, 7] = float("nan")  # does not count
    hidden[4, 1, 0] = float("inf")
    plain, result, _ = both(hidden, mask, (weight, bias), "max")
    assert result[0].isnan().all()
    assert torch.equal(plain.nan_to_num(-1), result.nan_to_num(-1))


@pytest.mark.parametrize("faster", ["screened", "plain"])
def test_the_faster_head_is_chosen_once(faster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, mask, weight, bias = sparse_model()
    screened = Screen()
    monkeypatch.setattr(head, "_exact_int8", lambda _: True)
    seconds = {"screened": (1.0, 2.0), "plain": (2.0, 1.0)}[faster]
    monkeypatch.setattr(head, "_seconds", lambda run: [seconds[run.func.__name__ != "_found"]])
    results = [pool(hidden, mask, weight, bias, pooling="max", screen=screened) for _ in range(2)]
    assert screened.used is (faster == "screened")
    monkeypatch.setattr(head, "_seconds", None)
    results.append(pool(hidden, mask, weight, bias, pooling="max", screen=screened))
    assert all(torch.equal(result, results[0]) for result in results)


@pytest.mark.parametrize("case", ["inexact", "no relu", "float64", "dense"])
def test_the_plain_head_where_screening_is_not_proven(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, mask, weight, bias = sparse_model()
    options: dict[str, Any] = {"pooling": "max"}
    monkeypatch.setattr(head, "_exact_int8", lambda _: case != "inexact")
    monkeypatch.setattr(head, "_seconds", lambda run: [1.0 if run.func.__name__ == "_found" else 2.0])
    if case == "float64":
        hidden, weight, bias = hidden.double(), weight.double(), bias.double()
    if case == "dense":
        monkeypatch.setattr(head, "_MOST_CANDIDATES", 0.01)
    if case == "no relu":
        options["relu"] = False
    screened = Screen()
    for _ in range(3):
        pool(hidden, mask, weight, bias, **options, screen=screened)
    assert not screened.used


@pytest.mark.parametrize("log", [True, False])
def test_a_model_that_learns_gets_the_same_gradients(log: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over two updates of a decoder that grows in one step, so that other terms get weight."""
    monkeypatch.setattr(head, "_exact_int8", lambda _: True)
    monkeypatch.setattr(head, "_seconds", lambda run: [1.0 if run.func.__name__ == "_found" else 2.0])
    hidden, mask, *decoder = sparse_model()
    hidden[1, 1:] = hidden[1, :1]  # ties, of which the first token wins
    mask = mask.clone()
    mask[1, :3] = True
    screened = Screen()
    both_ways: list[list[Any]] = []
    for screen_or_none in (screened, None):
        weight, bias = [torch.nn.Parameter(tensor.clone()) for tensor in decoder]
        optimizer = torch.optim.SGD([weight, bias], lr=1.0)
        results: list[Any] = []
        for _ in range(4):
            states = hidden.clone().requires_grad_()
            weights = pool(
                states, mask, weight, bias, pooling="max", saturation="log" if log else "none", screen=screen_or_none
            )
            optimizer.zero_grad()
            (-weights.mul(torch.linspace(0.1, 2, weights.shape[1])).sum(1)).log_softmax(0).sum().backward()
            gradients = [each.grad.clone() for each in (states, weight, bias) if each.grad is not None]
            results += [weights.detach(), *gradients]
            optimizer.step()
        both_ways.append(results)
    assert screened.used
    assert all(torch.equal(*pair) for pair in zip(*both_ways, strict=True))
    assert not torch.equal(both_ways[0][0] > 0, both_ways[0][-4] > 0)


def test_saturating_products_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processors without VNNI add two products up in 16 bits, after they have made ``left`` positive."""

    def saturating(left: Tensor, right: Tensor) -> Tensor:
        pairs = (left.int() + 128).view(len(left), 1, -1, 2) * right.t().int().reshape(1, right.shape[1], -1, 2)
        return (pairs.sum(3).clamp(-(2**15), 2**15 - 1).sum(2) - 128 * right.int().sum(0)).int()

    monkeypatch.setattr(torch, "_int_mm", exact_int_mm)
    monkeypatch.setattr(head, "_seconds", lambda run: [1.0])
    assert head._exact_int8(torch.ones(17, 64))
    monkeypatch.setattr(torch, "_int_mm", saturating)
    assert not head._exact_int8(torch.ones(17, 64))
