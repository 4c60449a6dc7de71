"""Encoded queries in the two formats of stock Pyserini: topics of repeated terms, and JSONL for ``--encoder``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from learned_sparse.collections.topics import Query
from learned_sparse.core.errors import LearnedSparseError, wrong_path
from learned_sparse.core.files import new_file
from learned_sparse.core.lines import NO_TERMS, BadLineError, check_id, text_lines, unfit_reason
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import SparseBatch
from learned_sparse.jsonvector.manifest import MANIFEST, Manifest, as_text, differences
from learned_sparse.jsonvector.reader import read_objects
from learned_sparse.jsonvector.writer import LuceneTerms, check_impacts

TOPICS = "queries.tsv"
ENCODED = "queries.jsonl"
MAX_WORDS = 2**22
"""Maximum sum of the impacts of a query in a topics file, about 30 MB of text."""
_JSON_LINES = (".jsonl", ".json", ".jsonl.gz", ".json.gz")


def write_queries(folder: Path, queries: Sequence[Query], impacts: SparseBatch, terms: LuceneTerms) -> list[str]:
    """Write ``queries.tsv`` and ``queries.jsonl`` for the rows of ``impacts``; returns warnings about stock Pyserini.

    * ``queries.tsv``, for ``--topics`` without an encoder: ``id <tab> term term ...``, each term repeated as often as
      its impact. A query without terms becomes ``NO_TERMS``, since Pyserini cannot read a topic without text.
    * ``queries.jsonl``, for ``--encoder`` with the original topics: ``{"contents": text, "vector": {...}}``. Pyserini
      looks queries up by their stripped text, so a text that occurs twice is written once.
    """
    check_impacts([query.id for query in queries], impacts, terms)
    seen: set[str] = set()
    for query in queries:
        if query.id in seen:
            raise LearnedSparseError(f"query {query.id!r} occurs twice; remove one of the two")
        seen.add(query.id)
        if any(character in query.text for character in "\t\n\r"):
            raise LearnedSparseError(f"query {query.id!r}: a topics file cannot hold the tab or line end in its text")
    rows = [impacts.row(row) for row in range(len(queries))]
    with new_file(folder / TOPICS) as temporary, temporary.open("wb") as file:
        for query, row in zip(queries, rows, strict=True):
            file.write(f"{query.id}\t{topic_text(row)}\n".encode())
    texts = {query.text.strip(): row for query, row in zip(queries, rows, strict=True)}
    with new_file(folder / ENCODED) as temporary, temporary.open("wb") as file:
        for text, row in texts.items():
            # ASCII only: Pyserini opens this file with the encoding of the locale.
            file.write(json.dumps({"contents": text, "vector": row}).encode("ascii") + b"\n")
    return renamed_ids([query.id for query in queries])


def topic_text(vector: Mapping[str, int]) -> str:
    """Terms separated by blanks, each repeated as often as its impact.

    >>> topic_text({"hives": 2, "itch": 1}), topic_text({})
    ('hives hives itch', '[no-terms]')
    """
    if (words := sum(vector.values())) > MAX_WORDS:
        raise LearnedSparseError(
            f"a topics file repeats a term as often as its impact: {words:,} words for one query, at most "
            f"{MAX_WORDS:,}; quantise with a smaller factor or fewer bits"
        )
    return " ".join(" ".join([term] * impact) for term, impact in vector.items()) or NO_TERMS


def read_topics(path: str | Path) -> dict[str, dict[str, int]]:
    """``{query id: {term: impact}}`` from a file of repeated terms, plain or gzip; an empty dict for ``NO_TERMS``.

    ``path`` may also be a folder that ``learned_sparse.encode --queries`` wrote; its files must be those that its
    manifest records.
    """
    path = Path(path, TOPICS) if Path(path).is_dir() else Path(path)
    if path.name == TOPICS and (path.parent / MANIFEST).is_file():
        Manifest.load(path.parent).check(path.parent)
    if path.name == TOPICS and path.parent.is_dir() and not path.exists():
        raise wrong_path(
            path.parent, f"encoded queries ({TOPICS} is missing)", "learned_sparse.encode --queries writes it"
        )
    topics: dict[str, dict[str, int]] = {}
    for number, line in text_lines(path):
        where = f"{path}:{number}"
        name, _, text = line.partition("\t")
        if not (tokens := text.split()) or "\t" in text:
            raise LearnedSparseError(f"{where}: expected an id, a tab, terms ({NO_TERMS} for none); got {line[:60]!r}")
        try:
            check_id(name)
        except BadLineError as error:
            raise LearnedSparseError(f"{where}: {error}") from None
        if name in topics:
            raise LearnedSparseError(f"{where}: the query id {name!r} occurs twice; remove one of the two")
        topics[name] = {} if tokens == [NO_TERMS] else dict(Counter(tokens))
        for term in topics[name]:
            if reason := unfit_reason(term):
                raise LearnedSparseError(f"{where}: term {term!r}: {reason}; encode the queries again")
    if not topics:
        raise LearnedSparseError(f"{path}: no queries")
    return topics


def read_query_vectors(path: Path, quantizer: Quantizer | None = None) -> dict[str, dict[str, int]]:
    """``{query id: {term: impact}}`` of encoded queries.

    ``path`` is what ``read_topics`` reads (terms repeated as often as their impacts), or JSON lines with ``"id"`` and
    ``"vector"``. There, ``quantizer`` turns weights into impacts; without it they have to be integers.
    """
    if not path.name.endswith(_JSON_LINES):
        if quantizer is not None:
            raise LearnedSparseError(f"{path}: repeats terms as often as their impacts; omit --quantization-factor")
        return read_topics(path)
    queries = {}
    for name, weights, _ in read_objects([path], weights=True):
        if quantizer is None and (term := next((term for term in weights if type(weights[term]) is not int), None)):
            raise LearnedSparseError(
                f"{path}: query {name!r}: {term!r} has the weight {weights[term]!r}, not an integer; give "
                "--quantization-factor (100 keeps two decimals)"
            )
        row = SparseBatch.from_dicts([weights], np.float64)
        queries[name] = (quantizer or Quantizer(1.0)).quantize(row, [name], "query")[0].row(0)
    if not queries:
        raise LearnedSparseError(f"{path}: no queries")
    return queries


def check_queries(queries: Path, vectors: Manifest) -> None:
    """Raise if encoded ``queries`` (a folder or its ``queries.tsv``) are of another model than ``vectors``.

    Does nothing if the queries have no manifest, or the manifest of the vectors has no query encoder.
    """
    queries = queries if queries.is_dir() else queries.parent
    if vectors.query_encoder is None or not (queries / MANIFEST).is_file():
        return
    sides = vectors.query_encoder, Manifest.load(queries).encoder
    keys = ("architecture", "weights_sha256", "tokenizer_sha256", "hybrid")
    if changed := differences(*({key: side.get(key) for key in keys} for side in sides)):
        raise LearnedSparseError(
            f"{queries}: not encoded by the model of the documents ({as_text(changed)}); encode the queries again"
        )


def renamed_ids(ids: Sequence[str]) -> list[str]:
    """Warnings about query ids that stock Pyserini changes because they look like numbers.

    >>> renamed_ids(["7", "007a"])
    []
    >>> renamed_ids(["007"])[0][:66]
    "stock Pyserini reads query ids made of digits as numbers: '007' be"
    """
    renamed = [name for name in ids if name.isdecimal() and str(int(name)) != name]
    return [
        f"stock Pyserini reads query ids made of digits as numbers: {name!r} becomes {int(name)} "
        f"({len(renamed)} such ids), so that its runs do not match the judgements; learned_sparse.search keeps ids"
        for name in renamed[:1]
    ]
