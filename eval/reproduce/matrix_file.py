"""Finds a matrix by name or file, reads it strictly, and fills in where the data are."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import yaml

from eval.reproduce.matrix import DATA, Matrix
from eval.reproduce.matrix_checks import check_matrix
from learned_sparse.collections import data_root
from learned_sparse.core import LearnedSparseError, did_you_mean, parse, read_yaml

MATRICES = Path(__file__).parent.parent / "matrices"


def known_matrices() -> list[str]:
    """The matrices that come with the package."""
    return sorted(path.stem for path in MATRICES.glob("*.yaml"))


def load_matrix(name: str | Path, data: Path | None = None) -> Matrix:
    """The matrix ``name`` (one of ``known_matrices()``, or a YAML file), checked.

    Every ``{data}`` in it becomes ``data``, or without that the folder where ``load_collection`` looks: paths of this
    machine, which a report leaves out.
    """
    path = _find(str(name))
    values = read_yaml(path)
    _check_once(yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader), str(path))
    for part in ("columns", "rows"):
        for key in values[part] if isinstance(values.get(part), dict) else ():
            if not isinstance(key, str):
                raise LearnedSparseError(f"{path}: {part}: the name {key!r} is not text for YAML; put it in quotes")
    matrix = parse(Matrix, values, str(path))
    check_matrix(matrix, str(path), slug)
    filled = _filled(matrix, data or data_root())
    if data is None:
        _check_there(matrix, filled, str(path))
    return filled


def slug(row: str) -> str:
    """A row's name in folders and files.

    >>> slug("UHD separate, tuned"), slug("SpaDE k=10")
    ('uhd-separate-tuned', 'spade-k-10')
    """
    return re.sub(r"[^a-z0-9]+", "-", row.lower()).strip("-")


def _find(name: str) -> Path:
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    if name not in known_matrices():
        raise LearnedSparseError(f"no matrix {name!r}{did_you_mean(name, known_matrices())}; or name a .yaml file")
    return MATRICES / f"{name}.yaml"


def _check_once(node: yaml.Node | None, where: str) -> None:
    """Raise if a key is given twice: YAML would take the last without a word."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_once(item, where)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        if key.value in seen:
            raise LearnedSparseError(f"{where}:{key.start_mark.line + 1}: {key.value!r} is given twice; keep one")
        seen.add(key.value)
        _check_once(value, where)


def _filled(matrix: Matrix, folder: Path) -> Matrix:
    """``matrix`` with ``folder`` for every ``{data}``."""

    def fill(value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            parts = {field.name: fill(getattr(value, field.name)) for field in dataclasses.fields(value)}
            return dataclasses.replace(value, **parts)
        if isinstance(value, dict):
            return {key: fill(item) for key, item in value.items()}
        if isinstance(value, tuple):
            return tuple(fill(item) for item in value)
        return value.replace(DATA, str(folder)) if isinstance(value, str) else value

    filled: Matrix = fill(matrix)
    return filled


def _check_there(raw: Matrix, filled: Matrix, where: str) -> None:
    """Without ``--data``, what a column names below it is to be in the default folder."""
    for name, column in raw.columns.items():
        folder = Path(filled.columns[name].collection)
        if DATA in column.collection and not folder.exists():
            raise LearnedSparseError(f"{where}: columns: {name}: {folder}: no such folder; name yours with --data DIR")
