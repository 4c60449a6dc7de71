"""One side of a checkpoint as an encoder, with the libraries that this side needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from encoders.checkpoints.hub import locate, published_settings
from encoders.checkpoints.notes import read_notes
from learned_sparse.core.encoder import Side

if TYPE_CHECKING:
    from encoders.encoding.bag_of_words_encoder import BagOfWordsEncoder
    from encoders.encoding.encoder import CheckpointEncoder


def load_encoder(
    checkpoint: str,
    side: Side,
    *,
    model: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    max_length: int | None = None,
    top_k: int | None = None,
    batch_size: str | int | None = None,
    revision: str | None = None,
    settings: Mapping[str, Any] | None = None,
    compile: bool = False,  # noqa: A002 - the name that torch uses
) -> CheckpointEncoder | BagOfWordsEncoder:
    """One side of a checkpoint (folder or Hub id); only the towers that this side reads are loaded.

    - ``model``: name for error messages.
    - ``device``: ``cpu``, ``cuda``, ``cuda:1``, ...
    - ``dtype``: ``fp32``, ``bf16`` or ``fp16``; None: that of ``LEARNED_SPARSE_DTYPE``, else ``fp32`` for queries, so
      that their impacts do not depend on their batch, and the fastest on the device for documents.
    - ``max_length``: tokens at which texts are truncated.
    - ``top_k``: number of terms kept per text; None keeps all.
    - ``batch_size``: texts (``32``) or tokens (``"4096t"``) of one forward pass.
    - ``revision``: of a Hub repository.
    - ``settings``: changes to the settings of the checkpoint that its architecture allows. If documents depend on a
      changed setting, the stored quantizer is not used.
    - ``compile``: compile with torch.compile, which takes up to a minute and changes weights by rounding only.

    ``None`` means the value in the checkpoint, or what suits the machine. A bag of words is loaded without torch and
    ignores ``device``, ``dtype``, ``batch_size`` and ``compile``.
    """
    folder = locate(checkpoint, revision)
    notes = read_notes(folder)
    settings = {**published_settings(checkpoint, notes.unrecorded, side), **(settings or {})}
    common = (folder, notes, side, f"{model or checkpoint} ({side})", settings, max_length, top_k)
    encoder: CheckpointEncoder | BagOfWordsEncoder
    if side in notes.bags:
        from encoders.encoding.bag_of_words_encoder import load_bag_of_words

        encoder = load_bag_of_words(*common)
    else:
        from encoders.encoding.encoder import load_checkpoint_encoder

        encoder = load_checkpoint_encoder(*common, device=device, dtype=dtype, batch_size=batch_size, compile=compile)
    encoder.checkpoint = None if revision else checkpoint
    return encoder
