"""Where collections are described, and where their files are looked for."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

from learned_sparse.collections.descriptions import Description
from learned_sparse.collections.names import check_name
from learned_sparse.core import LearnedSparseError, did_you_mean, home, parse, read_yaml

DATA_VARIABLE = "LEARNED_SPARSE_DATA"
_SHARED = Path("share", "learned_sparse", "collections")


def description_folders() -> list[Path]:
    """The folders with one YAML per collection: beside the package in a checkout, else where pip puts data files."""
    above = Path(__file__).resolve().parent.parent.parent
    schemes = ["", f"{os.name}_user"]  # of the environment, and of ``pip install --user``
    installed = [sysconfig.get_path("data", scheme) if scheme else sysconfig.get_path("data") for scheme in schemes]
    places = [above / "collections", *(Path(place) / _SHARED for place in installed), above / _SHARED]  # last: --target
    return [place for place in places if place.is_dir()]


def descriptions() -> dict[str, Path]:
    """``{name: YAML file}`` of the collections that come with the package, sorted by name."""
    for folder in description_folders():
        files = sorted(folder.glob("*.yaml"))
        if files:
            return {file.stem: file for file in files}
    raise LearnedSparseError(
        f"no collections beside {Path(__file__).parent.parent} nor in {sysconfig.get_path('data')}/{_SHARED}; "
        "install the package again"
    )


def description_file(name: str) -> Path:
    """The YAML of a collection that comes with the package."""
    known = descriptions()
    if name not in known:
        raise LearnedSparseError(
            f"collection {name!r}: no such file, folder or name{did_you_mean(name, known)}; a collection is a name "
            "that comes with the package, a BEIR or MS MARCO folder, a .yaml file, or ir_datasets:ID"
        )
    return known[name]


def read_description(path: Path) -> Description:
    """The collection that a YAML describes."""
    description = parse(Description, read_yaml(path), str(path))
    check_name(description.name, str(path))
    return description


def data_root() -> Path:
    """Where the files of named collections are: ``$LEARNED_SPARSE_DATA``, else ``home()/data``."""
    return Path(os.environ.get(DATA_VARIABLE) or home() / "data")
