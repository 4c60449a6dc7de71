"""Training examples in files, read by line: triples in TSV, and JSON lines as other trainers publish them."""

from __future__ import annotations

import hashlib
import itertools
import logging
import math
from array import array
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Collection as Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from encoders.training.data.examples import Example, Judged
from encoders.training.data.id_triples import checked
from encoders.training.data.scores import TeacherScores, finite
from encoders.training.data.texts import TextStore, query_key, text_key
from encoders.training.recipe import Negatives
from learned_sparse.collections.lines import BadLineError, json_object
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.lines import raw_lines

_BYTE_ORDER_MARK = "\ufeff"
_FORMS = "query, pos, neg (BGE); query, positive_passages, negative_passages (Tevatron); qid, pos, neg by system"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a query with its positives and negatives, all texts or all ids."""

    query: str
    positives: tuple[str, ...]
    negatives: tuple[str, ...]
    scores: tuple[float, ...] = ()
    """A teacher's scores of the positives, then of the negatives; empty: none."""

    def without_empty(self) -> Line:
        """The line without documents that are empty texts."""
        documents = (*self.positives, *self.negatives)
        if all(documents):
            return self
        scores = tuple(score for score, text in zip(self.scores, documents, strict=False) if text)
        return Line(self.query, tuple(filter(None, self.positives)), tuple(filter(None, self.negatives)), scores)


