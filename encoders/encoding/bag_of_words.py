"""A side without a network, encoded without torch and transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from encoders.checkpoints.foreign import read_table
from encoders.checkpoints.notes import CheckpointNotes, changed_keys
from encoders.checkpoints.tokenizer import Prepared, TextEncoder, keep_top_k, read_tokenizer, spellings
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.reading import Entry, Share
from learned_sparse.core.records import SparseBatch
from learned_sparse.core.settings import parse


@dataclass(frozen=True, kw_only=True)
class BagNotes:
    """A side that is a bag of words: everything its vectors depend on besides the tokenizer."""

    weighting: Literal["binary", "tf", "table"]
    excluded: tuple[int, ...]
    """Token ids that are never in the bag."""
    scoring: Literal["impact", "bm25"]
    scale: float | None
    """Factor from weights to impacts after settings are changed; ``None``: calibrate."""
    changeable: tuple[str, ...] = ()
    """Settings of the model that may be changed; none of them changes the bag."""
    query_only_settings: tuple[str, ...] = ()
    """Those of ``changeable`` that leave the stored quantizer valid."""
    table: str | None = None
    """Tower with the weights of terms, for ``weighting: table``."""

    def __post_init__(self) -> None:
        """Refuse a table without its weights, and weights without a table."""
        if (self.weighting == "table") != (self.table is not None):
            raise LearnedSparseError("'weighting: table' and 'table' go together")


class BagOfWordsEncoder(TextEncoder):
    """Gives the same vectors as ``CheckpointEncoder`` with a ``BagOfWords``, without torch and transformers."""

    weights: npt.NDArray[np.float32] | None = None
    """The table of the bag, ``(terms,)``, if it has one."""

    def __init__(self, tokenizer: Tokenizer, terms: Sequence[str], bag: BagNotes, max_length: int) -> None:
        super().__init__(tokenizer, terms, max_length)
        self.query_only_settings = frozenset(bag.query_only_settings)
        self._counts = bag.weighting == "tf"
        self._in_bag, self._writable = np.ones((2, len(terms)), bool)
        if not all(0 <= token < len(terms) for token in bag.excluded):
            raise LearnedSparseError("bags: 'excluded' has tokens beyond the vocabulary")
        self._in_bag[list(bag.excluded)] = False
        self._writable[self.unwritable] = False

    def encode_prepared(self, prepared: Prepared) -> SparseBatch:
        """Weights of the prepared texts in order, one row each."""
        tokens, lengths, truncated = prepared
        rows = np.repeat(np.arange(len(lengths)), lengths)
        cells, counts = np.unique(rows * len(self.terms) + tokens, return_counts=True)
        rows, tokens = np.divmod(cells, len(self.terms))
        counted = self._in_bag[tokens]
        kept = counted & self._writable[tokens]
        dropped = int(np.count_nonzero(counted & ~kept))
        values = (counts if self._counts else np.ones(len(tokens))).astype(np.float32)
        if self.weights is not None:
            values = self.weights[tokens]
            kept &= values > 0
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=len(lengths)))]).astype(np.int64)
        columns = tokens[kept].astype(np.int32)
        batch = SparseBatch(indptr, columns, values[kept], self.terms, truncated, dropped)
        return batch if self.top_k is None else keep_top_k(batch, self.top_k)

    def shares(self, ids: list[int], columns: npt.NDArray[np.int32]) -> tuple[list[Entry], list[Entry]]:
        shares, terms = [], set(columns.tolist())
        for position, token in enumerate(ids):
            if token in terms:
                shares.append((token, Share(position, 1.0 if self.weights is None else float(self.weights[token]))))
                if not self._counts:
                    terms.remove(token)  # of a repeated token, the first counts
        return shares, []


def load_bag_of_words(
    folder: Path, notes: CheckpointNotes, side: Side, name: str, settings: Mapping[str, Any], max_length: int
) -> BagOfWordsEncoder:
    """``encoders.encoding.loading.load_encoder`` for a side without a network; ``name`` opens error messages."""
    bag, settings = parse(BagNotes, notes.bags[side], f"{folder}: bags: {side}"), {**notes.settings, **settings}
    changed = changed_keys(name, notes.settings, settings, bag.changeable)
    tables = () if bag.table is None else (bag.table,)
    notes.check_files(folder, tables)
    tokenizer = read_tokenizer(folder)
    terms = spellings(tokenizer.get_vocab(), notes.vocabulary_size, name)
    encoder = BagOfWordsEncoder(tokenizer, terms, bag, max_length)
    default = None if bag.scale is None else Quantizer(bag.scale)
    if bag.table:
        encoder.weights = read_table(notes.tower_folder(folder, bag.table), notes.vocabulary_size)
    encoder.quantizer = notes.quantizers[side] if changed <= encoder.query_only_settings else default
    encoder.description = notes.description(
        folder, side, settings, tables, tokenizer_sha256=encoder.tokenizer_sha256, scoring=bag.scoring,
        max_length=max_length, dtype="fp32",
    )  # fmt: skip
    return encoder
