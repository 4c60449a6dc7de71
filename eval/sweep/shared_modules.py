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


class RememberingWinners:
    """``(rows, k) -> (values, columns)``, largest first, that also answers a smaller ``k`` without computing it.

    It computes the largest ``k`` it was ever asked for: the first of them are the answer to any smaller one.
    """

    def __init__(self, forward: Any) -> None:
        self.computed = 0
        """How often ``forward`` was called."""
        self._forward = forward
        self._most = 0
        self._rows: Tensor | None = None
        self._answer: tuple[Tensor, Tensor] = (torch.empty(0, 0), torch.empty(0, 0))

    def __call__(self, rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
        self._most = max(self._most, k)
        if self._rows is None or self._answer[0].shape[1] < k or not torch.equal(rows, self._rows):
            self._rows, self._answer = rows, self._forward(rows, self._most)
            self.computed += 1
        values, columns = self._answer
        return values[:, :k], columns[:, :k]


_KINDS: dict[tuple[str, ...], type[Remembering] | type[RememberingWinners]] = {
    ("input_ids", "attention_mask"): Remembering,
    ("rows", "k"): RememberingWinners,
}


def share(models: Sequence[nn.Module], towers: Iterable[nn.Module]) -> list[Remembering | RememberingWinners]:
    """Let ``models``, which share ``towers``, also share each part that they have in common; what remembers.

    A part reads ``(input_ids, attention_mask)``, or finds the ``k`` winners of ``rows``. Two are the same if they are
    of one class with the same towers, parameters, buffers and attributes: SpaDE's expansion with one ``k`` is, whatever
    ``alpha``. The models are changed in place, and their parameters must not change from here on.
    """
    known = frozenset(id(part) for tower in towers for part in tower.modules())
    parts: dict[Hashable, list[nn.Module]] = {}
    users: dict[Hashable, set[int]] = {}
    for number, model in enumerate(models):
        for part in model.modules():
            if _kind(part):
                key = _identity(part, known)
                parts.setdefault(key, []).append(part)
                users.setdefault(key, set()).add(number)
    return [_remember(same) for key, same in parts.items() if len(users[key]) > 1]


def _remember(same: Sequence[Any]) -> Remembering | RememberingWinners:
    forward, kind = same[0].forward, _kind(same[0])
    if kind is None:
        raise TypeError(f"{type(same[0]).__name__} is no part that can be shared")
    remembering = forward if isinstance(forward, kind) else kind(forward)
    for part in same:
        part.forward = remembering
    return remembering


def _kind(part: nn.Module) -> type[Remembering] | type[RememberingWinners] | None:
    if isinstance(part.forward, Remembering | RememberingWinners):
        return type(part.forward)
    return _KINDS.get(tuple(inspect.signature(part.forward).parameters))


def _identity(part: nn.Module, known: frozenset[int]) -> Hashable:
    """Equal for parts that compute the same; ``known`` parts, and what cannot be compared, equal only themselves."""
    if id(part) in known:
        return id(part)
    attributes = {name: value for name, value in vars(part).items() if name not in _OF_EVERY_MODULE | {"forward"}}
    return (
        type(part),
        part.training,
        tuple((name, _value(value)) for name, value in sorted(attributes.items())),
        tuple((name, id(parameter)) for name, parameter in part.named_parameters(recurse=False)),
        tuple((name, _content(buffer)) for name, buffer in part.named_buffers(recurse=False)),
        tuple((name, _identity(child, known)) for name, child in part.named_children()),
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
