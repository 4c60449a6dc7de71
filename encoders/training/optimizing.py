"""The parameters that a stage trains, their learning rates, and the gradients of one step over micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from encoders.backbone.device import random_state, set_random_state
from encoders.encoding.model import LoadedModel
from encoders.models import architecture_named
from encoders.models.architecture import Objective
from encoders.training.recipe import Stage
from learned_sparse.core.errors import LearnedSparseError, did_you_mean

_KINDS: Mapping[str, type[torch.optim.Adam]] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}

Outputs = dict[str, Tensor]
Loss = Callable[[Outputs], Tensor]
Forward = Callable[[], Outputs]


def trained_parameters(stage: Stage, model: LoadedModel, objective: Objective) -> list[nn.Parameter]:
    """Parameters of the objective's towers in the part of the model that the stage trains, each once."""
    part = architecture_named(model.architecture).part(model.weighers, stage.component)
    of_towers = _ids(
        p for name in objective.towers if name in model.towers for p in model.towers[name].trainable_parameters()
    )
    parameters = [*part.document.parameters(), *part.query.parameters()]
    return list({id(parameter): parameter for parameter in parameters if id(parameter) in of_towers}.values())


def begin_stage(stage: Stage, model: LoadedModel, trained: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
    """Freeze all but the ``trained`` parameters, switch the model to training, and make a fresh optimizer."""
    ids = _ids(trained)
    for parameter in model.weighers.parameters():
        parameter.requires_grad_(id(parameter) in ids)
    begin_training(model, dropout=stage.dropout)
    return make_optimizer(stage, trained, _learning_rates(stage, model))


def begin_training(model: LoadedModel, *, dropout: bool) -> None:
    """Put the model in training mode; without ``dropout`` its towers, which hold all dropout, stay in evaluation mode.

    A side in training mode leaves out steps that have no gradient, such as binarising.
    """
    model.weighers.train()
    if not dropout:
        for tower in model.towers.values():
            tower.eval()
            for module in tower.modules():  # transformers computes layers again in training mode only
                module.training = bool(getattr(module, "gradient_checkpointing", False))


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """``module`` in evaluation mode; each of its submodules gets its mode back at the end."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def make_optimizer(
    stage: Stage, parameters: Iterable[nn.Parameter], rates: Mapping[int, float]
) -> torch.optim.Optimizer:
    """A fresh optimizer over ``parameters`` with the stage's learning rate, or that of ``rates`` by parameter id."""
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for parameter in parameters:
        # as usual with BERT, biases and LayerNorm (the one-dimensional parameters) do not decay
        key = (rates.get(id(parameter), stage.learning_rate), parameter.ndim > 1)
        groups.setdefault(key, []).append(parameter)
    described = [
        {"params": group, "lr": rate, "full_rate": rate, "weight_decay": stage.weight_decay if decays else 0.0}
        for (rate, decays), group in groups.items()
    ]
    # fused: one pass over each parameter, and no copies of all of them
    return _KINDS[stage.optimizer](described, lr=stage.learning_rate, fused=True)


def state_device(group: Mapping[str, object], parameter: Tensor, name: str) -> torch.device:
    """Device of the field ``name`` of a parameter's optimizer state; ``group`` is its parameter group.

    The rule of ``torch.optim.Optimizer.load_state_dict``: a fused or capturable optimizer reads its step count on the
    parameter's device, any other one on the CPU.
    """
    if name == "step" and not (group.get("fused") or group.get("capturable")):
        return torch.device("cpu")
    return parameter.device


def _learning_rates(stage: Stage, model: LoadedModel) -> dict[int, float]:
    """Learning rates that differ from the stage's, by parameter id; rates of heads override those of components."""
    family = architecture_named(model.architecture)
    rates: dict[int, float] = {}
    given = {name: rate for name, rate in stage.learning_rates.items() if rate is not None}
    head_rate = given.pop("head", None)
    for component, rate in given.items():
        known = family.components(model.weighers.document)
        if component not in known:
            hint = did_you_mean(component, [*known, "head"])
            raise LearnedSparseError(f"stage {stage.name}: learning_rates: no component {component!r}{hint}")
        rates |= dict.fromkeys(_ids(family.part(model.weighers, component).parameters()), rate)
    if head_rate is not None:
        new = _ids(parameter for tower in model.towers.values() for parameter in tower.new_parameters())
        if not new:
            raise LearnedSparseError(f"stage {stage.name}: learning_rates: head: no tower has a head of its own")
        rates |= dict.fromkeys(new, head_rate)
    return rates


def _ids(parameters: Iterable[nn.Parameter]) -> set[int]:
    return {id(parameter) for parameter in parameters}


def set_learning_rates(optimizer: torch.optim.Optimizer, share: float) -> None:
    """Give every parameter ``share`` of its learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = group["full_rate"] * share


def learning_rate_share(stage: Stage, step: int) -> float:
    """The share of every learning rate at ``step`` (from 0): linear warm-up, then linear decay to 0 at the end.

    >>> stage = Stage(name="example", steps=6, batch_size=1, warm_up_steps=2)
    >>> [learning_rate_share(stage, step) for step in range(6)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    warm_up, steps = stage.warm_up_steps, stage.steps
    if step < warm_up:
        return (step + 1) / warm_up
    return (steps - step) / max(1, steps - warm_up) if stage.decay else 1.0


def quadratic_ramp(step: int, ramp_steps: int) -> float:
    """The share of lambda in force at ``step`` (from 0): ``((step + 1) / T)^2`` until step T, then 1 (SPLADE §3.2).

    >>> [quadratic_ramp(step, 4) for step in (0, 1, 3, 4)]
    [0.0625, 0.25, 1.0, 1.0]
    """
    return 1.0 if ramp_steps <= 0 else min(1.0, (step + 1) / ramp_steps) ** 2


def over_batch(
    forwards: Sequence[Forward],
    loss: Loss,
    gather: Callable[[Tensor], list[Tensor]],
    process: int,
    device: torch.device,
) -> None:
    """Accumulate this process's share of the gradient of ``loss`` over all micro-batches of all processes.

    The result does not depend on how the batch is cut; the shares of the processes have to be summed. Several
    micro-batches are passed forward twice, with the same dropout: first for the outputs alone, then, with the gradient
    of the loss by these, for the gradient of the parameters (gradient caching). Memory is that of one micro-batch.
    ``gather`` gives the rows of each process; ``device``: that of the forward passes, whose random numbers are
    repeated.
    """
    single = len(forwards) == 1
    states, parts = [], []
    with torch.set_grad_enabled(single):
        for forward in forwards:
            states.append(random_state(device))
            parts.append(forward())
    local = {name: _joined([part[name].detach() for part in parts]) for name in parts[0]}
    for name, tensor in local.items():
        tensor.requires_grad_(parts[0][name].requires_grad or not single)
    if not single:
        parts.clear()  # ``local`` has copies
    outputs = {}
    for name, own in local.items():
        shares = gather(own.detach())
        outputs[name] = _joined([*shares[:process], own, *shares[process + 1 :]])
    loss(outputs).backward()
    starts = dict.fromkeys(local, 0)
    for number, forward in enumerate(forwards):
        if not single:
            set_random_state(states[number], device)
        live, tensors, gradients = parts[number] if single else forward(), [], []
        for name, output in live.items():
            gradient = local[name].grad
            if gradient is not None and output.requires_grad:
                tensors.append(output)
                gradients.append(gradient[starts[name] : starts[name] + len(output)])
            starts[name] += len(output)
        if tensors:
            torch.autograd.backward(tensors, gradients)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))
