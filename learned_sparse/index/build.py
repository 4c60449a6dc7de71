"""Build an index of vectors or of plain text, and compare it with its input: the counts before it appears, and more.

Vector files are written into Lucene directly: each impact as one number, without the repeated words of Anserini. The
strict reader of vectors is imported only for files of other tools, for a bad line, and for ``check_index``.
"""

from __future__ import annotations

import contextlib
import logging
import random
import shutil
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import orjson

from learned_sparse.core.errors import LearnedSparseError, counted, progress_bar
from learned_sparse.core.files import new_output
from learned_sparse.core.lines import EMPTY_TERM, check_id, read_lines
from learned_sparse.core.machine import processors
from learned_sparse.core.quantize import MAX_IMPACT
from learned_sparse.index.note import INDEX_MANIFEST, IndexNote, index_files
from learned_sparse.jsonvector.manifest import MANIFEST, STATISTICS, Manifest, load_manifests
from learned_sparse.lucene.jvm import anserini_jar, java_thread
from learned_sparse.lucene.searchers import postings_of, read_contents
from learned_sparse.lucene.writer import DELIMITER, LuceneWriter

if TYPE_CHECKING:
    from learned_sparse.collections.documents import Document

logger = logging.getLogger(__name__)

BLANK = "".join(map(chr, range(33)))
"""White space of Java's ``String.trim``, by which Anserini decides that a text is empty."""
BATCH_DOCUMENTS = 100
"""Documents in one call into Java."""
MAX_THREADS = 4
"""Default maximum for vectors. More do not help: parsing holds Python's lock and is half of the work."""
Line = tuple[Path, int, bytes]
"""File, line number (from 1) and content of a line."""
Item = TypeVar("Item")
Vectors = Mapping[str, Mapping[str, int]]
"""``{document id: {term: impact}}``."""


@dataclass(frozen=True)
class VectorFiles:
    """Vector files, and the counts that an index of them must have."""

    files: tuple[Path, ...]
    documents: int
    postings: int
    """Number of postings; an empty vector is written as one reserved term and counts one."""
    manifests: tuple[Manifest, ...] = ()
    scoring: str = "impact"


def open_vectors(vectors: VectorFiles | str | Path | Sequence[Path]) -> VectorFiles:
    """The files of a folder written by learned_sparse.encode, of all its shards, or ``plain_files`` without a manifest.

    ``LearnedSparseError``: a file differs from its manifest, or the shards were encoded with different settings.
    """
    if isinstance(vectors, VectorFiles):
        return vectors
    folders = [Path(vectors)] if isinstance(vectors, (str, Path)) else list(vectors)
    if not any((folder / MANIFEST).is_file() for folder in folders):
        return plain_files(folders)
    manifests = load_manifests(folders)
    parts = [(folder, part) for folder, m in zip(folders, manifests, strict=True) for part in m.parts]
    return VectorFiles(
        files=tuple(folder / part.file for folder, part in parts),
        documents=sum(part.documents for _, part in parts),
        postings=sum(m.counts.postings + m.counts.empty_vectors for m in manifests),
        manifests=tuple(manifests),
        scoring=manifests[0].scoring,
    )


def plain_files(folders: Sequence[Path]) -> VectorFiles:
    """Vector files without a manifest, from other tools; every line is read and checked."""
    from learned_sparse.jsonvector.reader import read_vectors, vector_files

    files = [file for folder in folders for file in vector_files(folder)]
    shown = progress_bar(files, "reading", "files")
    counts = [len(vector) or 1 for file in shown for _, vector in read_vectors(file)]
    return VectorFiles(tuple(files), len(counts), sum(counts))


def build_index(
    vectors: VectorFiles | str | Path | Sequence[Path],
    index: str | Path,
    *,
    threads: int | None = None,
    overwrite: bool = False,
    heap: str | None = None,
) -> IndexNote:
    """Index ``vectors`` into the folder ``index``, which appears only if its counts equal those of the files.

    ``vectors`` are a folder written by learned_sparse.encode, all its shards, or folders of JsonVectorCollection files.
    ``threads`` defaults to one for each processor, at most 4. ``heap`` (``"4g"``) limits the memory of Java. Returns
    the note that is saved in the index.
    """
    vectors, index = open_vectors(vectors), Path(index)
    if not vectors.documents:
        raise LearnedSparseError("no documents to index; encode a collection first")
    with new_output(index, INDEX_MANIFEST, index_files, overwrite=overwrite) as folder:
        logger.info("indexing %s of %s", counted(vectors.documents, "document"), counted(len(vectors.files), "file"))
        impact, documents = vectors.scoring == "impact", vectors.documents
        total = index_directly(vectors.files, folder, impact=impact, threads=threads, heap=heap, documents=documents)
        for statistics in {file.parent.parent / STATISTICS for file in vectors.files} if vectors.manifests else ():
            if statistics.is_file():  # of BM25, to explain documents
                shutil.copyfile(statistics, folder / STATISTICS)
        expected = {"documents": vectors.documents, "distinct_ids": vectors.documents, "postings": vectors.postings}
        note = IndexNote(vectors.scoring, vectors.manifests, {})
        return _save_note(index, folder, note, {**expected, "total_impacts": total})


