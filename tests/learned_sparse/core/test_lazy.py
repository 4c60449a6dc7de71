"""Public names that load at first use: imported modules, and names that are also submodules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PACKAGE = """
from learned_sparse.core.lazy import lazy_names
__getattr__, __dir__ = lazy_names(__name__, {"work": "lazily.work", "play": "lazily.other"})
"""
PROGRAM = """
import sys
import lazily
assert "lazily.work" not in sys.modules and {"work", "play"} <= set(dir(lazily)) and not hasattr(lazily, "rest")
import lazily.work
from lazily.work import helper
print(lazily.work(), helper(), lazily.play, lazily.other.play)
"""


def test_a_name_may_be_that_of_a_submodule(tmp_path: Path, python: Any) -> None:
    package = tmp_path / "lazily"
    package.mkdir()
    (package / "__init__.py").write_text(PACKAGE)
    (package / "work.py").write_text("def work():\n    return 1\n\n\ndef helper():\n    return 2\n")
    (package / "other.py").write_text("play = 3\n")
    done = python("-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROGRAM}")
    assert done.stdout == "1 2 3 3\n", done.stderr
