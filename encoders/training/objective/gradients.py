"""The gradients of one optimiser step, over micro-batches and processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields

import torch
from torch import Tensor

from encoders.training.objective.objective import Outputs

NAMES = tuple(field.name for field in fields(Outputs))
Loss = Callable[[Outputs], Tensor]
Forward = Callable[[], Outputs]


def per_micro_batch(forwards: Sequence[Forward], losses: Sequence[Loss], sizes: Sequence[int]) -> None:
    """Accumulate the gradient of the mean of ``losses``, each of its own forward pass of so many queries.

    In-batch negatives and FLOPS see one micro-batch (in the papers' set-up: one GPU), so how a batch is cut changes
    them. The pairwise loss, Eq. 8 and L1 are means over texts: for them the cut changes nothing.
    """
    for forward, loss, size in zip(forwards, losses, sizes, strict=True):
        (loss(forward()) * (size / sum(sizes))).backward()


def over_batch(forwards: Sequence[Forward], loss: Loss, gather: Callable[[Tensor], Tensor], process: int) -> None:
    """Accumulate this process's share of the gradient of a ``loss`` over all micro-batches of all processes.

    The result is the same however the batch is cut; the processes' shares are to be summed. Of several
    micro-batches each is passed forward twice, with the same dropout: first for its weights alone, then, when the
    gradient of the loss by these is known, with its graph (gradient caching): the memory is that of one micro-batch.
    """
    once = len(forwards) == 1
    states, parts = [], []
    with torch.set_grad_enabled(once):
        for forward in forwards:
            states.append(_random_state())
            parts.append(forward())
    local = _concatenate(parts)
    everything = {
        name: (gather(tensor) if tensor.numel() else tensor).requires_grad_() for name, tensor in local.items()
    }
    loss(Outputs(**everything)).backward()
    for number, forward in enumerate(forwards):
        if not once:
            _restore_random_state(states[number])
        _backward(parts[number] if once else forward(), everything, local, parts, number, process)


def _backward(
    live: Outputs,
    everything: dict[str, Tensor],
    local: dict[str, Tensor],
    parts: Sequence[Outputs],
    number: int,
    process: int,
) -> None:
    tensors, gradients = [], []
    for name in everything:
        output, gradient = getattr(live, name), everything[name].grad
        if gradient is None or not output.requires_grad:
            continue
        start = process * len(local[name]) + sum(len(getattr(part, name)) for part in parts[:number])
        tensors.append(output)
        gradients.append(gradient[start : start + len(output)])
    if tensors:
        torch.autograd.backward(tensors, gradients)


def _concatenate(parts: Sequence[Outputs]) -> dict[str, Tensor]:
    found = {}
    for name in NAMES:
        tensors = [getattr(part, name) for part in parts]
        if tensors[0] is not None:
            found[name] = torch.cat([tensor.detach() for tensor in tensors])
    return found


def _random_state() -> tuple[Tensor, Tensor | None]:
    return torch.get_rng_state(), torch.cuda.get_rng_state() if torch.cuda.is_available() else None


def _restore_random_state(state: tuple[Tensor, Tensor | None]) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1])
