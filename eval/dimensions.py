"""``python -m eval.dimensions``: which dimensions a model spends its postings on, and what they mean."""

from __future__ import annotations

import argparse
import itertools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import orjson

from encoders.checkpoints.tokenizer import read_tokenizer, tokenizer_sha256
from eval.charts import new_figure, set_scale, svg
from eval.costs import TermCounts, count_documents, count_queries, expected_flops
from eval.reproduce.plan import plan_cell
from eval.runs import load_pieces, tokenizer_folder
from eval.tables import Cell, Column, Section, format_sections, heading
from learned_sparse.core.encoder import encode_texts, load_encoder
from learned_sparse.core.errors import LearnedSparseError, run_main
from learned_sparse.core.files import new_file, write_json
from learned_sparse.core.settings import CommandParser, positive, refuse
from learned_sparse.jsonvector.manifest import Manifest, versions
from learned_sparse.jsonvector.queries import ENCODED
from learned_sparse.jsonvector.reader import by_frequency, frequent_terms, read_objects, vector_files
from learned_sparse.search.query_encoder import find_checkpoint

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_LENGTHS = 100_000  # about as many documents, evenly spaced, have their tokens counted
_QUANTILES = {"minimum": 0, "5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95, "maximum": 1}
_CHART_RANKS = 120  # points of each line of the frequency chart
MIN_LIFT = 2.0
_WORD = re.compile(r"[^\W_]+")
_BLOCK = 256  # words counted at a time
_BATCH = 1024  # texts tokenised at a time
_BINS = 20  # of the histogram of weights
_WORDS_SHOWN = 10
Encoded = tuple[str, Mapping[str, int]]
"""A text and its ``{dimension: impact}``."""
EPILOG = """\
A dimension is a term of the index: a word piece, or a latent dimension such as b12d61183 (UHD-BERT). VECTORS is the
output of learned_sparse.encode. Stop-dimensions are what learned_sparse.jsonvector prune would remove. --expansion is
for SPLADE's section 3.2; --texts for UHD-BERT's Figure 6 and Table 7, --output for Figure 5, --values for Figure 3.

examples:
  python -m eval.dimensions VECTORS
  python -m eval.dimensions msmarco-passage:SPLADE-FLOPS --column dev --expansion 10000
  python -m eval.dimensions VECTORS --queries QUERIES --texts --dimension b12d61183 --output DIR
"""


def main(argv: list[str] | None = None) -> int:
    """Count, and print tables; write them with a chart if --output is given."""
    options = _parser().parse_args(argv)
    refuse((not 0 <= options.stop_share <= 1, f"--stop-share {options.stop_share}: give a share, 0 to 1"))
    name, paths = options.vectors[0], list(map(Path, options.vectors))
    if ":" in name and not paths[0].exists():
        cell = plan_cell(name, options.column, options.data)
        *paths, options.queries = (step.output for step in cell.run.encoded)
    documents = count_documents(*paths)
    queries = count_queries(options.queries) if options.queries else None
    kinds = {"documents": documents} | ({"queries": queries} if queries else {})
    sections = [*usage_sections(kinds), stop_section(documents, queries, options.stop_share, options.top)]
    if options.expansion or options.texts or options.values:
        sections += _text_sections(options, paths, documents.texts)
    title = f"{paths[0].name}: {documents.texts:,} documents, {documents.postings:,} postings"
    title += f"; expected FLOPS {expected_flops(documents, queries):.4f}" if queries else ""
    tables = [vars(one) | {"columns": list(map(heading, one.columns))} for one in sections]
    content = {"title": title, "vectors": list(map(str, paths)), "tables": tables, "versions": versions()}
    print(format_sections(title, sections, markdown=False))
    if options.output:
        write_json(options.output / "dimensions.json", content)
        texts = {"dimensions.md": format_sections(title, sections, markdown=True), "frequency.svg": chart(kinds)}
        for file_name, text in texts.items():
            with new_file(options.output / file_name) as temporary:
                temporary.write_text(f"{text.rstrip()}\n", encoding="utf-8")
    return 0


def _text_sections(options: argparse.Namespace, paths: list[Path], documents: int) -> list[Section]:
    """What options ask for beyond counts: --expansion, --texts and --values."""
    manifest, sections = Manifest.load(paths[0]), []
    checkpoint = options.tokenizer or find_checkpoint(manifest, paths[0])
    files = [file for path in paths for file in vector_files(path)]
    if options.expansion:
        step = max(1, documents // options.expansion)
        chosen = itertools.islice(read_encoded(files), 0, step * options.expansion, step)
        sections.append(expansion_section(chosen, checkpoint))
    if options.texts:
        step = max(1, documents // _LENGTHS)
        sampled = itertools.islice(read_encoded(files), 0, None, step)
        sections.append(lengths_section("documents", sampled, manifest, checkpoint))
        if options.queries:
            lines = map(orjson.loads, (options.queries / ENCODED).read_bytes().splitlines())
            encoded = [(line["contents"], line["vector"]) for line in lines]
            sections.append(lengths_section("queries", encoded, Manifest.load(options.queries), checkpoint))
            sections.append(words_section(encoded, options.at_least, options.top, options.dimension))
    if options.values:
        sections.append(values_section(files, options.values, manifest, checkpoint))
    return sections


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="python -m eval.dimensions",
        description="Show which dimensions a model spends its postings on, and what they mean.",
        epilog=EPILOG,
    )
    add = parser.add_argument
    vectors = "encoded documents (all shards), or the row of a leaderboard, which names its queries too"
    add("vectors", nargs="+", metavar="VECTORS|MATRIX:ROW", help=vectors)
    add("--column", metavar="COLUMN", help="column of MATRIX:ROW (default: the first)")
    add("--data", type=Path, metavar="DIR", help='folder for "{data}" in the matrix (default: the data folder)')
    add("--queries", type=Path, metavar="DIR", help="encoded queries, for VECTORS")
    add("--expansion", type=positive, metavar="N", help="count terms dropped from N documents and added (SPLADE, 3.2)")
    add("--texts", action="store_true", help="dimensions by length of the text, and words of queries that activate one")
    add("--at-least", type=positive, default=5, metavar="N", help="minimum number of queries of a word: %(default)s")
    add("--dimension", action="append", default=[], metavar="NAME", help="with --texts: words of this one; repeatable")
    add("--values", type=positive, metavar="N", help="histogram of the weights of N documents (UHD-BERT, Figure 3)")
    add("--tokenizer", metavar="DIR|HUB_ID", help="present location of the model or its tokenizer (default: recorded)")
    add("--stop-share", type=float, default=0.1, metavar="X", help="stop-dimensions are in more documents: %(default)s")
    add("--top", type=positive, default=20, metavar="N", help="rows of the long tables (default: %(default)s)")
    add("--output", type=Path, metavar="DIR", help="also write dimensions.md, dimensions.json and frequency.svg there")
    return parser


def usage_sections(kinds: Mapping[str, TermCounts]) -> list[Section]:
    """Number of dimensions in use: all, those in one text only, and the most frequent with half of all postings.

    And the number of dimensions of a text: mean and quantiles (interpolated as NumPy does).
    """
    used: list[list[Cell]] = []
    lengths: list[list[Cell]] = []
    for kind, counts in kinds.items():
        frequencies = _descending(counts)
        half = int(np.searchsorted(np.cumsum(frequencies), counts.postings / 2) + 1) if len(frequencies) else 0
        once = int(np.count_nonzero(frequencies == 1))
        used.append([kind, counts.texts, counts.postings / max(1, counts.texts), len(frequencies), once, half])
        found = np.quantile(counts.lengths, list(_QUANTILES.values())).tolist()
        lengths.append([kind, float(counts.lengths.mean()), *found, int((counts.lengths == 0).sum())])
    columns: list[Column | str] = ["texts", "number", Column("active per text", 1), "dimensions in use"]
    columns += ["in one text only", "with half of all postings"]
    remarks = []
    if "queries" in kinds:
        unqueried = kinds["documents"].document_frequency.keys() - kinds["queries"].document_frequency.keys()
        remarks.append(f"{len(unqueried):,} dimensions are active in documents only.")
    of_text: list[Column | str] = ["texts", *(Column(heading, 1) for heading in ("mean", *_QUANTILES)), "empty"]
    return [
        Section("Dimensions in use", remarks, columns, used),
        Section("Dimensions per text", [], of_text, lengths),
    ]


def stop_section(documents: TermCounts, queries: TermCounts | None, limit: float, top: int) -> Section:
    """The dimensions in more than a share of the documents, which learned_sparse.jsonvector prune would remove.

    The ``top`` most frequent ones are listed. UHD-BERT's Eq. 9 gives the FLOPS if all dimensions in use
    were equally frequent: k_q k_d / n.
    """
    in_queries, texts = (queries.document_frequency, queries.texts) if queries else ({}, 1)
    removed = frequent_terms(documents.document_frequency, documents.texts, limit)
    rows: list[list[Cell]] = [
        [term, 100 * count / documents.texts, 100 * in_queries.get(term, 0) / texts if queries else None]
        for term, count in by_frequency(removed)[:top]
    ]
    remarks = [f"They have {sum(removed.values()) / max(1, documents.postings):.1%} of the postings."]
    if queries:
        total, pairs = expected_flops(documents, queries), documents.texts * texts
        less = sum(count * in_queries.get(term, 0) for term, count in removed.items()) / pairs
        equal = documents.postings * queries.postings / pairs / max(1, len(documents.document_frequency))
        remarks.append(
            f"Without them FLOPS would be {total - less:.4f} instead of {total:.4f}. UHD-BERT's Eq. 9, k_q k_d / n, "
            f"gives {equal:.4f}."
        )
    columns = [Column("dimension"), Column("% of the documents", 1), Column("% of the queries", 1)]
    title = f"Stop-dimensions: {len(removed):,} in more than {limit:.0%} of the documents"
    return Section(title, remarks, columns, rows)


def chart(kinds: Mapping[str, TermCounts]) -> str:
    """Number of texts in which the dimension of each rank is active, as SVG: a line ``line-n`` for each kind.

    The ranks shown are about equally spaced on a logarithmic axis.
    """
    with new_figure(6.4, 4.2) as (figure, panel):
        for number, (kind, counts) in enumerate(kinds.items()):
            frequencies = _descending(counts)
            ranks = np.geomspace(1, max(1, len(frequencies)), _CHART_RANKS).round().astype(int)
            ranks = np.unique(ranks)[: len(frequencies)]
            panel.plot(ranks, frequencies[ranks - 1], marker="o", markersize=3.5, label=kind, gid=f"line-{number}")
        panel.set(xlabel="rank of the dimension", ylabel="texts in which it is active")
        panel.set(title="Frequency of active dimensions")
        for axis in ("x", "y"):
            set_scale(panel, axis, logarithmic=True)
        figure.legend(loc="outside lower center", ncols=len(kinds), frameon=False)
        return svg(figure)


def _descending(counts: TermCounts) -> npt.NDArray[np.int64]:
    frequencies = np.fromiter(counts.document_frequency.values(), np.int64, len(counts.document_frequency))
    return np.sort(frequencies)[::-1]


def read_encoded(files: Iterable[Path]) -> Iterator[Encoded]:
    """Text and vector of each document in ``files``, which ``learned_sparse.encode`` wrote."""
    return ((str(content["contents"]), vector) for _, vector, content in read_objects(files))


def expansion_section(texts: Iterable[Encoded], tokenizer: str) -> Section:
    """Dropped and added terms, as SPLADE's section 3.2 reports them: 20 dropped and 32 added terms per document for
    the FLOPS of its Table 1, 34 and 5 for FLOPS 0.05, over 10,000 documents.

    The paper does not say how it counts; distinct pieces of the whole text are our reading. ``tokenizer`` is as
    ``load_pieces`` takes it.
    """
    pieces, known = load_pieces(tokenizer), read_tokenizer(tokenizer_folder(tokenizer)).get_vocab().keys()
    counts: list[tuple[int, int, int, int]] = []
    for batch in _batches(texts):
        for (_, vector), words in zip(batch, pieces([text for text, _ in batch]), strict=True):
            kept = len(words & vector.keys())
            counts.append((len(words), len(vector), len(words) - kept, len(vector) - kept))
            if not vector.keys() <= known:
                raise LearnedSparseError(f"a dimension is no word piece of {tokenizer}; give the model's --tokenizer")
    if not counts:
        raise LearnedSparseError("there are no documents to count terms of")
    columns = [Column(name, 1) for name in ("pieces of the text", "terms", "dropped", "added")]
    remark = f"Means of {len(counts):,} documents; a term is dropped if it is a piece of the text and has no weight."
    return Section("Terms dropped and added", [remark], columns, [np.mean(counts, axis=0).tolist()])


def lengths_section(kind: str, texts: Iterable[Encoded], manifest: Manifest, checkpoint: str) -> Section:
    """Number of active dimensions by length in tokens as the encoder reads them: with special tokens, truncated.

    ``checkpoint`` has the tokenizer, which must be the one recorded in ``manifest``. Torch is not needed.
    """
    tokenizer = read_tokenizer(tokenizer_folder(checkpoint))
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

    Texts of equal length stay together.

    >>> by_length([9, 3, 3, 4], [80, 20, 40, 50], 2)
    [['3', 2, 30.0], ['4–9', 2, 65.0]]
    """
    of_text, dimensions = np.array(lengths), np.array(active)
    shorter = np.searchsorted(np.sort(of_text), of_text)
    group = shorter * groups // max(1, len(of_text))
    rows: list[list[Cell]] = []
    for number in np.unique(group):
        chosen = of_text[group == number]
        name = str(chosen.min()) if chosen.min() == chosen.max() else f"{chosen.min()}–{chosen.max()}"
        rows.append([name, len(chosen), float(dimensions[group == number].mean())])
    return rows


def words_section(encoded: Sequence[Encoded], min_queries: int, top: int, names: Collection[str]) -> Section:
    """Words of the queries that activate a dimension: the ``top`` most characteristic dimensions, or those named."""
    found = meanings([text for text, _ in encoded], [vector for _, vector in encoded], min_queries)
    rows: list[list[Cell]] = [
        [dimension, queries, ", ".join(f"{word} ({number})" for word, number in words[:_WORDS_SHOWN])]
        for dimension, queries, words in ([one for one in found if one[0] in names] if names else found[:top])
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


if __name__ == "__main__":
    run_main(main)
