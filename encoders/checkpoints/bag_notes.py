"""Which sides of a model can be encoded without it, and what for that has to be written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from encoders.checkpoints.notes import BagNotes
from encoders.checkpoints.tokenizer_hash import tokenizer_sha256
from encoders.checkpoints.vocabulary import Vocabulary
from encoders.encoding import TOKENIZER, read_tokenizer
from encoders.models import SIDES, Architecture, BagOfWords, TermWeighers


def bags_of(
    family: Architecture, settings: Any, weighers: TermWeighers, tokenizer: Any, folder: Path, vocabulary_size: int
) -> dict[str, BagNotes]:
    """Notes on each side that is a ``BagOfWords``; ``tokenizer`` was read from ``folder``.

    None where the package tokenizers alone might read a text or spell a term differently.
    """
    vocabulary = Vocabulary.from_tokenizer(tokenizer, vocabulary_size)
    if list(family.terms(settings, vocabulary)) != list(vocabulary.terms):
        return {}
    if not _tokenizer_json_says_all(tokenizer, folder, vocabulary_size):
        return {}
    return {
        side: BagNotes(
            weighting=module.weighting,
            excluded=module.excluded,
            scoring=family.scoring(settings),
            scale=family.scale(settings, side),
            changeable=tuple(sorted(family.changeable)),
            query_only_settings=tuple(sorted(family.query_only_settings)),
        )
        for side in SIDES
        if type(module := weighers.side(side)) is BagOfWords
    }


def _tokenizer_json_says_all(tokenizer: Any, folder: Path, vocabulary_size: int) -> bool:
    if not tokenizer.is_fast or not (folder / TOKENIZER).is_file():
        return False
    if tokenizer.truncation_side != "right" or tokenizer.split_special_tokens:
        return False
    alone = read_tokenizer(folder)
    known = alone.get_vocab()
    return (
        tokenizer_sha256(alone) == tokenizer_sha256(tokenizer)
        and known == tokenizer.get_vocab()
        and max(known.values()) < vocabulary_size
    )
