"""Let Pyserini's OpenAI encoders be imported where there is no OpenAI key."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import types
from collections.abc import Sequence

_VARIABLE = "OPENAI_API_KEY"
_MODULE = "pyserini.encode._openai"


def install_openai_placeholder() -> None:
    """From now on a placeholder key is set while Pyserini's OpenAI module runs its import, and at no other time.

    Pyserini 1.x makes its client on import, and current openai packages refuse an empty key. A real key is left alone.
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _MODULE or os.environ.get(_VARIABLE):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: types.ModuleType) -> None:
        before = os.environ.get(_VARIABLE)
        os.environ[_VARIABLE] = "placeholder"
        try:
            super().exec_module(module)
        finally:
            os.environ.pop(_VARIABLE)
            if before is not None:  # set, but empty
                os.environ[_VARIABLE] = before