def build_bm25_index(
    documents: Iterable[Document],
    index: Path,
    *,
    threads: int | None = None,
    overwrite: bool = False,
    heap: str | None = None,
) -> int:
    """Index the text of ``documents`` with Anserini's English analyzer; returns the number of documents in the index.

    As in Anserini, documents without text are not in the index. Their number is logged, and kept in the note.
    """
    empty = 0

    def with_text() -> Generator[Document, None, None]:
        nonlocal empty
        for document in documents:
            check_id(document.id)
            if document.text.strip(BLANK):
                yield document
            else:
                empty += 1

    with new_output(index, INDEX_MANIFEST, index_files, overwrite=overwrite) as folder:
        with LuceneWriter(folder, impact=False, text=True, heap=heap) as writer:

            def add(batch: list[Document]) -> int:
                writer.add([document.id for document in batch], [document.text for document in batch])
                return len(batch)

            given = in_threads(add, with_text(), threads or processors())
        if not given and not empty:
            raise LearnedSparseError("no documents to index")
        if empty:
            logger.info("%s without text: not in the index", counted(empty, "document"))
        note = IndexNote("bm25-text", (), {"empty": empty})
        _save_note(index, folder, note, {"documents": given, "distinct_ids": given})
    return given


def index_directly(
    files: Iterable[Path],
    index: Path,
    *,
    impact: bool = True,
    threads: int | None = None,
    heap: str | None = None,
    documents: int | None = None,
) -> int:
    """Index ``files`` into the folder ``index``, in one segment; one thread keeps the order of the files.

    Java runs in this process. ``impact`` and ``heap`` are explained at ``LuceneWriter``. ``documents`` is their number,
    for the progress bar. Returns the sum of all impacts. ``LearnedSparseError`` names file and line of a document that
    cannot be indexed; the index is empty then.
    """
    shown = iter(progress_bar(_lines(files), "indexing", "documents", documents))
    with LuceneWriter(index, impact=impact, heap=heap) as writer:
        return in_threads(lambda batch: _add(writer, batch), shown, threads or min(processors(), MAX_THREADS))


def _lines(files: Iterable[Path]) -> Generator[Line, None, None]:
    """The lines of ``files`` that are not blank."""
    yield from (
        (file, number, line) for file in files for number, line in read_lines(file, raw=True) if not line.isspace()
    )


def in_threads(add: Callable[[list[Item]], int], items: Generator[Item, None, None], threads: int) -> int:
    """Sum of ``add`` over batches of ``items``, which one thread at a time draws; the first error stops all threads."""
    lock, stopped = threading.Lock(), threading.Event()

    def work() -> int:
        total = 0
        with java_thread(), contextlib.ExitStack() as stack:
            stack.callback(stopped.set)  # after the last batch, or an error
            while not stopped.is_set():
                with lock:
                    batch = list(islice(items, BATCH_DOCUMENTS))
                if not batch:
                    break
                total += add(batch)
        return total

    with contextlib.closing(items), ThreadPoolExecutor(threads) as pool:
        try:
            return sum(worker.result() for worker in [pool.submit(work) for _ in range(threads)])
        finally:
            stopped.set()


