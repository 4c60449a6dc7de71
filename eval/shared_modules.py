"""Parts of several models that compute the same, made to compute each batch once."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
_PLAIN = (int, float, str, bool, type(None))


class Remembering:
    """``(input_ids, attention_mask) -> Any`` that answers the question before once more without computing it.

    Only one answer is kept: ask for the same batch in a row. It is handed out as it is, so nobody may change it.
    """

    def __init__(self, forward: Any) -> None:
        self.computed = 0
        """How often ``forward`` was called."""
        self._forward = forward
        self._asked: tuple[Tensor, Tensor] | None = None
        self._answer: Any = None

    def __call__(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        asked = (input_ids, attention_mask)
        if self._asked is None or not all(map(torch.equal, asked, self._asked)):
            self._asked, self._answer = asked, self._forward(input_ids, attention_mask)
            self.computed += 1
        return self._answer


def share(models: Sequence[nn.Module], towers: Iterable[nn.Module]) -> list[Remembering]:
    """Let ``models``, which share ``towers``, also share each part that they have in common; what remembers.

    A part reads ``(input_ids, attention_mask)``. Two are the same if they are of one class with the same towers,
    parameters, buffers and attributes: SpaDE's expansion with one ``k`` is, whatever ``alpha``. The models are changed
    in place, and their parameters must not change from here on.
    """
    known = frozenset(map(id, towers))
    parts: dict[Hashable, list[nn.Module]] = {}
    users: dict[Hashable, set[int]] = {}
    for number, model in enumerate(models):
        for part in model.modules():
            if _reads_tokens(part):
                key = _identity(part, known)
                parts.setdefault(key, []).append(part)
                users.setdefault(key, set()).add(number)
    return [_remember(same) for key, same in parts.items() if len(users[key]) > 1]


def _remember(same: Sequence[Any]) -> Remembering:
    forward = same[0].forward
    remembering = forward if isinstance(forward, Remembering) else Remembering(forward)
    for part in same:
        part.forward = remembering
    return remembering


def _reads_tokens(part: nn.Module) -> bool:
    if isinstance(part.forward, Remembering):
        return True
    return list(inspect.signature(part.forward).parameters) == ["input_ids", "attention_mask"]


def _identity(part: nn.Module, towers: frozenset[int]) -> Hashable:
    """Equal for parts that compute the same; of what cannot be compared, only the very same object is equal."""
    if id(part) in towers:
        return id(part)
    attributes = {name: value for name, value in vars(part).items() if name not in _OF_EVERY_MODULE | {"forward"}}
    return (
        type(part),
        part.training,
        tuple((name, _value(value)) for name, value in sorted(attributes.items())),
        tuple((name, id(parameter)) for name, parameter in part.named_parameters(recurse=False)),
        tuple((name, _content(buffer)) for name, buffer in part.named_buffers(recurse=False)),
        tuple((name, _identity(child, towers)) for name, child in part.named_children()),
    )


def _value(value: Any) -> Hashable:
    if isinstance(value, _PLAIN):
        return (type(value), value)
    if isinstance(value, tuple | list):
        return (type(value), *map(_value, value))
    if isinstance(value, Mapping):
        return (type(value), *((key, _value(item)) for key, item in value.items()))
    return id(value)


def _content(buffer: Tensor) -> Hashable:
    values = buffer.detach().cpu().reshape(-1).view(torch.uint8)
    return (buffer.dtype, tuple(buffer.shape), values.numpy().tobytes())
