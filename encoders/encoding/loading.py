"""One side of a checkpoint as an encoder, with the libraries that this side needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file

from encoders.checkpoints import (
    TABLE,
    BagNotes,
    CheckpointNotes,
    changed_keys,
    check_sizes,
    check_vocabulary,
    locate,
    published_settings,
    read_notes,
    read_tokenizer,
    spellings,
    tokenizer_sha256,
)
from encoders.encoding.bag_of_words_encoder import BagOfWordsEncoder
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError, did_you_mean
from learned_sparse.core.files import sha256
from learned_sparse.core.quantize import Quantizer

if TYPE_CHECKING:
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
    name = f"{model or checkpoint} ({side})"
    settings = {**published_settings(checkpoint, notes.unrecorded, side), **(settings or {})}
    encoder: CheckpointEncoder | BagOfWordsEncoder
    if side in notes.bags:
        encoder = _load_bag_of_words(folder, notes, side, name, max_length=max_length, top_k=top_k, settings=settings)
    else:
        from encoders.encoding.encoder import load_checkpoint_encoder

        encoder = load_checkpoint_encoder(
            folder,
            notes,
            side,
            name,
            device=device,
            dtype=dtype,
            max_length=max_length,
            top_k=top_k,
            batch_size=batch_size,
            settings=settings,
            compile=compile,
        )
    encoder.checkpoint = None if revision else checkpoint
    return encoder


def _load_bag_of_words(
    folder: Path,
    notes: CheckpointNotes,
    side: Side,
    name: str,
    *,
    max_length: int | None = None,
    top_k: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> BagOfWordsEncoder:
    bag = notes.bags[side]
    settings = _with_changes(notes.settings, settings or {}, name)
    changed = changed_keys(name, notes.settings, settings, bag.changeable)
    default_quantizer = None if bag.scale is None else Quantizer(bag.scale)
    length = notes.max_length[side] if max_length is None else max_length
    check_sizes(name, length, top_k)
    notes.check_files(folder, () if bag.table is None else (bag.table,))
    weights = None if bag.table is None else _table(folder / "towers" / bag.table / TABLE, notes.vocabulary_size)
    tokenizer = read_tokenizer(folder)
    check_vocabulary(tokenizer.get_vocab(), notes.vocabulary_size, notes.vocabulary_size, name)
    return BagOfWordsEncoder(
        tokenizer,
        spellings(tokenizer.get_vocab(), notes.vocabulary_size),
        bag,
        weights,
        max_length=length,
        top_k=top_k,
        quantizer=notes.quantizer(side) if changed <= set(bag.query_only_settings) else default_quantizer,
        description={
            "architecture": notes.architecture,
            "settings": settings,
            "side": side,
            "scoring": bag.scoring,
            "weights_sha256": _hashes(folder, bag),
            "tokenizer_sha256": tokenizer_sha256(tokenizer),
            "max_length": length,
            "dtype": "fp32",
            "top_k": top_k,
        },
    )


def _table(path: Path, size: int) -> npt.NDArray[np.float32]:
    """Weights of all terms, ``(size,)``."""
    try:
        weights = load_file(path)["weights"]
    except (OSError, KeyError, SafetensorError) as error:
        raise LearnedSparseError(f"{path}: no table of weights ({error}); copy the checkpoint again") from error
    if weights.shape != (size,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise LearnedSparseError(f"{path}: not {size:,} weights of terms, 0 or above; copy the checkpoint again")
    return np.asarray(weights, np.float32)


def _hashes(folder: Path, bag: BagNotes) -> dict[str, dict[str, str]]:
    """SHA-256 of the weights that the side reads, as ``CheckpointEncoder`` describes them."""
    return {} if bag.table is None else {bag.table: {TABLE: sha256(folder / "towers" / bag.table / TABLE)}}


def _with_changes(stored: Mapping[str, Any], changes: Mapping[str, Any], name: str) -> dict[str, Any]:
    """``stored`` with ``changes`` of the same types; the settings dataclass, which knows the types, needs torch."""
    for key, value in changes.items():
        if key not in stored:
            raise LearnedSparseError(f"{name}: unknown setting {key!r}{did_you_mean(key, stored)}")
        if None not in (value, stored[key]) and _kind(value) != _kind(stored[key]):
            raise LearnedSparseError(f"{name}: {key} cannot be {value!r}; it is {stored[key]!r} in the checkpoint")
    return {**stored, **changes}


def _kind(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
