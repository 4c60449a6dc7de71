"""One side of a checkpoint as an encoder; a side without a network is loaded without torch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from encoders.checkpoints.hub import locate, published_settings, resolve_checkpoint
from encoders.checkpoints.notes import read_notes
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError

if TYPE_CHECKING:
    from encoders.checkpoints.tokenizer import TextEncoder

_log = logging.getLogger(__name__)


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
    weights: bool = True,
) -> TextEncoder:
    """One side of a checkpoint (folder, name or Hub id); only the towers that this side reads are loaded.

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
    - ``weights``: ``False`` reads no network, for an encoder whose description is needed, and that cannot encode.

    ``None`` means the value in the checkpoint, or what suits the machine. A bag of words is loaded without torch and
    ignores ``device``, ``dtype`` and ``batch_size``.
    """
    checkpoint = resolve_checkpoint(checkpoint)
    folder = locate(checkpoint, revision)
    notes = read_notes(folder)
    name, changes = f"{model or checkpoint} ({side})", dict(settings or {})
    if notes.unrecorded:
        changes = {**published_settings(checkpoint, notes.unrecorded, side), **changes}
    length = notes.max_length[side] if max_length is None else max_length
    if not 3 <= length < 2**31:
        raise LearnedSparseError(f"{name}: max length {length}; give at least 3 tokens")
    if top_k is not None and top_k < 1:
        raise LearnedSparseError(f"{name}: top k {top_k}; give at least 1, or omit it to keep all terms")
    assumptions = []
    if "pooling" in notes.unrecorded and "pooling" not in changes:
        assumptions.append("max pooling (--set pooling=sum corrects it)")
    if notes.assumed_length and max_length is None:
        assumptions.append(f"texts of {length} tokens (--max-length)")
    if assumptions:
        _log.info("%s: not in the folder, therefore as naver/splade: %s", name, ", ".join(assumptions))
    encoder: TextEncoder
    if side in notes.bags:
        from encoders.encoding.bag_of_words import load_bag_of_words

        encoder = load_bag_of_words(folder, notes, side, name, changes, length)
    else:
        from encoders.encoding.encoder import load_checkpoint_encoder

        encoder = load_checkpoint_encoder(
            folder, notes, side, name, changes, length, device=device, dtype=dtype, batch_size=batch_size,
            weights=weights,
        )  # fmt: skip
    encoder.checkpoint, encoder.top_k = None if revision else checkpoint, top_k
    encoder.description = {**encoder.description, "top_k": top_k}
    if side in notes.prompts:
        encoder.prompt = encoder.description["prompt"] = notes.prompts[side]
    return encoder
