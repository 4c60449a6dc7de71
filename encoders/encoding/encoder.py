"""One side of a checkpoint as an encoder: texts to a sparse batch of term weights."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from encoders.backbone import (
    DTYPES,
    INT8,
    choose_device,
    choose_dtype,
    compile_towers,
    default_batch_size,
    quantize_towers,
)
from encoders.checkpoints import (
    CheckpointNotes,
    Vocabulary,
    architecture_named,
    as_json,
    change_settings,
    check_sizes,
    default_quantizer,
    load_tokenizer,
    settings_of,
    tokenizer_sha256,
    tower_folder,
    unwritable_ids,
)
from encoders.encoding.batching import BatchSize, pad_slices
from encoders.encoding.pairs import tokenize_texts
from encoders.encoding.reading import make_reading
from encoders.encoding.sparse_rows import RowCollector, largest
from encoders.encoding.words import WordFinder
from encoders.head import attribute
from encoders.models import Architecture
from learned_sparse.core import Encoder, LearnedSparseError, Quantizer, Reading, Side, SparseBatch, Word, sha256

_MOST_WEIGHTS = 2**23  # of one batch on the CPU, zeros included: 32 MB in float32
_MOST_WEIGHTS_ON_ACCELERATOR = 2**26
_TOKENIZED = 128
"""Texts tokenised at once: the tokenizer takes some 200 bytes for each token, those that are cut off among them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared:
    """Tokenised texts, text after text."""

    tokens: npt.NDArray[np.int64]
    """Token ids of all texts, special tokens included, after truncation; ``(lengths.sum(),)``."""
    lengths: npt.NDArray[np.int64]
    """Tokens of each text, ``(texts,)``."""
    truncated: int
    """How many texts were cut."""

    def __len__(self) -> int:
        return len(self.lengths)


