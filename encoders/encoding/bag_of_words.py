"""A side without a network, encoded without torch and transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from encoders.checkpoints.notes import BagNotes
from encoders.checkpoints.tokenizer import pair_of
from encoders.encoding.text_encoder import Prepared, TextEncoder, keep_top_k
from learned_sparse.core.reading import Entry, Share
from learned_sparse.core.records import SparseBatch


class BagOfWordsEncoder(TextEncoder):
    """Gives the same vectors as ``CheckpointEncoder`` with a ``BagOfWords``, without torch and transformers."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        terms: Sequence[str],
        bag: BagNotes,
        weights: npt.NDArray[np.float32] | None = None,
        *,
        max_length: int,
        top_k: int | None = None,
        prompt: str = "",
    ) -> None:
        """Truncation and padding of ``tokenizer`` are set in place; ``weights`` is the table of ``bag``, if any."""
        super().__init__(tokenizer, terms, max_length, top_k, prompt)
        tokenizer.enable_truncation(max_length)
        tokenizer.no_padding()
        self.query_only_settings = frozenset(bag.query_only_settings)
        self._counts, self._weights = bag.weighting == "tf", weights
        self._in_bag, self._writable = np.ones((2, len(terms)), bool)
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
        if self._weights is not None:
            values = self._weights[tokens]
            kept &= values > 0
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=len(lengths)))]).astype(np.int64)
        columns = tokens[kept].astype(np.int32)
        batch = SparseBatch(indptr, columns, values[kept], self.terms, truncated, dropped)
        return batch if self._top_k is None else keep_top_k(batch, self._top_k)

    def tokenize(self, texts: Sequence[str]) -> tuple[list[list[int]], Sequence[Any]]:
        encodings = self.tokenizer.encode_batch([pair_of(self.prompt + text) for text in texts])
        return [encoding.ids for encoding in encodings], encodings

    def shares(self, ids: list[int], columns: npt.NDArray[np.int32]) -> tuple[list[Entry], list[Entry]]:
        shares, terms = [], set(columns.tolist())
        for position, token in enumerate(ids):
            if token in terms:
                shares.append((token, Share(position, 1.0 if self._weights is None else float(self._weights[token]))))
                if not self._counts:
                    terms.remove(token)  # of a repeated token, the first counts
        return shares, []
