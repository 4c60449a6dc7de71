"""Write vector files into a Lucene index directly: each impact as one number, without repeated words."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

import orjson

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.machine import processors
from learned_sparse.core.quantize import MAX_IMPACT
from learned_sparse.jsonvector.reader import BadLineError, LineReader, numbered_lines
from learned_sparse.lucene.writer import DELIMITER, LuceneWriter, detach_thread

BATCH_DOCUMENTS = 100
"""Maximum number of documents in one call into Java."""
BATCH_BYTES = 2**20
MAX_THREADS = 4
"""Default maximum. More do not help: parsing holds Python's lock and is half of the work."""
Progress = Callable[[int], object]
"""Function that is called with a number of documents, such as ``tqdm.update``."""
Lines = Sequence[tuple[Path, int, bytes]]
"""File, line number (from 1) and content of lines."""
Batch = TypeVar("Batch")


class DirectCounts(NamedTuple):
    """Numbers of documents, postings and impacts that were read and given to Lucene."""

    documents: int = 0
    postings: int = 0
    total_impacts: int = 0

    @classmethod
    def total(cls, counts: Iterable[DirectCounts]) -> DirectCounts:
        """The sums of ``counts``."""
        return cls(*map(sum, zip(*counts, strict=True)))


def index_directly(
    files: Sequence[Path],
    index: Path,
    *,
    impact: bool = True,
    term_vectors: bool = False,
    threads: int | None = None,
    heap: str | None = None,
    progress: Progress | None = None,
) -> DirectCounts:
    """Index ``files`` into the folder ``index``, in one segment; one thread keeps the order of the files.

    Java runs in this process. ``impact``, ``term_vectors`` and ``heap`` are explained at ``LuceneWriter``. ``progress``
    is called with a number of documents before they are indexed, by one thread at a time. ``LearnedSparseError`` names
    file and line of a document that cannot be indexed; the index is empty then.
    """
    with LuceneWriter(index, impact=impact, term_vectors=term_vectors, heap=heap) as writer:
        batches = _batches(files, progress or (lambda _: None))
        return in_threads(lambda batch: _add(writer, batch), batches, threads or min(processors(), MAX_THREADS))


def in_threads(
    add: Callable[[Batch], DirectCounts], batches: Generator[Batch, None, None], threads: int
) -> DirectCounts:
    """Call ``add`` with each of ``batches``, which one thread at a time draws; the first error stops all threads."""
    lock, stopped = threading.Lock(), threading.Event()

    def work() -> DirectCounts:
        counts = []
        try:
            while not stopped.is_set():
                with lock:
                    batch = next(batches, None)
                if batch is None:
                    break
                counts.append(add(batch))
        except BaseException:
            stopped.set()
            raise
        finally:
            detach_thread()
        return DirectCounts.total(counts)

    with contextlib.closing(batches), ThreadPoolExecutor(threads) as pool:
        try:
            return DirectCounts.total([worker.result() for worker in [pool.submit(work) for _ in range(threads)]])
        finally:
            stopped.set()


def _batches(files: Sequence[Path], progress: Progress) -> Generator[Lines, None, None]:
    for file in files:
        batch, size = list[tuple[Path, int, bytes]](), 0
        with contextlib.closing(numbered_lines(file)) as lines:
            for number, line in lines:
                batch.append((file, number, line))
                size += len(line)
                if len(batch) == BATCH_DOCUMENTS or size >= BATCH_BYTES:
                    progress(len(batch))
                    yield batch
                    batch, size = [], 0
        progress(len(batch))
        yield batch


def _add(writer: LuceneWriter, batch: Lines) -> DirectCounts:
    ids: list[str] = []
    contents: list[str] = []
    postings = total_impacts = 0
    for file, number, line in batch:
        try:
            document = orjson.loads(line)
            vector = document["vector"]
            total = sum(vector.values())
            if total > MAX_IMPACT:
                raise BadLineError(
                    f"the impacts of {document['id']!r} add up to {total:,}, more than the {MAX_IMPACT:,} that Lucene "
                    "holds for a document; quantise with a smaller factor or fewer bits"
                )
            contents.append(delimited(vector))
            ids.append(str(document["id"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            reason = str(error) if isinstance(error, BadLineError) else _problem(line) or str(error)
            raise LearnedSparseError(f"{file}:{number}: {reason}") from error
        postings += len(vector)
        total_impacts += total
    try:
        writer.add(ids, contents)
    except LearnedSparseError:  # Lucene rejects a batch as a whole
        for file, number, line in batch:
            if problem := _problem(line):
                raise LearnedSparseError(f"{file}:{number}: {problem}") from None
        raise
    return DirectCounts(len(ids), postings, total_impacts)


def delimited(vector: dict[str, int]) -> str:
    r"""Terms and impacts in the form that Lucene's filter reads; ``BadLineError`` if the form cannot hold them.

    The JSON of a vector without special characters differs in three characters only, and rewriting it takes half the
    time of a loop.

    >>> delimited({"hives": 3, "##ing": 200})
    'hives\x013 ##ing\x01200'
    >>> delimited({'"': 1, ":": 2})
    '"\x011 :\x012'
    """
    text = orjson.dumps(vector)
    # A term ends at ": and the next begins after ," unless a term begins with a colon or needs a backslash in JSON.
    if b"\\" not in text and b',":' not in text and text[:3] != b'{":' and len(text) > 2:
        return text[2:-1].replace(b'":', b"\x01").replace(b',"', b" ").decode()
    if not vector:
        raise BadLineError("the vector is empty")
    if any(DELIMITER in term for term in vector):
        raise BadLineError(f"a term holds the character {DELIMITER!r}; rename the term")
    return " ".join([f"{term}{DELIMITER}{impact}" for term, impact in vector.items()])


def _problem(line: bytes) -> str:
    """What the strict reader reports about a line; empty if it accepts the line."""
    try:
        LineReader().parse(line)
    except BadLineError as error:
        return str(error)
    return ""
