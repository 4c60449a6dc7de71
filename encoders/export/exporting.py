"""A checkpoint into the folder of another tool, whole or not at all."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from encoders.checkpoints.notes import as_json
from encoders.encoding.model import LoadedModel, save_checkpoint
from encoders.export.card import model_card
from encoders.export.form import form_of
from encoders.export.layouts import write_opensearch, write_pyserini, write_sentence_transformers
from encoders.export.unicoil import check_unicoil, write_unicoil
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import atomic_write, new_folder, write_record

RECORD = "learned_sparse_export.json"
"""What was exported; a folder that has it may be replaced."""
LAYOUTS: dict[str, Callable[..., list[str]]] = {
    "sentence-transformers": write_sentence_transformers,
    "pyserini": write_pyserini,
    "opensearch": write_opensearch,
}
TARGETS = (*LAYOUTS, "learned-sparse")


def export_model(
    model: LoadedModel,
    output: Path,
    target: str,
    *,
    name: str | None = None,
    licence: str | None = None,
    scores: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> list[str]:
    """Write ``model`` into the folder ``output`` for ``target`` (one of ``TARGETS``), with a model card.

    ``name`` is the model's in the card, by default that of the folder. Returns notes on what the tool does otherwise.
    A model without such a form raises an error with the reason, before anything is written.
    """
    if target not in TARGETS:
        raise LearnedSparseError(f"{target}: no such target; give one of {', '.join(TARGETS)}")
    write = _writer(model, target)
    with new_folder(output) as folder:
        if output.exists() and any(output.iterdir()) and not (overwrite and (output / RECORD).is_file()):
            way_out = "replace it with --overwrite" if (output / RECORD).is_file() else "name another folder"
            raise LearnedSparseError(f"{output}: exists and holds files; {way_out}")
        notes = write(folder)
        with atomic_write(folder / "README.md") as file:
            card = model_card(model, name or output.name, target, licence=licence, scores=scores)
            file.write(card.encode())
        write_record(
            folder / RECORD,
            {"target": target, "architecture": model.architecture, "settings": as_json(model.settings), "notes": notes},
        )
    return notes


def _writer(model: LoadedModel, target: str) -> Callable[[Path], list[str]]:
    """Writes ``model`` into a folder and returns notes; raise if ``target`` has no form for it."""
    if target == "pyserini" and model.architecture == "unicoil":
        check_unicoil(model)
        return functools.partial(write_unicoil, model=model)
    if target in LAYOUTS:
        return functools.partial(LAYOUTS[target], model=model, form=form_of(model))

    def write(folder: Path) -> list[str]:
        save_checkpoint(folder, model)
        return []

    return write
