"""One side of a checkpoint as an encoder; a side without a network is encoded here, without torch."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from encoders.checkpoints.hub import locate, published_settings
from encoders.checkpoints.notes import BagNotes, changed_keys, check_sizes, read_notes, read_table
from encoders.checkpoints.tokenizer import pair_of, read_tokenizer, spellings
from encoders.encoding.text_encoder import Entry, Prepared, TextEncoder, keep_top_k
from learned_sparse.core.encoder import Side
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import Share, SparseBatch

if TYPE_CHECKING:
    from encoders.encoding.encoder import CheckpointEncoder

_log = logging.getLogger(__name__)


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
    name, bag = f"{model or checkpoint} ({side})", notes.bags.get(side)
    changes = {**published_settings(checkpoint, notes.unrecorded, side), **(settings or {})}
    length = notes.max_length[side] if max_length is None else max_length
    assumptions = []
    if "pooling" in notes.unrecorded and "pooling" not in changes:
        assumptions.append("max pooling (--set pooling=sum corrects it)")
    if notes.assumed_length and max_length is None:
        assumptions.append(f"texts of {length} tokens (--max-length)")
    if assumptions:
        _log.info("%s: not in the folder, therefore as naver/splade: %s", name, ", ".join(assumptions))
    encoder: CheckpointEncoder | BagOfWordsEncoder
    if bag is None:
        from encoders.encoding.encoder import load_checkpoint_encoder

        encoder = load_checkpoint_encoder(
            folder, notes, side, name, changes, length, top_k, device=device, dtype=dtype, batch_size=batch_size
        )
    else:
        changes = {**notes.settings, **changes}
        changed = changed_keys(name, notes.settings, changes, bag.changeable)
        check_sizes(name, length, top_k)
        tables = () if bag.table is None else (bag.table,)
        notes.check_files(folder, tables)
        table = read_table(notes.tower_folder(folder, bag.table), notes.vocabulary_size) if bag.table else None
        tokenizer = read_tokenizer(folder)
        terms = spellings(tokenizer.get_vocab(), notes.vocabulary_size, name)
        prompt, default = notes.prompts.get(side, ""), None if bag.scale is None else Quantizer(bag.scale)
        encoder = BagOfWordsEncoder(tokenizer, terms, bag, table, max_length=length, top_k=top_k, prompt=prompt)
        encoder.quantizer = notes.quantizers[side] if changed <= encoder.query_only_settings else default
        options = {"scoring": bag.scoring, "max_length": length, "dtype": "fp32", "top_k": top_k}
        encoder.description = notes.description(folder, side, changes, tables, tokenizer) | options
    encoder.checkpoint = None if revision else checkpoint
    return encoder


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
        self.truncated += truncated
        rows = np.repeat(np.arange(len(lengths)), lengths)
        cells, counts = np.unique(rows * len(self.terms) + tokens, return_counts=True)
        rows, tokens = np.divmod(cells, len(self.terms))
        counted = self._in_bag[tokens]
        kept = counted & self._writable[tokens]
        self.dropped += int(np.count_nonzero(counted & ~kept))
        values = (counts if self._counts else np.ones(len(tokens))).astype(np.float32)
        if self._weights is not None:
            values = self._weights[tokens]
            kept &= values > 0
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=len(lengths)))]).astype(np.int64)
        batch = SparseBatch(indptr, tokens[kept].astype(np.int32), values[kept], self.terms)
        return batch if self._top_k is None else keep_top_k(batch, self._top_k)

    def _tokenize(self, texts: Sequence[str]) -> tuple[list[list[int]], Sequence[Any]]:
        encodings = self.tokenizer.encode_batch([pair_of(self._prompt + text) for text in texts])
        return [encoding.ids for encoding in encodings], encodings

    def _shares(self, ids: list[int], columns: npt.NDArray[np.int32]) -> tuple[list[Entry], list[Entry]]:
        shares, terms = [], set(columns.tolist())
        for position, token in enumerate(ids):
            if token in terms:
                shares.append((token, Share(position, 1.0 if self._weights is None else float(self._weights[token]))))
                if not self._counts:
                    terms.remove(token)  # of a repeated token, the first counts
        return shares, []
