"""Documents of files and folders, read one at a time; every bad line is reported or counted."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

import numpy as np

from learned_sparse.collections.lines import (
    ID_KEYS,
    BadLineError,
    check_id,
    decode,
    extension,
    first_of,
    json_object,
    positioned_lines,
)
from learned_sparse.core import (
    Document,
    LearnedSparseError,
    counted,
    folder_kind,
    not_found,
    raw_lines,
    without_mark,
    wrong_path,
)

TEXT_KEYS = ("text", "contents", "content", "segment")
EXPANDED_KEYS = ("expanded", "predicted_queries")

OnBadLine = Literal["error", "skip"]
Parser = Callable[[bytes], Document]
Record = tuple[str, Callable[[Any], Document], Any]
"""The location of a record (``corpus.jsonl:17``), the function that parses it, and the record."""
_log = logging.getLogger(__name__)
_JSON = {".jsonl", ".json"}
_OFFSET_BITS = 44  # of the position of predicted queries: files of 16 TB; the number of the file is above


class DocumentReader(Iterator[Document]):
    """A single-pass iterator over the documents of a collection, which counts the lines it leaves out.

    A line is bad if it is not UTF-8 or malformed, if id or text is missing, or if the id is a repetition. With
    ``on_bad_line="error"`` the first bad line raises ``LearnedSparseError``; with ``"skip"`` bad lines are counted in
    ``skipped``. A text that is empty or white space is not missing: the document is returned, and counted in ``empty``.
    At the end the counts of such documents and of skipped lines are logged.

    In memory are one document and an 8-byte digest of each id (75 bytes in a Python set). That two of n different ids
    have the same digest has a probability of about n² / 2⁶⁵: 2 in a million for the 8.8 million passages of MS MARCO.
    """

    def __init__(
        self, records: Iterable[Record], *, source: str, files: tuple[Path, ...], on_bad_line: OnBadLine
    ) -> None:
        """Read ``records``; ``source`` is their name in messages, ``files`` the files that hold them."""
        if on_bad_line not in {"error", "skip"}:
            raise LearnedSparseError(f"on_bad_line: {on_bad_line!r} is neither 'error' nor 'skip'")
        self.source = source
        self.files = files
        """Files, in reading order; empty if the documents do not come from files."""
        self.read = 0
        """Documents returned so far."""
        self.empty = 0
        """Documents returned so far that have neither text nor expansion."""
        self.first_empty = ""
        """Location of the first of them."""
        self.skipped: dict[str, int] = {}
        """Number of lines left out so far, by reason."""
        self.first_skipped: dict[str, str] = {}
        """Location and description of the first line left out, by reason."""
        self.records = records
        """What the documents are made of; ``LineRecords`` for documents of files."""
        self.on_bad_line = on_bad_line
        self._expansions: Expansions | None = None
        self.expanded: Path | None = None
        """File or folder of predicted queries."""
        self._documents = self._checked(records)

    @classmethod
    def of(cls, documents: Iterable[Document]) -> DocumentReader:
        """A reader of documents in memory, checked like those of files."""
        records = ((f"document {number}", checked, document) for number, document in enumerate(documents, start=1))
        return cls(records, source="documents", files=(), on_bad_line="error")

    def expanded_by(self, path: Path | None) -> DocumentReader:
        """Take the predicted queries in ``path`` (``Expansions``) as expanded text of the documents; returns itself."""
        self._expansions, self.expanded = None if path is None else Expansions(path), path
        return self

    @property
    def expansions(self) -> tuple[Path, ...]:
        """Files with predicted queries of the documents."""
        return self._expansions.files if self._expansions else ()

    def summary(self) -> str:
        """One line: ``11 documents read, 1 without text (first c.tsv:3), 2 lines skipped (duplicate id: 2, ...)``."""
        reasons = (f"{reason}: {count}, first {self.first_skipped[reason]}" for reason, count in self.skipped.items())
        skipped = (
            f", {counted(sum(self.skipped.values()), 'line')} skipped ({'; '.join(reasons)})" if self.skipped else ""
        )
        empty = f", {self.empty} without text (first {self.first_empty})" if self.empty else ""
        return f"{counted(self.read, 'document')} read{empty}{skipped}"

    def __next__(self) -> Document:
        document = next(self._documents)
        self.read += 1
        return document

    def _checked(self, records: Iterable[Record]) -> Iterator[Document]:
        digests: set[bytes] = set()
        for where, parse, record in records:
            try:
                document = parse(record)
                digest = blake2b(document.id.encode("utf-8"), digest_size=8).digest()
                if digest in digests:
                    raise BadLineError("duplicate id", repr(document.id))
                if self._expansions is not None:
                    document = self._expansions.joined(document, where)
            except BadLineError as error:
                self._count(where, error)
            else:
                digests.add(digest)
                if not document.with_expanded.strip():
                    self.empty += 1
                    self.first_empty = self.first_empty or where
                yield document
        if not digests:
            raise LearnedSparseError(f"{self.source}: no documents; {self.summary()}")
        if self.empty or self.skipped:
            _log.warning("%s: %s", self.source, self.summary())
        if self._expansions is not None:
            self._expansions.report(self.source)

    def _count(self, where: str, error: BadLineError) -> None:
        if self.on_bad_line == "error":
            raise LearnedSparseError(f"{where}: {error}; skip such lines with --on-bad-line skip") from error
        self.first_skipped.setdefault(error.reason, f"{where}: {error}")
        self.skipped[error.reason] = self.skipped.get(error.reason, 0) + 1


class Expansions:
    """Predicted queries of docT5query by document id, from a file or a folder of files.

    JSON lines hold an id and ``predicted_queries`` (or ``expanded``), a string or a list of strings. Lines of TSV hold
    an id and one or more queries; the lines of an id follow each other. In memory are 16 bytes for each id. Files are
    read by position, in any order of documents: front to back if the order is the same.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.files = _files(path)
        """The files, in reading order."""
        self._open = [self._opened(file) for file in self.files]
        digests, places = array("Q"), array("q")
        for number, file in enumerate(self.files):
            last, offset = "", 0
            for line_number, line in raw_lines(file):
                if line.strip():
                    id = self._parsed(file, line, f"{file}:{line_number}")[0]
                    if id != last or extension(file) in _JSON:
                        digests.append(_digest(id))
                        places.append(number << _OFFSET_BITS | offset)
                    last = id
                offset += len(line)
        order = np.argsort(np.frombuffer(digests, np.uint64), kind="stable")
        self._digests = np.frombuffer(digests, np.uint64)[order]
        self._places = np.frombuffer(places, np.int64)[order]
        self._used = np.zeros(len(order), bool)
        self._without = 0
        for index in np.flatnonzero(self._digests[1:] == self._digests[:-1])[:1]:
            raise LearnedSparseError(
                f"{path}: {self._at(int(index))[0]!r} has predicted queries in two places; put all of an id together"
            )

    def joined(self, document: Document, where: str) -> Document:
        """``document`` with its predicted queries, if there are any; ``where`` opens an error message."""
        index = int(np.searchsorted(self._digests, np.uint64(_digest(document.id))))
        if index < len(self._digests) and self._digests[index] == _digest(document.id):
            id, expanded = self._at(index)
            if id == document.id:
                self._used[index] = True
                joined = without_marks(Document(id, document.text, expanded))
                if document.expanded in ("", joined.expanded):
                    return joined
        if document.expanded:
            raise LearnedSparseError(
                f"{where}: the document has other expanded text of its own; leave {self._path} out"
            )
        self._without += 1
        return document

    def report(self, source: str) -> None:
        """Log how many documents and predicted queries had no counterpart; raise if none had one."""
        joined, unused = int(self._used.sum()), int((~self._used).sum())
        if not joined:
            raise LearnedSparseError(
                f"{self._path}: no id is that of a document of {source}; is it of another collection?"
            )
        _log.log(
            logging.WARNING if unused or self._without else logging.INFO,
            "%s: predicted queries of %s documents of %s; %s documents have none, %s ids are of no document",
            self._path, f"{joined:,}", source, f"{self._without:,}", f"{unused:,}",
        )  # fmt: skip

    def _at(self, index: int) -> tuple[str, str]:
        """Id and predicted queries, joined with spaces, of entry ``index``."""
        place = int(self._places[index])
        number, offset = place >> _OFFSET_BITS, place & ((1 << _OFFSET_BITS) - 1)
        file, stream = self.files[number], self._open[number]
        stream.seek(offset)
        id, text = self._parsed(file, stream.readline(), str(file))
        texts = [text]
        while extension(file) not in _JSON and (line := stream.readline()):
            if line.strip():
                following, text = self._parsed(file, line, str(file))
                if following != id:
                    break
                texts.append(text)
        return id, " ".join(texts)

    @staticmethod
    def _opened(file: Path) -> BinaryIO:
        if extension(file) not in _PARSERS:
            raise LearnedSparseError(f"{file}: predicted queries are read from {', '.join(_PARSERS)}; rename the file")
        if file.suffix == ".gz":
            raise LearnedSparseError(f"{file}: predicted queries are read by position; unpack the file first (gunzip)")
        return file.open("rb")

    @staticmethod
    def _parsed(file: Path, line: bytes, where: str) -> tuple[str, str]:
        line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            if extension(file) in _JSON:
                record = json_object(line)
                queries = first_of(record, EXPANDED_KEYS)
                if queries is None:
                    raise BadLineError("no predicted queries", f"none of the keys {', '.join(EXPANDED_KEYS)}")
                return check_id(first_of(record, ID_KEYS)), _joined(queries)
            id, tab, queries = decode(line).partition("\t")
            if not tab:
                raise BadLineError("too few columns", "expected an id, a tab and predicted queries")
            return check_id(id), " ".join(queries.split())
        except BadLineError as error:
            raise LearnedSparseError(f"{where}: {error}") from None


