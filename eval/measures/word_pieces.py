"""The distinct word pieces of texts, by a model's tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from encoders.checkpoints import locate
from encoders.encoding import TOKENIZER, read_tokenizer

_AT_ONCE = 10_000


def load_pieces(name: str, revision: str | None = None) -> Callable[[Sequence[str]], list[frozenset[int]]]:
    """What gives the ids of each text's pieces, special tokens left out, whole texts whatever their length.

    ``name`` is a folder or Hub id with a ``tokenizer.json``, or ``minilm``.
    """
    tokenizer = read_tokenizer(tokenizer_folder(name, revision))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def pieces(texts: Sequence[str]) -> list[frozenset[int]]:
        found: list[frozenset[int]] = []
        for start in range(0, len(texts), _AT_ONCE):
            encodings = tokenizer.encode_batch(list(texts[start : start + _AT_ONCE]), add_special_tokens=False)
            found += [frozenset(encoding.ids) for encoding in encodings]
        return found

    return pieces


def tokenizer_folder(name: str, revision: str | None = None) -> Path:
    """The folder with the ``tokenizer.json`` of a folder, a Hub id or ``minilm``."""
    if name != "minilm":
        return locate(name, revision, [TOKENIZER])
    from encoders.backbone import minilm_folder

    return minilm_folder()