def _add(writer: LuceneWriter, batch: Sequence[Line]) -> int:
    """Index the vectors of some lines; returns the sum of their impacts."""
    ids, contents, total_impacts = list[str](), list[str](), 0
    for file, number, line in batch:
        try:
            document = orjson.loads(line)
            vector = document["vector"]
            total = sum(vector.values())
            if total > MAX_IMPACT:
                raise ValueError(
                    f"the impacts of {document['id']!r} add up to {total:,}, more than the {MAX_IMPACT:,} that Lucene "
                    "holds for a document; quantise with a smaller factor or fewer bits"
                )
            contents.append(delimited(vector))
            ids.append(str(document["id"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise LearnedSparseError(f"{file}:{number}: {_problem(line) or error}") from error
        total_impacts += total
    try:
        writer.add(ids, contents)
    except LearnedSparseError:  # Lucene rejects a batch as a whole
        for file, number, line in batch:
            if problem := _problem(line):
                raise LearnedSparseError(f"{file}:{number}: {problem}") from None
        raise
    return total_impacts


def delimited(vector: dict[str, int]) -> str:
    r"""Terms and impacts in the form that Lucene's filter reads; ``ValueError`` if the form cannot hold them.

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
        raise ValueError("the vector is empty")
    if any(DELIMITER in term for term in vector):
        raise ValueError(f"a term holds the character {DELIMITER!r}; rename the term")
    return " ".join([f"{term}{DELIMITER}{impact}" for term, impact in vector.items()])


def _problem(line: bytes) -> str:
    """What the strict reader reports about a line; empty if it accepts the line."""
    from learned_sparse.core.lines import BadLineError
    from learned_sparse.jsonvector.reader import LineReader

    try:
        LineReader().parse(line)
    except BadLineError as error:
        return str(error)
    return ""


def differing_totals(expected: Mapping[str, int], contents: Mapping[str, int]) -> list[str]:
    """A line for each count of an index that is not the ``expected`` one of its input."""
    return [
        f"{name.replace('_', ' ')}: {in_files:,} in the files, {in_index:,} in the index"
        for name, in_files in expected.items()
        if in_files != (in_index := contents[name])
    ]


def _save_note(index: Path, folder: Path, note: IndexNote, expected: Mapping[str, int]) -> IndexNote:
    """Add the counts of the new index in ``folder`` to its note and save it; raise if they are not the ``expected``."""
    contents = read_contents(folder)
    if wrong := differing_totals(expected, contents):
        repeated = contents["distinct_ids"] < contents["documents"]
        way_out = "give each document an id of its own, and index again" if repeated else "make the index again"
        raise LearnedSparseError(f"{index}: {'; '.join(wrong)}; {way_out}")
    counts = {name: count for name, count in expected.items() if name != "distinct_ids"}
    note = replace(note, facts={"anserini": anserini_jar().name, **counts, **note.facts})
    note.save(folder)
    return note


def check_index(vectors: VectorFiles, index: Path, sample: int) -> tuple[str, list[str]]:
    """Compare the totals, and all postings of ``sample`` random documents of all files; the same ones each time.

    Returns a sentence about what was compared, and a line for each difference. Takes one pass over all terms of the
    index, so that postings that are only in the index are found too.
    """
    expected = _sampled_vectors(vectors, sample)
    totals = {"documents": vectors.documents, "distinct_ids": vectors.documents, "postings": vectors.postings}
    wrong = [*differing_totals(totals, read_contents(index)), *compare(expected, postings_of(index, expected))]
    compared = f"{len(expected):,} documents, {sum(map(len, expected.values())):,} postings compared"
    return f"{compared}: {len(wrong):,} differences", wrong


def compare(expected: Vectors, indexed: Vectors) -> Iterator[str]:
    """A line for each difference between the documents ``expected`` and their postings in an index.

    >>> list(compare({"d1": {"hives": 3, "itch": 1}, "d2": {}}, {"d1": {"hives": 2, "itch": 1, "rash": 7}}))
    ["'d1': 'hives': 3 in the files, 2 in the index", "'d1': 'rash': only in the index (7)", "'d2': not in the index"]
    """
    for name, vector in expected.items():
        if name not in indexed:
            yield f"{name!r}: not in the index"
            continue
        postings = indexed[name]
        for term, impact in vector.items():
            if term not in postings:
                yield f"{name!r}: {term!r}: only in the files ({impact})"
            elif postings[term] != impact:
                yield f"{name!r}: {term!r}: {impact} in the files, {postings[term]} in the index"
        for term in sorted(postings.keys() - vector.keys()):
            yield f"{name!r}: {term!r}: only in the index ({postings[term]})"


def _sampled_vectors(vectors: VectorFiles, sample: int) -> dict[str, dict[str, int]]:
    """The vectors of ``sample`` documents (or of all, if there are fewer) as an index must hold them."""
    from learned_sparse.core.lines import BadLineError
    from learned_sparse.jsonvector.reader import LineReader

    count = vectors.documents
    chosen = set(random.Random(0).sample(range(count), min(sample, count)))  # noqa: S311  (no cryptography)
    reader, sampled = LineReader(), dict[str, dict[str, int]]()
    for document, (file, number, line) in enumerate(_lines(vectors.files)):
        if document in chosen:
            try:
                name, vector = reader.parse(line)
            except BadLineError as error:
                raise LearnedSparseError(f"{file}:{number}: {error}") from None
            sampled[name] = vector or {EMPTY_TERM: 1}
    return sampled
