"""A side of a checkpoint that learns nothing as an encoder, with the tokenizer alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from encoders.checkpoints import (
    BagNotes,
    CheckpointNotes,
    changed_keys,
    check_sizes,
    spellings,
    tokenizer_sha256,
    unwritable_ids,
)
from encoders.encoding.pairs import pair_of
from encoders.encoding.reading import make_reading
from encoders.encoding.sparse_rows import largest
from encoders.encoding.words import WordFinder
from learned_sparse.core import Encoder, LearnedSparseError, Quantizer, Reading, Share, SparseBatch, Word, did_you_mean

if TYPE_CHECKING:
    from learned_sparse.core import Side

TOKENIZER = "tokenizer.json"


class BagOfWordsEncoder(Encoder):
    """An ``Encoder``, equal to ``CheckpointEncoder`` with a ``BagOfWords``, but quick."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        terms: Sequence[str],
        bag: BagNotes,
        *,
        max_length: int,
        top_k: int | None = None,
        quantizer: Quantizer | None = None,
        description: Mapping[str, Any] | None = None,
    ) -> None:
        """Truncation and padding of ``tokenizer`` are set here."""
        tokenizer.enable_truncation(max_length)
        tokenizer.no_padding()
        self.tokenizer, self.max_length, self.terms = tokenizer, max_length, terms
        self.description, self.quantizer = dict(description or {}), quantizer
        self.unwritable = unwritable_ids(terms)
        """Term ids that Lucene cannot hold; their weights are left out, and counted in ``dropped``."""
        self.uses_expanded = False
        self.query_only_settings = frozenset(bag.query_only_settings)
        """Settings that only queries depend on."""
        self.texts = self.truncated = self.dropped = 0
        """Since creation: texts encoded, texts cut at ``max_length``, weights left out."""
        self.lengths: npt.NDArray[np.int64] = np.empty(0, np.int64)
        """Tokens of each text of the last call, special tokens included, after truncation."""
        self._finder: WordFinder | None = None
        self._binary, self._top_k = bag.weighting == "binary", top_k
        self._in_bag, self._writable = np.ones(len(terms), bool), np.ones(len(terms), bool)
        self._in_bag[list(bag.excluded)] = False
        self._writable[self.unwritable] = False

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        """Weights of ``texts`` in the order given, one row each."""
        encodings = self.tokenizer.encode_batch([pair_of(text) for text in texts])
        self.lengths = np.fromiter((len(encoding) for encoding in encodings), np.int64, len(encodings))
        self.texts += len(encodings)
        self.truncated += sum(bool(encoding.overflowing) for encoding in encodings)
        rows = [self._row(encoding.ids) for encoding in encodings]
        indptr = np.cumsum([0, *(len(indices) for indices, _ in rows)], dtype=np.int64)
        indices = np.concatenate([np.empty(0, np.int32), *(indices for indices, _ in rows)])
        values = np.concatenate([np.empty(0, np.float32), *(values for _, values in rows)])
        batch = SparseBatch(indptr, indices, values, self.terms)
        return batch if self._top_k is None else largest(batch, self._top_k)

    def word_spans(self, texts: Sequence[str]) -> list[list[Word]]:
        """``(start, end, tokens)`` of each word of ``texts``, untruncated: where a long text may be cut."""
        if self._finder is None:
            self._finder = WordFinder(self.tokenizer)
        return self._finder(texts)

    def explain(self, text: str) -> Reading:
        """``text`` token by token: its weights, and which token gave how much of each."""
        batch, shares = self.encode([text]), []
        (encoding,) = self.tokenizer.encode_batch([pair_of(text)])
        kept = set(batch.indices.tolist())
        for place, token in enumerate(encoding.ids):
            if token in kept:
                shares.append((token, Share(place, 1.0)))
                if self._binary:
                    kept.remove(token)  # of a repeated token, the first
        return make_reading(encoding, batch, shares)

    def _row(self, ids: Sequence[int]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        tokens, counts = np.unique(np.array(ids, np.int32), return_counts=True)
        counted = self._in_bag[tokens]
        kept = counted & self._writable[tokens]
        self.dropped += int(np.count_nonzero(counted & ~kept))
        values = np.ones(len(tokens)) if self._binary else counts
        return tokens[kept], values[kept].astype(np.float32)


def load_bag_of_words(
    folder: Path,
    notes: CheckpointNotes,
    side: Side,
    who: str,
    *,
    max_length: int | None = None,
    top_k: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> BagOfWordsEncoder:
    """The encoder of a side that ``notes.bags`` describes; ``who`` opens error messages."""
    bag = notes.bags[side]
    chosen = _with_changes(notes.settings, settings or {}, who)
    changed = changed_keys(who, notes.settings, chosen, bag.changeable)
    scaled = None if bag.scale is None else Quantizer(bag.scale)
    length = notes.max_length[side] if max_length is None else max_length
    check_sizes(who, length, top_k)
    tokenizer = read_tokenizer(folder)
    return BagOfWordsEncoder(
        tokenizer,
        spellings(tokenizer.get_vocab(), notes.vocabulary_size),
        bag,
        max_length=length,
        top_k=top_k,
        quantizer=notes.quantizer(side) if changed <= set(bag.query_only_settings) else scaled,
        description={
            "architecture": notes.architecture,
            "settings": chosen,
            "side": side,
            "scoring": bag.scoring,
            "weights_sha256": {},
            "tokenizer_sha256": tokenizer_sha256(tokenizer),
            "max_length": length,
            "dtype": "fp32",
            "top_k": top_k,
        },
    )


def read_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer in ``tokenizer.json``, as the package tokenizers reads it."""
    path = folder / TOKENIZER
    if not path.is_file():
        raise LearnedSparseError(f"{path}: no such file; copy it there, it belongs to the checkpoint")
    try:
        return Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # tokenizers raises nothing narrower
        raise LearnedSparseError(f"{path}: not a readable tokenizer: {error}") from error


def _with_changes(stored: Mapping[str, Any], changes: Mapping[str, Any], who: str) -> dict[str, Any]:
    """The types are those of the stored values: the settings' own class would bring torch."""
    for key, value in changes.items():
        if key not in stored:
            raise LearnedSparseError(f"{who}: unknown setting {key!r}{did_you_mean(key, stored)}")
        if None not in (value, stored[key]) and _kind(value) != _kind(stored[key]):
            raise LearnedSparseError(f"{who}: {key} cannot be {value!r}; it is {stored[key]!r} in the checkpoint")
    return {**stored, **changes}


def _kind(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
