"""Upload of a folder to the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path

from learned_sparse.core.errors import LearnedSparseError

_KEPT_HERE = ["training/*", "**/.*"]
"""States of training, and files of the system."""


def push_to_hub(
    folder: str | Path,
    repo_id: str,
    *,
    token: str | None = None,
    private: bool | None = None,
    revision: str | None = None,
    commit_message: str = "Upload model",
    create_pr: bool = False,
) -> str:
    """Upload ``folder`` (an exported model or a checkpoint) to ``owner/name``, which is created if need be.

    Parameters are those of ``push_to_hub`` in transformers; without ``token`` the one of ``hf auth login`` is used.
    Returns the address of the commit, or of the pull request with ``create_pr``.
    """
    if not Path(folder).is_dir():
        raise LearnedSparseError(f"{folder}: no such folder; export the model first")
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

    try:
        api = huggingface_hub.HfApi(token=token)
        repository = api.create_repo(repo_id, private=private, exist_ok=True)
        commit = api.upload_folder(
            folder_path=folder,
            repo_id=repository.repo_id,
            revision=revision,
            commit_message=commit_message,
            create_pr=create_pr,
            ignore_patterns=_KEPT_HERE,
        )
    except (HfHubHTTPError, HFValidationError, LocalTokenNotFoundError, OSError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise LearnedSparseError(f"{repo_id}: the upload to the Hugging Face Hub failed: {reason}") from error
    return str(commit.pr_url or commit.commit_url)
