"""Folders of models: local or from the Hub, their weights and their configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from encoders.checkpoints.catalogue import packaged_folder, published
from learned_sparse.core.errors import LearnedSparseError, folder_kind, wrong_path
from learned_sparse.core.files import is_name, read_json

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")
_PATTERNS = ["*.json", "*.txt", "*.model", "*.safetensors"]  # no pickles (*.bin, *.pt): loading one can run code


def locate(name: str | Path, revision: str | None = None, patterns: Sequence[str] = _PATTERNS) -> Path:
    """The folder ``name``, or the files of a published checkpoint, by its name in the catalogue or its Hub id.

    They are those of an installed package (``packaged_folder``), unless ``revision`` names others, or else a local copy
    of the files on the Hub that match ``patterns``. Raises ``LearnedSparseError`` if there is nothing of these.
    """
    if Path(name).is_dir():
        return Path(name)
    entry = published(str(name))
    if entry and not revision and (folder := packaged_folder(entry)):
        return folder
    if isinstance(name, Path) or name.count("/") > 1 or name.startswith((".", "/", "~")) or os.path.lexists(name):
        raise wrong_path(Path(name), "a folder", "give a checkpoint folder or a Hub id such as rasyosef/splade-small")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(entry.hub if entry else name, revision=revision, allow_patterns=list(patterns)))
    except (HfHubHTTPError, LocalEntryNotFoundError, HFValidationError, OSError) as error:
        reason = _first_line(error) or type(error).__name__
        way_out = entry.ways() if entry else "check the name and the network, or name a folder"
        raise LearnedSparseError(
            f"{name}: no such folder, and the download from the Hugging Face Hub failed ({reason.rstrip('.')}); "
            f"{way_out}"
        ) from error


def require_safetensors(folder: Path, name: str | Path) -> list[str]:
    """The names of all tensors in the safetensors files of ``folder``, whose headers are checked.

    Raises an error that lists the alternatives if there are none; ``name`` is the name of ``folder`` in messages.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        if folder_kind(folder) == "a checkpoint":
            raise LearnedSparseError(
                f"{name}: a checkpoint of this package, or of sentence-transformers; --checkpoint takes it"
            )
        pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
        there = f", only {', '.join(pickles)}" if pickles else ""
        raise LearnedSparseError(
            f"{name}: no *.safetensors weights{there}. Pickled weights are never read because they can run code. "
            "Either use a revision that has safetensors (many repositories: --revision refs/pr/1), or convert them "
            f"once where you trust the file: {_conversion(folder)}"
        )
    for index in folder.glob("*.safetensors.index.json"):
        _check_index(index)
    return [tensor for path in files for tensor in _tensor_names(path)]


def _conversion(folder: Path) -> str:
    """How to convert pickled weights; a masked-LM class would give any other model a random head."""
    config = read_json(folder / "config.json") if (folder / "config.json").is_file() else None
    classes = config.get("architectures") if isinstance(config, Mapping) else None
    if not isinstance(classes, list) or all(str(name).endswith("ForMaskedLM") for name in classes):
        return "AutoModelForMaskedLM.from_pretrained(NAME).save_pretrained(FOLDER), and the same for the tokenizer"
    return (
        "safetensors.torch.save_file({name: tensor.clone() for name, tensor in weights.items()}, 'model.safetensors', "
        "metadata={'format': 'pt'}), where torch has loaded 'weights' from pytorch_model.bin with weights_only=True"
    )


def read_config(folder: Path, name: str | Path) -> Any:
    """The Hugging Face configuration in ``folder`` (imports transformers); ``name`` opens error messages."""
    refuse_code(folder / "config.json")
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # what transformers raises depends on the content
        raise LearnedSparseError(f"{name}: transformers cannot read config.json: {_first_line(error)}") from error


def refuse_code(path: Path) -> None:
    """Raise if a configuration file cannot be read, or names Python code, which is never run."""
    content = read_json(path)
    if not isinstance(content, Mapping):
        raise LearnedSparseError(f"{path}: expected an object, got {type(content).__name__}")
    if content.get("auto_map"):
        raise LearnedSparseError(
            f"{path}: names Python code of the checkpoint (auto_map), which is never run; use a checkpoint that needs "
            "none, or delete auto_map if the classes of transformers give the same vectors"
        )


def _check_index(path: Path) -> None:
    """Raise if the index of a model in several files names anything but safetensors files beside it."""
    content = read_json(path)
    files = content.get("weight_map") if isinstance(content, Mapping) else None
    if not isinstance(files, Mapping):
        raise LearnedSparseError(f"{path}: no weight_map; copy or download the model again")
    for file in sorted(set(map(str, files.values()))):
        if not is_name(file) or not file.endswith(".safetensors") or not (path.parent / file).is_file():
            raise LearnedSparseError(f"{path}: {file!r} is no safetensors file beside it; copy or download it again")


def _tensor_names(path: Path) -> list[str]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:  # checks sizes and offsets in the header
            return list(file.keys())
    except (SafetensorError, OSError) as error:
        raise LearnedSparseError(
            f"{path}: weights cannot be read ({_first_line(error)}); copy or download them again"
        ) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "")