class CheckpointEncoder(Encoder):
    """An ``Encoder`` with networks. ``encode`` sorts by length, so hand it many texts at once."""

    def __init__(
        self,
        weigher: nn.Module,
        tokenizer: Any,
        terms: Sequence[str],
        *,
        max_length: int,
        device: torch.device,
        dtype: str,
        top_k: int | None = None,
        batch_size: str | int | None = None,
        quantizer: Quantizer | None = None,
        description: Mapping[str, Any] | None = None,
        uses_expanded: bool = False,
        query_only_settings: frozenset[str] = frozenset(),
    ) -> None:
        """``weigher`` is moved to ``device`` and cast to ``dtype`` (a key of ``DTYPES``, or int8).

        ``batch_size``: texts, or tokens (``"4096t"``), of one forward pass; ``None``: what suits the device.
        """
        self.weigher = weigher.to(device=device, dtype=DTYPES["fp32" if dtype == INT8 else dtype]).eval()
        if dtype == INT8:
            quantize_towers(self.weigher)
        self.tokenizer, self.max_length = tokenizer, max_length
        self.terms = terms
        self.description = dict(description or {})
        self.quantizer = quantizer
        """Weights to impacts of this side; None if it has to be calibrated first."""
        self.uses_expanded = uses_expanded
        """Whether it wants texts with what expands them (``Document.with_expanded``)."""
        self.query_only_settings = query_only_settings
        """Settings that only queries depend on."""
        self.unwritable = unwritable_ids(terms)
        """Term ids that Lucene cannot hold; their weights are left out, and counted in ``dropped``."""
        self.texts = self.truncated = self.dropped = 0
        """Since creation: texts encoded, texts cut at ``max_length``, weights left out."""
        self.lengths: npt.NDArray[np.int64] = np.empty(0, np.int64)
        """Tokens of each text of the last call, special tokens included, after truncation."""
        self._batch_size = BatchSize.parse(default_batch_size(device) if batch_size is None else batch_size)
        most = _MOST_WEIGHTS if device.type == "cpu" else _MOST_WEIGHTS_ON_ACCELERATOR
        self._most_texts = max(most // max(len(terms), 1), 1)
        self._device, self._top_k = device, top_k
        self._finder: WordFinder | None = None
        self._blocked = torch.tensor(self.unwritable, dtype=torch.long, device=device)

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        """Weights of ``texts`` in the order given, one row each."""
        return self.encode_prepared(self.prepare(texts))

    def prepare(self, texts: Sequence[str]) -> Prepared:
        """Tokenise; touches no device and no counter, so it may run in another thread than ``encode_prepared``."""
        chunks = [self._tokenize(texts[start : start + _TOKENIZED]) for start in range(0, len(texts), _TOKENIZED)]
        return Prepared(
            tokens=np.concatenate([np.empty(0, np.int64), *(chunk.tokens for chunk in chunks)]),
            lengths=np.concatenate([np.empty(0, np.int64), *(chunk.lengths for chunk in chunks)]),
            truncated=sum(chunk.truncated for chunk in chunks),
        )

    def encode_prepared(self, prepared: Prepared) -> SparseBatch:
        """Weights of the texts that were prepared, in their order, one row each; counts them."""
        self.lengths = prepared.lengths
        self.texts += len(prepared)
        self.truncated += prepared.truncated
        starts = np.cumsum(prepared.lengths) - prepared.lengths
        batches = list(self._batch_size.batches(prepared.lengths, self._most_texts))
        rows = RowCollector(len(prepared), self.terms)
        for places in batches:
            rows.add(self._weigh(prepared.tokens, starts[places], prepared.lengths[places]))
        return rows.batch(np.argsort(np.concatenate([np.empty(0, np.int64), *batches]), kind="stable"))

    def word_spans(self, texts: Sequence[str]) -> list[list[Word]]:
        """``(start, end, tokens)`` of each word of ``texts``, untruncated: where a long text may be cut."""
        if self._finder is None:
            self._finder = WordFinder(self.tokenizer)
        return self._finder(texts)

    def explain(self, text: str) -> Reading:
        """``text`` token by token: its weights, and which token gave how much of each."""
        batch, tokenized = self.encode([text]), self._tokenized([text])
        if tokenized.encodings is None:
            raise LearnedSparseError("this tokenizer cannot say where its tokens are: save it as a tokenizer.json")
        input_ids = self._to_device(torch.tensor(tokenized["input_ids"]))
        columns = self._to_device(torch.from_numpy(batch.indices.astype(np.int64)))
        found = attribute(self.weigher, input_ids, torch.ones_like(input_ids), columns)
        return make_reading(
            tokenized.encodings[0],
            batch,
            shares=(entry for shares in found if not shares.gate for entry in shares.entries()),
            gate=(entry for shares in found if shares.gate for entry in shares.entries()),
        )

    def _tokenized(self, texts: Sequence[str]) -> Any:
        return tokenize_texts(
            self.tokenizer,
            texts,
            truncation=True,
            max_length=self.max_length,
            padding=False,
            return_attention_mask=False,
            return_token_type_ids=False,
        )

    def _tokenize(self, texts: Sequence[str]) -> Prepared:
        tokenized = self._tokenized(texts)
        sequences: list[list[int]] = tokenized["input_ids"]
        lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
        tokens = np.fromiter(itertools.chain.from_iterable(sequences), np.int64, int(lengths.sum()))
        truncated = sum(bool(encoding.overflowing) for encoding in tokenized.encodings or ())
        return Prepared(tokens=tokens, lengths=lengths, truncated=truncated)

    def _weigh(
        self, tokens: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
    ) -> SparseBatch:
        input_ids, mask = pad_slices(tokens, starts, lengths, self.tokenizer.pad_token_id or 0)
        with torch.inference_mode():
            weights = self.weigher(self._to_device(input_ids), self._to_device(mask))
            if self.unwritable:
                self.dropped += int(torch.count_nonzero(weights[:, self._blocked]))
                weights[:, self._blocked] = 0
            batch = to_sparse(weights, self.terms)
        return batch if self._top_k is None else largest(batch, self._top_k)

    def _to_device(self, tensor: torch.Tensor) -> torch.Tensor:
        """Without waiting for the copy, where the device can read page-locked memory by itself."""
        if self._device.type == "cuda":
            return tensor.pin_memory().to(self._device, non_blocking=True)
        return tensor.to(self._device)


def to_sparse(weights: torch.Tensor, terms: Sequence[str]) -> SparseBatch:
    """The non-zero entries of ``weights`` ``(batch, dimensions)`` in float32.

    A GPU is waited for twice: for the number of entries, then for the entries, one copy of 8 bytes each.
    """
    rows, columns = weights.nonzero(as_tuple=True)
    lengths = torch.bincount(rows, minlength=len(weights)).to(torch.int32)
    values = weights[rows, columns].float().view(torch.int32)
    found = torch.cat([lengths, columns.to(torch.int32), values]).cpu().numpy()
    counts, indices, bits = np.split(found, [len(weights), len(weights) + len(columns)])
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return SparseBatch(indptr, indices, bits.view(np.float32), terms)


def load_checkpoint_encoder(
    folder: Path,
    notes: CheckpointNotes,
    side: Side,
    who: str,
    *,
    device: str | None = None,
    dtype: str | None = None,
    max_length: int | None = None,
    top_k: int | None = None,
    batch_size: str | int | None = None,
    settings: Mapping[str, Any] | None = None,
    compile: bool = False,  # noqa: A002 - as torch calls it
) -> CheckpointEncoder:
    """What ``encoders.encoding.loading.load_encoder`` does for a side with networks; ``who`` opens error messages."""
    family = architecture_named(notes.architecture)
    stored = settings_of(notes, folder)
    chosen, changed = change_settings(notes.architecture, stored, settings or {}, who)
    tokenizer = load_tokenizer(folder)
    vocabulary = Vocabulary.from_tokenizer(tokenizer, notes.vocabulary_size)
    towers = {name: family.tower(chosen, name).load(tower_folder(folder, name)) for name in family.towers(chosen, side)}
    where = choose_device(device)
    numbers = choose_dtype(dtype, where, int8=True) if towers else "fp32"
    length = notes.max_length[side] if max_length is None else max_length
    limits = [tower.longest_input for tower in towers.values() if tower.longest_input]
    check_sizes(who, length, top_k, min(limits, default=None))
    kept = changed <= family.query_only_settings
    encoder = CheckpointEncoder(
        family.weigher(chosen, side, towers, vocabulary),
        tokenizer,
        family.terms(chosen, vocabulary),
        max_length=length,
        device=where,
        dtype=numbers,
        top_k=top_k,
        batch_size=batch_size,
        quantizer=notes.quantizer(side) if kept else default_quantizer(family, chosen, side),
        description={
            **_identity(folder, notes, chosen, side, tokenizer),
            "max_length": length,
            "dtype": numbers,
            "top_k": top_k,
        },
        uses_expanded=side == "document" and family.uses_expanded(chosen),
        query_only_settings=family.query_only_settings,
    )
    if compile:
        compile_towers(encoder.weigher, who)
    return encoder


def _as_indexed(family: Architecture, settings: Any) -> Any:
    """What is free at search at its default: which weights are named must not depend on it."""
    free = {name: getattr(family.settings(), name) for name in family.query_only_settings}
    return dataclasses.replace(settings, **free)


def _identity(folder: Path, notes: CheckpointNotes, settings: Any, side: Side, tokenizer: Any) -> dict[str, Any]:
    """What makes two checkpoints give the same vectors, whatever their names and places."""
    family = architecture_named(notes.architecture)
    weights = {
        name: {path.name: sha256(path) for path in sorted(tower_folder(folder, name).glob("*.safetensors"))}
        for name in family.towers(_as_indexed(family, settings), side)
    }
    return {
        "architecture": notes.architecture,
        "settings": as_json(settings),
        "side": side,
        "scoring": family.scoring(settings),
        "weights_sha256": weights,
        "tokenizer_sha256": tokenizer_sha256(tokenizer),
    }
