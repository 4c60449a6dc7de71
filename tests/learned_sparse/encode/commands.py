"""The encode command with the fake encoder, and small inputs for it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from learned_sparse.encode.__main__ import main
from learned_sparse.jsonvector.manifest import Manifest


def write_texts(path: Path, texts: Iterable[str]) -> Path:
    """Write documents ``d0``, ``d1``, ... as JSON lines."""
    path.write_text("".join(json.dumps({"_id": f"d{n}", "text": text}) + "\n" for n, text in enumerate(texts)))
    return path


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
