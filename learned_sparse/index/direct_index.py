"""Files of vectors into a Lucene index, each impact as one number: no word is repeated."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import orjson

from learned_sparse.core import MAX_IMPACT, LearnedSparseError
from learned_sparse.jsonvector import BadLineError, LineReader, numbered_lines
from learned_sparse.lucene import DELIMITER, Batch, LuceneError, LuceneWriter, detach_thread

BATCH = 100
"""Documents that are handed to Java at once."""
BATCH_BYTES = 2**20
MOST_THREADS = 4
"""More do not help: Python reads for one thread at a time, and that is half of the work."""
STORABLE = ("Docvectors",)
"""What can be stored beside the impacts: vectors with frequencies, without the positions of repeated words. The rest of
what Anserini can store are these words, or lines as it spells them."""


@dataclass(frozen=True)
class DirectCounts:
    """What was read from the files and handed to Lucene."""

    documents: int = 0
    postings: int = 0
    total_impacts: int = 0

    def __add__(self, other: DirectCounts) -> DirectCounts:
        return DirectCounts(
            self.documents + other.documents, self.postings + other.postings, self.total_impacts + other.total_impacts
        )


def index_directly(
    files: Sequence[Path],
    index: Path,
    *,
    impact: bool = True,
    store: Sequence[str] = (),
    threads: int | None = None,
    heap: str | None = None,
) -> DirectCounts:
    """Index ``files`` into the folder ``index``, in one segment; with one thread in the order of the files.

    Java runs in this process: whoever indexes reads the index back here anyway, and what Lucene refuses arrives as an
    exception that knows its document. ``impact`` is explained at ``LuceneWriter``.
    """
    if unknown := [name for name in store if name not in STORABLE]:
        options = ", ".join(f"--store{name}" for name in unknown)
        raise LearnedSparseError(f"{options}: only Anserini's own indexing stores this; add --anserini")
    threads = threads or min(os.cpu_count() or 1, MOST_THREADS)
    lines = _Lines(files)
    vectors = "Docvectors" in store
    with (
        LuceneWriter(index, impact=impact, term_vectors=vectors, heap=heap) as writer,
        ThreadPoolExecutor(threads) as pool,
        contextlib.closing(lines),
    ):
        work = [pool.submit(_work, writer, lines) for _ in range(1 if writer.has_little_memory else threads)]
        done, _ = wait(work, return_when=FIRST_EXCEPTION)
        return sum((one.result() for one in done), DirectCounts())


@dataclass(frozen=True)
class _Batch:
    file: Path
    numbers: list[int]
    lines: list[bytes]


class _Lines:
    """Batches of lines for several threads, until one of them stops it."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._batches = _batches(files)
        self._lock = threading.Lock()
        self._stopped = False

    def __iter__(self) -> Iterator[_Batch]:
        while not self._stopped:
            with self._lock:
                batch = next(self._batches, None)
            if batch is None:
                return
            yield batch

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        """Stop, and close the file that is being read."""
        self.stop()
        with self._lock:
            self._batches.close()


def _batches(files: Sequence[Path]) -> Generator[_Batch, None, None]:
    for file in files:
        batch, size = _Batch(file, [], []), 0
        with contextlib.closing(numbered_lines(file)) as lines:
            for number, line in lines:
                batch.numbers.append(number)
                batch.lines.append(line)
                size += len(line)
                if len(batch.lines) == BATCH or size >= BATCH_BYTES:
                    yield batch
                    batch, size = _Batch(file, [], []), 0
        if batch.lines:
            yield batch


def _work(writer: LuceneWriter, lines: _Lines) -> DirectCounts:
    """One thread's share."""
    try:
        room, counts = writer.batch(BATCH), DirectCounts()
        for batch in lines:
            counts += _add(room, batch)
        return counts
    except BaseException:
        lines.stop()
        raise
    finally:
        detach_thread()


def _add(room: Batch, batch: _Batch) -> DirectCounts:
    names: list[str] = []
    texts: list[str] = []
    postings = total_impacts = 0
    for number, line in zip(batch.numbers, batch.lines, strict=True):
        try:
            content = orjson.loads(line)
            vector = content["vector"]
            total = sum(vector.values())
            if total > MAX_IMPACT:
                raise BadLineError(_too_much(content["id"], total))
            texts.append(spelled(vector))
            names.append(str(content["id"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise LearnedSparseError(f"{batch.file}:{number}: {_reason(line, error)}") from error
        postings += len(vector)
        total_impacts += total
    try:
        room.add(names, texts)
    except LuceneError as error:
        raise LearnedSparseError(_refused(batch, error)) from error
    return DirectCounts(len(names), postings, total_impacts)


def spelled(vector: dict[str, int]) -> str:
    r"""The terms and impacts of a vector as Lucene's filter takes them; ``BadLineError`` where that cannot be.

    The JSON of a plain vector is near enough to be rewritten as a whole, which takes half the time of a loop.

    >>> spelled({"hives": 3, "##ing": 200})
    'hives\x013 ##ing\x01200'
    >>> spelled({'"': 1, ":": 2})
    '"\x011 :\x012'
    """
    text = orjson.dumps(vector)
    # After a term comes ": and before it ," unless the term begins with a colon or is written with a backslash.
    if b"\\" not in text and b',":' not in text and text[:3] != b'{":' and len(text) > 2:
        return text[2:-1].replace(b'":', b"\x01").replace(b',"', b" ").decode()
    if not vector:
        raise BadLineError("the vector is empty")
    if any(DELIMITER in term for term in vector):
        raise BadLineError(f"a term holds the character {DELIMITER!r}; index with --anserini")
    return " ".join([f"{term}{DELIMITER}{impact}" for term, impact in vector.items()])


def _too_much(name: object, total: int) -> str:
    return (
        f"the impacts of {name!r} add up to {total:,}, more than the {MAX_IMPACT:,} that Lucene holds for a document; "
        "quantise with a smaller factor or fewer bits"
    )


def _reason(line: bytes, error: Exception | None = None) -> str:
    """What is wrong with a line, in the words of the strict reader where it was not seen by us."""
    if isinstance(error, BadLineError):
        return str(error)
    try:
        LineReader().parse(line)
    except BadLineError as problem:
        return str(problem)
    return str(error or "")


def _refused(batch: _Batch, error: LuceneError) -> str:
    """Lucene takes or refuses a batch: which line it was."""
    for number, line in zip(batch.numbers, batch.lines, strict=True):
        if reason := _reason(line):
            return f"{batch.file}:{number}: {reason}"
    return f"{batch.file}:{batch.numbers[0]}-{batch.numbers[-1]}: {error}"
