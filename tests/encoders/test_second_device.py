"""The tests for GPUs pass on a simulated device, so that no tensor is left on the CPU by mistake."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

TESTS = ("tests/encoders/encoding/test_gpu_encoding.py", "tests/encoders/training/test_gpu_training.py")
WITHOUT = "not eight_threads and not two_gpus"  # each thread would need the simulation; there is one device


def test_gpu_tests_pass_on_a_simulated_device(root: Path, python: Any) -> None:
    environment = {**os.environ, "TEST_DEVICE": "simulated", "PYTHONPATH": str(root)}
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", WITHOUT, *TESTS, env=environment)
    assert done.returncode == 0, done.stdout[-5000:]
    counts = re.search(r"(\d+) passed", done.stdout)
    assert counts is not None
    assert int(counts[1]) >= 30
    assert "skipped" not in done.stdout.splitlines()[-1]