class ExampleFile:
    """One example a line, read by line number; only offset and query key of each line are in memory (16 bytes).

    ``*.tsv``: MS MARCO triples ``query TAB positive TAB negative``, also with a teacher's scores of positive and
    negative as two columns before them. ``*.jsonl``: lines with any number of positives and negatives, as BGE, Tevatron
    and sentence-transformers publish them; an example has one of the positives. With ``queries`` and ``texts`` the
    lines hold ids, otherwise the texts themselves. Empty texts are left out: there is nothing to learn from them.
    ``empty`` counts the lines that cannot be used for that reason.
    """

    def __init__(
        self,
        path: Path,
        settings: Negatives,
        *,
        systems: Sequence[str] = (),
        queries: Mapping[str, str] | None = None,
        texts: TextStore | None = None,
        scores: TeacherScores | None = None,
    ) -> None:
        """``systems``: of negatives by system, those to use. ``scores``: a teacher's, by id."""
        self._path, self._queries, self._texts, self._scores = path, queries, texts, scores
        self._parse = line_parser(path, systems)
        self._settings = checked(path, settings)
        self.empty, few, self.scored = 0, 0, scores is not None
        self._offsets, self._keys = array("q"), array("Q")
        offset, digest = 0, hashlib.blake2b(digest_size=16)
        for number, content in _lines(path):
            if content.strip():
                where = f"{path}:{number}"
                line = self._usable(self._parse(content, where))
                if line is None:
                    self.empty += 1
                elif len(line.negatives) < settings.count and settings.short == "drop":
                    few += 1
                else:
                    self._add(line, offset, where)
            offset += len(content)
            digest.update(content)
        if self.empty:
            unscored = " or without a score" if scores is not None else ""
            _logger.warning("%s: left out %d triples with an empty text%s", path, self.empty, unscored)
        if few:
            _logger.warning("%s: left out %d queries with fewer than %d negatives", path, few, settings.count)
        if not self._offsets:
            raise LearnedSparseError(f"{path}: no triples")
        if queries is not None and texts is not None:
            lines = (f"{name}\t{text}" for name, text in queries.items())
            digest.update("\n".join(lines).encode("utf-8", "surrogatepass"))
            digest.update(texts.fingerprint().encode())
        if scores is not None:
            digest.update(scores.fingerprint.encode())
        self.fingerprint = digest.hexdigest()
        self._file = path.open("rb")

    def _add(self, line: Line, offset: int, where: str) -> None:
        if self._offsets and bool(line.scores) != self.scored and self._scores is None:
            raise LearnedSparseError(f"{where}: some lines have a teacher's scores and others have none")
        self.scored = self.scored or bool(line.scores)
        self._offsets.append(offset)
        self._keys.append(query_key(line.query) if self._queries is None else text_key(line.query))

    def __len__(self) -> int:
        return len(self._offsets)

    def query_keys(self) -> Iterable[int]:
        keys: list[int] = np.unique(np.frombuffer(self._keys, np.uint64)).tolist()
        return keys

    def judged(self, keys: Container[int]) -> Judged:
        queries: dict[str, str] = {}
        positives: dict[str, dict[str, None]] = {}
        for index, key in enumerate(self._keys):
            if key in keys:
                line = self._line(index)
                id = f"{key:016x}" if self._queries is None else line.query
                queries.setdefault(id, line.query if self._queries is None else self._queries[line.query])
                positives.setdefault(id, {}).update(dict.fromkeys(line.positives))
        relevant = {id: list(documents) for id, documents in positives.items()}
        return Judged(queries, relevant, texts=self._queries is None)

    def without(self, keys: Container[int], texts: Container[int]) -> ExampleFile:
        by_text = {text_key(id) for id, text in (self._queries or {}).items() if query_key(text) in texts}
        new: ExampleFile = object.__new__(ExampleFile)
        new.__dict__.update(self.__dict__)
        new._offsets, new._keys = array("q"), array("Q")
        for offset, key in zip(self._offsets, self._keys, strict=True):
            if not (key in keys or key in by_text or (self._queries is None and key in texts)):
                new._offsets.append(offset)
                new._keys.append(key)
        new.fingerprint = hashlib.blake2b(new._offsets, key=self.fingerprint.encode(), digest_size=16).hexdigest()
        return new

    def drawing(self, settings: Negatives) -> ExampleFile:
        """The same examples with negatives drawn by ``settings``; ``short`` stays as it was when the file was read."""
        if settings.margin is not None and not self.scored:
            raise LearnedSparseError(f"{self._path}: negatives: margin needs a teacher's scores; the file has none")
        new: ExampleFile = object.__new__(ExampleFile)
        new.__dict__.update(self.__dict__, _settings=checked(self._path, settings))
        return new

    def _line(self, index: int) -> Line:
        self._file.seek(self._offsets[index])
        where = f"{self._path}: line of example {index + 1}"
        line = self._usable(self._parse(self._file.readline(), where))
        if line is None:
            raise LearnedSparseError(f"{self._path}: the file has changed since training began; start again")
        return line

    def get(self, index: int, rng: np.random.Generator) -> Example:
        """Example ``index``, from 0; ``rng`` draws one of several positives, and the negatives."""
        line, count = self._line(index), self._settings.count
        at = int(rng.integers(len(line.positives))) if len(line.positives) > 1 else 0
        usable = self._below_margin(line, at)
        chosen = usable if len(usable) == count else rng.permutation(usable)[:count].tolist()
        relevant = frozenset(text_key(self._text(document)) for document in line.positives)
        negatives = [self._text(line.negatives[number]) for number in chosen]
        negatives += [self._random_text(relevant, rng) for _ in range(count - len(chosen))]
        scores: tuple[float, ...] = ()
        if line.scores:  # NaN for texts drawn at random
            positions = (at, *(len(line.positives) + number for number in chosen))
            scores = (*(line.scores[number] for number in positions), *(math.nan,) * (count - len(chosen)))
        query = line.query if self._queries is None else self._queries[line.query]
        return Example(query, self._text(line.positives[at]), tuple(negatives), relevant, scores)

    def _below_margin(self, line: Line, positive: int) -> list[int]:
        """Positions of the negatives that are likely not relevant."""
        numbers, first = list(range(len(line.negatives))), len(line.positives)
        if self._settings.margin is None:
            return numbers
        limit = line.scores[positive] - self._settings.margin
        return [number for number in numbers if line.scores[first + number] <= limit]

    def _random_text(self, relevant: frozenset[int], rng: np.random.Generator) -> str:
        """A positive of another line, for a query with too few negatives."""
        for _ in range(100):
            text = self._text(self._line(int(rng.integers(len(self)))).positives[0])
            if text_key(text) not in relevant:
                return text
        raise LearnedSparseError(f"{self._path}: 100 lines drawn at random have the same positive; nothing to learn")

    def _text(self, document: str) -> str:
        return document if self._texts is None else self._texts[document]

    def _usable(self, line: Line) -> Line | None:
        """``line`` without empty texts, and without documents that a teacher by id has not scored; None if too little.

        An id that is unknown raises ``KeyError``: the ids were compared with the collection before.
        """
        texts, queries = self._texts, self._queries
        if texts is None or queries is None:
            line, query = line.without_empty(), line.query
        else:
            query = queries[line.query]
            kept = [tuple(id for id in ids if not texts.is_empty(id)) for ids in (line.positives, line.negatives)]
            line = Line(line.query, kept[0], kept[1], line.scores)
        if self._scores is not None:
            line = _scored(line, self._scores)
        is_triple = self._path.suffix == ".tsv"
        return line if query.strip() and line.positives and (line.negatives or not is_triple) else None


def _scored(line: Line, teacher: TeacherScores) -> Line:
    """``line`` with the scores of ``teacher``, without the documents that have none."""
    scores = teacher.of(line.query, (*line.positives, *line.negatives))
    known, first = np.isfinite(scores), len(line.positives)
    positives = tuple(itertools.compress(line.positives, known))
    negatives = tuple(itertools.compress(line.negatives, known[first:]))
    return Line(line.query, positives, negatives, tuple(scores[known].tolist()))


def line_parser(path: Path, systems: Sequence[str] = ()) -> Callable[[bytes, str], Line]:
    """``(line, where)`` to a ``Line``, by the extension of ``path``; ``where`` opens error messages."""
    if path.suffix == ".jsonl":
        return lambda line, where: _of_json(line, where, systems)
    return lambda line, where: _of_columns(line, where)


