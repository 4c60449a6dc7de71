"""Files of training examples, read by line: triples in TSV, and JSON lines as other trainers publish them.

A teacher's scores of (query, document) pairs are read here too, by id: TREC runs, TSV or Parquet.
"""

from __future__ import annotations

import itertools
import logging
import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from encoders.training.examples import Example, Examples, fingerprint, query_key, text_key
from encoders.training.recipe import Negatives, Source
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import sha256
from learned_sparse.core.lazy import import_extra
from learned_sparse.core.lines import BadLineError, decode, json_object, read_lines, text_lines

_COLUMNS = (("query_id", "qid", "query-id"), ("doc_id", "docid", "pid", "corpus-id", "passage_id"), ("score",))
_LARGEST = float(np.finfo(np.float32).max)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FORMS = "query, pos, neg (BGE); query, positive_passages, negative_passages (Tevatron); qid, pos, neg by system"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a query with its positives, then its negatives, all texts or all ids."""

    query: str
    documents: tuple[str, ...]
    positives: int
    """How many of ``documents`` are positives; the others are negatives."""
    scores: tuple[float, ...]
    """A teacher's scores of ``documents``; empty: none."""


class ExampleFile(Examples):
    """One example a line, read by line number; only offset and query key of each line are in memory (16 bytes).

    ``*.tsv``: MS MARCO triples ``query TAB positive TAB negative``, also with a teacher's scores of positive and
    negative as two columns before them. ``*.jsonl``: lines with any number of positives and negatives, as BGE, Tevatron
    and sentence-transformers publish them; an example has one of the positives. With ``queries`` and ``texts`` the
    lines hold ids, otherwise the texts themselves. Empty texts are left out: there is nothing to learn from them.
    """

    def __init__(
        self,
        source: Source,
        settings: Negatives,
        *,
        queries: Mapping[str, str] | None = None,
        texts: Mapping[str, str] | None = None,
        scores: TeacherScores | None = None,
    ) -> None:
        """``source`` names the file; ``scores``: a teacher's, by id."""
        path = source.examples or Path()
        self.source, self.name = source, path.stem
        self._path, self._queries, self._texts, self._scores = path, queries, texts, scores
        self.settings, self.scored = checked(path, settings), scores is not None
        self.offsets, self.keys, empty = self._index()
        if empty:
            unscored = " or without a score" if scores is not None else ""
            _logger.warning("%s: left out %d triples with an empty text%s", path, empty, unscored)
        if not len(self):
            raise LearnedSparseError(f"{path}: no triples")
        self._file = path.open("rb")
        by_id = [] if texts is None else [fingerprint(itertools.chain.from_iterable(texts.items()))]
        by_id += [] if scores is None else [scores.fingerprint]
        self.fingerprint = fingerprint([sha256(path), *(queries or {}).items(), *by_id])

    def _index(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], int]:
        """The offset and the query key of each line that can be used, and the number of the other ones.

        Three known ids are the common case: MS MARCO has 40 million such lines, and ``_usable`` is ten times slower.
        """
        offsets, keys, offset, empty = array("q"), array("Q"), 0, 0
        texts, key_of, blank = self._texts or (), dict[str, int](), set[str]()
        if self._queries is not None and self._texts is not None and self._scores is None:
            key_of = {id: query_key(text) for id, text in self._queries.items() if text.strip()}
            blank = {id for id, text in self._texts.items() if not text.strip()}
        for number, content in read_lines(self._path, raw=True):
            if (
                key_of
                and not self.scored
                and len(ids := content.decode("utf-8", "surrogateescape").rstrip("\n").split("\t")) == 3
            ):
                query, first, second = ids
                if query in key_of and first in texts and second in texts and not {first, second} & blank:
                    offsets.append(offset)
                    keys.append(key_of[query])
                    offset += len(content)
                    continue
            line = self._usable(content, f"{self._path}:{number}") if content.strip() else None
            if line is not None:
                if offsets and bool(line.scores) != self.scored:
                    raise LearnedSparseError(f"{self._path}:{number}: a teacher's scores are in some lines only")
                self.scored = bool(line.scores)
                offsets.append(offset)
                keys.append(query_key(self._query(line)))
            elif content.strip():
                empty += 1
            offset += len(content)
        return np.array(offsets), np.array(keys), empty

    def __len__(self) -> int:
        return len(self.offsets)

    def query_keys(self) -> npt.NDArray[np.uint64]:
        return self.keys

    def judged(self, index: int) -> tuple[str, list[str]]:
        line = self._line(index)
        return self._query(line), [self._text(document) for document in line.documents[: line.positives]]

    def subset(self, chosen: npt.NDArray[np.bool_]) -> Self:
        new = super().subset(chosen)
        new.offsets, new.keys = self.offsets[chosen], self.keys[chosen]
        return new

    def draw_by(self, settings: Negatives) -> None:
        super().draw_by(checked(self._path, settings))

    def _line(self, index: int) -> Line:
        self._file.seek(int(self.offsets[index]))
        line = self._usable(self._file.readline(), f"{self._path}: line of example {index + 1}")
        if line is None:
            raise LearnedSparseError(f"{self._path}: the file has changed since training began; start again")
        return line

    def get(self, index: int, rng: np.random.Generator) -> Example:
        """Example ``index``, from 0; ``rng`` draws one of several positives, and the negatives."""
        line, count = self._line(index), self.settings.per_query
        at = int(rng.integers(line.positives)) if line.positives > 1 else 0
        usable = list(range(line.positives, len(line.documents)))
        if self.settings.margin is not None:  # negatives that score more are likely relevant
            limit = line.scores[at] - self.settings.margin
            usable = [number for number in usable if line.scores[number] <= limit]
        chosen = usable if len(usable) == count else rng.permutation(usable)[:count].tolist()
        texts, missing = [self._text(document) for document in line.documents], count - len(chosen)
        relevant = frozenset(map(text_key, texts[: line.positives]))
        negatives = (*(texts[number] for number in chosen), *(self._random_text(relevant, rng) for _ in range(missing)))
        scores = (*(line.scores[number] for number in (at, *chosen)), *(math.nan,) * missing) if line.scores else ()
        return Example(self._query(line), texts[at], negatives, relevant, scores)

    def _random_text(self, relevant: frozenset[int], rng: np.random.Generator) -> str:
        """A positive of another line, for a query with too few negatives."""
        for _ in range(100):
            text = self._text(self._line(int(rng.integers(len(self)))).documents[0])
            if text_key(text) not in relevant:
                return text
        raise LearnedSparseError(f"{self._path}: 100 lines drawn at random have the same positive; nothing to learn")

    def _query(self, line: Line) -> str:
        return line.query if self._queries is None else self._queries[line.query]

    def _text(self, document: str) -> str:
        return document if self._texts is None else self._texts[document]

    def _usable(self, content: bytes, where: str) -> Line | None:
        """The line without empty texts, and without documents that a teacher by id has not scored; None if too little.

        ``where`` opens error messages.
        """
        try:
            adapter = _of_json if self._path.suffix == ".jsonl" else _of_columns
            query, positives, negatives, scores = adapter(content)
        except BadLineError as error:
            raise LearnedSparseError(f"{where}: {error}") from None
        query, *documents = (str(text).strip() for text in (query, *positives, *negatives))
        scores = [finite(score, where) for score in scores]
        if self._texts is not None and self._queries is not None:
            for kind, ids, known in (("query", [query], self._queries), ("document", documents, self._texts)):
                if missing := next((id for id in ids if id not in known), None):
                    raise LearnedSparseError(f"{where}: {kind} {missing!r} is not in the collection")
        if self._scores is not None:
            scores = self._scores.of(query, documents).tolist()
        kept = [bool(self._text(text).strip()) for text in documents]
        if scores:
            kept = [has_text and not math.isnan(score) for has_text, score in zip(kept, scores, strict=True)]
        relevant, usable = sum(kept[: len(positives)]), tuple(itertools.compress(documents, kept))
        line = Line(query, usable, relevant, tuple(itertools.compress(scores, kept)))
        too_few = relevant == 0 or (relevant == len(usable) and self._path.suffix == ".tsv")
        return None if too_few or not self._query(line).strip() else line