def add_bad_line_option(add: Callable[..., object], default: OnBadLine | None = "error") -> None:
    """Add ``--on-bad-line`` to a command that reads documents; ``add`` is the ``add_argument`` of its parser."""
    help_text = "malformed lines of documents: stop at the first (error, the default), or leave out and count (skip)"
    add("--on-bad-line", choices=get_args(OnBadLine), default=default, help=help_text)


def read_documents(
    path: str | Path, *, on_bad_line: OnBadLine = "error", expanded: Path | None = None
) -> DocumentReader:
    """The documents of a file, or of all files in a folder and its subfolders, sorted by path.

    ``expanded``: file with predicted queries of the documents (``Expansions``).

    Formats: JSON lines (``.jsonl``, ``.json``) and MS MARCO's columns (``.tsv``, ``.txt``), each also with ``.gz``.
    Hidden files are ignored; a file with another extension is an error.
    """
    path = Path(path)
    files = _files(path)
    reader = DocumentReader(LineRecords(files), source=str(path), files=files, on_bad_line=on_bad_line)
    return reader.expanded_by(expanded)


class LineRecords(Iterator[Record]):
    """The lines of files as records, and the position of the last one."""

    def __init__(self, files: Sequence[Path]) -> None:
        """An extension that is unknown raises before anything is read."""
        self.file = self.number = 0
        """File of the last record, from 0, and its number among all records, from 1."""
        self.line = self.offset = 0
        """Number of its line, from 1, and the bytes (decompressed) in front of it."""
        self._records = self._read(files, list(map(parser_of, files)))

    def __next__(self) -> Record:
        return next(self._records)

    def _read(self, files: Sequence[Path], parsers: Sequence[Parser]) -> Iterator[Record]:
        for self.file, (path, parse) in enumerate(zip(files, parsers, strict=True)):
            for self.line, self.offset, line in positioned_lines(raw_lines(path)):
                self.number += 1
                yield f"{path}:{self.line}", parse, line


