"""Folders of models: local ones and downloads from the Hugging Face Hub, with their configuration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from learned_sparse.core import LearnedSparseError

_PATTERNS = ["*.json", "*.txt", "*.model", "*.safetensors"]  # no pickles (*.bin, *.pt): loading one can run code


def locate(name: str | Path, revision: str | None = None, patterns: Sequence[str] = _PATTERNS) -> Path:
    """The folder ``name``, or a local copy of the files that match ``patterns`` in the Hub repository ``owner/model``.

    Raises ``LearnedSparseError`` if there is neither.
    """
    if Path(name).is_dir():
        return Path(name)
    if isinstance(name, Path) or name.count("/") > 1 or name.startswith((".", "/", "~")):
        raise LearnedSparseError(
            f"{name}: no such folder; give a checkpoint folder or a Hub id such as naver/splade-v3"
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(patterns)))
    except (HfHubHTTPError, LocalEntryNotFoundError, HFValidationError, OSError) as error:
        reason = _first_line(error) or type(error).__name__
        raise LearnedSparseError(
            f"{name}: no such folder, and the download from the Hugging Face Hub failed: {reason}"
        ) from error


def require_safetensors(folder: Path, name: str | Path) -> None:
    """Raise an error that lists the alternatives if ``folder`` has no safetensors weights; ``name`` is its name."""
    if any(folder.glob("*.safetensors")):
        return
    raise LearnedSparseError(
        f"{name}: no *.safetensors weights. Pickled weights (pytorch_model.bin) are never read because they can run "
        "code. Either use a revision that has safetensors (many repositories: --revision refs/pr/1), or convert them "
        "once where you trust the file: AutoModelForMaskedLM.from_pretrained(NAME).save_pretrained(FOLDER), "
        "and the same for the tokenizer"
    )


def read_config(folder: Path, name: str | Path) -> Any:
    """The Hugging Face configuration in ``folder`` (imports transformers); ``name`` opens error messages."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise LearnedSparseError(f"{name}: transformers cannot read config.json: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "")
