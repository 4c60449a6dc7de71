"""The committed Java class files equal the compiled sources."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from learned_sparse.lucene.jvm import anserini_jar

FOLDER = Path("learned_sparse", "lucene", "java", "learnedsparse")


def test_the_class_file_is_compiled_from_its_source(root: Path, tmp_path: Path) -> None:
    javac = shutil.which("javac")
    version = javac and subprocess.run([javac, "-version"], capture_output=True, text=True, check=True).stdout
    if not javac or not version or not re.match(r"javac 17\b", version):
        pytest.skip("no javac 17; other versions write other bytes")
    if importlib.metadata.version("pyserini").startswith("2."):
        pytest.skip("the class is compiled with the Lucene of Pyserini 1, which all versions run")
    options = ["--release", "17", "-Xlint:all,-classfile", "-Werror", "-cp", str(anserini_jar()), "-d", str(tmp_path)]
    subprocess.run([javac, *options, str(root / FOLDER / "LuceneCalls.java")], check=True)
    (compiled,) = tmp_path.rglob("*.class")
    assert compiled.read_bytes() == (root / FOLDER / "LuceneCalls.java").with_suffix(".class").read_bytes()
