"""A side of a checkpoint without a network as an encoder: its tokenizer, and perhaps a table of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from encoders.checkpoints.notes import BagNotes, CheckpointNotes, changed_keys, check_sizes, read_table
from encoders.checkpoints.tokenizer import check_vocabulary, pair_of, read_tokenizer, spellings, unwritable_ids
from encoders.encoding.batches import keep_top_k
from encoders.encoding.reading import WordFinder, make_reading
from learned_sparse.core.encoder import Encoder, Side, Word
from learned_sparse.core.errors import LearnedSparseError, did_you_mean
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
        prompt: str = "",
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
        self._counts, self._top_k, self._weights, self._prompt = bag.weighting == "tf", top_k, weights, prompt
        self._in_bag, self._writable = np.ones(len(terms), bool), np.ones(len(terms), bool)
        self._in_bag[list(bag.excluded)] = False
        self._writable[self.unwritable] = False

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        """Weights of ``texts`` in order, one row each."""
        encodings = self.tokenizer.encode_batch([pair_of(self._prompt + text) for text in texts])
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
        (encoding,) = self.tokenizer.encode_batch([pair_of(self._prompt + text)])
        terms = set(batch.indices.tolist())
        for position, token in enumerate(encoding.ids):
            if token in terms:
                shares.append((token, Share(position, 1.0 if self._weights is None else float(self._weights[token]))))
                if not self._counts:
                    terms.remove(token)  # of a repeated token, the first counts
        return make_reading(encoding, batch, shares, prompt=self._prompt)

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


def load_bag_of_words(
    folder: Path,
    notes: CheckpointNotes,
    side: Side,
    name: str,
    changes: Mapping[str, Any],
    max_length: int | None,
    top_k: int | None,
) -> BagOfWordsEncoder:
    """``encoders.encoding.loading.load_encoder`` for a bag of words; ``name`` opens error messages."""
    bag, size = notes.bags[side], notes.vocabulary_size
    settings = _with_changes(notes.settings, changes, name)
    changed = changed_keys(name, notes.settings, settings, bag.changeable)
    default_quantizer = None if bag.scale is None else Quantizer(bag.scale)
    length = notes.max_length[side] if max_length is None else max_length
    check_sizes(name, length, top_k)
    tables = () if bag.table is None else (bag.table,)
    notes.check_files(folder, tables)
    weights = next((read_table(notes.tower_folder(folder, table), size) for table in tables), None)
    tokenizer = read_tokenizer(folder)
    check_vocabulary(tokenizer.get_vocab(), size, size, name)
    return BagOfWordsEncoder(
        tokenizer,
        spellings(tokenizer.get_vocab(), size),
        bag,
        weights,
        max_length=length,
        top_k=top_k,
        prompt=notes.prompts.get(side, ""),
        quantizer=notes.quantizer(side) if changed <= set(bag.query_only_settings) else default_quantizer,
        description=notes.description(folder, side, settings, tables, tokenizer)
        | {"scoring": bag.scoring, "max_length": length, "dtype": "fp32", "top_k": top_k},
    )


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
