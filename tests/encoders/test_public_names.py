"""The public names of the package: light to import, typed, and usable after the command of the same name."""

from __future__ import annotations

from typing import Any

import pytest

import encoders
from encoders.models import ARCHITECTURES

LIGHT = """
import sys
import encoders
print(sorted(set(dir(encoders)) & set(encoders.__all__)), [name for name in sys.modules if name.startswith("torch")])
"""


def test_importing_the_package_is_light(python: Any) -> None:
    done = python("-c", LIGHT)
    assert done.stdout == "['ARCHITECTURES', 'default_checkpoint', 'load', 'resolve_checkpoint', 'train'] []\n", (
        done.stderr
    )


def test_each_name_is_what_it_says() -> None:
    from encoders.train import main

    assert callable(main)
    assert callable(encoders.train)
    assert encoders.ARCHITECTURES is ARCHITECTURES
    with pytest.raises(AttributeError, match="'encoders' has no attribute 'lode'"):
        _ = encoders.lode