def ids_of(path: Path, systems: Sequence[str] = ()) -> tuple[set[str], set[str]]:
    """The ids of queries and of documents in a file of ids."""
    queries: set[str] = set()
    documents: set[str] = set()
    parse = line_parser(path, systems)
    for number, content in _lines(path):
        if content.strip():
            line = parse(content, f"{path}:{number}")
            queries.add(line.query)
            documents.update(line.positives, line.negatives)
    return queries, documents


def check_known(path: Path, kind: str, ids: Sized[str], known: Container[str]) -> None:
    """Raise if one of ``ids`` is not in ``known``."""
    missing = [id for id in ids if id not in known]
    if missing:
        raise LearnedSparseError(f"{path}: {kind} {missing[0]!r} is not in the collection ({len(missing)} in all)")


def check_exists(path: Path) -> None:
    """Raise if ``path`` is compressed or no file."""
    if path.suffix == ".gz":
        raise LearnedSparseError(f"{path}: triples are read by line number; unpack the file first (gunzip)")
    if not path.exists():
        raise LearnedSparseError(f"{path}: no such file; name your triples with --data FILE.tsv")


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    check_exists(path)
    return raw_lines(path)


def _of_columns(content: bytes, where: str) -> Line:
    """Three columns, or five with the scores first, without white space at their ends."""
    try:
        columns = [column.strip() for column in content.decode("utf-8").lstrip(_BYTE_ORDER_MARK).split("\t")]
    except UnicodeDecodeError as error:
        raise LearnedSparseError(f"{where}: not UTF-8 ({error.reason}); convert the file to UTF-8") from None
    if len(columns) not in (3, 5):
        raise LearnedSparseError(
            f"{where}: {len(columns)} columns; expected query, positive, negative between tabs, "
            "or before them the teacher's scores of positive and negative"
        )
    *scores, query, positive, negative = columns
    return Line(query, (positive,), (negative,), tuple(finite(score, where) for score in scores))


def _of_json(content: bytes, where: str, systems: Sequence[str]) -> Line:
    """One of the three published forms."""
    try:
        record = json_object(content.removeprefix(b"\xef\xbb\xbf"))
        if "positive_passages" in record:
            query = _string(record, "query")
            return Line(query, _passages(record, "positive_passages"), _passages(record, "negative_passages"))
        if "qid" in record and isinstance(record.get("neg"), dict):
            return Line(_id(record["qid"]), _ids(record, "pos"), _by_system(record["neg"], systems))
        if "query" in record and "pos" in record:
            return _scored_texts(record, where)
    except BadLineError as error:
        raise LearnedSparseError(f"{where}: {error}") from None
    raise LearnedSparseError(f"{where}: keys {', '.join(sorted(record))[:80]}; expected {_FORMS}")


def _scored_texts(record: Mapping[str, Any], where: str) -> Line:
    """A line of BGE's: ``pos_scores`` and ``neg_scores`` may be absent."""
    positives, negatives = _strings(record, "pos"), _strings(record, "neg")
    given = [record.get(key) for key in ("pos_scores", "neg_scores")]
    if all(scores is None for scores in given):
        return Line(_string(record, "query"), positives, negatives)
    for key, texts, scores in zip(("pos_scores", "neg_scores"), (positives, negatives), given, strict=True):
        if not isinstance(scores, list) or len(scores) != len(texts):
            raise BadLineError(f"{key} is not a list of {len(texts)} scores")
    scores = tuple(finite(score, where) for scores in given for score in scores or ())
    return Line(_string(record, "query"), positives, negatives, scores)


def _passages(record: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Texts of Tevatron's passages, each with its title before it."""
    passages = record.get(key)
    if not isinstance(passages, list) or not all(isinstance(passage, dict) for passage in passages):
        raise BadLineError(f"{key} is not a list of passages")
    return tuple(f"{passage.get('title') or ''} {_string(passage, 'text')}".strip() for passage in passages)


def _by_system(negatives: Mapping[str, Any], systems: Sequence[str]) -> tuple[str, ...]:
    """Ids of the negatives of ``systems`` (empty: of all) in their order, each once."""
    if unknown := [system for system in systems if system not in negatives]:
        if not negatives:
            return ()
        raise BadLineError(f"no negatives of {unknown[0]!r}", f"there are {', '.join(sorted(negatives))}")
    ids = (id for system in systems or negatives for id in _ids(negatives, system))
    return tuple(dict.fromkeys(ids))


def _ids(record: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values = record.get(key)
    if not isinstance(values, list):
        raise BadLineError(f"{key} is not a list of ids")
    return tuple(map(_id, values))


def _id(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise BadLineError("an id is neither text nor a whole number", repr(value)[:80])
    return str(value)


def _strings(record: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values = record.get(key)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise BadLineError(f"{key} is not a list of texts")
    return tuple(value.strip() for value in values)


def _string(record: Mapping[str, Any], key: str) -> str:
    if not isinstance(record.get(key), str):
        raise BadLineError(f"{key} is not a text")
    return str(record[key]).strip()