def parser_of(file: Path) -> Parser:
    """The function that parses a line of ``file``, by its extension."""
    parse = _PARSERS.get(extension(file))
    if parse is None:
        raise LearnedSparseError(
            f"{file}: unknown kind of file; documents are read from {', '.join(_PARSERS)} (each also with .gz); "
            "convert or rename it, or move it out of the folder"
        )
    return parse


def parse_json(line: bytes) -> Document:
    """A document from a JSON line of BEIR, Pyserini or Anserini.

    Keys: ``_id``, ``id``, ``docid`` or ``doc_id`` (a number is taken as text); ``text``, ``contents``, ``content`` or
    ``segment``; ``title``, which is joined in front of the text with a space (Anserini's BeirFlatCollection joins with
    a line end); ``expanded`` or ``predicted_queries`` (docT5query), a string or a list of strings, which are joined
    with spaces. Other keys are ignored.
    """
    record = json_object(line)
    name = check_id(first_of(record, ID_KEYS))
    title, text = record.get("title"), first_of(record, TEXT_KEYS)
    if text is None:
        raise BadLineError("missing text", f"none of the keys {', '.join(map(repr, TEXT_KEYS))}")
    for key, value in (("title", title), ("text", text)):
        if value is not None and not isinstance(value, str):
            raise BadLineError("text is not a string", f"the {key} is of type {type(value).__name__}")
    expanded = _joined(first_of(record, EXPANDED_KEYS))
    return without_marks(Document(name, " ".join(part for part in (title, text) if part), expanded))


