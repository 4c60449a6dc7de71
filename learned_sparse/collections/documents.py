"""Documents of files and folders, read one at a time; every bad line is reported or counted."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_args

from learned_sparse.core.errors import LearnedSparseError, counted, folder_kind, not_found, wrong_path
from learned_sparse.core.lines import (
    ID_KEYS,
    BadLineError,
    check_id,
    decode,
    first_of,
    json_object,
    read_lines,
)
from learned_sparse.core.records import EXPANDED

TEXT_KEYS = ("text", "contents", "content", "segment")
EXPANDED_KEYS = ("expanded", "predicted_queries")
CORPORA = ("corpus.jsonl", "collection.tsv", "msmarco-docs.tsv")
"""File of the documents in a folder of BEIR, or of MS MARCO's passages or documents."""

OnBadLine = Literal["error", "skip"]
Fields = tuple[object, str, str]
"""Id, text and expanded text of a document as they are read; the reader checks the id."""
Record = tuple[str, Callable[[Any], Fields], Any]
"""The location of a record (``corpus.jsonl:17``), the function that parses it, and the record."""
_log = logging.getLogger(__name__)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Document:
    """One document."""

    id: str
    text: str
    """Text to encode; a title, if any, is already joined in front."""
    expanded: str = ""
    """Expansion of the text, such as queries predicted by docT5query; only encoders with ``uses_expanded`` read it."""

    @property
    def with_expanded(self) -> str:
        """``text``, ``EXPANDED`` and the expansion; ``text`` alone without an expansion."""
        return f"{self.text}{EXPANDED}{self.expanded}" if self.expanded else self.text


class DocumentReader(Iterable[Document]):
    """The documents of a collection, to be read once; counts the lines that are left out.

    A line is bad if it is not UTF-8 or malformed, if id or text is missing, or if the id is a repetition. With
    ``on_bad_line="error"`` the first bad line raises ``LearnedSparseError``; with ``"skip"`` bad lines are counted in
    ``skipped``. A text that is empty or white space is not missing: the document is returned, and counted in ``empty``.
    At the end the counts of such documents and of skipped lines are logged.

    In memory are one document and Python's 8-byte hash of each id (70 bytes in a set). That two of n different ids
    have the same hash has a probability of about n² / 2⁶⁵: 2 in a million for the 8.8 million passages of MS MARCO.
    """

    def __init__(
        self,
        records: Iterable[Record],
        *,
        source: str,
        files: Sequence[Path] = (),
        on_bad_line: OnBadLine = "error",
        expanded: Path | None = None,
    ) -> None:
        """Read ``records``; ``source`` is their name in messages, ``files`` the files that hold them.

        ``expanded``: ``predicted_queries`` that are the expanded text of the documents. Each document must have an
        entry, which may be empty, and the entries must be in the order of the documents. Entries of other documents are
        left out. ``LearnedSparseError`` at the first document without an entry.
        """
        if on_bad_line not in {"error", "skip"}:
            raise LearnedSparseError(f"on_bad_line: {on_bad_line!r} is neither 'error' nor 'skip'")
        self.source = source
        self.files = tuple(files)
        """Files, in reading order; empty if the documents do not come from files."""
        self.total: int | None = None
        """Number of documents, if it is known."""
        self.expansions = () if expanded is None else tuple(document_files(expanded))
        """Files with predicted queries of the documents."""
        self.read = 0
        """Documents returned so far."""
        self.empty = 0
        """Documents returned so far that have neither text nor expansion."""
        self.skipped: dict[str, int] = {}
        """Number of lines left out so far, by reason."""
        self.segmented = self.largest_segments = 0
        """Documents split so far, and the maximum number of segments of one (``segments.SegmentReader``)."""
        self._on_bad_line = on_bad_line
        self._predicted = None if expanded is None else predicted_queries(expanded)
        self._records = iter(records)
        self._hashes: set[int] = set()

    @classmethod
    def of(cls, documents: Iterable[Document]) -> DocumentReader:
        """A reader of documents in memory, checked like those of files."""
        records = ((f"document {number}", checked, document) for number, document in enumerate(documents, start=1))
        return cls(records, source="documents")

    def summary(self) -> str:
        """One line: ``11 documents read, 1 without text, 2 skipped: duplicate id``."""
        skipped = "".join(f", {count} skipped: {reason}" for reason, count in self.skipped.items())
        return f"{counted(self.read, 'document')} read{f', {self.empty} without text' if self.empty else ''}{skipped}"

    def __iter__(self) -> Iterator[Document]:
        """Yield the documents from where an earlier iterator has stopped."""
        hashes = self._hashes
        for where, parse, record in self._records:
            try:
                id, text, expanded = parse(record)
                id = check_id(id)
                if hash(id) in hashes:
                    raise BadLineError("duplicate id", repr(id))
            except BadLineError as error:
                if self._on_bad_line == "error":
                    raise LearnedSparseError(f"{where}: {error}; skip such lines with --on-bad-line skip") from error
                if error.reason not in self.skipped:
                    _log.warning("%s: %s; the first line that is skipped for this reason", where, error)
                self.skipped[error.reason] = self.skipped.get(error.reason, 0) + 1
                continue
            if self._predicted is not None:
                expanded = self._expansion(id, expanded, where, hashes)
            hashes.add(hash(id))
            if not (text.strip() or expanded.strip()):
                if not self.empty:
                    _log.warning("%s: the first document without text", where)
                self.empty += 1
            self.read += 1
            # no text of the input holds the separator of expanded text
            expansion = expanded.replace(EXPANDED, " ") if expanded.strip() else ""
            yield Document(id, text.replace(EXPANDED, " "), expansion)
        if not hashes:
            raise LearnedSparseError(f"{self.source}: no documents; {self.summary()}")
        for id, _ in self._predicted or ():
            self._check_order(id, hashes)
        if self.empty or self.skipped:
            _log.warning("%s: %s", self.source, self.summary())

    def _expansion(self, document: str, own: str, where: str, hashes: set[int]) -> str:
        """Predicted queries of ``document``, whose record has ``own`` ones or none."""
        for id, queries in self._predicted or ():
            if id == document:
                if own.strip() and own != queries:
                    raise LearnedSparseError(f"{where}: the document has other expanded text; omit --expanded")
                return queries
            self._check_order(id, hashes)
        raise LearnedSparseError(
            f"{self.expansions[-1]}: no predicted queries of document {document!r} ({where}) up to the end; give a "
            "file of this collection with an entry for each document, in the order of the documents"
        )

    def _check_order(self, id: str, hashes: set[int]) -> None:
        if hash(id) in hashes:
            raise LearnedSparseError(
                f"{self.expansions[0]}: the predicted queries of {id!r} come too late; put all queries of a document "
                "together, and documents in the order of the collection"
            )


