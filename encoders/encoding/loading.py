"""One side of a checkpoint as an encoder; a side without a network is encoded here, without torch."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from encoders.checkpoints.hub import locate, published_settings
from encoders.checkpoints.notes import BagNotes, CheckpointNotes, changed_keys, check_sizes, read_notes, read_table
from encoders.checkpoints.tokenizer import (
    check_vocabulary,
    pair_of,
    read_tokenizer,
    spellings,
    untruncated,
    word_spans,
)
from encoders.encoding.readings import keep_top_k, make_reading
from learned_sparse.core.encoder import Encoder, Side, Word
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import Reading, Share, SparseBatch
from learned_sparse.core.terms import unfit_reason

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

    ``None`` means the value in the checkpoint, or what suits the machine. A bag of words is loaded without torch and
    ignores ``device``, ``dtype`` and ``batch_size``.
    """
    folder = locate(checkpoint, revision)
    notes = read_notes(folder)
    settings = {**published_settings(checkpoint, notes.unrecorded, side), **(settings or {})}
    common = (folder, notes, side, f"{model or checkpoint} ({side})", settings, max_length, top_k)
    encoder: CheckpointEncoder | BagOfWordsEncoder
    if side in notes.bags:
        encoder = _load_bag_of_words(*common)
    else:
        from encoders.encoding.encoder import load_checkpoint_encoder

        encoder = load_checkpoint_encoder(*common, device=device, dtype=dtype, batch_size=batch_size)
    encoder.checkpoint = None if revision else checkpoint
    return encoder


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
        self.unwritable = [number for number, term in enumerate(terms) if unfit_reason(term)]
        """Ids of terms that Lucene cannot store; their weights are left out and counted in ``dropped``."""
        self.query_only_settings = frozenset(bag.query_only_settings)
        self.truncated = self.dropped = 0
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
        return word_spans(self._untruncated, texts)

    @functools.cached_property
    def _untruncated(self) -> Tokenizer | None:
        return untruncated(self.tokenizer)

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


def _load_bag_of_words(
    folder: Path,
    notes: CheckpointNotes,
    side: Side,
    name: str,
    changes: Mapping[str, Any],
    max_length: int | None,
    top_k: int | None,
) -> BagOfWordsEncoder:
    """``load_encoder`` for a bag of words; ``name`` opens error messages."""
    bag, size = notes.bags[side], notes.vocabulary_size
    settings = {**notes.settings, **changes}
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
        quantizer=notes.quantizers[side] if changed <= set(bag.query_only_settings) else default_quantizer,
        description=notes.description(folder, side, settings, tables, tokenizer)
        | {"scoring": bag.scoring, "max_length": length, "dtype": "fp32", "top_k": top_k},
    )
