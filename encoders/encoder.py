"""One side of a checkpoint as an encoder: texts to a sparse batch of term weights."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from encoders.batching import BatchSize, pad
from encoders.checkpoint import (
    CheckpointNotes,
    architecture_named,
    load_tokenizer,
    quantizer_of,
    read_notes,
    settings_of,
    tower_folder,
)
from encoders.device import DTYPES, choose_device, choose_dtype
from encoders.hub import locate
from encoders.models import Side
from encoders.vocabulary import Vocabulary
from learned_sparse.errors import LearnedSparseError
from learned_sparse.files import sha256
from learned_sparse.quantize import Quantizer
from learned_sparse.records import SparseBatch

DEFAULT_BATCH_SIZE = "4096t"


class CheckpointEncoder:
    """An :class:`learned_sparse.records.Encoder`. ``encode`` sorts by length, so hand it many texts at once."""

    def __init__(
        self,
        weigher: nn.Module,
        tokenizer: Any,
        vocabulary: Vocabulary,
        *,
        max_length: int,
        device: torch.device,
        dtype: str,
        top_k: int | None = None,
        batch_size: str | int = DEFAULT_BATCH_SIZE,
        quantizer: Quantizer | None = None,
        description: Mapping[str, Any] | None = None,
    ) -> None:
        """``weigher`` is moved to ``device`` and cast to ``dtype`` (a key of ``DTYPES``)."""
        self.weigher = weigher.to(device=device, dtype=DTYPES[dtype]).eval()
        self.tokenizer, self.max_length = tokenizer, max_length
        self.terms: Sequence[str] = vocabulary.terms
        self.description = dict(description or {})
        self.quantizer = quantizer
        """Weights to impacts of this side; None if it has to be calibrated first."""
        self.unwritable = vocabulary.unwritable_ids()
        """Term ids that Lucene cannot hold; their weights are left out, and counted in ``dropped``."""
        self.texts = self.truncated = self.dropped = 0
        """Since creation: texts encoded, texts cut at ``max_length``, weights left out."""
        self.lengths: npt.NDArray[np.int64] = np.empty(0, np.int64)
        """Tokens of each text of the last call, special tokens included, after truncation."""
        self._batch_size = BatchSize.parse(batch_size)
        self._device, self._top_k = device, top_k
        self._blocked = torch.tensor(self.unwritable, dtype=torch.long, device=device)

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        """Weights of ``texts`` in the order given, one row each."""
        sequences = self._tokenize(texts)
        order, parts = [np.empty(0, np.int64)], [self._empty()]
        for places in self._batch_size.batches(self.lengths):
            order.append(places)
            parts.append(self._weigh([sequences[place] for place in places]))
        return SparseBatch.concatenate(parts).take(np.argsort(np.concatenate(order), kind="stable"))

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            self.lengths = np.empty(0, np.int64)
            return []
        tokenized = self.tokenizer(
            list(texts),
            truncation=True,
            max_length=self.max_length,
            padding=False,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        sequences: list[list[int]] = tokenized["input_ids"]
        self.lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
        self.texts += len(sequences)
        self.truncated += sum(bool(encoding.overflowing) for encoding in tokenized.encodings or ())
        return sequences

    def _weigh(self, sequences: Sequence[Sequence[int]]) -> SparseBatch:
        input_ids, mask = pad(sequences, self.tokenizer.pad_token_id or 0)
        with torch.inference_mode():
            weights = self.weigher(input_ids.to(self._device), mask.to(self._device))
            if self.unwritable:
                self.dropped += int(torch.count_nonzero(weights[:, self._blocked]))
                weights[:, self._blocked] = 0
            batch = to_sparse(weights, self.terms)
        return batch if self._top_k is None else largest(batch, self._top_k)

    def _empty(self) -> SparseBatch:
        return SparseBatch(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), self.terms)


def to_sparse(weights: torch.Tensor, terms: Sequence[str]) -> SparseBatch:
    """The non-zero entries of ``weights`` ``(batch, dimensions)`` in float32."""
    rows, columns = weights.nonzero(as_tuple=True)
    values = weights[rows, columns].float().cpu().numpy()
    lengths = torch.bincount(rows, minlength=len(weights)).cpu().numpy()
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return SparseBatch(indptr, columns.cpu().numpy().astype(np.int32), values, terms)


def largest(batch: SparseBatch, count: int) -> SparseBatch:
    """The ``count`` largest values of each row; of equal ones, those of the smaller term ids."""
    lengths = np.diff(batch.indptr)
    rows = np.repeat(np.arange(len(batch)), lengths)
    order = np.lexsort((batch.indices, -batch.values, rows))  # by row, then value, then term id
    rank = np.arange(len(order)) - np.repeat(batch.indptr[:-1], lengths)
    kept = np.sort(order[rank < count])
    indptr = np.concatenate([[0], np.cumsum(np.minimum(lengths, count))]).astype(np.int64)
    return SparseBatch(indptr, batch.indices[kept], batch.values[kept], batch.terms)


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
) -> CheckpointEncoder:
    """One side of a checkpoint (folder or Hub id), loading only the towers that side reads.

    ``model`` is a name for messages. ``None`` elsewhere: what the checkpoint says, or what suits the machine.
    """
    folder = locate(checkpoint, revision)
    notes = read_notes(folder)
    family, settings = architecture_named(notes.architecture), settings_of(notes, folder)
    tokenizer = load_tokenizer(folder)
    vocabulary = Vocabulary.from_tokenizer(tokenizer, notes.vocabulary_size)
    towers = {
        name: family.tower(settings, name).load(tower_folder(folder, name)) for name in family.towers(settings, side)
    }
    where = choose_device(device)
    numbers = choose_dtype(dtype, where) if towers else "fp32"
    length = notes.max_length[side] if max_length is None else max_length
    _check_options(f"{model or checkpoint} ({side})", length, top_k, towers)
    description = {
        **_identity(folder, notes, settings, side, tokenizer),
        "max_length": length,
        "dtype": numbers,
        "top_k": top_k,
    }
    return CheckpointEncoder(
        family.weigher(settings, side, towers, vocabulary),
        tokenizer,
        vocabulary,
        max_length=length,
        device=where,
        dtype=numbers,
        top_k=top_k,
        batch_size=DEFAULT_BATCH_SIZE if batch_size is None else batch_size,
        quantizer=quantizer_of(notes, side),
        description=description,
    )


def _check_options(who: str, max_length: int, top_k: int | None, towers: Mapping[str, Any]) -> None:
    limit = min((tower.longest_input for tower in towers.values() if tower.longest_input), default=None)
    if max_length < 3 or (limit is not None and max_length > limit):
        raise LearnedSparseError(f"{who}: max length {max_length}; give 3 to {limit or 'any number of'} tokens")
    if top_k is not None and top_k < 1:
        raise LearnedSparseError(f"{who}: top k {top_k}; give at least 1, or leave it out to keep all terms")


def _identity(folder: Path, notes: CheckpointNotes, settings: Any, side: Side, tokenizer: Any) -> dict[str, Any]:
    """What makes two checkpoints give the same vectors, whatever their names and places."""
    family = architecture_named(notes.architecture)
    weights = {
        name: {path.name: sha256(path) for path in sorted(tower_folder(folder, name).glob("*.safetensors"))}
        for name in family.towers(settings, side)
    }
    return {
        "architecture": notes.architecture,
        "settings": dataclasses.asdict(settings),
        "side": side,
        "scoring": family.scoring(settings),
        "weights_sha256": weights,
        "tokenizer_sha256": tokenizer_sha256(tokenizer),
    }


def tokenizer_sha256(tokenizer: Any) -> str:
    """Of all that decides how text is cut, but for truncation and padding, which each call sets."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        text = repr(sorted(tokenizer.get_vocab().items()))
    else:
        copy = type(backend).from_str(backend.to_str())
        copy.no_truncation()
        copy.no_padding()
        text = copy.to_str()
    return hashlib.sha256(text.encode()).hexdigest()
