"""Public names of a package that are imported at first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for the ``__init__`` of ``package``.

    ``modules`` maps each public name to the module that defines it. A name may also be that of a submodule, as with
    the function ``encoders.train`` and the command ``python -m encoders.train``: the attribute is then the function,
    whether the submodule was imported or not. ``from encoders.train import main`` works in both cases. ::

        if TYPE_CHECKING:
            from encoders.models import ARCHITECTURES as ARCHITECTURES

        __getattr__, __dir__ = lazy_names(__name__, {"ARCHITECTURES": "encoders.models"})
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(modules[name]), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    class Package(ModuleType):
        """Ignores the import system's assignment of a submodule to a name in ``modules``."""

        def __setattr__(self, name: str, value: Any) -> None:
            if not (name in modules and isinstance(value, ModuleType)):
                super().__setattr__(name, value)

    sys.modules[package].__class__ = Package
    return get, names
