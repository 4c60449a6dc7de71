"""A checkpoint into the folder of another tool, whole or not at all."""

from __future__ import annotations

from pathlib import Path

from encoders.checkpoints.notes import as_json
from encoders.encoding.model import LoadedModel, save_checkpoint
from encoders.export.card import model_card
from encoders.export.form import form_of
from encoders.export.layouts import write_opensearch, write_pyserini, write_sentence_transformers
from encoders.export.unicoil import write_unicoil
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import atomic_write, new_folder, write_record

RECORD = "learned_sparse_export.json"
"""What was exported; a folder that has it may be replaced."""
LAYOUTS = {
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
    licence: str | None = None,
    overwrite: bool = False,
) -> list[str]:
    """Write ``model`` into the folder ``output`` for ``target`` (one of ``TARGETS``), with a model card.

    Returns notes on what the tool does differently. A model without such a form raises an error with the reason, and
    nothing is written.
    """
    with new_folder(output) as folder:
        if output.exists() and any(output.iterdir()) and not (overwrite and (output / RECORD).is_file()):
            way_out = "replace it with --overwrite" if (output / RECORD).is_file() else "name another folder"
            raise LearnedSparseError(f"{output}: exists and holds files; {way_out}")
        notes: list[str] = []
        if target == "learned-sparse":
            save_checkpoint(folder, model)
        elif target == "pyserini" and model.architecture == "unicoil":
            notes = write_unicoil(folder, model)
        else:
            notes = LAYOUTS[target](folder, model, form_of(model))
        with atomic_write(folder / "README.md") as file:
            file.write(model_card(model, output.name, target, licence=licence).encode())
        write_record(
            folder / RECORD,
            {"target": target, "architecture": model.architecture, "settings": as_json(model.settings), "notes": notes},
        )
    return notes
