"""Input files, ids that they may hold, and the encode command on them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

from hypothesis import strategies as st

from learned_sparse.encode.__main__ import main
from learned_sparse.jsonvector.manifest import Manifest

IDS = st.text(st.characters(exclude_characters="\0\ufeff", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name.split() == [name]
)


def write(path: Path, *lines: str | bytes) -> Path:
    """Write lines, without a line end after the last one; a file named ``*.gz`` is compressed."""
    content = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_texts(path: Path, texts: Iterable[str]) -> Path:
    """Write documents ``d0``, ``d1``, ... as JSON lines."""
    return write(path, *(json.dumps({"_id": f"d{n}", "text": text}) for n, text in enumerate(texts)), "")


def files(folder: Path) -> dict[str, bytes]:
    """Contents of all files below ``folder``."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def parts(folder: Path) -> dict[str, bytes]:
    """Contents of all files but the manifest."""
    return {name: content for name, content in files(folder).items() if name != "manifest.json"}


def encode_file(corpus: Path, output: Path, *options: str) -> Manifest:
    """Encode the documents of a file with the model that a replaced loader gives; returns the manifest."""
    words = ["--model", "fake", "--checkpoint", "nowhere", "--input", str(corpus), "--output", str(output)]
    assert main([*words, *options]) == 0
    return Manifest.load(output)
