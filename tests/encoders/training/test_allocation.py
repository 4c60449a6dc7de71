"""Freed memory goes back."""

from __future__ import annotations

import os
import platform
from typing import Any

import pytest

LEFT = """
import sys
from pathlib import Path
import torch
from encoders.training.allocation import return_large_blocks

def resident():
    return int(Path("/proc/self/statm").read_text("ascii").split()[1])

done = return_large_blocks() if sys.argv[1] == "returned" else False
first = torch.ones(7 * 2**20)  # frees 28 MB: from now on glibc's own limit would be as high
del first
before = resident()
blocks = [torch.ones(2 * 2**20) for _ in range(20)]  # 8 MB each
last = torch.ones(2 * 2**20)  # above them in the heap
del blocks
print(done, resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="for glibc's malloc only")
def test_freed_blocks_are_returned(python: Any) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "MALLOC_MMAP_THRESHOLD_"}
    pages = {}
    for way in ("returned", "kept"):
        done, left = python("-c", LEFT, way, env=environment).stdout.split()
        assert done == str(way == "returned")
        pages[way] = int(left)
    megabyte = 256  # pages
    assert pages["returned"] < 20 * megabyte
    assert pages["kept"] > 100 * megabyte


def test_who_has_chosen_is_left_alone(python: Any) -> None:
    done = python("-c", LEFT, "returned", env=os.environ | {"MALLOC_MMAP_THRESHOLD_": "33554432"})
    assert done.stdout.split()[0] == "False"
