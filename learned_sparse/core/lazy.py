"""Names that are imported at first use: public names of a package, and registers that installed packages extend."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, TypeVar

from learned_sparse.core.errors import LearnedSparseError, did_you_mean

T = TypeVar("T")


class LazyPackage(ModuleType):
    """A package whose public names are imported at first use.

    Its ``__init__`` sets ``LAZY``, a mapping of each public name to the module that defines it, or to
    ``module:name_there``, and this class as that of its module. A name may also be that of a submodule, as with the
    function ``encoders.train`` and the command ``python -m encoders.train``: the attribute is then the function,
    whether the submodule was imported or not. ``from encoders.train import main`` works in both cases.
    """

    LAZY: Mapping[str, str]

    def __getattr__(self, name: str) -> Any:
        if name not in self.LAZY:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, _, other_name = self.LAZY[name].partition(":")
        return getattr(importlib.import_module(module), other_name or name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in self.LAZY and isinstance(value, ModuleType)):  # a submodule that the import system assigns
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *self.LAZY})


def import_extra(module: str, extra: str) -> Any:
    """A module that an extra of this package installs; the error names the extra if it cannot be imported."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise LearnedSparseError(
            f"{module.partition('.')[0]} is not installed or does not load ({error}); "
            f"pip install 'learned-sparse[{extra}]'"
        ) from error


@dataclass(frozen=True, eq=False)
class Register(Mapping[str, T]):
    """Objects by name: those of this project, and the entry points ``group`` of installed packages.

    An object is imported when its name is looked up; an unknown name raises ``LearnedSparseError``. No other package
    can take a name of this project.
    """

    group: str
    objects: Mapping[str, Any]
    """The objects of this project, or the ``"module:attribute"`` of each."""

    def __getitem__(self, name: str) -> T:
        value = self.objects.get(name) or self._all().get(name)
        if value is None:
            kind = self.group.rpartition(".")[2].removesuffix("s")
            raise LearnedSparseError(f"unknown {kind} {name!r}{did_you_mean(name, self)}")
        point = EntryPoint(name, value, self.group) if isinstance(value, str) else value
        if not isinstance(point, EntryPoint):
            return value  # type: ignore[no-any-return]
        try:
            return point.load()  # type: ignore[no-any-return]
        except (ImportError, AttributeError) as error:
            raise LearnedSparseError(
                f"{name}: {point.value} cannot be imported ({error}); repair or uninstall the package of this entry "
                f"point of {self.group}"
            ) from error

    def __contains__(self, name: object) -> bool:
        return name in self.objects or name in entry_points(group=self.group).names

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, Any]:
        return {**{point.name: point for point in entry_points(group=self.group)}, **self.objects}
