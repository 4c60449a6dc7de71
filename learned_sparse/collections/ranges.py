"""The documents of a collection cut into parts, each with its place in the files: any part can be read by itself."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from learned_sparse.collections.documents import DocumentReader, Expansions, LineRecords, parser_of
from learned_sparse.collections.lines import BadLineError, positioned_lines
from learned_sparse.core import Document, LearnedSparseError

SEEK_SPACING = 2**22
"""Bytes, decompressed, between two places where reading of a gzip file can begin; each takes 32 KB in its index."""


@dataclass(frozen=True, kw_only=True)
class LineRange:
    """Documents on consecutive lines of one file, with no line between them that is left out except blank ones."""

    file: int
    """Number of the file, from 0."""
    line: int
    """Number of the first line, from 1."""
    offset: int
    """Bytes in front of it, decompressed."""
    documents: int


@dataclass(frozen=True, kw_only=True)
class FileState:
    """A file as it was when it was read: one that has another size or time may hold other documents."""

    name: str
    bytes: int
    modified: int
    """Time of the last change in nanoseconds."""

    @classmethod
    def of(cls, file: Path) -> FileState:
        """The file as it is now."""
        stat = file.stat()
        return cls(name=file.name, bytes=stat.st_size, modified=stat.st_mtime_ns)


@dataclass(frozen=True, kw_only=True)
class InputParts:
    """Where the documents of each part are. In memory are about 300 bytes for each part."""

    part_size: int
    """Documents of each part; the last part may have fewer."""
    on_bad_line: str
    files: tuple[FileState, ...]
    """Files of documents, then those of predicted queries."""
    documents: int
    skipped: dict[str, int] = field(default_factory=dict)
    """Lines left out, by reason."""
    parts: tuple[tuple[LineRange, ...], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Content as JSON values."""
        return asdict(self)

    def fits(self, reader: DocumentReader, part_size: int) -> bool:
        """Whether these are the parts of what ``reader`` would read now."""
        now = (part_size, reader.on_bad_line, _states(reader))
        return (self.part_size, self.on_bad_line, self.files) == now


def input_parts(reader: DocumentReader, part_size: int) -> InputParts:
    """Read all documents once, checking them, and note where each part begins."""
    records = reader.records
    if not isinstance(records, LineRecords):
        raise LearnedSparseError(
            f"{reader.source}: its documents are not lines of files, so that parts of them cannot be read separately; "
            "write them to a JSONL or TSV file and give that with --input, or use --num-shards in place of --engine ray"
        )
    files, parts = _states(reader), list[tuple[LineRange, ...]]()
    ranges: list[LineRange] = []
    last = previous = -1
    for number, _ in enumerate(reader):
        if number and number % part_size == 0:
            parts.append(tuple(ranges))
            ranges = []
        if not ranges or records.number != last + 1 or records.file != previous:
            ranges.append(LineRange(file=records.file, line=records.line, offset=records.offset, documents=1))
        else:
            before = ranges[-1]
            ranges[-1] = LineRange(
                file=before.file, line=before.line, offset=before.offset, documents=before.documents + 1
            )
        last, previous = records.number, records.file
    parts.append(tuple(ranges))
    return InputParts(
        part_size=part_size, on_bad_line=reader.on_bad_line, files=files, documents=reader.read,
        skipped=dict(reader.skipped), parts=tuple(parts),
    )  # fmt: skip


def read_part(
    files: Sequence[Path],
    part: Sequence[LineRange],
    expansions: Expansions | None = None,
    seek_indexes: Mapping[int, Path] | None = None,
) -> list[Document]:
    """The documents of one part. ``seek_indexes``: of gzip files by number, as ``write_seek_index`` writes them.

    ``LearnedSparseError``: a line is no document, so that the file has changed.
    """
    documents: list[Document] = []
    for entry in part:
        path, wanted = files[entry.file], len(documents) + entry.documents
        parse = parser_of(path)
        with _opened(path, (seek_indexes or {}).get(entry.file)) as file:
            file.seek(entry.offset)
            for number, _, line in positioned_lines(enumerate(_lines(path, file), start=entry.line)):
                try:
                    document = parse(line)
                    documents.append(expansions.joined(document, f"{path}:{number}") if expansions else document)
                except BadLineError as error:
                    raise LearnedSparseError(f"{path}:{number}: {error}; {CHANGED}") from None
                if len(documents) == wanted:
                    break
        if len(documents) != wanted:
            raise LearnedSparseError(f"{path}: ends before its {wanted:,}th document of a part; {CHANGED}")
    return documents


CHANGED = "the input has changed while it was encoded: encode again with --overwrite"


def write_seek_index(file: Path, index: Path) -> None:
    """Write the places in a gzip file where reading can begin, for ``read_part``; checks the whole file."""
    with _gzip_module().IndexedGzipFile(str(file), spacing=SEEK_SPACING) as stream:
        stream.build_full_index()
        stream.export_index(str(index))


def _states(reader: DocumentReader) -> tuple[FileState, ...]:
    return tuple(map(FileState.of, (*reader.files, *reader.expansions)))


def _lines(path: Path, file: BinaryIO) -> Iterator[bytes]:
    try:
        yield from file
    except (EOFError, OSError, zlib.error, gzip.BadGzipFile) as error:
        raise LearnedSparseError(f"{path}: cannot be read ({error})") from error


def _opened(path: Path, seek_index: Path | None) -> BinaryIO:
    if seek_index is None:
        return path.open("rb")
    stream = _gzip_module().IndexedGzipFile(str(path), index_file=str(seek_index))
    return io.BufferedReader(stream, 2**20)


def _gzip_module() -> Any:
    try:
        import indexed_gzip
    except ImportError:
        raise LearnedSparseError(
            "--engine ray reads .gz files with indexed_gzip, which is not installed; pip install "
            "'learned-sparse[ray]', or unpack the files (gunzip)"
        ) from None
    return indexed_gzip