def predicted_queries(path: Path) -> Iterator[tuple[str, str]]:
    """Ids and predicted queries (docT5query), joined with spaces, of a file or of the files of a folder.

    JSON lines hold an id and ``predicted_queries`` (or ``expanded``), a string or a list of strings, or a single
    ``query`` (BEIR's generated queries). Lines of TSV hold an id and one or more queries, or the text, ``[SEP]`` and
    new terms (DeepImpact's expanded collection). Consecutive lines of an id are joined. Each also with ``.gz``.
    """
    for id, entries in groupby(_predictions(path), key=lambda entry: entry[0]):
        yield id, " ".join(queries for _, queries in entries)


def new_terms(text: str, queries: str) -> str:
    """The words of predicted ``queries`` that are not in ``text``, each once, in lower case, most frequent first.

    The published data of DeepImpact, uniCOIL and SpaDE append such new terms, not the queries themselves. Their order
    is ours: a truncated expansion loses its rarest words.

    >>> new_terms("The Manhattan Project", "who led the manhattan project? who built the bomb")
    'who led built bomb'
    """
    known = set(_WORD.findall(text.lower()))
    counts = Counter(word for word in _WORD.findall(queries.lower()) if word not in known)
    return " ".join(word for word, _ in counts.most_common())


def _predictions(path: Path) -> Iterator[tuple[str, str]]:
    for file, parser in document_files(path).items():
        parse = _parse_tsv_queries if parser is parse_tsv else _parse_json_queries
        for number, line in read_lines(file):
            try:
                id, queries = parse(line)
                yield check_id(id), queries
            except BadLineError as error:
                raise LearnedSparseError(f"{file}:{number}: {error}") from None


def _parse_json_queries(line: bytes) -> tuple[Any, str]:
    record = json_object(line)
    queries = first_of(record, (*EXPANDED_KEYS, "query"))
    if queries is None:
        raise BadLineError("no predicted queries", f"none of the keys {', '.join(EXPANDED_KEYS)}, query")
    return first_of(record, ID_KEYS), _joined(queries)


def _parse_tsv_queries(line: bytes) -> tuple[str, str]:
    id, tab, queries = decode(line).partition("\t")
    if not tab:
        raise BadLineError("too few columns", "expected an id, a tab and predicted queries")
    _, separator, terms = queries.partition("[SEP]")  # text [SEP] new terms
    return id, " ".join((terms if separator else queries).split())


def add_bad_line_option(add: Callable[..., object], default: OnBadLine | None = "error") -> None:
    """Add ``--on-bad-line`` to a command that reads documents; ``add`` is the ``add_argument`` of its parser."""
    help_text = "malformed lines of documents: stop at the first (error, the default), or leave out and count (skip)"
    add("--on-bad-line", choices=get_args(OnBadLine), default=default, help=help_text)


