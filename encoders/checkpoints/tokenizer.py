"""The tokenizer of a checkpoint: file, hash, vocabulary, pairs and words of texts, and what all encoders do with it.

Needs neither torch nor transformers.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import re
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from learned_sparse.core.encoder import Encoder, Word
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.lines import unfit_reason
from learned_sparse.core.records import EXPANDED, SparseBatch

if TYPE_CHECKING:
    from learned_sparse.core.reading import Entry, Reading, Share

TOKENIZER = "tokenizer.json"
SpecialTokens = Literal["none", "unknown", "separators", "all"]
"""Special tokens in a bag of words: none; [UNK] only (naver's ``clean_bow``); [UNK] and every [SEP] (uniCOIL of
Pyserini); all that the tokenizer adds."""
_UNUSED = re.compile(r"\[unused\d+\]")
_WORD_MARKS = ("Ġ", "▁")
"""First letter of a token that begins a word, of byte-level BPE and of SentencePiece."""
_LOCK = threading.Lock()
_CHUNK_SIZE = 128
"""Texts tokenized at once: the tokenizer takes about 200 bytes per token, truncated ones included."""

Prepared = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]
"""Token ids of all texts after truncation, one text after the other, special tokens included; tokens of each text,
``(texts,)``; number of truncated texts."""


def read_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer in ``tokenizer.json``, read by the package tokenizers."""
    path = folder / TOKENIZER
    if not path.is_file():
        raise LearnedSparseError(f"{path}: no such file; it is part of the checkpoint: copy it to this folder")
    try:
        return Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # tokenizers raises nothing narrower
        raise LearnedSparseError(f"{path}: not a readable tokenizer: {error}") from error


def untruncated(tokenizer: Any) -> Any:
    """A tokenizer of the package tokenizers without truncation and padding, or a copy of the one that a tokenizer of
    transformers has inside; ``InPython`` if it has none.
    """
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not isinstance(backend, Tokenizer):
        from encoders.checkpoints.in_python import InPython

        return InPython(tokenizer)
    plain = backend if backend is tokenizer else Tokenizer.from_str(backend.to_str())
    plain.no_truncation()
    plain.no_padding()
    return plain


