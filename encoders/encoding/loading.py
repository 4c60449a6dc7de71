"""The one way in to an encoder: a side of a checkpoint, with as much machinery as that side needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from encoders.checkpoints import locate, read_notes
from encoders.encoding.bag_of_words_encoder import BagOfWordsEncoder, load_bag_of_words

if TYPE_CHECKING:
    from encoders.encoding.encoder import CheckpointEncoder
    from learned_sparse.core import Side


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
    compile: bool = False,  # noqa: A002 - as torch calls it
) -> CheckpointEncoder | BagOfWordsEncoder:
    """One side of a checkpoint (folder or Hub id), loading only the towers that side reads.

    ``model`` is a name for messages. ``settings`` are changes to the checkpoint's, as far as its architecture allows
    some; with one that documents depend on, the stored quantiser is not used. ``dtype`` int8: linear layers in 8 bits.
    ``compile``: by torch.compile, at once, which takes up to a minute and changes no weight by more than rounding.
    ``None`` elsewhere: what the checkpoint says, or what suits the machine. A bag of words is made without torch;
    ``device``, ``dtype``, ``batch_size`` and ``compile`` mean nothing to it.
    """
    folder = locate(checkpoint, revision)
    notes = read_notes(folder)
    who = f"{model or checkpoint} ({side})"
    if side in notes.bags:
        return load_bag_of_words(folder, notes, side, who, max_length=max_length, top_k=top_k, settings=settings)
    from encoders.encoding.encoder import load_checkpoint_encoder

    return load_checkpoint_encoder(
        folder,
        notes,
        side,
        who,
        device=device,
        dtype=dtype,
        max_length=max_length,
        top_k=top_k,
        batch_size=batch_size,
        settings=settings,
        compile=compile,
    )