def parse_tsv(line: bytes) -> Document:
    """A document from a tab-separated line of MS MARCO: an id, then text.

    Passages have one text column; documents have three (URL, title, body), joined with spaces as in Anserini's index.
    """
    columns = decode(line).split("\t")
    if any("\r" in column for column in columns[:-1]):
        raise BadLineError("carriage return before a tab", "a line end of another kind? end lines with a line feed")
    if len(columns) < 2:
        raise BadLineError("too few columns", "expected an id, a tab and text")
    return without_marks(Document(check_id(columns[0]), " ".join(column for column in columns[1:] if column)))


def checked(document: Document) -> Document:
    """A document that was not read from a file, as ``parse_json`` would return it."""
    try:
        document.with_expanded.encode("utf-8")
    except UnicodeEncodeError:
        raise BadLineError("not UTF-8", f"document {document.id!r} holds half a surrogate pair") from None
    return without_marks(Document(check_id(document.id), document.text, document.expanded))


def without_marks(document: Document) -> Document:
    """The document without the separator of expanded text (see ``without_mark``)."""
    expanded = without_mark(document.expanded)
    return Document(document.id, without_mark(document.text), expanded if expanded.strip() else "")


_PARSERS: Mapping[str, Parser] = {
    ".jsonl": parse_json, ".json": parse_json, ".tsv": parse_tsv, ".txt": parse_tsv,
}  # fmt: skip


def _digest(id: str) -> int:
    return int.from_bytes(blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _joined(value: Any) -> str:
    texts: list[Any] = [] if value is None else value if isinstance(value, list) else [value]
    for text in texts:
        if not isinstance(text, str):
            raise BadLineError("expanded text is not a string", f"nor a list of strings: {type(text).__name__}")
    return " ".join(texts)


def _files(path: Path) -> tuple[Path, ...]:
    if not path.exists():
        raise not_found(path, "file or folder")
    if not path.is_dir():
        return (path,)
    if folder_kind(path) in {"a Lucene index", "encoded documents", "encoded queries", "a checkpoint"}:
        raise wrong_path(path, "texts", "name a file or folder of documents")
    for corpus in ("corpus.jsonl", "collection.tsv", "msmarco-docs.tsv"):
        if (path / corpus).exists() and len(list(path.iterdir())) > 1:
            raise LearnedSparseError(
                f"{path}: holds {corpus} beside other files, so it looks like a whole test collection; "
                f"name it with --collection {path}, or only its documents with --input {path / corpus}"
            )
    files = []
    for file in sorted(path.rglob("*")):
        if _hidden(file.relative_to(path)) or (file.is_dir() and not file.is_symlink()):
            continue
        if not file.is_file():
            raise LearnedSparseError(f"{file}: not a regular file, so the folder cannot be read whole; replace it")
        files.append(file)
    if not files:
        raise LearnedSparseError(f"{path}: the folder has no files; name a file or folder of documents")
    return tuple(files)


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
