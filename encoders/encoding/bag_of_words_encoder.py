"""A side of a checkpoint without a network as an encoder: its tokenizer, and perhaps a table of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from encoders.checkpoints import BagNotes, pair_of, unwritable_ids
from encoders.encoding.batches import keep_top_k
from encoders.encoding.reading import WordFinder, make_reading
from learned_sparse.core.encoder import Encoder, Word
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import Reading, Share, SparseBatch


class BagOfWordsEncoder(Encoder):
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
        quantizer: Quantizer | None = None,
        description: Mapping[str, Any] | None = None,
    ) -> None:
        """Truncation and padding of ``tokenizer`` are set in place; ``weights`` is the table of ``bag``, if any."""
        tokenizer.enable_truncation(max_length)
        tokenizer.no_padding()
        self.tokenizer, self.max_length, self.terms = tokenizer, max_length, terms
        self.description, self.quantizer = dict(description or {}), quantizer
        self.unwritable = unwritable_ids(terms)
        """Ids of terms that Lucene cannot store; their weights are left out and counted in ``dropped``."""
        self.query_only_settings = frozenset(bag.query_only_settings)
        self.truncated = self.dropped = 0
        self._finder: WordFinder | None = None
        self._counts, self._top_k, self._weights = bag.weighting == "tf", top_k, weights
        self._in_bag, self._writable = np.ones(len(terms), bool), np.ones(len(terms), bool)
        self._in_bag[list(bag.excluded)] = False
        self._writable[self.unwritable] = False

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        """Weights of ``texts`` in order, one row each."""
        encodings = self.tokenizer.encode_batch([pair_of(text) for text in texts])
        self.truncated += sum(bool(encoding.overflowing) for encoding in encodings)
        rows = [self._row(encoding.ids) for encoding in encodings]
        indptr = np.cumsum([0, *(len(indices) for indices, _ in rows)], dtype=np.int64)
        indices = np.concatenate([np.empty(0, np.int32), *(indices for indices, _ in rows)])
        values = np.concatenate([np.empty(0, np.float32), *(values for _, values in rows)])
        batch = SparseBatch(indptr, indices, values, self.terms)
        return batch if self._top_k is None else keep_top_k(batch, self._top_k)

    def word_spans(self, texts: Sequence[str]) -> list[list[Word]]:
        """``(start, end, tokens)`` of each word of the untruncated ``texts``, where a long text may be cut."""
        if self._finder is None:
            self._finder = WordFinder(self.tokenizer)
        return self._finder(texts)

    def explain(self, text: str) -> Reading:
        """Tokens and weights of ``text``, and the contribution of each token to each weight."""
        batch, shares = self.encode([text]), []
        (encoding,) = self.tokenizer.encode_batch([pair_of(text)])
        terms = set(batch.indices.tolist())
        for position, token in enumerate(encoding.ids):
            if token in terms:
                shares.append((token, Share(position, 1.0 if self._weights is None else float(self._weights[token]))))
                if not self._counts:
                    terms.remove(token)  # of a repeated token, the first counts
        return make_reading(encoding, batch, shares)

    def _row(self, ids: Sequence[int]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        tokens, counts = np.unique(np.array(ids, np.int32), return_counts=True)
        counted = self._in_bag[tokens]
        kept = counted & self._writable[tokens]
        self.dropped += int(np.count_nonzero(counted & ~kept))
        values = (counts if self._counts else np.ones(len(tokens))).astype(np.float32)
        if self._weights is not None:
            values = self._weights[tokens]
            kept &= values > 0
        return tokens[kept], values[kept]
