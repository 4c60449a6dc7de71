"""Model names to local folders, whose weights must be safetensors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from learned_sparse.core import LearnedSparseError

_WANTED = ["*.json", "*.txt", "*.model", "*.safetensors"]  # never a pickle (*.bin, *.pt)


def locate(name: str | Path, revision: str | None = None, wanted: Sequence[str] = _WANTED) -> Path:
    """The folder ``name``, or a local copy of the files ``wanted`` of the Hub repository ``owner/model``."""
    if Path(name).is_dir():
        return Path(name)
    if isinstance(name, Path) or name.count("/") > 1 or name.startswith((".", "/", "~")):
        raise LearnedSparseError(
            f"{name}: no such folder; give a checkpoint folder or a Hub id such as naver/splade-v3"
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(wanted)))
    except (HfHubHTTPError, LocalEntryNotFoundError, HFValidationError, OSError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise LearnedSparseError(
            f"{name}: no such folder, and not to be had from the Hugging Face Hub: {reason}"
        ) from error


def require_safetensors(folder: Path, name: str | Path) -> None:
    """An error that shows the ways out if ``folder`` has no safetensors weights."""
    if any(folder.glob("*.safetensors")):
        return
    raise LearnedSparseError(
        f"{name}: no *.safetensors weights, and pickled ones (pytorch_model.bin) are never read: they can run code. "
        "Ways out: a revision that has them (many repositories: --revision refs/pr/1), or convert once where "
        "you trust the file: AutoModelForMaskedLM.from_pretrained(NAME).save_pretrained(FOLDER), "
        "and the same for the tokenizer"
    )