def read_documents(
    path: str | Path, *, on_bad_line: OnBadLine = "error", expanded: Path | None = None
) -> DocumentReader:
    """The documents of a file, or of all files in a folder and its subfolders, sorted by path.

    ``expanded``: file with predicted queries of the documents (see ``DocumentReader``).

    Formats: JSON lines (``.jsonl``, ``.json``) and MS MARCO's columns (``.tsv``, ``.txt``), each also with ``.gz``.
    Hidden files are ignored; a file with another extension is an error.
    """
    files = document_files(Path(path))
    records = ((f"{file}:{n}", parse, line) for file, parse in files.items() for n, line in read_lines(file))
    return DocumentReader(records, source=str(path), files=tuple(files), on_bad_line=on_bad_line, expanded=expanded)


def parse_json(line: bytes) -> Fields:
    """A document from a JSON line of BEIR, Pyserini or Anserini.

    Keys: ``_id``, ``id``, ``docid`` or ``doc_id`` (a number is taken as text); ``text``, ``contents``, ``content`` or
    ``segment``; ``title``, which is joined in front of the text with a space (Anserini's BeirFlatCollection joins with
    a line end); ``expanded`` or ``predicted_queries`` (docT5query), a string or a list of strings, which are joined
    with spaces. Of several keys for one thing, the first one with content counts. Other keys are ignored.
    """
    record = json_object(line)
    title, text = record.get("title"), first_of(record, TEXT_KEYS)
    if text is None:
        raise BadLineError("missing text", f"none of the keys {', '.join(map(repr, TEXT_KEYS))}")
    for key, value in (("title", title), ("text", text)):
        if value is not None and not isinstance(value, str):
            raise BadLineError("text is not a string", f"the {key} is of type {type(value).__name__}")
    whole = f"{title} {text}" if title and text else title or text
    expanded = first_of(record, EXPANDED_KEYS)
    return first_of(record, ID_KEYS), whole, "" if expanded is None else _joined(expanded)


def parse_tsv(line: bytes) -> Fields:
    """A document from a tab-separated line of MS MARCO: an id, then text.

    Passages have one text column; documents have three (URL, title, body), joined with spaces as in Anserini's index.
    """
    columns = decode(line).split("\t")
    if any("\r" in column for column in columns[:-1]):
        raise BadLineError("carriage return before a tab", "a line end of another kind? end lines with a line feed")
    if len(columns) < 2:
        raise BadLineError("too few columns", "expected an id, a tab and text")
    return columns[0], " ".join(column for column in columns[1:] if column), ""


def checked(document: Document) -> Fields:
    """A document that was not read from a file, as ``parse_json`` would return it."""
    try:
        document.with_expanded.encode("utf-8")
    except UnicodeEncodeError:
        raise BadLineError("not UTF-8", f"document {document.id!r} holds half a surrogate pair") from None
    return document.id, document.text, document.expanded


_PARSERS = {".jsonl": parse_json, ".json": parse_json, ".tsv": parse_tsv, ".txt": parse_tsv}


def _joined(value: Any) -> str:
    texts: list[Any] = value if isinstance(value, list) else [value]
    for text in texts:
        if not isinstance(text, str):
            raise BadLineError("expanded text is not a string", f"nor a list of strings: {type(text).__name__}")
    return " ".join(texts)


def document_files(path: Path) -> dict[Path, Callable[[bytes], Fields]]:
    """The file, or all files in the folder and its subfolders, sorted by path; with the functions that parse lines."""
    if not path.is_dir():
        if not path.exists():
            raise not_found(path, "file or folder")
        files = [path]
    else:
        if folder_kind(path) in {"a Lucene index", "encoded documents", "encoded queries", "a checkpoint"}:
            raise wrong_path(path, "texts", "name a file or folder of documents")
        for corpus in CORPORA:
            if (path / corpus).exists() and len(list(path.iterdir())) > 1:
                raise LearnedSparseError(
                    f"{path}: holds {corpus} beside other files, so it looks like a whole test collection; "
                    f"name it with --collection {path}, or only its documents with --input {path / corpus}"
                )
        files = sorted(
            file
            for file in path.rglob("*")
            if not any(part.startswith(".") for part in file.relative_to(path).parts)
            and (not file.is_dir() or file.is_symlink())
        )
    parsers: dict[Path, Callable[[bytes], Fields]] = {}
    for file in files:
        extension = Path(file.name.removesuffix(".gz")).suffix
        if path.is_dir() and not file.is_file():
            raise LearnedSparseError(f"{file}: not a regular file, so the folder cannot be read whole; replace it")
        if extension not in _PARSERS:
            raise LearnedSparseError(
                f"{file}: unknown kind of file; documents are read from {', '.join(_PARSERS)} (each also with .gz); "
                "convert or rename it, or move it out of the folder"
            )
        parsers[file] = _PARSERS[extension]
    if not parsers:
        raise LearnedSparseError(f"{path}: the folder has no files; name a file or folder of documents")
    return parsers