def checked(path: Path, settings: Negatives) -> Negatives:
    """``settings``; raise if triples cannot give such negatives."""
    if path.suffix == ".gz":
        raise LearnedSparseError(f"{path}: triples are read by line number; unpack the file first (gunzip)")
    if settings.kind != "given":
        raise LearnedSparseError(f"{path}: the file has its own negatives; set negatives: kind: given")
    if settings.per_query > 1 and path.suffix == ".tsv":
        raise LearnedSparseError(f"{path}: triples have one negative per query; set negatives: per_query: 1")
    return settings


def _of_columns(content: bytes) -> tuple[Any, ...]:
    """Query, positives, negatives and scores of three columns, or of five with the scores first."""
    columns = [column.strip() for column in decode(content.removeprefix(_BYTE_ORDER_MARK)).split("\t")]
    if len(columns) not in (3, 5):
        raise BadLineError(
            f"{len(columns)} columns; expected query, positive, negative between tabs, "
            "or before them the teacher's scores of positive and negative"
        )
    *scores, query, positive, negative = columns
    return query, [positive], [negative], scores


def _of_json(content: bytes) -> tuple[Any, ...]:
    """Query, positives, negatives and scores of one of the three published forms."""
    record, scores, systems = json_object(content.removeprefix(_BYTE_ORDER_MARK)), list[Any](), list[Any]()
    try:
        if "positive_passages" in record:
            query, keys = record["query"], ("positive_passages", "negative_passages")
            positives, negatives = ([f"{p.get('title') or ''} " + p["text"] for p in record[key]] for key in keys)
        elif "qid" in record and isinstance(record["neg"], dict):  # each negative once, whatever systems found it
            query, positives, systems = record["qid"], record["pos"], list(record["neg"].values())
            negatives = list(dict.fromkeys(id for ids in systems for id in ids))
        else:
            query, positives, negatives = record["query"], record["pos"], record["neg"]
            if record.get("pos_scores") is not None or record.get("neg_scores") is not None:
                scores = [*record["pos_scores"], *record["neg_scores"]]
                if len(record["pos_scores"]) != len(positives) or len(scores) != len(positives) + len(negatives):
                    raise BadLineError("pos_scores and neg_scores are not as long as pos and neg")
        lists = all(isinstance(texts, list) for texts in (positives, negatives, *systems))
        if not lists or not all(isinstance(text, str | int) for text in (query, *positives, *negatives)):
            raise TypeError("texts are text, and in lists")
    except (AttributeError, KeyError, TypeError) as error:
        raise BadLineError(f"not of a known form ({type(error).__name__}: {error}); expected {_FORMS}") from None
    return query, positives, negatives, scores