def tokenizer_sha256(tokenizer: Any) -> str:
    """Hash of everything that decides how a tokenizer (of transformers or of tokenizers) splits text.

    Truncation and padding are left out: each user sets them.
    """
    return hashlib.sha256(untruncated(tokenizer).to_str().encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Dimension ``j`` of a weight vector is the token with id ``j``, spelled ``terms[j]`` (empty if unused)."""

    terms: Sequence[str]
    special_ids: tuple[int, ...]
    """Tokens that the tokenizer adds to text or puts in place of it: [CLS], [SEP], [PAD], [MASK] and [UNK]."""
    unknown_id: int | None
    """[UNK]: a special token, but one that represents text."""
    unused_ids: tuple[int, ...]
    """BERT's ``[unused17]`` and the like."""
    separator_id: int | None = None
    """[SEP]: ends a text, and the text that expands it."""

    def counted(self, special_tokens: SpecialTokens, *, unused: bool = True) -> list[bool]:
        """Whether each token counts; ``unused``: whether those do that no text has."""
        kept = {"unknown": {self.unknown_id}, "separators": {self.unknown_id, self.separator_id}}
        excluded = set() if unused else set(self.unused_ids)
        if special_tokens != "all":
            excluded |= set(self.special_ids) - kept.get(special_tokens, set())
        return [token not in excluded for token in range(len(self.terms))]

    @property
    def continues(self) -> list[bool]:
        """Whether each token continues a word: ``##s`` of BERT; letters without ``Ġ`` or ``▁`` of other tokenizers.

        >>> Vocabulary(["Ġlift", "s", "."], (), None, ()).continues, Vocabulary(["lift", "##s"], (), None, ()).continues
        ([False, True, False], [False, True])
        """
        if any(term.startswith(_WORD_MARKS) for term in self.terms):
            return [term[:1].isalnum() and not term.startswith(_WORD_MARKS) for term in self.terms]
        return [term.startswith("##") for term in self.terms]

    @classmethod
    def from_tokenizer(cls, tokenizer: Any, size: int, name: str = "") -> Vocabulary:
        """The ``size`` dimensions of a model's output, as ``spellings``."""
        terms = spellings(tokenizer.get_vocab(), size, name)
        special = tuple(sorted(token for token in tokenizer.all_special_ids if token < size))
        unused = tuple(token for token, term in enumerate(terms) if _UNUSED.fullmatch(term))
        return cls(terms, special, tokenizer.unk_token_id, unused, tokenizer.sep_token_id)


def spellings(vocabulary: Mapping[str, int], size: int, name: str = "") -> list[str]:
    """The terms of the ``size`` dimensions of a model, by its tokenizer's ``vocabulary``.

    A dimension without token has an empty term. Raises if a token has no dimension; ``name`` opens the message.

    >>> spellings({"wing": 2, "lift": 0}, 3)
    ['lift', '', 'wing']
    """
    terms = [""] * size
    for term, token in vocabulary.items():
        if token >= size:
            raise LearnedSparseError(
                f"{name}: the tokenizer has the token {term!r} with id {token}, the model only {size} dimensions; "
                "use the tokenizer that the model was trained with"
            )
        terms[token] = term
    return terms


def pair_of(text: str) -> str | tuple[str, str]:
    r"""``(text, expansion)`` if ``text`` carries an expansion (``Document.with_expanded``), else ``text``.

    >>> pair_of("hives"), pair_of("hives\x1fwhat are hives"), pair_of("a\x1fb\x1fc")
    ('hives', ('hives', 'what are hives'), ('a', 'b\x1fc'))
    """
    original, mark, expansion = text.partition(EXPANDED)
    return (original, expansion) if mark else original


def with_word_marks(tokenizer: Tokenizer) -> Tokenizer | None:
    """A byte-level tokenizer that treats the first word of a text as the others; None if ``tokenizer`` does already.

    Without it, a bag of words has two dimensions for a word: ``lift`` at the beginning of a text, else ``Ġlift``.
    """
    content = json.loads(tokenizer.to_str())
    first = content["pre_tokenizer"] or {}
    parts = [part for part in first.get("pretokenizers", [first]) if part.get("type") == "ByteLevel"]
    if not parts or any(part["add_prefix_space"] for part in parts):
        return None
    parts[0]["add_prefix_space"] = True
    return Tokenizer.from_str(json.dumps(content))


def tokenize_texts(tokenizer: Callable[..., Any], texts: Sequence[str], *, prompt: str = "", **options: Any) -> Any:
    """``tokenizer`` applied to ``texts``, each after ``prompt``.

    A text with expansion becomes ``[CLS] text [SEP] expansion [SEP]``.

    With ``truncation=True`` the longer part of a pair is cut first. Threads take turns: tokenizers of transformers keep
    truncation and padding as a state, which each call sets.
    """
    pairs = [pair_of(prompt + text) for text in texts]
    with _LOCK:
        return tokenizer(pairs, **options)


def word_spans(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[Word]]:
    """Words of each text in order, as an ``untruncated`` tokenizer splits them; a punctuation mark is a word."""
    words = []
    for encoding in tokenizer.encode_batch(list(texts), add_special_tokens=False):
        tokens = zip(encoding.word_ids, encoding.offsets, strict=True)
        spans = ([span for _, span in word] for _, word in itertools.groupby(tokens, key=lambda token: token[0]))
        words.append([(min(start for start, _ in word), max(end for _, end in word), len(word)) for word in spans])
    return words


class TextEncoder(Encoder):
    """A tokenizer, and what becomes of its tokens: the common part of ``BagOfWordsEncoder`` and ``CheckpointEncoder``.

    A subclass has ``encode_prepared`` and ``shares``.
    """

    top_k: int | None = None
    """Number of terms kept per text; None keeps all."""
    prompt: str = ""
    """Text before each text."""

    def __init__(self, tokenizer: Any, terms: Sequence[str], max_length: int) -> None:
        """``tokenizer``: of transformers, or of the package tokenizers, which is changed in place."""
        self.tokenizer, self.terms, self.max_length = tokenizer, terms, max_length
        self._backend = untruncated(tokenizer)
        self.tokenizer_sha256 = hashlib.sha256(self._backend.to_str().encode()).hexdigest()
        self._backend.enable_truncation(max_length, direction=getattr(tokenizer, "truncation_side", "right"))
        self._backend.encode_special_tokens = getattr(tokenizer, "split_special_tokens", False)
        self.description = {}
        self.unwritable = [number for number, term in enumerate(terms) if unfit_reason(term)]
        """Ids of terms that Lucene cannot store; their weights are left out and counted in ``SparseBatch.dropped``."""

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        """Weights of ``texts`` in order, one row each."""
        return self.encode_prepared(self.prepare(texts))

    def prepare(self, texts: Sequence[str]) -> Prepared:
        """Tokenize. Uses no device, so it may run in another thread than ``encode_prepared``."""
        tokens, lengths, truncated = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
        for start in range(0, len(texts), _CHUNK_SIZE):
            pairs = [pair_of(self.prompt + text) for text in texts[start : start + _CHUNK_SIZE]]
            encodings = self._backend.encode_batch(pairs)
            sequences = [encoding.ids for encoding in encodings]
            lengths.append(np.fromiter(map(len, sequences), np.int64, len(sequences)))
            tokens.append(np.fromiter(itertools.chain.from_iterable(sequences), np.int64, int(lengths[-1].sum())))
            truncated += sum(bool(encoding.overflowing) for encoding in encodings)
        return np.concatenate(tokens), np.concatenate(lengths), truncated

    def word_spans(self, texts: Sequence[str]) -> list[list[Word]]:
        """``(start, end, tokens)`` of each word of the untruncated ``texts``, where a long text may be cut."""
        return word_spans(self._untruncated, texts)

    @functools.cached_property
    def _untruncated(self) -> Tokenizer:
        plain: Tokenizer = untruncated(Tokenizer.from_str(self._with_positions.to_str()))
        return plain

    @property
    def _with_positions(self) -> Tokenizer:
        if not isinstance(self._backend, Tokenizer):
            raise LearnedSparseError("this tokenizer does not report token positions: save it as a tokenizer.json")
        return self._backend

    def explain(self, text: str) -> Reading:
        """Tokens and weights of ``text``, and the contribution of each token to each weight.

        Tokens of the prompt, which comes before the text, have the span (0, 0), as special tokens have.
        """
        from learned_sparse.core.reading import Reading, Sources, Token

        (encoding,), batch = self._with_positions.encode_batch([pair_of(self.prompt + text)]), self.encode([text])
        ids, terms = encoding.ids, self.terms
        shares_of, gate_of = map(_by_dimension, self.shares(ids, batch.indices))
        shift = {None: 0, 0: len(self.prompt), 1: 0}  # by sequence: special tokens, text, expansion
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
            weights={terms[n]: weights[n] for n in ordered},
            sources={terms[n]: Sources(shares=shares_of.get(n, ()), gate=gate_of.get(n, ())) for n in ordered},
        )

    @abstractmethod
    def shares(self, ids: list[int], columns: npt.NDArray[np.int32]) -> tuple[list[Entry], list[Entry]]:
        """Shares of the tokens ``ids`` in the weights ``columns``, and in the logits of their gate."""


def keep_top_k(batch: SparseBatch, k: int) -> SparseBatch:
    """The ``k`` largest values of each row; of equal values, those of the smaller term ids."""
    lengths = np.diff(batch.indptr)
    rows = np.repeat(np.arange(len(batch)), lengths)
    order = np.lexsort((batch.indices, -batch.values, rows))  # by row, then value, then term id
    rank = np.arange(len(order)) - np.repeat(batch.indptr[:-1], lengths)
    kept = np.sort(order[rank < k])
    indptr = np.concatenate([[0], np.cumsum(np.minimum(lengths, k))]).astype(np.int64)
    return replace(batch, indptr=indptr, indices=batch.indices[kept], values=batch.values[kept])


def _by_dimension(entries: Iterable[Entry]) -> dict[int, tuple[Share, ...]]:
    shares: dict[int, list[Share]] = {}
    for number, share in entries:
        shares.setdefault(number, []).append(share)
    return {number: tuple(sorted(unsorted)) for number, unsorted in shares.items()}
