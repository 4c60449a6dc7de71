"""Settings to be tried: ``alpha=0,0.5`` and ``k=2,5,10`` give six combinations."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from learned_sparse.core import LearnedSparseError


def read_settings(words: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """``{setting: values}`` of words ``KEY=VALUE,VALUE,...``; a value is read as YAML, so a list has brackets.

    >>> read_settings(["k=2,5,null", "layers=[2, 4],[12]", "normalize=bucket,none"])
    {'k': (2, 5, None), 'layers': ([2, 4], [12]), 'normalize': ('bucket', 'none')}
    """
    settings: dict[str, tuple[Any, ...]] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not (equals and key.strip() and text.strip()):
            raise LearnedSparseError(f"--set {word}: expected KEY=VALUE,VALUE,..., for instance k=2,5,10")
        try:
            values = yaml.safe_load(f"[{text}]")
        except yaml.YAMLError:
            raise LearnedSparseError(f"--set {word}: the values are not readable; write a list as [2, 4]") from None
        if key.strip() in settings:
            raise LearnedSparseError(f"--set {key.strip()}: given twice; write all its values after one --set")
        settings[key.strip()] = tuple(_unique(values))
    return settings


def combinations(settings: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every choice of one value for each setting, the last setting changing fastest.

    >>> combinations({"alpha": (0, 1), "k": (2, 5)})
    [{'alpha': 0, 'k': 2}, {'alpha': 0, 'k': 5}, {'alpha': 1, 'k': 2}, {'alpha': 1, 'k': 5}]
    """
    return [dict(zip(settings, values, strict=True)) for values in itertools.product(*settings.values())]


def spelled(value: Any) -> str:
    """A value as people write it.

    >>> spelled(0.5), spelled(None), spelled([2, 4]), spelled(True)
    ('0.5', 'none', '2 4', 'true')
    """
    if isinstance(value, list | tuple):
        return " ".join(map(spelled, value)) or "nothing"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return str(value)


def _unique(values: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if not any(type(value) is type(other) and value == other for other in found):
            found.append(value)
    return found
