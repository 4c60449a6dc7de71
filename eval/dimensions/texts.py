"""What texts say about dimensions: terms dropped and added, literal scores, lengths, words, and weights."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import orjson

from encoders.checkpoints.hub import locate
from encoders.checkpoints.tokenizer import read_tokenizer, tokenizer_sha256
from eval.costs import TermCounts
from eval.runs import Judged, load_pieces, tokenizer_folder
from eval.tables import Cell, Column, Section
from learned_sparse.collections.trec import Run
from learned_sparse.core.encoder import encode_texts, load_encoder
from learned_sparse.core.errors import LearnedSparseError, not_found
from learned_sparse.core.terms import EMPTY_TERM
from learned_sparse.jsonvector.manifest import Manifest
from learned_sparse.jsonvector.reader import numbered_lines, read_vectors

if TYPE_CHECKING:
    from scipy.sparse import csr_array

KINDS = {
    (True, True): "literal in both texts",
    (True, False): "literal in the query, expanded in the document",
    (False, True): "literal in the document, expanded in the query",
    (False, False): "expanded in both",
}
"""Kind of a matched term by whether it is a word piece of the whole query, and of the whole document.

A document's expansion (docT5query) is not part of its text.
"""
MIN_LIFT = 2.0
_WORD = re.compile(r"[^\W_]+")
_BLOCK = 256  # words counted at a time
_BATCH = 1024  # texts tokenised at a time
_BINS = 20  # of the histogram of weights
_WORDS_SHOWN = 10
Encoded = tuple[str, Mapping[str, int]]
"""A text and its ``{dimension: impact}``."""
Vectors = Mapping[str, Mapping[str, int]]
Pieces = Mapping[str, Set[str]]


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


def is_index(path: Path) -> bool:
    """Whether ``path`` is a folder that Lucene wrote."""
    return next(path.glob("segments_*"), None) is not None


def only_index(paths: Sequence[Path]) -> Path:
    """The single index of ``paths``."""
    if len(paths) > 1:
        raise LearnedSparseError(f"{paths[0]}: an index; give one index at a time")
    return paths[0]


def expansion_section(texts: Iterable[Encoded], tokenizer: str) -> Section:
    """Dropped and added terms, as SPLADE's section 3.2 reports them: 20 dropped and 32 added terms per document for
    the FLOPS of its Table 1, 34 and 5 for FLOPS 0.05, over 10,000 documents.

    The paper does not say how it counts; distinct pieces of the whole text are our reading. ``tokenizer`` is as
    ``load_pieces`` takes it.
    """
    spelling = {number: term for term, number in read_tokenizer(tokenizer_folder(tokenizer)).get_vocab().items()}
    pieces, known = load_pieces(tokenizer), set(spelling.values())
    documents = total_pieces = total_terms = kept = 0
    for batch in _batches(texts):
        for (_, vector), numbers in zip(batch, pieces([text for text, _ in batch]), strict=True):
            words = {spelling[number] for number in numbers}
            kept += len(words & vector.keys())
            total_pieces, total_terms, documents = total_pieces + len(words), total_terms + len(vector), documents + 1
            if not vector.keys() <= known:
                raise LearnedSparseError(f"a dimension is no word piece of {tokenizer}; give the model's --tokenizer")
    if not documents:
        raise LearnedSparseError("there are no documents to count terms of")
    columns = [Column(name, 1) for name in ("pieces of the text", "terms", "dropped", "added")]
    remark = f"Means of {documents:,} documents; a term is dropped if it is a piece of the text and has no weight."
    means = [number / documents for number in (total_pieces, total_terms, total_pieces - kept, total_terms - kept)]
    return Section("Terms dropped and added", [remark], columns, [means])


def scores_section(
    run: Run, queries: Vectors, judged: Judged, paths: Sequence[Path], counts: TermCounts, tokenizer: str, depth: int
) -> Section:
    """Divide the scores of the ``depth`` best hits of each judged query; one pass over the collection."""
    vocabulary = read_tokenizer(tokenizer_folder(tokenizer)).get_vocab()
    if vocabulary.keys().isdisjoint(counts.document_frequency):
        raise LearnedSparseError(
            f"{paths[0]}: no dimension is a word piece of {tokenizer}, so none can be literal; give the model's "
            "--tokenizer, or omit --run for latent dimensions"
        )
    if unknown := sorted(run.keys() & judged.queries.keys() - queries.keys()):
        raise LearnedSparseError(f"query {unknown[0]!r} of the run is not among the encoded queries; encode its split")
    hits = [(query, *hit) for query, of_query in run.items() if query in judged.queries for hit in of_query[:depth]]
    ids = {document for _, document, _ in hits}
    texts = {name: document.text for name, document in judged.documents(ids).items()} if ids else {}
    spelling = {number: term for term, number in vocabulary.items()}
    pieces = load_pieces(tokenizer)

    def pieces_of(texts: Mapping[str, str]) -> dict[str, frozenset[str]]:
        numbers = pieces(list(texts.values()))
        return {name: frozenset(map(spelling.__getitem__, of)) for name, of in zip(texts, numbers, strict=True)}

    in_query = pieces_of({query: judged.queries[query] for query, _, _ in hits})
    rows = score_parts(hits, queries, _vectors_of(paths, ids), in_query, pieces_of(texts))
    columns = [Column("matched terms"), Column("% of the score", 1), Column("terms per hit", 2)]
    number = len({query for query, _, _ in hits})
    remark = f"Mean over the {len(hits):,} best hits of {number:,} queries; literal: a word piece of the text."
    return Section("Where scores come from", [remark], columns, rows)


def score_parts(
    hits: Sequence[tuple[str, str, float]], queries: Vectors, documents: Vectors, in_query: Pieces, in_document: Pieces
) -> list[list[Cell]]:
    """For each of ``KINDS`` the mean share of the score in percent, and the mean number of matched terms.

    A hit is ``(query id, document id, score)``; the score must be the dot product of its vectors.
    """
    if not hits:
        raise LearnedSparseError("the run has no hits of these queries")
    shares, terms = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0)
    for query, document, score in hits:
        vector = documents[document]
        contributions = [
            ((term in in_query[query], term in in_document[document]), impact * vector[term])
            for term, impact in queries[query].items()
            if term in vector
        ]
        total = sum(contribution for _, contribution in contributions)
        # Runs have tied scores lowered by steps of 0.000001, and Lucene's scores are 32-bit floats.
        if not math.isclose(total, score, rel_tol=1e-6, abs_tol=0.01):
            raise LearnedSparseError(
                f"query {query!r}, document {document!r}: the score is {score:g} in the run and {total:,} by these "
                "vectors; give the index and the encoded queries of this run"
            )
        for kind, contribution in contributions:
            shares[kind] += contribution / total
            terms[kind] += 1
    return [[name, 100 * shares[kind] / len(hits), terms[kind] / len(hits)] for kind, name in KINDS.items()]


def _vectors_of(paths: Sequence[Path], ids: Iterable[str]) -> Vectors:
    """Vectors of the documents ``ids``; an error if one of them is missing."""
    wanted = set(ids)
    if is_index(paths[0]):
        from learned_sparse.lucene.reader import postings_of

        vectors = postings_of(only_index(paths), wanted)
    else:
        vectors = {name: vector for path in paths for name, vector in read_vectors(path) if name in wanted}
    if missing := sorted(wanted - vectors.keys()):
        raise LearnedSparseError(
            f"{paths[0]}: {len(missing)} of {len(wanted)} documents of the run are missing (for instance "
            f"{missing[0]!r}); give the run of this index; a run of an index of segments needs --rank-segments"
        )
    return vectors


def lengths_section(kind: str, texts: Iterable[Encoded], manifest: Manifest, checkpoint: str) -> Section:
    """Number of active dimensions by length in tokens as the encoder reads them: with special tokens, truncated.

    ``checkpoint`` has the tokenizer, which must be the one recorded in ``manifest``. Torch is not needed.
    """
    tokenizer = read_tokenizer(locate(checkpoint))
    if tokenizer_sha256(tokenizer) != manifest.encoder.get("tokenizer_sha256", tokenizer_sha256(tokenizer)):
        raise LearnedSparseError(f"{checkpoint}: not the tokenizer of these vectors; name theirs with --tokenizer")
    tokenizer.enable_truncation(int(manifest.encoder["max_length"]))
    tokenizer.no_padding()
    lengths: list[int] = []
    active: list[int] = []
    for batch in _batches(texts):
        lengths += [len(encoding) for encoding in tokenizer.encode_batch([text for text, _ in batch])]
        active += [len(vector) for _, vector in batch]
    columns = [Column("tokens"), Column("texts"), Column("active dimensions", 1)]
    return Section(f"Active dimensions of {kind} by length in tokens", [], columns, by_length(lengths, active))


def by_length(lengths: Sequence[int], active: Sequence[int], groups: int = 20) -> list[list[Cell]]:
    """Range of lengths, number of texts and mean number of active dimensions of about ``groups`` equal groups of texts.

    Texts of equal length stay together. A length with enough texts forms a group of its own, such as the maximum length
    of truncated texts.

    >>> by_length([9, 3, 3, 4], [80, 20, 40, 50], 2)
    [['3', 2, 30.0], ['4–9', 2, 65.0]]
    """
    tokens, terms = np.asarray(lengths, dtype=np.int64), np.asarray(active, dtype=np.int64)
    size = len(tokens) / groups
    ends: list[list[int]] = []  # the shortest and the longest length of each group
    texts = math.inf  # number of texts in the last group
    for length, count in zip(*(part.tolist() for part in np.unique(tokens, return_counts=True)), strict=True):
        if texts >= size or count >= size:
            ends.append([length, length])
            texts = 0
        ends[-1][1] = length
        texts += count
    rows: list[list[Cell]] = []
    for low, high in ends:
        inside = (tokens >= low) & (tokens <= high)
        name = str(low) if low == high else f"{low}–{high}"
        rows.append([name, int(np.count_nonzero(inside)), float(terms[inside].mean())])
    return rows


def words_section(encoded: Sequence[Encoded], min_queries: int, top: int, names: Collection[str]) -> Section:
    """Words of the queries that activate a dimension: the ``top`` most characteristic dimensions, or those named."""
    found = meanings([text for text, _ in encoded], [vector for _, vector in encoded], min_queries)
    shown = [entry for entry in found if entry[0] in names] if names else found[:top]
    rows: list[list[Cell]] = [
        [dimension, queries, ", ".join(f"{word} ({number})" for word, number in words[:_WORDS_SHOWN])]
        for dimension, queries, words in shown
    ]
    columns = ["dimension", "queries", "words"]
    title = "Words of the queries that activate a dimension"
    return Section(title, ["In brackets: number of queries."], columns, rows)


def meanings(
    texts: Sequence[str], active: Sequence[Iterable[str]], min_queries: int = 5
) -> list[tuple[str, int, list[tuple[str, int]]]]:
    """Dimension, number of its queries, and its words with their numbers of queries, the most characteristic first.

    ``active``: the dimensions of each of ``texts`` (queries). As in Table 7 of UHD-BERT's paper, a word must occur in
    ``min_queries`` queries that activate the dimension. Words such as "what" do so for every dimension, so the lift
    must also be at least ``MIN_LIFT``: the share of the queries with the word that activate the dimension, divided by
    the share of all queries. Words, and dimensions by their first word, are ordered by ``queries * log(lift)``.
    """
    words, in_words = _incidence(set(_WORD.findall(text.lower())) for text in texts)
    dimensions, in_dimensions = _incidence(active)
    of_word = np.asarray(in_words.sum(axis=0)).ravel()
    of_dimension = np.asarray(in_dimensions.sum(axis=0)).ravel()
    scored: dict[int, list[tuple[float, str, int]]] = {}
    frequent = np.flatnonzero(of_word >= min_queries)
    by_word = in_words.T.tocsr()
    for start in range(0, len(frequent), _BLOCK):
        block = frequent[start : start + _BLOCK]
        both = (by_word[block] @ in_dimensions).tocoo()
        lifts = both.data * len(texts) / (of_word[block][both.row] * of_dimension[both.col])
        for entry in np.flatnonzero((both.data >= min_queries) & (lifts >= MIN_LIFT)).tolist():
            number, word = int(both.data[entry]), words[block[both.row[entry]]]
            scored.setdefault(int(both.col[entry]), []).append((-number * math.log(lifts[entry]), word, number))
    ordered = sorted((min(of), dimensions[place], place) for place, of in scored.items())
    return [
        (name, int(of_dimension[place]), [(word, number) for _, word, number in sorted(scored[place])])
        for _, name, place in sorted(ordered, key=lambda entry: (entry[0][0], entry[1]))
    ]


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


def values_section(files: Iterable[Path], count: int, manifest: Manifest, checkpoint: str) -> Section:
    """Histogram of the weights of the first ``count`` documents before quantisation, encoded again with their settings.

    UHD-BERT's Figure 3 has mean 0.11169 and deviation 0.00182. SparTerm (section 5.3) finds the weights of one model
    sharper than those of another: the mean Gini coefficient of a document's weights compares two models.
    """
    recorded = manifest.encoder
    options = {name: recorded[name] for name in ("max_length", "dtype", "top_k") if recorded.get(name) is not None}
    encoder = load_encoder(checkpoint, "document", settings=dict(recorded.get("settings", {})), **options)
    texts = [text for text, _ in itertools.islice(read_encoded(files), count)]
    parts = [encode_texts(encoder, texts[start : start + 256]) for start in range(0, len(texts), 256)]
    weights = np.concatenate([np.asarray(part.values, np.float64) for part in parts] or [np.empty(0)])
    if not len(weights):
        raise LearnedSparseError("no document has an active dimension")
    counts, edges = np.histogram(weights, bins=_BINS)
    rows = [list(row) for row in zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)]
    of_documents = (np.split(part.values, part.indptr[1:-1]) for part in parts)
    inequality = np.mean([gini(document) for part in of_documents for document in part if len(document)])
    remark = f"{len(weights):,} weights of {len(texts):,} documents: mean {weights.mean():.5f}, deviation "
    remarks = [
        f"{remark}{weights.std():.5f}.",
        f"Gini coefficient of a document's weights, on average: {inequality:.3f}.",
    ]
    columns = [Column("from", 5), Column("to", 5), Column("weights")]
    return Section("Weights before quantisation", remarks, columns, rows)


def gini(weights: npt.NDArray[Any]) -> float:
    """Gini coefficient of positive ``weights``: 0 if all are equal, nearly 1 if one has almost everything.

    >>> gini(np.array([2.0, 2.0])), gini(np.array([1.0, 3.0]))
    (0.0, 0.25)
    """
    ranks = np.arange(1, len(weights) + 1)
    return float((2 * ranks - len(weights) - 1) @ np.sort(weights) / (len(weights) * weights.sum()))


def _batches(texts: Iterable[Encoded]) -> Iterator[list[Encoded]]:
    texts = iter(texts)
    while batch := list(itertools.islice(texts, _BATCH)):
        yield batch
