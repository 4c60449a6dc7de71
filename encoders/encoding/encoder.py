"""One side of a checkpoint as an encoder: texts to a sparse batch of term weights."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from encoders.backbone.device import DTYPES, choose_device, choose_dtype, prepare_network
from encoders.backbone.towers import load_tokenizer
from encoders.checkpoints.notes import CheckpointNotes, as_json
from encoders.checkpoints.tokenizer import Prepared, TextEncoder, Vocabulary, keep_top_k
from encoders.models import ARCHITECTURES
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import SparseBatch

if TYPE_CHECKING:
    from learned_sparse.core.reading import Entry

_MAX_WEIGHTS = 2**23  # of one batch on the CPU, zeros included: 32 MB in float32
_MAX_WEIGHTS_ON_ACCELERATOR = 2**26
_WIDTH = 8
"""Batches on a CPU are padded to a multiple of it: oneDNN takes milliseconds to prepare itself for a new shape."""
_BATCH_SIZES = {"cpu": "2048t", "cuda": "16384t"}
"""Tokens of a forward pass: a GPU needs large batches; on a CPU small ones are as fast and take less memory."""


class CheckpointEncoder(TextEncoder):
    """A side with networks. ``encode`` sorts the texts by length, so pass many texts at once."""

    longest_input: int | None = None
    """Tokens that the networks can read; None without a limit."""

    def __init__(
        self,
        weigher: nn.Module,
        tokenizer: Any,
        terms: Sequence[str],
        *,
        max_length: int,
        device: torch.device,
        dtype: str,
        batch_size: str | int | None = None,
    ) -> None:
        """``weigher`` is moved to ``device`` and ``dtype``, a key of ``DTYPES``.

        ``batch_size``: texts, or tokens (``"4096t"``), of one forward pass; ``None``: the default of the device.
        """
        super().__init__(tokenizer, terms, max_length)
        self.weigher = weigher.to(device).eval()
        for parameter in weigher.parameters():  # not the buffers: rotary frequencies stay exact
            parameter.data = parameter.data.to(DTYPES[dtype])
        max_weights = _MAX_WEIGHTS if device.type == "cpu" else _MAX_WEIGHTS_ON_ACCELERATOR
        batch_size = _BATCH_SIZES.get(device.type, "4096t") if batch_size is None else str(batch_size)
        match = re.fullmatch(r"([1-9]\d*)(t?)", batch_size)
        if match is None:
            raise LearnedSparseError(f"batch size {batch_size!r}: give a number of texts (32) or of tokens (4096t)")
        self._max_tokens = int(match[1]) if match[2] else None
        self._max_texts = max(max_weights // max(len(terms), 1), 1) if match[2] else int(match[1])
        self._device = device
        self._blocked = torch.tensor(self.unwritable, dtype=torch.long, device=device)

    @property
    def environment(self) -> Mapping[str, Any]:  # type: ignore[override]
        """``longest_input``, the tokens that the model can read, and ``{"screened": {tower: whether its head screens
        terms in int8}}``, once it has measured what is faster.
        """
        screens = {name: getattr(module, "screen", None) for name, module in self.weigher.named_modules()}
        used = {name: screen.used for name, screen in screens.items() if screen and screen.used is not None}
        longest = {} if self.longest_input is None else {"longest_input": self.longest_input}
        return longest | ({"screened": used} if used else {})

    def encode_prepared(self, prepared: Prepared) -> SparseBatch:
        """Weights of the prepared texts in order, one row each; texts of similar length share a forward pass."""
        tokens, lengths, truncated = prepared
        dropped = 0
        starts, order = np.cumsum(lengths) - lengths, np.argsort(-lengths, kind="stable")
        rows = [SparseBatch(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), self.terms)]
        left = order
        while len(left):
            longest, count = max(int(lengths[left[0]]), 1), self._max_texts
            if self._max_tokens is not None:
                count = min(max(self._max_tokens // longest, 1), count)
            chosen, left = left[:count], left[count:]
            width = min(-(-longest // _WIDTH) * _WIDTH, self.max_length) if self._device.type == "cpu" else longest
            mask = np.arange(width) < lengths[chosen, None]
            ids = np.full(mask.shape, self.tokenizer.pad_token_id or 0)
            ids[mask] = tokens[(starts[chosen, None] + np.arange(width))[mask]]
            inputs = torch.from_numpy(np.stack([ids, mask]))
            if cuda := self._device.type == "cuda":
                inputs = inputs.pin_memory()
            with torch.inference_mode():
                weights = self.weigher(*inputs.to(self._device, non_blocking=cuda))
                if self.unwritable:
                    dropped += int(torch.count_nonzero(weights[:, self._blocked]))
                    weights[:, self._blocked] = 0
                batch = to_sparse(weights, self.terms)
            rows.append(batch if self.top_k is None else keep_top_k(batch, self.top_k))
        batch = SparseBatch.concatenate(rows).take(np.argsort(order))
        return dataclasses.replace(batch, truncated=truncated, dropped=dropped)

    def shares(self, ids: list[int], columns: npt.NDArray[np.int32]) -> tuple[list[Entry], list[Entry]]:
        weigher: Any = self.weigher
        if not hasattr(weigher, "shares"):
            raise LearnedSparseError(f"{type(weigher).__name__} cannot attribute its weights to tokens (no `shares`)")
        inputs = torch.tensor([[ids], [[1] * len(ids)]], device=self._device)
        with torch.inference_mode():
            parts = weigher.shares(*inputs, torch.from_numpy(columns).long().to(self._device))
        shares, gate = ([e for part in parts if part.gate == kind for e in part.entries()] for kind in (False, True))
        return shares, gate


def to_sparse(weights: torch.Tensor, terms: Sequence[str]) -> SparseBatch:
    """The non-zero entries of ``weights`` ``(batch, dimensions)`` in float32.

    Waits twice for a GPU: for the number of entries, then for one copy with 8 bytes per entry.
    """
    rows, columns = weights.nonzero(as_tuple=True)
    lengths = torch.bincount(rows, minlength=len(weights)).to(torch.int32)
    values = weights[rows, columns].float().view(torch.int32)
    packed = torch.cat([lengths, columns.to(torch.int32), values]).cpu().numpy()
    counts, indices, bits = np.split(packed, [len(weights), len(weights) + len(columns)])
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return SparseBatch(indptr, indices, bits.view(np.float32), terms)


def load_checkpoint_encoder(
    folder: Path,
    notes: CheckpointNotes,
    side: Side,
    name: str,
    settings: Mapping[str, Any],
    max_length: int,
    *,
    device: str | None = None,
    dtype: str | None = None,
    batch_size: str | int | None = None,
    weights: bool = True,
) -> CheckpointEncoder:
    """``encoders.encoding.loading.load_encoder`` for a side with networks; ``name`` opens error messages."""
    chosen, quantizers = ARCHITECTURES[notes.architecture].changed(notes, settings, name)
    kinds = chosen.towers(side)
    notes.check_files(folder, kinds)
    tokenizer = load_tokenizer(folder / notes.towers.get("document", ""))
    chosen_device = choose_device(device)
    # In bf16 the weights of a text depend on its batch. Queries are few, and their impacts must not.
    chosen_dtype = choose_dtype(dtype, chosen_device, "fp32" if side == "query" else "auto") if kinds else "fp32"
    towers: dict[str, Any] = {}
    for tower, kind in kinds.items() if weights else ():
        towers[tower] = kind.load(notes.tower_folder(folder, tower))
        if (size := towers[tower].vocabulary_size) != (recorded := notes.vocabulary_size):
            raise LearnedSparseError(f"{name}: the weights have {size} dimensions, the checkpoint records {recorded}")
    vocabulary = Vocabulary.from_tokenizer(tokenizer, notes.vocabulary_size, name)
    longest = min((tower.longest_input for tower in towers.values() if tower.longest_input), default=None)
    if longest and max_length > longest:
        raise LearnedSparseError(f"{name}: max length {max_length}; give 3 to {longest} tokens")
    encoder = CheckpointEncoder(
        chosen.weigher(side, towers, vocabulary) if weights else nn.Identity(),
        tokenizer,
        chosen.terms or vocabulary.terms,
        max_length=max_length,
        device=chosen_device,
        dtype=chosen_dtype,
        batch_size=batch_size,
    )
    encoder.longest_input = longest
    encoder.uses_expanded = side == "document" and chosen.uses_expanded
    encoder.query_only_settings = chosen.query_only_settings
    encoder.quantizer = quantizers[side]
    # weights that only queries read do not depend on the settings of queries
    defaults = {name: getattr(type(chosen)(), name) for name in chosen.query_only_settings}
    described = dataclasses.replace(cast(Any, chosen), **defaults).towers(side)
    encoder.description = notes.description(
        folder, side, as_json(chosen), described, tokenizer_sha256=encoder.tokenizer_sha256, scoring=chosen.scoring,
        max_length=max_length, dtype=chosen_dtype,
    )  # fmt: skip
    if chosen_device.type == "cpu":
        for network in (tower.model for tower in towers.values() if tower.model is not None):
            prepare_network(network)
    return encoder
