"""What dimensions say about texts: number of active dimensions by length, and the words that activate a dimension."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import orjson

from encoders.checkpoints import locate, read_tokenizer, tokenizer_sha256
from eval.measures import load_pieces, tokenizer_folder
from eval.report import Axis, line_chart
from learned_sparse.core.errors import LearnedSparseError, not_found
from learned_sparse.core.terms import EMPTY_TERM
from learned_sparse.jsonvector.manifest import Manifest
from learned_sparse.jsonvector.reader import numbered_lines

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MIN_LIFT = 2.0
_WORD = re.compile(r"[^\W_]+")
_WORDS = 256  # words counted at a time
_TEXTS = 1024  # texts tokenised at a time

Encoded = tuple[str, Mapping[str, int]]
"""A text and its ``{dimension: impact}``."""


@dataclass(frozen=True)
class LengthGroup:
    """Texts of similar length."""

    texts: int
    shortest: int
    """Tokens."""
    longest: int
    mean_length: float
    mean_active: float
    """Mean number of active dimensions."""


@dataclass(frozen=True)
class Word:
    """A word of queries that activate a dimension."""

    word: str
    queries: int
    """Queries that contain the word and activate the dimension."""
    lift: float
    """Share of the queries with the word that activate the dimension, divided by the share of all queries."""


@dataclass(frozen=True)
class Meaning:
    """A dimension and its words, the most characteristic first."""

    dimension: str
    queries: int
    """Queries that activate the dimension."""
    words: tuple[Word, ...]


def read_encoded(files: Iterable[Path]) -> Iterator[Encoded]:
    """Text and vector of each line of ``files``, which ``learned_sparse.encode`` wrote.

    Lines of documents and of ``queries.jsonl`` are alike.
    """
    for file in files:
        if not file.is_file():
            raise not_found(file, way_out="learned_sparse.encode writes it")
        with contextlib.closing(numbered_lines(file)) as lines:
            for number, line in lines:
                try:
                    content = orjson.loads(line)
                    vector = {term: impact for term, impact in content["vector"].items() if term != EMPTY_TERM}
                    yield str(content["contents"]), vector
                except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
                    raise LearnedSparseError(
                        f"{file}:{number}: not an encoded text ({error}); encode it again"
                    ) from None


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """Terms that a model drops from documents and adds to them: means over documents."""

    documents: int
    pieces: float
    """Distinct word pieces of the text, untruncated, without special tokens."""
    terms: float
    """Active terms."""
    dropped: float
    """Pieces of the text that are no active term."""
    added: float
    """Active terms that are no piece of the text."""


def expansion(texts: Iterable[Encoded], tokenizer: str) -> Expansion:
    """Count dropped and added terms, as SPLADE's section 3.2 reports them: 20 dropped and 32 added terms per document
    for the FLOPS of its Table 1, 34 and 5 for FLOPS 0.05, over 10,000 documents.

    The paper does not say how it counts; distinct pieces of the whole text are our reading. ``tokenizer`` is as
    ``load_pieces`` takes it.
    """
    spelling = {number: term for term, number in read_tokenizer(tokenizer_folder(tokenizer)).get_vocab().items()}
    pieces, known = load_pieces(tokenizer), set(spelling.values())
    documents = total_pieces = total_terms = kept = 0
    texts = iter(texts)
    while batch := list(itertools.islice(texts, _TEXTS)):
        for (_, vector), numbers in zip(batch, pieces([text for text, _ in batch]), strict=True):
            words = {spelling[number] for number in numbers}
            kept += len(words & vector.keys())
            total_pieces, total_terms, documents = total_pieces + len(words), total_terms + len(vector), documents + 1
            if not vector.keys() <= known:
                raise LearnedSparseError(f"a dimension is no word piece of {tokenizer}; give the model's --tokenizer")
    if not documents:
        raise LearnedSparseError("there are no documents to count terms of")
    return Expansion(
        documents=documents,
        pieces=total_pieces / documents,
        terms=total_terms / documents,
        dropped=(total_pieces - kept) / documents,
        added=(total_terms - kept) / documents,
    )


def density(texts: Iterable[Encoded], manifest: Manifest, checkpoint: str) -> list[LengthGroup]:
    """Number of active dimensions by length in tokens as the encoder reads them: with special tokens, truncated.

    ``checkpoint`` has the tokenizer, which must be the one recorded in ``manifest``. Torch is not needed.
    """
    tokenizer = read_tokenizer(locate(checkpoint))
    if tokenizer_sha256(tokenizer) != manifest.encoder.get("tokenizer_sha256", tokenizer_sha256(tokenizer)):
        raise LearnedSparseError(f"{checkpoint}: not the tokenizer of these vectors; name theirs with --checkpoint")
    tokenizer.enable_truncation(int(manifest.encoder["max_length"]))
    tokenizer.no_padding()
    lengths: list[int] = []
    active: list[int] = []
    texts = iter(texts)
    while batch := list(itertools.islice(texts, _TEXTS)):
        lengths += [len(encoding) for encoding in tokenizer.encode_batch([text for text, _ in batch])]
        active += [len(vector) for _, vector in batch]
    return by_length(lengths, active)


def by_length(lengths: Sequence[int], active: Sequence[int], groups: int = 20) -> list[LengthGroup]:
    """Divide texts by their ``lengths`` (tokens) into about ``groups`` groups of about equal size.

    Texts of equal length stay together. A length with enough texts forms a group of its own, such as the maximum length
    of truncated texts.

    >>> [(group.shortest, group.longest, group.mean_active) for group in by_length([9, 3, 3, 4], [80, 20, 40, 50], 2)]
    [(3, 3, 30.0), (4, 9, 65.0)]
    """
    tokens, terms = np.asarray(lengths, dtype=np.int64), np.asarray(active, dtype=np.int64)
    size = len(tokens) / groups
    lengths_of: list[list[int]] = []  # the lengths of each group
    texts = float("inf")  # number of texts in the last group
    for length, count in zip(*(part.tolist() for part in np.unique(tokens, return_counts=True)), strict=True):
        if texts >= size or count >= size:
            lengths_of.append([])
            texts = 0
        lengths_of[-1].append(length)
        texts += count
    return [_group(tokens, terms, of_group) for of_group in lengths_of]


def density_chart(groups: Mapping[str, Sequence[LengthGroup]], dimensions: int) -> str:
    """Mean length against mean density in per cent of ``dimensions`` as SVG, one line per kind of text."""
    lines = {
        kind: [(group.mean_length, 100 * group.mean_active / dimensions) for group in of_kind]
        for kind, of_kind in groups.items()
    }
    y = Axis(f"% of {dimensions:,} dimensions")
    return line_chart("Density of texts by length", lines, Axis("tokens of the text"), y)


def meanings(texts: Sequence[str], active: Sequence[Iterable[str]], min_queries: int = 5) -> list[Meaning]:
    """The dimensions that have characteristic words; ``active``: the dimensions of each of ``texts`` (queries).

    As in Table 7 of UHD-BERT's paper, a word must occur in ``min_queries`` queries that activate the dimension. Words
    such as "what" do so for every dimension, so the lift must also be at least ``MIN_LIFT``. Words, and dimensions by
    their first word, are ordered by ``queries * log(lift)``.
    """
    words, in_words = _incidence(set(_WORD.findall(text.lower())) for text in texts)
    dimensions, in_dimensions = _incidence(active)
    of_word = np.asarray(in_words.sum(axis=0)).ravel()
    of_dimension = np.asarray(in_dimensions.sum(axis=0)).ravel()
    scored: dict[int, list[tuple[float, Word]]] = {}
    frequent = np.flatnonzero(of_word >= min_queries)
    by_word = in_words.T.tocsr()
    for start in range(0, len(frequent), _WORDS):
        block = frequent[start : start + _WORDS]
        both = (by_word[block] @ in_dimensions).tocoo()
        lifts = both.data * len(texts) / (of_word[block][both.row] * of_dimension[both.col])
        for entry in np.flatnonzero((both.data >= min_queries) & (lifts >= MIN_LIFT)).tolist():
            word = Word(words[block[both.row[entry]]], int(both.data[entry]), float(lifts[entry]))
            score = word.queries * float(np.log(word.lift))
            scored.setdefault(int(both.col[entry]), []).append((score, word))
    ordered = []
    for dimension, of_dimension_words in scored.items():
        of_dimension_words.sort(key=lambda pair: (-pair[0], pair[1].word))
        of_words = tuple(word for _, word in of_dimension_words)
        meaning = Meaning(dimensions[dimension], int(of_dimension[dimension]), of_words)
        ordered.append((of_dimension_words[0][0], meaning))
    return [meaning for _, meaning in sorted(ordered, key=lambda pair: (-pair[0], pair[1].dimension))]


def _group(tokens: npt.NDArray[np.int64], terms: npt.NDArray[np.int64], lengths: Sequence[int]) -> LengthGroup:
    inside = (tokens >= lengths[0]) & (tokens <= lengths[-1])
    return LengthGroup(
        texts=int(np.count_nonzero(inside)),
        shortest=lengths[0],
        longest=lengths[-1],
        mean_length=float(tokens[inside].mean()),
        mean_active=float(terms[inside].mean()),
    )


def _incidence(rows: Iterable[Iterable[str]]) -> tuple[list[str], csr_array]:
    """All names, and a 0/1 matrix of shape ``(rows, names)``."""
    from scipy.sparse import csr_array

    numbers: dict[str, int] = {}
    offsets, columns = [0], []
    for row in rows:
        columns += [numbers.setdefault(name, len(numbers)) for name in sorted(row)]
        offsets.append(len(columns))
    shape = (len(offsets) - 1, len(numbers))
    return list(numbers), csr_array((np.ones(len(columns), np.int64), columns, offsets), shape=shape)
