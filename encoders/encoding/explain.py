"""Where the weights of one text come from: its tokens, and the share of each token in each weight."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.reading import Entry, Reading, Share, Sources, Token

if TYPE_CHECKING:
    from encoders.encoding.text_encoder import TextEncoder


def explain(encoder: TextEncoder, text: str) -> Reading:
    """Tokens and weights of ``text``, and the contribution of each token to each weight.

    Tokens of the prompt, which comes before the text, have the span (0, 0), as special tokens have.
    """
    batch, (sequences, encodings) = encoder.encode([text]), encoder.tokenize([text])
    if not encodings:
        raise LearnedSparseError("this tokenizer does not report token positions: save it as a tokenizer.json")
    encoding, (ids,), terms = encodings[0], sequences, encoder.terms
    shares_of, gate_of = map(_by_dimension, encoder.shares(ids, batch.indices))
    shift = {None: 0, 0: len(encoder.prompt), 1: 0}  # by sequence: special tokens, text, expansion
    columns = (encoding.tokens, encoding.offsets, encoding.sequence_ids, encoding.word_ids)
    tokens = []
    for token, (start, end), sequence, word in zip(*columns, strict=True):
        span = max(start - shift[sequence], 0), max(end - shift[sequence], 0)
        tokens.append(Token(token, *span, sequence, None if sequence is None else word))
    weights = dict(zip(batch.indices.tolist(), batch.values.tolist(), strict=True))
    ordered = sorted(weights, key=lambda number: (-weights[number], terms[number]))
    return Reading(
        tokens=tuple(tokens),
        truncated=bool(encoding.overflowing),
        spelled=any(id < len(terms) and terms[id] == token.text for id, token in zip(ids, tokens, strict=True)),
        weights={terms[number]: weights[number] for number in ordered},
        sources={
            terms[number]: Sources(shares=shares_of.get(number, ()), gate=gate_of.get(number, ())) for number in ordered
        },
    )


def _by_dimension(entries: Iterable[Entry]) -> dict[int, tuple[Share, ...]]:
    shares: dict[int, list[Share]] = {}
    for number, share in entries:
        shares.setdefault(number, []).append(share)
    return {number: tuple(sorted(unsorted)) for number, unsorted in shares.items()}