class TeacherScores:
    """The scores in a file, or in all files of a folder; 12 bytes a pair in memory.

    Lines hold ``query document score``, or the six columns of a TREC run; ``*.gz`` is read too. Parquet has columns
    named like ``qid``, ``pid``, ``score``. A pair that has two different scores is an error.
    """

    def __init__(self, path: Path) -> None:
        keys, scores = array("Q"), array("f")
        files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
        for file in files:
            for query, document, score in (_of_parquet if file.suffix == ".parquet" else _of_lines)(file):
                keys.append(_pair_key(query, document))
                scores.append(score)
        if not keys:
            raise LearnedSparseError(f"{path}: no scores")
        order = np.argsort(np.frombuffer(keys, np.uint64), kind="stable")
        self._keys, self._scores = np.frombuffer(keys, np.uint64)[order], np.frombuffer(scores, np.float32)[order]
        same = (self._keys[1:] == self._keys[:-1]) & (self._scores[1:] != self._scores[:-1])
        if same.any():
            raise LearnedSparseError(f"{path}: a query and a document have two scores; keep one of them")
        self.fingerprint = fingerprint(map(sha256, files))

    def __len__(self) -> int:
        return len(self._keys)

    def of(self, query: str, documents: Sequence[str]) -> npt.NDArray[np.float64]:
        """The scores of ``documents`` for ``query``, (documents,); NaN where there is none."""
        keys = np.fromiter((_pair_key(query, document) for document in documents), np.uint64, len(documents))
        rows = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[rows] == keys, self._scores[rows].astype(np.float64), math.nan)


def finite(value: object, where: str) -> float:
    """A score; ``LearnedSparseError`` if it is no finite number, also in fp32."""
    try:
        score = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not abs(score) <= _LARGEST:
        raise LearnedSparseError(f"{where}: score {str(value)[:40]!r} is not a finite number (of fp32)")
    return score


def _pair_key(query: str, document: str) -> int:
    return text_key(f"{query}\t{document}")


def _of_lines(file: Path) -> Iterator[tuple[str, str, float]]:
    for number, line in text_lines(file):
        columns = line.split()
        if len(columns) not in (3, 6):
            raise LearnedSparseError(
                f"{file}:{number}: {len(columns)} columns; expected query, document, score, or the six columns of a "
                "TREC run"
            )
        query, document, score = columns if len(columns) == 3 else (columns[0], columns[2], columns[4])
        yield query, document, finite(score, f"{file}:{number}")


def _of_parquet(file: Path) -> Iterator[tuple[str, str, float]]:
    pyarrow, parquet = (import_extra(name, "parquet") for name in ("pyarrow", "pyarrow.parquet"))
    try:
        opened = parquet.ParquetFile(file)
    except (OSError, pyarrow.ArrowException) as error:
        raise LearnedSparseError(f"{file}: not readable as Parquet ({error})") from error
    names = opened.schema_arrow.names
    columns = [next((name for name in known if name in names), "") for known in _COLUMNS]
    if "" in columns:
        expected = "; ".join(" or ".join(known) for known in _COLUMNS)
        raise LearnedSparseError(f"{file}: columns {', '.join(names)}; expected {expected}")
    for batch in opened.iter_batches(columns=columns):
        for query, document, score in zip(*(batch.column(name).to_pylist() for name in columns), strict=True):
            yield str(query), str(document), finite(score, f"{file}: query {query}, document {document}")
